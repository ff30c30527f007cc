"""Health over HTTP, and what both processes of this package answer it with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from shared.clock import Clock
from shared.turn.load_watch import LoadWatch

BOARD_PATIENCE_S = 5.0
DRAINING = "draining"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_encode = msgspec.json.Encoder().encode


class HealthApp:
    """`/healthz`: the process lives. `/readyz`: 200, or 503 with the reason of each failing dependency."""

    def __init__(self, reasons: Callable[[], dict[str, str]]) -> None:
        self._reasons = reasons

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request; anything but HTTP is refused by the server."""
        if scope["type"] != "http":
            return
        match (scope["method"], scope["path"]):
            case ("GET", "/healthz"):
                await answer_json(send, 200, {"status": "ok"})
            case ("GET", "/readyz"):
                await answer_json(send, *readiness(self._reasons()))
            case (_, "/healthz" | "/readyz"):
                await answer_json(send, 405, {"message": "method not allowed"})
            case _:
                await answer_json(send, 404, {"message": "not found"})


def readiness(reasons: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and body of `/readyz`; `reasons` says by dependency why not."""
    return (503 if reasons else 200), {"ready": not reasons, "reasons": reasons}


def board_faults(watch: LoadWatch, clock: Clock) -> dict[str, str]:
    """Why Redis counts as away: a short silence is none of it."""
    if watch.failed_since_s is None:
        return {}
    away_s = clock.monotonic_s() - watch.failed_since_s
    return {"redis": f"no answer for {away_s:.0f} s"} if away_s > BOARD_PATIENCE_S else {}


async def answer_json(send: Send, status: int, answer: Any) -> None:
    """One whole answer."""
    body = _encode(answer)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
