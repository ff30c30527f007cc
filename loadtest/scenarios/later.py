"""Work that nobody waits for: asynchronous requests of lower priority, and polls until they have ended."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field

from loadtest.scenarios.person import now_ms

POLL_S = 2.0


@dataclass
class LaterTurn:
    """One asynchronous turn; times in ms of this process's clock."""

    priority: str
    turn_id: str
    accepted_ms: int
    ended_ms: int | None = None
    status: str = "waiting"


@dataclass
class Later:
    """All of them, and who was refused."""

    turns: list[LaterTurn] = field(default_factory=list)
    refused: Counter[tuple[str, int, str]] = field(default_factory=Counter)


async def ask_later(
    origin: str, later: Later, priority: str, text: str, *, every_s: float, until_ms: int
) -> None:
    """One request per `every_s` until the time is over."""
    while now_ms() < until_ms:
        status, body = await asyncio.to_thread(
            _call, f"{origin}/v1/chat", {"text": text, "priority": priority}
        )
        if status == 202:
            later.turns.append(LaterTurn(priority, str(body["turn_id"]), now_ms()))
        else:
            later.refused[priority, status, str(body.get("code", ""))] += 1
        await asyncio.sleep(every_s)


async def wait_for_ends(origin: str, later: Later, within_s: float) -> None:
    """Poll what has not ended; what has not by then stays as it is."""
    until_ms = now_ms() + round(within_s * 1_000)
    while open_turns := [turn for turn in later.turns if turn.ended_ms is None]:
        for turn in open_turns:
            _, body = await asyncio.to_thread(_call, f"{origin}/v1/turns/{turn.turn_id}", None)
            turn.status = str(body.get("status", turn.status))
            if turn.status not in ("waiting", "running"):
                turn.ended_ms = turn.accepted_ms + _lasted_ms(body)
        if now_ms() > until_ms:
            return
        await asyncio.sleep(POLL_S)


def _lasted_ms(body: dict[str, object]) -> int:
    """By the server's own clock: polls come late."""
    accepted, completed = body.get("accepted_at_ms"), body.get("completed_at_ms")
    return completed - accepted if isinstance(accepted, int) and isinstance(completed, int) else 0


def token(origin: str, tenant: str, user: str) -> str:
    """A token of the local stack for a named user."""
    _, body = _call(f"{origin}/v1/tokens", {"user": user, "tenant": tenant})
    return str(body["token"])


def _call(url: str, body: dict[str, str] | None) -> tuple[int, dict[str, object]]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", "prefer": "respond-async"}
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, _body(error.read())
    except OSError as error:
        return 0, {"code": type(error).__name__}


def _body(raw: bytes) -> dict[str, object]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
