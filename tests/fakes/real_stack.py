"""The real dependencies of a worker, each small: Valkey, the AWS emulator, the model server, a gateway's push port."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from aiohttp import web

from infra.local.model_server.planning import Pace
from infra.local.model_server.server import ModelServer
from shared.adapters.index_artefact import encode_index, index_key
from shared.adapters.index_builder import build_index
from shared.adapters.s3_artefacts import S3Artefacts
from shared.adapters.wordllama_embedder import WordLlamaEmbedder
from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    OwnerId,
    SessionId,
    TenantId,
    UserId,
    new_turn_id,
)
from shared.contracts.ledger import Follower
from shared.contracts.turns import TurnRequest
from shared.policy.corpus import read_corpus
from shared.settings import Settings, load_settings
from tests.fakes.emulator import KEY_ID, REGION, SECRET, Emulator
from tests.fakes.http_server import Exchange, RawServer, raw_server

KNOWLEDGE = Path(__file__).resolve().parents[2] / "knowledge"
TERMINAL = {f"chat.response.{end}" for end in ("completed", "failed", "cancelled", "expired")}


class PushPort:
    """A gateway's private port: keeps the frames that each connection received."""

    def __init__(self) -> None:
        self.frames: dict[str, list[dict[str, Any]]] = {}
        self._changed = asyncio.Event()

    async def handle(self, exchange: Exchange) -> None:
        path, body = exchange.request.path, exchange.request.body
        if path.endswith("/@connections"):
            lines = [msgspec.json.decode(line) for line in body.splitlines() if line]
            for line in lines:
                self._keep(line["connection_id"], line["data"])
            await exchange.answer_json([200] * len(lines))
        else:
            self._keep(unquote(path.rpartition("/")[2]), body)
            await exchange.answer(200)

    def _keep(self, connection_id: str, data: str | bytes) -> None:
        self.frames.setdefault(connection_id, []).append(msgspec.json.decode(data))
        self._changed.set()

    async def until_ended(self, connection_id: str, ends: int = 1) -> list[dict[str, Any]]:
        """The connection's frames once so many turns have ended on it."""
        async with asyncio.timeout(30):
            while True:
                frames = self.frames.get(connection_id, [])
                if sum(frame["type"] in TERMINAL for frame in frames) >= ends:
                    return frames
                self._changed.clear()
                await self._changed.wait()


@dataclass
class RealStack:
    """Addresses and the settings that a process of each role gets."""

    environ: dict[str, str]
    push_port: PushPort
    push_server: RawServer
    emulator: Emulator
    model_url: str
    _turns: int = field(default=0)

    def settings(self, role: Any, **turn: Any) -> Settings:
        loaded = load_settings(role, self.environ)
        return replace(loaded, turn=replace(loaded.turn, **turn))

    def follower(self, name: str = "c1") -> Follower:
        return Follower(ConnectionId(name), self.push_server.url, OwnerId("gateway-1"))

    def turn(self, text: str, *, session: str = "s1", **fields: Any) -> TurnRequest:
        self._turns += 1
        now_ms = time.time_ns() // 1_000_000
        return TurnRequest(
            turn_id=new_turn_id(SessionId(session), now_ms, self._turns.to_bytes(10, "big")),
            session_id=SessionId(session),
            message_id=MessageId(f"m{self._turns}"),
            tenant=TenantId("shop"),
            user=UserId("ada"),
            text=text,
            accepted_at_ms=now_ms,
            ready_at_ms=now_ms,
            **fields,
        )


@asynccontextmanager
async def real_stack(
    emulator: Emulator, valkey_url: str, name: str, knowledge: Path = KNOWLEDGE
) -> AsyncIterator[RealStack]:
    """A stack with its own queues, table and bucket (`name` in their names), its own model server and push port."""
    await asyncio.to_thread(_fill_emulator, emulator, name, knowledge)
    port = PushPort()
    async with raw_server(port.handle) as push_server, _model_server() as model_url:
        queues = {
            kind: emulator.make_queue(f"{name}-{kind}")
            for queue in ("burst", "retry", "deferred", "background")
            for kind in (queue, f"{queue}-dlq")
        }
        yield RealStack(
            environ={
                "BURSTCHAT_REDIS_URL": f"{valkey_url.rstrip('/')}/0",
                "BURSTCHAT_AWS_ENDPOINT_URL": emulator.url,
                "BURSTCHAT_AWS_REGION": REGION,
                "BURSTCHAT_BURST_QUEUE_URL": queues["burst"],
                "BURSTCHAT_RETRY_QUEUE_URL": queues["retry"],
                "BURSTCHAT_DEFERRED_QUEUE_URL": queues["deferred"],
                "BURSTCHAT_BACKGROUND_QUEUE_URL": queues["background"],
                "BURSTCHAT_BURST_DLQ_URL": queues["burst-dlq"],
                "BURSTCHAT_RETRY_DLQ_URL": queues["retry-dlq"],
                "BURSTCHAT_DEFERRED_DLQ_URL": queues["deferred-dlq"],
                "BURSTCHAT_BACKGROUND_DLQ_URL": queues["background-dlq"],
                "BURSTCHAT_TURNS_TABLE": f"{name}-turns",
                "BURSTCHAT_KNOWLEDGE_BUCKET": f"{name}-knowledge",
                "BURSTCHAT_PUSH_ACCESS_KEY_ID": "AKIDPUSH",
                "BURSTCHAT_PUSH_SECRET_ACCESS_KEY": "push-secret",
                "BURSTCHAT_MODEL_BASE_URL": model_url,
            },
            push_port=port,
            push_server=push_server,
            emulator=emulator,
            model_url=model_url,
        )


def aws_environment() -> dict[str, str]:
    """What the default credential chain must find."""
    return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}


@asynccontextmanager
async def _model_server() -> AsyncIterator[str]:
    server = ModelServer(now_ms=lambda: time.time_ns() // 1_000_000, pace=Pace(0, 0))
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _fill_emulator(emulator: Emulator, name: str, knowledge: Path) -> None:
    emulator.make_turns_table(f"{name}-turns")
    client, bucket = emulator.client("s3"), f"{name}-knowledge"
    client.create_bucket(Bucket=bucket)
    key = index_key(WordLlamaEmbedder.name)
    S3Artefacts(client, bucket, key).replace_index(_index_bytes(knowledge))


@cache
def _index_bytes(folder: Path) -> bytes:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return encode_index(build_index(read_corpus(files), {}, WordLlamaEmbedder()))
