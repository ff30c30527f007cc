"""The ways to ask over HTTP, and the socket beside them: each gives the text it read and the turn as it is polled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.harness.chat import chat

PATIENCE_S = 40.0
_DONE = ("completed", "failed", "cancelled", "expired")


@dataclass(frozen=True)
class Asked:
    """What one way of asking brought; `text` None = it only said where to look."""

    turn_id: str
    text: str | None


class Caller:
    """A user of one gateway."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def wait(self, text: str) -> Asked:
        """Synchronous."""
        async with self._post(text) as answer:
            turn = await answer.json()
            assert answer.status == 200, turn
        return Asked(turn["turn_id"], turn["text"])

    async def stream(self, text: str) -> Asked:
        """Server-sent events, folded as a client does."""
        pieces: list[str] = []
        turn_id = ""
        async with self._post(text, accept="text/event-stream") as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data: "):
                    frame = json.loads(line.removeprefix(b"data: "))
                    turn_id = frame.get("turn_id", turn_id)
                    if frame["type"] == "chat.response.started":
                        pieces.clear()
                    pieces.append(frame.get("delta", ""))
        return Asked(turn_id, "".join(pieces))

    async def later(self, text: str, priority: str = "high") -> Asked:
        """Asynchronous."""
        async with self._post(text, prefer="respond-async", priority=priority) as answer:
            accepted = await answer.json()
            assert answer.status == 202, accepted
            assert answer.headers["location"] == f"/v1/turns/{accepted['turn_id']}"
        return Asked(accepted["turn_id"], None)

    async def socket(self, text: str) -> Asked:
        """WebSocket."""
        async with chat(
            self._url.replace("http", "ws", 1) + "/ws", patience_s=PATIENCE_S
        ) as client:
            message_id = await client.send(text)
            turn_id = (await client.accepted(message_id))["turn_id"]
            await client.end(turn_id)
            return Asked(turn_id, client.text(turn_id))

    async def look(self, turn_id: str) -> dict[str, Any]:
        """The turn as it is."""
        async with self._http.get(f"{self._url}/v1/turns/{turn_id}") as answer:
            turn: dict[str, Any] = await answer.json()
            assert answer.status == 200, turn
        return turn

    async def poll(self, turn_id: str, until: Callable[[str], bool] = _DONE.__contains__) -> Any:
        """The turn once its status is as wished; by default once it has ended."""
        async with asyncio.timeout(PATIENCE_S):
            while not until((turn := await self.look(turn_id))["status"]):
                await asyncio.sleep(0.1)
        return turn

    async def stop(self, turn_id: str) -> None:
        """Cancel."""
        async with self._http.delete(f"{self._url}/v1/turns/{turn_id}") as answer:
            assert answer.status == 202

    def _post(self, text: str, priority: str = "high", **headers: str) -> Any:
        body = {"text": text, "priority": priority}
        return self._http.post(f"{self._url}/v1/chat", json=body, headers=headers)


INTERACTIVE: dict[str, Callable[[Caller, str], Awaitable[Asked]]] = {
    "wait": Caller.wait,
    "stream": Caller.stream,
    "later": Caller.later,
    "socket": Caller.socket,
}


@asynccontextmanager
async def caller(url: str) -> AsyncIterator[Caller]:
    """A caller of the gateway at `url`."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        yield Caller(http, url)


@asynccontextmanager
async def occupied_slot(asking: Caller) -> AsyncIterator[None]:
    """Meanwhile a long turn holds the stack's only inline slot."""
    long = await asking.later("/sim tokens=2000 ttft_ms=10 tokens_per_s=20")
    await asking.poll(long.turn_id, lambda status: status == "running")
    try:
        yield
    finally:
        await asking.stop(long.turn_id)
        await asking.poll(long.turn_id)
