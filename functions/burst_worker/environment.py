"""One event loop, and the worker opened on it, for as long as the execution environment lives.

`asyncio.run` per invocation would close the loop under clients that a thawed environment still holds. Between
invocations the loop stands still, with the worker's background tasks on it; nothing of an invocation may stay behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

from shared.telemetry import Log, bind

_log = Log("burst_worker")


class LambdaContext(Protocol):
    """What the platform tells about an invocation."""

    @property
    def function_version(self) -> str: ...

    @property
    def aws_request_id(self) -> str: ...

    def get_remaining_time_in_millis(self) -> int: ...


class BatchHandler(Protocol):
    """What the composition root opens."""

    @property
    def is_broken(self) -> bool:
        """True when a background task has ended: the worker has to be opened anew."""
        ...

    async def handle(
        self, event: dict[str, Any], remaining_ms: Callable[[], int]
    ) -> dict[str, Any]:
        """Run one batch; returns with nothing under way that a freeze could cut."""
        ...


class Environment:
    """Makes nothing until the first invocation, so a snapshot holds no socket, secret or random state."""

    def __init__(
        self, open_worker: Callable[[str], AbstractAsyncContextManager[BatchHandler]]
    ) -> None:
        self._open_worker = open_worker
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: AsyncExitStack | None = None
        self._worker: BatchHandler | None = None

    def invoke(self, event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event. Whatever is raised returns the whole batch; refused claims make the repeat harmless."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(self._handle(event, context))

    async def _handle(self, event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        # Opened outside the binding: background tasks inherit the context and would log this
        # invocation's ids for ever.
        worker = await self._ready(context.function_version)
        with bind(function_version=context.function_version, request_id=context.aws_request_id):
            return await worker.handle(event, context.get_remaining_time_in_millis)

    async def _ready(self, function_version: str) -> BatchHandler:
        if self._worker is not None and self._worker.is_broken:
            _log.error("worker.broken")
            await self.close()
        if self._worker is None:
            async with AsyncExitStack() as opening:
                self._worker = await opening.enter_async_context(
                    self._open_worker(function_version)
                )
                self._opened = opening.pop_all()
        return self._worker

    async def close(self) -> None:
        """Close the worker; the next invocation opens another. Its own error is logged, not raised."""
        opened, self._opened, self._worker = self._opened, None, None
        if opened is None:
            return
        try:
            await opened.aclose()
        except Exception as error:  # noqa: BLE001 - what is broken may break once more while it closes
            _log.exception("worker.close_failed", error)

    def shut_down(self) -> None:
        """Close worker and loop, for platforms that let the process end by itself. Idempotent."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(self.close())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
