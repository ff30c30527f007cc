"""Everything around running turns, in memory: a user's session, readers, a worker process and its clock."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    OwnerId,
    SessionId,
    SessionRef,
    TenantId,
    UserId,
    new_turn_id,
)
from shared.contracts.ledger import Follower
from shared.contracts.server_frames import AnyServerFrame, ResponseDelta, decode_server_frame
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import Path, TurnRequest
from shared.telemetry import Metrics
from shared.turn.ended_turns import EndedTurns
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.fan_out import SourcePorts
from shared.turn.model_budget import ModelBudget
from shared.turn.result import TurnResult
from shared.turn.screening import Screening
from tests.fakes.budget_window import FakeBudgetWindow
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.knowledge import (
    FakeCatalogue,
    FakeIntentClassifier,
    FakeOrders,
    FakeRecommender,
    FakeRetriever,
)
from tests.fakes.ledger import FakeLedger
from tests.fakes.limits import answer_plan, flush_limits, push_limits, turn_limits
from tests.fakes.model import FakeModel, Step
from tests.fakes.push import FakePush
from tests.fakes.queues import FakeDeadLetterQueue, FakeDispatcher
from tests.fakes.registry import FakeRegistry
from tests.fakes.turn_events import FakeTurnEvents
from tests.fakes.turn_store import FakeTurnStore

GATEWAY = "http://10.0.0.1:8081"
SESSION = SessionRef(TenantId("acme"), UserId("ana"), SessionId("s1"))

FrameT = TypeVar("FrameT")


def follower(name: str = "c1", endpoint: str = GATEWAY) -> Follower:
    """A reader's connection."""
    return Follower(ConnectionId(name), endpoint, OwnerId(f"owner of {endpoint}"))


class TurnWorld:
    """One worker process (`engine`) and what surrounds it; `scripts` are what the model says, call by call."""

    def __init__(self, *scripts: Sequence[Step], **limits: Any) -> None:
        self.clock = FakeClock()
        self.registry = FakeRegistry(self.clock)
        self.ledger = FakeLedger(self.clock)
        self.store = FakeTurnStore()
        self.push = FakePush(self.clock)
        self.model = FakeModel(self.clock, *scripts)
        self.classifier = FakeIntentClassifier({"recommend": "recommendation"})
        self.retriever = FakeRetriever()
        self.catalogue = FakeCatalogue()
        self.recommender = FakeRecommender()
        self.orders = FakeOrders()
        self.sources = SourcePorts(
            retriever=self.retriever,
            catalogue=self.catalogue,
            recommender=self.recommender,
            orders=self.orders,
        )
        self.dispatcher = FakeDispatcher()
        self.dead_letters = FakeDeadLetterQueue()
        self.metrics = io.StringIO()
        self.prompt = "You are a bookseller."
        self.limits = turn_limits(**limits)
        self.screening: Screening | None = None
        self.window = FakeBudgetWindow()
        self.budget: ModelBudget | None = None
        self.events = FakeTurnEvents()
        self.engine = self.make_engine("worker-1", seed=1)
        self._accepted = 0

    def screen(self, **kinds: Any) -> None:
        """Give the process guardrails: the arguments of Screening."""
        metrics = Metrics("burstchat", "orchestrator", self.clock, self.metrics)
        self.screening = Screening(metrics, **kinds)
        self.engine = self.make_engine("worker-1", seed=1)

    def limit(self, *, requests: int = 0, tokens: int = 0, holds_advance: bool = True) -> None:
        """Put the process's model calls under a budget of so many a minute."""
        self.budget = ModelBudget(
            self.window,
            self.clock,
            worker="worker-1",
            requests_per_min=requests,
            tokens_per_min=tokens,
            holds_advance=holds_advance,
        )
        self.engine = self.make_engine("worker-1", seed=1)

    def make_engine(self, worker: str, seed: int) -> TurnEngine:
        """Another worker process over the same surroundings."""
        return TurnEngine(
            TurnPorts(
                claims=self.ledger,
                followers=self.ledger,
                store=self.store,
                push=self.push,
                model=self.model,
                classifier=self.classifier,
                sources=self.sources,
                dispatcher=self.dispatcher,
                dead_letters=self.dead_letters,
            ),
            system_prompt=lambda: self.prompt,
            plan=lambda: answer_plan("claude-test"),
            worker=worker,
            clock=self.clock,
            randomness=FakeRandomness(seed),
            metrics=Metrics("burstchat", "orchestrator", self.clock, self.metrics),
            limits=self.limits,
            flush=flush_limits(),
            pushes=push_limits(),
            screening=self.screening,
            budget=self.budget,
            ended=EndedTurns(self.events, user_key="key"),
        )

    @asynccontextmanager
    async def running(self, engine: TurnEngine | None = None) -> Any:
        """The process is up."""
        loops = asyncio.create_task((engine or self.engine).run())
        try:
            yield self
        finally:
            loops.cancel()
            await asyncio.gather(loops, return_exceptions=True)

    async def accept(
        self, text: str = "Hi", *, reader: Follower | None = None, **changes: Any
    ) -> TurnRequest:
        """A message becomes a turn, as a gateway would do it."""
        self._accepted += 1
        now_ms = self.clock.now_ms()
        request = TurnRequest(
            turn_id=new_turn_id(SESSION.session_id, now_ms + self._accepted, bytes(10)),
            session_id=SESSION.session_id,
            message_id=MessageId(f"m{self._accepted}"),
            tenant=SESSION.tenant,
            user=SESSION.user,
            text=text,
            accepted_at_ms=now_ms,
            ready_at_ms=now_ms,
        )
        request = msgspec.structs.replace(request, **changes)
        follower_ = reader or (None if request.detached else follower())
        await self.ledger.accept(request, follower_)
        self.ledger.calls.clear()
        return request

    def begin(
        self, request: TurnRequest, path: Path = "inline", engine: TurnEngine | None = None
    ) -> asyncio.Task[TurnResult]:
        """A consumer starts to run a turn."""
        return asyncio.create_task((engine or self.engine).pipeline.run(request, path))

    async def answer(
        self, text: str = "Hi", *, within_s: float = 30, path: Path = "inline", **changes: Any
    ) -> TurnResult:
        """Accept a message and run it to its end."""
        task = self.begin(await self.accept(text, **changes), path)
        return await self.finish(task, within_s=within_s)

    async def finish(self, task: asyncio.Task[TurnResult], *, within_s: float = 30) -> TurnResult:
        """Let time pass until the run is over, and the pushes are out."""
        for _ in range(round(within_s * 100)):
            if task.done():
                break
            await self.clock.advance(0.01)
        assert task.done(), "the turn did not end in time"
        await self.clock.advance(0)
        return await task

    def frames(self, connection_id: str = "c1") -> list[AnyServerFrame]:
        """What a reader got."""
        return self.push.frames(connection_id)

    def log(self, request: TurnRequest) -> list[AnyServerFrame]:
        """The turn's log."""
        turn = self.ledger._session(request.session).turns[request.turn_id]
        return [decode_server_frame(data) for data in turn.log]


def shown_text(frames: Sequence[AnyServerFrame]) -> str:
    """The text of the deltas."""
    return "".join(frame.delta for frame in frames if isinstance(frame, ResponseDelta))


def only(frames: Sequence[AnyServerFrame], kind: type[FrameT]) -> FrameT:
    """The one frame of that kind."""
    found = [frame for frame in frames if isinstance(frame, kind)]
    assert len(found) == 1, f"{len(found)} frames of {kind.__name__}"
    return found[0]


def after_put(world: TurnWorld, action: Callable[[], object]) -> None:
    """Do something at the moment when the answer has just been stored."""
    put = world.store.put

    async def put_then_act(turn: StoredTurn) -> StoredTurn | None:
        winner = await put(turn)
        action()
        await asyncio.sleep(0)
        return winner

    world.store.put = put_then_act  # type: ignore[method-assign]
