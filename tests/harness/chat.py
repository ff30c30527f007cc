"""A bare client of the protocol: sends frames, keeps every frame that came, judges nothing by itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

Frame = dict[str, Any]
TERMINAL = {
    "chat.response.completed",
    "chat.response.failed",
    "chat.response.cancelled",
    "chat.response.expired",
}


class Chat:
    """One socket and all frames it received, in order."""

    def __init__(self, socket: ClientConnection, patience_s: float) -> None:
        self.socket = socket
        self.frames: list[Frame] = []
        self.patience_s = patience_s

    @property
    def session_id(self) -> str:
        """The session that the server named in its first frame."""
        return self.frames[0]["session_id"]

    async def send(self, text: str, message_id: str | None = None, **fields: Any) -> str:
        """Send a user message; returns its message id."""
        message_id = message_id or uuid.uuid4().hex
        await self.send_frame(
            {"type": "chat.send", "message_id": message_id, "text": text, **fields}
        )
        return message_id

    async def send_frame(self, frame: Frame) -> None:
        """Send any frame."""
        await self.socket.send(json.dumps(frame, ensure_ascii=False))

    async def until(self, wanted: Callable[[Frame], bool]) -> Frame:
        """The first frame, past ones included, that is wanted."""
        for frame in self.frames:
            if wanted(frame):
                return frame
        async with asyncio.timeout(self.patience_s):
            while True:
                frame = await self.next()
                if wanted(frame):
                    return frame

    async def next(self) -> Frame:
        """The next frame from the socket."""
        frame: Frame = json.loads(await self.socket.recv())
        self.frames.append(frame)
        return frame

    async def accepted(self, message_id: str) -> Frame:
        """The `chat.accepted` of a message."""
        return await self.until(
            lambda frame: frame["type"] == "chat.accepted" and frame.get("message_id") == message_id
        )

    async def end(self, turn_id: str) -> Frame:
        """The terminal frame of a turn."""
        return await self.until(
            lambda frame: frame.get("turn_id") == turn_id and frame["type"] in TERMINAL
        )

    def of_turn(self, turn_id: str) -> list[Frame]:
        """The logged frames of a turn, as they came."""
        return [f for f in self.frames if f.get("turn_id") == turn_id and "seq" in f]

    def text(self, turn_id: str) -> str:
        """The deltas of a turn put together."""
        return "".join(frame.get("delta", "") for frame in self.of_turn(turn_id))


def sha256(text: str) -> str:
    """Hex digest of the UTF-8 text."""
    return hashlib.sha256(text.encode()).hexdigest()


@asynccontextmanager
async def chat(
    url: str, session_id: str | None = None, token: str | None = None, patience_s: float = 40
) -> AsyncIterator[Chat]:
    """Connect, read `session.ready`, and close at the end."""
    target = f"{url}?session_id={session_id}" if session_id else url
    headers = {"Authorization": f"Bearer {token}"} if token else None
    async with connect(
        target, additional_headers=headers, open_timeout=patience_s, max_size=2**20
    ) as socket:
        client = Chat(socket, patience_s)
        ready = await client.next()
        assert ready["type"] == "session.ready", ready
        yield client
