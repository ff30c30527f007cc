"""Health over HTTP, and what both processes of this package answer it with."""

from __future__ import annotations

from collections.abc import Callable

from services.asgi import ALIVE, Receive, Scope, Send, readiness, respond_json
from shared.clock import Clock
from shared.turn.load_watch import LoadWatch

BOARD_PATIENCE_S = 5.0


class HealthApp:
    """`/healthz`: the process lives. `/readyz`: 200, or 503 with the reason of each failing dependency."""

    def __init__(self, failing: Callable[[], dict[str, str]]) -> None:
        self._failing = failing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request; anything but HTTP is refused by the server."""
        if scope["type"] != "http":
            return
        match (scope["method"], scope["path"]):
            case ("GET", "/healthz"):
                await respond_json(send, 200, ALIVE)
            case ("GET", "/readyz"):
                await respond_json(send, *readiness(self._failing()))
            case (_, "/healthz" | "/readyz"):
                await respond_json(send, 405, {"message": "method not allowed"})
            case _:
                await respond_json(send, 404, {"message": "not found"})


def board_faults(watch: LoadWatch, clock: Clock) -> dict[str, str]:
    """Why Redis counts as away: a short silence is none of it."""
    if watch.failed_since_s is None:
        return {}
    away_s = clock.monotonic_s() - watch.failed_since_s
    return {"redis": f"no answer for {away_s:.0f} s"} if away_s > BOARD_PATIENCE_S else {}
