"""A real gateway on free ports, with everything behind its ports in memory, and a worker to play."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import msgspec
import websockets
from websockets.asyncio.client import ClientConnection

from services.gateway.composition import Gateway, build_gateway
from services.http_server import listen
from services.lifecycle import StopSignals
from shared.adapters.http_session import HttpSession
from shared.adapters.management_api_push import ManagementApiPush
from shared.bootstrap.adapters import push_credential
from shared.bootstrap.gateway import GatewayPorts
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import ClaimNonce, SessionId, SessionRef, TenantId, TurnId, UserId
from shared.contracts.ledger import Append, Claimed, ClaimRef, Finished, Follower, Held
from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.server_frames import (
    LoggedFrame,
    ResponseCompleted,
    ResponseDelta,
    ResponseStarted,
    Timings,
    Usage,
    encode_frame,
)
from shared.contracts.turns import EndStatus, TurnRequest
from shared.settings import GatewaySettings, PushSettings, Settings, TelemetrySettings
from shared.telemetry import Metrics
from tests.fakes.allowances import FakeAllowances
from tests.fakes.due_turns import FakeDueTurns
from tests.fakes.intake import FakeIntake
from tests.fakes.ledger import FakeLedger
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.queues import FakeDeadLetterQueue, FakeTurnQueue
from tests.fakes.registry import FakeRegistry
from tests.fakes.turn_store import FakeTurnStore

SECRET = "a-secret-of-at-least-thirty-two-bytes"


def gateway_settings(**changes: Any) -> Settings:
    """Settings of a test gateway: development identities, no rate limits."""
    quiet = {
        "public_port": 0,
        "private_port": 0,
        "auth_mode": "dev",
        "jwt_secret": SECRET,
        "user_turns_per_min": 0,
        "user_connections": 0,
        "address_handshakes_per_s": 0,
        "new_handshakes_per_s": 0,
        "returning_handshakes_per_s": 0,
    }
    return Settings(
        gateway=replace(GatewaySettings(), **{**quiet, **changes}),
        push=PushSettings(push_access_key_id="AKTEST", push_secret_access_key="push-secret"),
        telemetry=TelemetrySettings(environment="local"),
    )


class PlayedTurn:
    """A claimed turn whose frames a test writes and pushes, as a worker would."""

    def __init__(self, world: GatewayWorld, claimed: Claimed) -> None:
        self._world = world
        self.ref: ClaimRef = claimed.ref
        self.turn_id: TurnId = claimed.ref.turn.turn_id
        self.followers: tuple[Follower, ...] = claimed.followers
        self.seq = 0
        self.text = ""

    async def started(self, *, push: bool = True) -> None:
        await self.append(
            ResponseStarted(
                turn_id=self.turn_id,
                attempt=self.ref.attempt,
                seq=self.seq,
                path="inline",
                intent="general",
                model="m",
            ),
            push=push,
        )

    async def delta(self, text: str, *, push: bool = True) -> list[PushStatus]:
        self.text += text
        frame = ResponseDelta(
            turn_id=self.turn_id, attempt=self.ref.attempt, seq=self.seq, delta=text
        )
        return await self.append(frame, push=push)

    async def append(self, frame: LoggedFrame, *, push: bool = True) -> list[PushStatus]:
        data = encode_frame(frame)
        append = Append(self.ref, self.seq, (data,))
        now_ms = self._world.clock.now_ms()
        (held,) = await self._world.ledger.append_many([append], now_ms)
        assert isinstance(held, Held)
        self.followers = held.followers
        self.seq += 1
        return await self.push(data) if push else []

    async def complete(self, *, push: bool = True, status: EndStatus = "completed") -> Finished:
        data = encode_frame(
            ResponseCompleted(
                turn_id=self.turn_id,
                attempt=self.ref.attempt,
                seq=self.seq,
                stop_reason="end_turn",
                length=len(self.text),
                sha256=hashlib.sha256(self.text.encode()).hexdigest(),
                usage=Usage(input_tokens=1, output_tokens=1),
                timings=Timings(queued_ms=0, first_token_ms=1, total_ms=2),
            )
        )
        finished = await self._world.ledger.finish(
            Append(self.ref, self.seq, (data,)),
            status=status,
            history=None,
            now_ms=self._world.clock.now_ms(),
        )
        assert isinstance(finished, Finished)
        self.followers = finished.followers
        if push:
            await self.push(data)
        return finished

    async def push(self, data: bytes) -> list[PushStatus]:
        statuses: list[PushStatus] = []
        for follower in self.followers:
            frames = [PushFrame(follower.connection_id, data)]
            statuses.extend(await self._world.push.push(follower.endpoint, frames))
        return statuses


class GatewayWorld:
    """The gateway under test and what it talks to."""

    def __init__(self, settings: Settings, http: HttpSession) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.registry = FakeRegistry(self.clock, user_connections=settings.gateway.user_connections)
        self.ledger = FakeLedger(self.clock, registry=self.registry)
        self.store = FakeTurnStore()
        self.intake = FakeIntake()
        self.turn_queue = FakeTurnQueue()
        self.load = FakeLoadBoard(self.clock)
        self.push = ManagementApiPush(
            http, push_credential(settings), self.clock, timeout_ms=2_000, requests_per_endpoint=8
        )
        self.metrics = io.StringIO()
        self.signals = StopSignals()
        ports = GatewayPorts(
            queue=self.ledger,
            claims=self.ledger,
            followers=self.ledger,
            registry=self.registry,
            allowances=FakeAllowances(self.ledger),
            store=self.store,
            intake=self.intake,
            turn_queue=self.turn_queue,
            load=self.load,
            push=self.push,
            due=FakeDueTurns(self.ledger, self.clock),
            dead_letters=FakeDeadLetterQueue(),
        )
        self.gateway: Gateway = build_gateway(
            settings,
            ports,
            public_listener=listen("127.0.0.1", 0, "PUBLIC"),
            private_listener=listen("127.0.0.1", 0, "PRIVATE"),
            clock=self.clock,
            randomness=SystemRandomness(),
            metrics=Metrics("test", "gateway", self.clock, self.metrics),
        )
        self.running: asyncio.Task[None] | None = None

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.public.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.gateway.public.port}/ws"

    @property
    def private_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.private.port}"

    @asynccontextmanager
    async def client(self, query: str = "?session_id=s1", **options: Any) -> AsyncIterator[Client]:
        """A connected client whose `ready` frame has come."""
        url = self.ws_url + query
        async with websockets.connect(url, compression=None, max_size=None, **options) as socket:
            client = Client(socket)
            client.ready = await client.frame()
            yield client

    async def play(self, request: TurnRequest | None = None) -> PlayedTurn:
        """Claim the turn that came last to the intake."""
        request = request or self.intake.submitted[-1]
        claimed = await self.ledger.claim(
            request,
            nonce=ClaimNonce(f"nonce-{request.turn_id}"),
            worker="w",
            path="inline",
            grace_ms=15_000,
            now_ms=self.clock.now_ms(),
        )
        assert isinstance(claimed, Claimed)
        return PlayedTurn(self, claimed)

    def session(self, session_id: str = "s1", user: str = "dev") -> SessionRef:
        return SessionRef(TenantId("default"), UserId(user), SessionId(session_id))


class Client:
    """A raw protocol client."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.ready: dict[str, Any] = {}

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def frame(self, within_s: float = 5.0) -> dict[str, Any]:
        async with asyncio.timeout(within_s):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
        return frame

    async def until(self, kind: str, within_s: float = 5.0) -> list[dict[str, Any]]:
        """Frames up to and with the first of that type."""
        frames = [await self.frame(within_s)]
        while frames[-1]["type"] != kind:
            frames.append(await self.frame(within_s))
        return frames

    async def ask(self, text: str = "hello", message_id: str = "m1") -> dict[str, Any]:
        """Send a message; the frame that answers it."""
        await self.send("chat.send", message_id=message_id, text=text)
        return await self.frame()

    async def closed(self, within_s: float = 5.0) -> int:
        """The close code, reading what still comes."""
        async with asyncio.timeout(within_s):
            with suppress(websockets.ConnectionClosed):
                while True:
                    await self.socket.recv()
        assert self.socket.close_code is not None
        return self.socket.close_code


@asynccontextmanager
async def gateway_world(**changes: Any) -> AsyncIterator[GatewayWorld]:
    """A running gateway; stopped without a drain unless the test drains it."""
    http = HttpSession()
    world = GatewayWorld(gateway_settings(**changes), http)
    world.running = asyncio.create_task(world.gateway.run(world.signals))
    try:
        yield world
    finally:
        if not world.running.done():
            world.signals.receive()
            world.signals.receive()
        await asyncio.wait([world.running])
        await http.close()
    world.running.result()


def decoded(data: bytes | str) -> Any:
    """JSON."""
    return msgspec.json.decode(data)
