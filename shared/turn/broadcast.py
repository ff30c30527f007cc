"""Pushing one frame to a turn's followers from a process that runs no turns: the end of an unclaimed turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushFrame
from shared.errors import ChatError, DependencyUnavailable
from shared.ports import FramePush
from shared.telemetry import Log

_log = Log("broadcast")
_TRIES = 2


async def broadcast(push: FramePush, followers: Iterable[Follower], frame: bytes) -> None:
    """Push `frame` to every follower, all endpoints at once; returns when each has answered or timed out.

    A request that failed is sent once more. Raises nothing: a follower that it missed learns the end from the log.
    """
    endpoints: dict[str, list[PushFrame]] = {}
    for follower in followers:
        endpoints.setdefault(follower.endpoint, []).append(PushFrame(follower.connection_id, frame))
    await asyncio.gather(*(_push(push, endpoint, frames) for endpoint, frames in endpoints.items()))


async def _push(push: FramePush, endpoint: str, frames: list[PushFrame]) -> None:
    for _ in range(_TRIES):
        try:
            await push.push(endpoint, frames)
        except DependencyUnavailable:
            continue
        except ChatError as error:
            _log.error("push.forbidden", endpoint=endpoint, error_type=type(error).__name__)
        return
    _log.warning("push.failed", endpoint=endpoint)
