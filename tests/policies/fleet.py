"""The fleet in virtual time: the real decisions of gateway, orchestrators and queue_runner over a model of the work.

Real are the door with its rates, the load watch with level and forecast, the placement rule with tenant shares, the
plan of receives and the plan of answers. Modelled is what they decide about: slots and workers are busy for as long as
an answer takes, and a burst worker takes up to a batch and the next one only when all of it has ended.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from services.gateway.door import Door, Refusal
from services.orchestrator.load_window import MeanTurn
from services.orchestrator.tenant_shares import TenantShares
from shared.contracts.identifiers import MessageId, SessionId, SessionRef, TenantId, UserId
from shared.contracts.load import FleetLoad, LoadSample
from shared.contracts.turns import IntakeDecision
from shared.policy.admission import BurstLimits, SlotCount, place
from shared.policy.limits import AnswerPlan
from shared.policy.load_level import LoadLevel, answer_plan
from shared.policy.receiving import Receive, ReceiveLimits, ReceivePlan
from shared.policy.wait_estimate import estimate_wait_ms
from shared.policy.waiting_shares import WaitingShares
from shared.turn.load_watch import LoadWatch
from tests.fakes.allowances import FakeAllowances
from tests.policies.demand import Ask
from tests.policies.record import Record, Served

EPOCH_MS = 1_700_000_000_000
FIRST_TOKEN_S = {"primary": 0.9, "fast": 0.5}
TOKENS_PER_S = {"primary": 50.0, "fast": 80.0}
PLAN = AnswerPlan(model="primary", max_tokens=1_024, history_turns=20, history_tokens=6_000)
STALE_AFTER_S = 45.0
COLD_START_S = 3.0
KEPT_WARM_S = 600.0
HAND_OUT_S = 0.1
"""From a free worker to the claims of its batch."""
RETRIES = 3

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the fleet is."""

    tasks: int = 2
    slots: int = 20
    workers: int = 10
    batch: int = 10
    queue_slots: int = 20
    users_come_back: bool = True

    @property
    def burst_turns(self) -> int:
        """What burst can run at once."""
        return self.workers * self.batch


class VirtualClock:
    """Time that only events move."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return EPOCH_MS + round(self.now_s * 1_000)

    def monotonic_s(self) -> float:
        """Seconds since midnight."""
        return self.now_s

    async def sleep(self, duration_s: float) -> None:
        """Nobody sleeps here."""
        raise AssertionError(duration_s)


@dataclass
class _Task:
    shares: TenantShares
    waiting: WaitingShares = field(default_factory=WaitingShares)
    mean: MeanTurn = field(default_factory=MeanTurn)
    running: int = 0


@dataclass
class _Queued:
    ask: Ask
    since_s: float
    served: Served


class Fleet:
    """Runs messages to their end; what happened is in `record`."""

    def __init__(self, size: Size, record: Record) -> None:
        self.size = size
        self.record = record
        self.clock = VirtualClock()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._tasks = [_Task(TenantShares(size.slots)) for _ in range(size.tasks)]
        self._burst: deque[_Queued] = deque()
        self._entered = 0
        self._warm_until_s = [0.0] * size.workers
        self._idle_workers = list(range(size.workers))
        self._queues: dict[str, deque[_Queued]] = {"deferred": deque(), "background": deque()}
        self._listening: list[Receive] = []
        self._queue_running = 0
        self._coming = 0
        self._is_over = False
        self._plan = ReceivePlan(
            ReceiveLimits(
                queues=("deferred", "background"),
                slots=size.queue_slots,
                consumers=5,
                tier_weight=4,
                poll_s=20,
                paused_interval_ms=5_000,
                promoted_after_ms=600_000,
            )
        )
        self.watch = LoadWatch(self, self.clock, burst_capacity_turns=size.burst_turns)
        self._limits = BurstLimits(
            capacity_turns=size.burst_turns,
            waiting_turns=5 * size.burst_turns,
            wait_ms=round(STALE_AFTER_S * 1_000),
        )
        self._door = Door(
            self.watch,
            self._limits,
            user_turns_per_min=0,
            sessions=self,  # type: ignore[arg-type]
            allowances=FakeAllowances(self),  # type: ignore[arg-type]
            clock=self.clock,
        )

    def run(self, asks: list[Ask], *, from_s: float, until_s: float) -> None:
        """Let the messages come, and go on until the last turn has ended."""
        self.clock.now_s = from_s
        for ask in asks:
            self._come(ask.at_s, ask, 0)
        self._at(from_s, lambda: self._read_load(until_s))
        while self._events:
            self.clock.now_s, _, act = heapq.heappop(self._events)
            act()

    # ports of the decisions ----------------------------------------------------------------------

    async def read(self) -> FleetLoad:
        """LoadBoard."""
        now_ms = self.clock.now_ms()
        samples = tuple(
            LoadSample(
                worker=str(number),
                at_ms=now_ms,
                slots=self.size.slots,
                running=task.running,
                lag_ms=0,
                cpu_share=0,
                mean_turn_ms=task.mean.value_ms,
            )
            for number, task in enumerate(self._tasks)
        )
        oldest = self._burst[3] if len(self._burst) > 3 else None
        return FleetLoad(
            samples=samples,
            burst_waiting=len(self._burst),
            burst_entered=self._entered,
            burst_oldest_ms=round((self.clock.now_s - oldest.since_s) * 1_000) if oldest else 0,
        )

    async def publish(self, sample: LoadSample) -> None:
        """LoadBoard; the samples are made as they are read."""

    async def find_message(self, session: SessionRef, message_id: MessageId) -> None:
        """SessionQueue: no message comes twice here."""

    # arrivals ------------------------------------------------------------------------------------

    def _come(self, at_s: float, ask: Ask, tries: int) -> None:
        self._coming += 1
        self._at(at_s, lambda: self._ask(ask, tries))

    def _ask(self, ask: Ask, tries: int) -> None:
        self._coming -= 1
        session = SessionRef(TenantId(ask.tenant), UserId("u"), SessionId(ask.session))
        verdict = _now(self._door.admit(session, MessageId("m"), ask.priority))
        if isinstance(verdict, Refusal):
            self._refuse(ask, tries, verdict.reason, verdict.retry_after_ms)
            return
        served = self.record.accepted(ask, self.clock.now_s, self.watch.level)
        if ask.priority != "high":
            name = "deferred" if ask.priority == "normal" else "background"
            self._queues[name].append(_Queued(ask, self.clock.now_s, served))
            self._door.settle(session, ask.priority, "queue", duplicate=False)
            self._arrived(name)
            return
        number = self.record.chance.randrange(len(self._tasks))
        decision = self._place(self._tasks[number], ask)
        if decision.path is None:
            self.record.take_back(served)
            self._refuse(ask, tries, decision.reason, decision.retry_after_ms or 1_000)
            return
        self._door.settle(session, "high", decision.path, duplicate=False)
        if decision.path == "inline":
            self._start_inline(self._tasks[number], ask, served)
        else:
            self._enqueue(ask, served)

    def _refuse(self, ask: Ask, tries: int, reason: str, hint_ms: int) -> None:
        self.record.refused(ask, reason, self.clock.now_s, hint_ms)
        if self.size.users_come_back and tries < RETRIES:
            after_s = hint_ms * (1 + self.record.chance.random()) / 1_000
            self._come(self.clock.now_s + after_s, ask, tries + 1)

    def _place(self, task: _Task, ask: Ask) -> IntakeDecision:
        now_ms = self.clock.now_ms()
        wait_ms = estimate_wait_ms(self.watch.fleet, self.size.burst_turns)
        task.shares.want(ask.tenant, now_ms)
        decision = place(
            count=SlotCount(self.size.slots, task.running),
            strain="none",
            is_draining=False,
            is_takeover=False,
            is_over_share=task.shares.is_over(ask.tenant, now_ms),
            is_queued=False,
            is_crowding=task.waiting.is_crowding(ask.tenant, wait_ms, now_ms),
            load=self.watch.fleet,
            limits=self._limits,
        )
        if decision.path != "inline":
            task.shares.overflow(ask.tenant, now_ms)
        if decision.path == "burst":
            task.waiting.queued(ask.tenant, now_ms)
        return decision

    # inline --------------------------------------------------------------------------------------

    def _start_inline(self, task: _Task, ask: Ask, served: Served) -> None:
        task.running += 1
        task.shares.start(ask.tenant)
        lasts_s = self._begin(ask, served, "inline")

        def end() -> None:
            task.running -= 1
            task.shares.end(ask.tenant)
            task.mean.add(lasts_s * 1_000)

        self._after(lasts_s, end)

    # burst ---------------------------------------------------------------------------------------

    def _enqueue(self, ask: Ask, served: Served) -> None:
        queued = _Queued(ask, self.clock.now_s, served)
        served.predicted_s = (
            self.watch.forecast.wait_ms(self.clock.now_ms(), self.clock.now_ms()) / 1_000
        )
        self._burst.append(queued)
        self._entered += 1
        self._after(HAND_OUT_S, self._hand_out)

    def _hand_out(self) -> None:
        while self._burst and self._idle_workers:
            worker = self._idle_workers.pop()
            now_s = self.clock.now_s
            cold_s = COLD_START_S if self._warm_until_s[worker] < now_s else 0.0
            self._warm_until_s[worker] = now_s + KEPT_WARM_S
            self._after(cold_s, lambda worker=worker: self._run_batch(worker))  # type: ignore[misc]

    def _run_batch(self, worker: int) -> None:
        longest_s = 0.0
        taken = 0
        while self._burst and taken < self.size.batch:
            queued = self._burst.popleft()
            if self.clock.now_s - queued.since_s > STALE_AFTER_S:
                self.record.expired(queued.served)
                continue
            taken += 1
            longest_s = max(longest_s, self._begin(queued.ask, queued.served, "burst"))

        def end() -> None:
            self._warm_until_s[worker] = self.clock.now_s + KEPT_WARM_S
            self._idle_workers.append(worker)
            self._hand_out()

        self._after(longest_s, end)

    # queue_runner --------------------------------------------------------------------------------

    def _arrived(self, name: str) -> None:
        for receive in self._listening:
            if receive.queue == name:
                self._listening.remove(receive)
                self._answer(receive)
                return
        self._receive()

    def _receive(self) -> None:
        while not self._is_over and len(self._listening) < 5:
            receive = self._plan.next(
                running=self._queue_running, level=self.watch.level, now_s=self.clock.now_s
            )
            if receive is None:
                return
            if self._queues[receive.queue]:
                self._answer(receive, goes_on=False)
            else:
                self._listening.append(receive)
                self._after(receive.wait_s, lambda receive=receive: self._give_up(receive))  # type: ignore[misc]

    def _give_up(self, receive: Receive) -> None:
        if any(receive is each for each in self._listening):
            self._listening = [each for each in self._listening if each is not receive]
            self._plan.answered(receive, [])
            self._receive()

    def _answer(self, receive: Receive, *, goes_on: bool = True) -> None:
        queue = self._queues[receive.queue]
        messages = [queue.popleft() for _ in range(min(receive.limit, len(queue)))]
        now_s = self.clock.now_s
        self._plan.answered(receive, [round((now_s - each.since_s) * 1_000) for each in messages])
        for each in messages:
            self._queue_running += 1
            self._after(self._begin(each.ask, each.served, "queue"), self._queue_ended)
        if goes_on:
            self._receive()

    def _queue_ended(self) -> None:
        self._queue_running -= 1
        self._receive()

    # all paths -----------------------------------------------------------------------------------

    def _begin(self, ask: Ask, served: Served, path: str) -> float:
        """The turn starts; how long its worker is busy with it, s."""
        plan = answer_plan(self.watch.level, PLAN, "fast")
        tokens = min(ask.tokens, plan.max_tokens)
        self.record.started(served, path, self.clock.now_s, plan.model, tokens)
        return FIRST_TOKEN_S[plan.model] + tokens / TOKENS_PER_S[plan.model]

    def _read_load(self, until_s: float) -> None:
        before = self.watch.level
        _now(self.watch.refresh())
        if self.watch.level != before:
            self.record.level_changed(self.clock.now_s, self.watch.level)
        self._receive()
        self._is_over = self.clock.now_s >= until_s and not self._is_busy()
        if not self._is_over:
            self._after(1.0, lambda: self._read_load(until_s))

    def _is_busy(self) -> bool:
        waits = self._coming or self._burst or any(self._queues.values()) or self._queue_running
        return bool(waits) or self.watch.level > LoadLevel.NORMAL

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._at(self.clock.now_s + delay_s, act)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, act))


def _now(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("a decision waited for something")
