"""A small chat server that speaks PROTOCOL.md and is scripted by the words of the user's message.

It keeps sessions in memory and serves the web client, so that clients can be tested alone. The first
word of a message chooses what happens (see `SCRIPTS`); anything else is answered with words.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSCloseCode, WSMsgType, web

WEB = Path(__file__).parents[2] / "clients" / "web"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
ASSISTANT = {
    "name": "MangaAssist",
    "tagline": "Recommendations, orders and returns",
    "greeting": "Ask for a series to read next, a volume in stock, or help with an order.",
    "suggestions": [
        "Recommend a manga like Fullmetal Alchemist",
        "Where is my order?",
        "How do returns work?",
        "Which box sets are in stock?",
    ],
}
RICH = """Here are three series with a **similar heart**:

1. *Mushishi* — quiet, episodic, beautifully drawn
2. *Dorohedoro* — strange, funny and warm
3. **Witch Hat Atelier** — magic as a craft, by Kamome Shirahama

> Each of them is complete in the store, or close to it.

| Series | Volumes | Mood |
|---|---|---|
| Mushishi | 10 | calm |
| Dorohedoro | 23 | wild |

Search by title with `find("witch hat")`:

```python
def find(title: str) -> list[Volume]:
    return [v for v in shelf if title in v.title.lower()]
```

More at [the catalogue](https://example.com/catalogue). Shall I check what is in stock?
"""
HOSTILE = """<img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>

[click](javascript:window.hacked=1) [data](data:text/html,<script>1</script>) ![i](x" onerror="window.hacked=1)

`<b onmouseover=window.hacked=1>` **<svg onload=window.hacked=1>** [a](https://example.com/"onclick="window.hacked=1)

```html"><script>window.hacked=1</script>
</code><script>window.hacked=1</script>
```

| <iframe src="javascript:window.hacked=1"> | b |
|---|---|
| <object> | <a href=javascript:alert(1)>x</a> |
"""
WORDS = "One calm answer, word by word, as a stream should be read. "


@dataclass
class FakeTurn:
    """One turn: its log and whether it was stopped."""

    turn_id: str
    message_id: str
    user_text: str
    path: str = "inline"
    attempt: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)
    followers: set[web.WebSocketResponse] = field(default_factory=set)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: bool = False
    text: str = ""

    @property
    def is_ended(self) -> bool:
        return self.over.is_set()


class FakeChatServer:
    """Start with `start`, end with `stop`; both belong to the running loop."""

    def __init__(self, *, pace_s: float = 0.02) -> None:
        self.pace_s = pace_s
        self.received: list[dict[str, Any]] = []
        self.handshakes: list[web.Request] = []
        self.refuse_with: int | None = None
        """Answer handshakes with this HTTP status."""
        self.heartbeat_ms = 25_000
        self._sessions: dict[tuple[str, str], list[FakeTurn]] = {}
        self._sockets: set[web.WebSocketResponse] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        app = web.Application(middlewares=[_security_headers])
        app.router.add_get("/", _index)
        app.router.add_static("/static", WEB)
        app.router.add_get("/assistant.json", _assistant)
        app.router.add_post("/v1/tokens", self._token)
        app.router.add_get("/v1/turns/{turn_id}", self._turn)
        app.router.add_get("/v1/sessions/{session_id}/turns", self._session_turns)
        app.router.add_get("/ws", self._socket)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.close_all(WSCloseCode.GOING_AWAY)
        if self._runner is not None:
            await self._runner.cleanup()

    async def close_all(self, code: int) -> None:
        """Close every socket with a close code."""
        for socket in list(self._sockets):
            await socket.close(code=code)

    def abort_all(self) -> None:
        """Cut every connection without a close frame."""
        for socket in list(self._sockets):
            writer = socket._writer
            if writer is not None and writer.transport is not None:
                writer.transport.abort()

    async def push(self, frame: dict[str, Any]) -> None:
        """Send one frame to every socket."""
        for socket in list(self._sockets):
            await _send(socket, frame)

    async def _token(self, request: web.Request) -> web.Response:
        body = await request.json()
        return web.json_response({"token": f"fake.{body['user']}.x", "expires_at_ms": 2**42})

    async def _turn(self, request: web.Request) -> web.Response:
        for turns in self._sessions.values():
            for turn in turns:
                if turn.turn_id == request.match_info["turn_id"]:
                    return web.json_response({"turn_id": turn.turn_id, "text": turn.text})
        return web.json_response({"code": "unknown_turn", "message": "unknown"}, status=404)

    async def _session_turns(self, request: web.Request) -> web.Response:
        return web.json_response({"turns": [], "more": False}, status=self.refuse_with or 200)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        self.handshakes.append(request)
        if self.refuse_with is not None:
            return web.Response(status=self.refuse_with, headers={"Retry-After": "1"})
        socket = web.WebSocketResponse(protocols=["burstchat.v1"])
        await socket.prepare(request)
        session_id = request.query.get("session_id") or f"s{next(self._numbers)}"
        turns = self._sessions.setdefault((_user(request), session_id), [])
        self._sockets.add(socket)
        try:
            await _send(socket, self._ready(session_id, turns))
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    frame = json.loads(message.data)
                    self.received.append(frame)
                    await self._answer(socket, session_id, turns, frame)
        finally:
            self._sockets.discard(socket)
            for turn in turns:
                turn.followers.discard(socket)
        return socket

    def _ready(self, session_id: str, turns: list[FakeTurn]) -> dict[str, Any]:
        running = [
            {
                "turn_id": turn.turn_id,
                "message_id": turn.message_id,
                "attempt": turn.attempt,
                "last_seq": turn.log[-1]["seq"] if turn.log else -1,
            }
            for turn in turns
            if not turn.is_ended
        ]
        return {
            "type": "session.ready",
            "protocol": 1,
            "connection_id": f"c{next(self._numbers)}",
            "session_id": session_id,
            "heartbeat_ms": self.heartbeat_ms,
            "idle_timeout_ms": 300_000,
            "running": running,
        }

    async def _answer(
        self,
        socket: web.WebSocketResponse,
        session_id: str,
        turns: list[FakeTurn],
        frame: dict[str, Any],
    ) -> None:
        match frame["type"]:
            case "chat.send":
                await self._accept(socket, session_id, turns, frame)
            case "chat.resume":
                await self._resume(socket, turns, frame)
            case "chat.cancel":
                for turn in turns:
                    if turn.turn_id == frame["turn_id"]:
                        await self._cancel(turn)
            case "chat.history":
                await _send(socket, _history(turns, frame))
            case "ping":
                await _send(socket, {"type": "pong", "nonce": frame.get("nonce"), "at_ms": 0})

    async def _accept(
        self,
        socket: web.WebSocketResponse,
        session_id: str,
        turns: list[FakeTurn],
        frame: dict[str, Any],
    ) -> None:
        message_id, text = frame["message_id"], frame["text"]
        accepted = {"type": "chat.accepted", "message_id": message_id}
        for turn in turns:
            if turn.message_id == message_id:
                accepted |= {"turn_id": turn.turn_id, "path": turn.path, "duplicate": True}
                await _send(socket, accepted)
                await self._resume(
                    socket, turns, {"turn_id": turn.turn_id, "after_seq": -1, "attempt": None}
                )
                return
        script, _, argument = text.partition(" ")
        if script == "/reject":
            rejected = {"code": argument or "overloaded", "retry_after_ms": 3000}
            rejected |= {"message": "Very many people are asking just now. Please try again soon."}
            await _send(socket, {"type": "chat.rejected", "message_id": message_id, **rejected})
            return
        if script == "/silent":
            return
        number = next(self._numbers)
        turn = FakeTurn(f"{session_id}.{number:026d}", message_id, text, followers={socket})
        waiting = sum(not each.is_ended for each in turns)
        turn.path = "burst" if script in ("/queue", "/expire") else "inline"
        path = "waiting" if waiting else turn.path
        turns.append(turn)
        accepted |= {"turn_id": turn.turn_id, "path": path, "duplicate": False}
        await _send(socket, accepted | ({"position": waiting} if waiting else {}))
        task = asyncio.create_task(self._run(turn, turns, script, argument))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resume(
        self, socket: web.WebSocketResponse, turns: list[FakeTurn], frame: dict[str, Any]
    ) -> None:
        turn = next((each for each in turns if each.turn_id == frame["turn_id"]), None)
        if turn is None:
            error = {"type": "error", "code": "unknown_turn", "message": "unknown turn"}
            await _send(socket, error | {"turn_id": frame["turn_id"]})
            return
        after = frame["after_seq"] if frame["attempt"] == turn.attempt else -1
        from_seq = 0 if after <= 0 else after + 1
        resumed = {"type": "chat.resumed", "turn_id": turn.turn_id, "attempt": turn.attempt}
        await _send(socket, resumed | {"from_seq": from_seq, "complete": turn.is_ended})
        for logged in [each for each in turn.log if each["seq"] >= from_seq]:
            await _send(socket, logged)
        if not turn.is_ended:
            turn.followers.add(socket)

    async def _cancel(self, turn: FakeTurn) -> None:
        turn.cancelled = True
        if not turn.is_ended and turn.attempt == 0:
            await self._end(turn, "cancelled", by="user", **_check(""))

    async def _run(self, turn: FakeTurn, turns: list[FakeTurn], script: str, argument: str) -> None:
        for earlier in turns[: turns.index(turn)]:
            await earlier.over.wait()
        if turn.is_ended:
            return
        await asyncio.sleep(self.pace_s)
        await SCRIPTS.get(script, FakeChatServer._words)(self, turn, argument)

    async def _log(self, turn: FakeTurn, kind: str, **fields: Any) -> None:
        seq = turn.log[-1]["seq"] + 1 if turn.log else 0
        frame = {"type": f"chat.response.{kind}", "turn_id": turn.turn_id}
        frame |= {"attempt": turn.attempt, "seq": seq, **fields}
        turn.log.append(frame)
        for socket in list(turn.followers):
            await _send(socket, frame)

    async def _end(self, turn: FakeTurn, kind: str, **fields: Any) -> None:
        turn.over.set()
        await self._log(turn, kind, **fields)

    async def _begin(self, turn: FakeTurn) -> None:
        turn.attempt += 1
        turn.log.clear()
        turn.text = ""
        await self._log(turn, "started", path=turn.path, intent="general", model="fake-1")

    async def _say(self, turn: FakeTurn, text: str) -> bool:
        """Stream words; False when the user stopped the turn, which is ended then."""
        for word in text.split(" "):
            if turn.cancelled:
                await self._end(turn, "cancelled", by="user", **_check(turn.text))
                return False
            piece = word if not turn.text else f" {word}"
            turn.text += piece
            await self._log(turn, "delta", delta=piece)
            await asyncio.sleep(self.pace_s)
        return True

    async def _complete(self, turn: FakeTurn, **fields: Any) -> None:
        whole = {
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 20, "output_tokens": 40},
            "timings": {"queued_ms": 2, "first_token_ms": 320, "total_ms": 1400},
            "sources": [],
        }
        await self._end(turn, "completed", **whole | _check(turn.text) | fields)

    async def _words(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        if await self._say(turn, WORDS + f"You said: {turn.user_text}"):
            await self._complete(turn)

    async def _slow(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        if await self._say(turn, WORDS * int(argument or 40)):
            await self._complete(turn)

    async def _rich(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        sources = [{"title": "Staff picks", "id": "d1"}, {"title": "Stock list", "id": "d2"}]
        if await self._say(turn, RICH):
            await self._complete(turn, sources=sources)

    async def _hostile(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        if await self._say(turn, HOSTILE):
            await self._complete(turn)

    async def _fail(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        await self._say(turn, "This answer breaks off in the")
        failed = {"code": "model_disconnected", "retryable": True, "partial": True}
        await self._end(turn, "failed", message="The answer broke off.", **failed)

    async def _block(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        await self._say(turn, "Something that must not stay")
        failed = {"code": "blocked", "retryable": False, "partial": True, "retract": True}
        await self._end(turn, "failed", message="I can't help with that.", **failed)

    async def _restart(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        await self._say(turn, "The first attempt is lost")
        await self._words(turn, argument)

    async def _drop(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        await self._say(turn, "Before the cut,")
        self.abort_all()
        if await self._say(turn, WORDS):
            await self._complete(turn)

    async def _wrong(self, turn: FakeTurn, argument: str) -> None:
        await self._begin(turn)
        await self._log(turn, "delta", delta="Wrong w")
        turn.text = "Right words"
        await self._complete(turn)

    async def _wait(self, turn: FakeTurn, seconds: float) -> None:
        for wait_ms in (3000, 2000, 1000):
            queued = {"type": "chat.queued", "turn_id": turn.turn_id, "wait_ms": wait_ms}
            for socket in list(turn.followers):
                await _send(socket, queued)
            await asyncio.sleep(seconds / 3)

    async def _queue(self, turn: FakeTurn, argument: str) -> None:
        await self._wait(turn, float(argument or 0.3))
        if not turn.is_ended:
            await self._words(turn, argument)

    async def _expire(self, turn: FakeTurn, argument: str) -> None:
        await self._wait(turn, 0.1)
        await self._end(turn, "expired", age_ms=45_000, retryable=True)


SCRIPTS = {
    "/slow": FakeChatServer._slow,
    "/rich": FakeChatServer._rich,
    "/hostile": FakeChatServer._hostile,
    "/fail": FakeChatServer._fail,
    "/block": FakeChatServer._block,
    "/restart": FakeChatServer._restart,
    "/drop": FakeChatServer._drop,
    "/wrong": FakeChatServer._wrong,
    "/queue": FakeChatServer._queue,
    "/expire": FakeChatServer._expire,
}


class ThreadedChatServer:
    """A FakeChatServer on a loop of its own, for tests that are not asynchronous."""

    def __init__(self, server: FakeChatServer, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self._loop = loop

    @property
    def url(self) -> str:
        return self.server.url

    def drop(self) -> None:
        """Cut every connection."""
        self._loop.call_soon_threadsafe(self.server.abort_all)

    def close_all(self, code: int) -> None:
        self.call(self.server.close_all(code))

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


@contextmanager
def chat_server_in_thread(*, pace_s: float = 0.02, port: int = 0) -> Iterator[ThreadedChatServer]:
    """Serve until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = ThreadedChatServer(FakeChatServer(pace_s=pace_s), loop)
    server.call(server.server.start(port))
    try:
        yield server
    finally:
        server.call(server.server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _index(request: web.Request) -> web.FileResponse:
    return web.FileResponse(WEB / "index.html")


async def _assistant(request: web.Request) -> web.Response:
    return web.json_response(ASSISTANT)


def _user(request: web.Request) -> str:
    bearer = request.headers.get("Authorization", "")
    for protocol in request.headers.get("Sec-WebSocket-Protocol", "").split(","):
        if protocol.strip().startswith("bearer."):
            bearer = protocol.strip()
    return bearer or "dev"


def _check(text: str) -> dict[str, Any]:
    return {"length": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _history(turns: list[FakeTurn], frame: dict[str, Any]) -> dict[str, Any]:
    stored = [
        {
            "turn_id": turn.turn_id,
            "message_id": turn.message_id,
            "user_text": turn.user_text,
            "assistant_text": turn.text,
            "stop_reason": "cancelled" if turn.cancelled else "end_turn",
            "completed_at_ms": 1_700_000_000_000,
            "path": turn.log[0]["path"],
            **{key: turn.log[-1][key] for key in ("timings", "sources") if key in turn.log[-1]},
        }
        for turn in turns
        if turn.is_ended and turn.log[-1]["type"].endswith(("completed", "cancelled"))
    ]
    if frame.get("before"):
        stored = [turn for turn in stored if turn["turn_id"] < frame["before"]]
    limit = frame.get("limit") or 20
    return {"type": "chat.history", "turns": stored[::-1][:limit], "more": len(stored) > limit}


async def _send(socket: web.WebSocketResponse, frame: dict[str, Any]) -> None:
    try:
        await socket.send_str(json.dumps(frame, ensure_ascii=False))
    except (ConnectionError, RuntimeError):
        return  # closed; the log keeps the frame for a resume


@web.middleware
async def _security_headers(request: web.Request, handler: Any) -> web.StreamResponse:
    response: web.StreamResponse = await handler(request)
    if not response.prepared:
        response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
    return response
