"""Stopping a stretch of work from outside, without stopping its task."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType


class Interruption:
    """`async with` a stretch that `interrupt` ends early: it is cancelled inside, and the block is left quietly.

    `interrupted` tells afterwards whether that happened. A cancellation of the task itself still goes through, also
    when both come together. Nests. Interrupting before the block begins or after it ended does nothing to the task.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._task: asyncio.Task[object] | None = None
        self._cancellations = 0

    def interrupt(self) -> None:
        """End the block; repeats do nothing."""
        if self.interrupted:
            return
        self.interrupted = True
        if self._task is not None:
            self._task.cancel()

    async def __aenter__(self) -> Interruption:
        self._task = asyncio.current_task()
        assert self._task is not None  # a coroutine always runs in a task
        self._cancellations = self._task.cancelling()
        if self.interrupted:
            self._task.cancel()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        task, self._task = self._task, None
        assert task is not None
        if not self.interrupted:
            return False
        if error_type is not asyncio.CancelledError:
            await _let_pending_cancellation_arrive()
        outside = task.uncancel() > self._cancellations
        if outside and error_type is not asyncio.CancelledError:
            raise asyncio.CancelledError from error
        return not outside and error_type is asyncio.CancelledError


async def _let_pending_cancellation_arrive() -> None:
    # A task that interrupts itself, or was interrupted before its first wait, would meet its cancellation only
    # at the next await, far behind the block.
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
