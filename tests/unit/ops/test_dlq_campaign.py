"""A canary first, the rest at a bounded rate, and nothing twice."""

from __future__ import annotations

import asyncio

import pytest

from ops.dlq_campaign import Campaign, CampaignReport
from shared.contracts.dead_turns import DeadTurn
from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import Append, Claimed
from shared.contracts.turns import EndStatus, QueueName, TurnRequest
from shared.turn.redrive import Redrive
from tests.fakes.clock import FakeClock
from tests.fakes.dead_turns import FakeDeadTurns
from tests.fakes.deaths import death
from tests.fakes.ledger import FakeLedger
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_store import FakeTurnStore

FINGERPRINT = death().letter.fingerprint


class ConsumedQueue(FakeTurnQueue):
    """A background queue whose consumer ends each turn `end`; None = it consumes nothing."""

    def __init__(self, ledger: FakeLedger, clock: FakeClock) -> None:
        super().__init__()
        self._ledger = ledger
        self._clock = clock
        self.end: EndStatus | None = "completed"
        self.sent_at_s: list[float] = []

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        await super().send(queue, request, delay_s=delay_s)
        self.sent_at_s.append(self._clock.monotonic_s())
        if self.end is None:
            return
        now_ms = self._clock.now_ms()
        claimed = await self._ledger.claim(
            request,
            nonce=ClaimNonce(request.turn_id),
            worker="w",
            path="queue",
            grace_ms=0,
            now_ms=now_ms,
        )
        assert isinstance(claimed, Claimed)
        append = Append(claimed.ref, 0, (b"started", b"end"))
        await self._ledger.finish(append, status=self.end, history=None, now_ms=now_ms)


class World:
    """Dead turns, and somebody at the command line."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.dead = FakeDeadTurns()
        self.queue = ConsumedQueue(self.ledger, self.clock)
        self.said: list[str] = []
        self.campaign = Campaign(
            Redrive(
                dead_turns=self.dead,
                revival=self.ledger,
                sessions=self.ledger,
                store=FakeTurnStore(),
                queue=self.queue,
                clock=self.clock,
            ),
            self.dead,
            self.clock,
            by="ann",
            rate_per_s=2,
            wait_s=10,
            tell=self.said.append,
        )

    async def kill(self, number: int, **changes: object) -> DeadTurn:
        turn = death(number, turn_session_id=f"s{number}", **changes)
        await self.dead.keep(turn)
        return turn

    async def run(self) -> CampaignReport:
        turns = await self.dead.of_fingerprint(FINGERPRINT)
        return await self.waited(asyncio.ensure_future(self.campaign.many(turns)))

    async def waited(self, task: asyncio.Future[CampaignReport]) -> CampaignReport:
        for _ in range(200):
            if task.done():
                break
            await self.clock.advance(0.1)
        return await task

    @property
    def sent(self) -> list[str]:
        return [request.turn_id for _, request, _ in self.queue.sent]


@pytest.mark.case("B-29")
async def test_one_goes_first_and_the_rest_follow_at_the_rate() -> None:
    world = World()
    turns = [await world.kill(number) for number in range(1, 5)]

    report = await world.run()

    assert world.sent == [turn.id for turn in turns]
    assert (report.redriven, report.stopped, report.untouched) == (4, "", 0)
    gaps = [b - a for a, b in zip(world.queue.sent_at_s, world.queue.sent_at_s[1:], strict=False)]
    assert all(gap >= 0.5 for gap in gaps)


async def test_a_canary_that_fails_again_stops_the_rest() -> None:
    world = World()
    turns = [await world.kill(number) for number in range(1, 4)]
    world.queue.end = "failed"

    report = await world.run()

    assert world.sent == [turns[0].id]
    assert "ended failed" in report.stopped
    assert (report.redriven, report.untouched) == (1, 2)


async def test_a_canary_that_nobody_consumes_stops_the_rest_after_the_wait() -> None:
    world = World()
    turns = [await world.kill(number) for number in range(1, 4)]
    world.queue.end = None

    report = await world.run()

    assert world.sent == [turns[0].id]
    assert "has not ended within 10 s" in report.stopped


async def test_a_repeat_waits_for_the_canary_that_is_under_way_and_sends_no_second_one() -> None:
    world = World()
    turns = [await world.kill(number) for number in range(1, 4)]
    world.queue.end = None
    await world.run()

    report = await world.run()

    assert world.sent == [turns[0].id]
    assert report.redriven == 0
    assert report.results[0].outcome == "already_redriven"
    assert turns[0].id in report.stopped


@pytest.mark.case("B-29")
async def test_a_second_redrive_changes_nothing() -> None:
    world = World()
    for number in range(1, 4):
        await world.kill(number)
    await world.run()

    report = await world.run()

    assert len(world.sent) == 3
    assert report.redriven == 0
    assert {result.outcome for result in report.results} == {"already_redriven"}


async def test_dangerous_turns_are_left_out_unless_they_are_named() -> None:
    world = World()
    poison = await world.kill(1, letter_klass="poison")
    answered = await world.kill(2, verdict="discard")
    good = await world.kill(3)

    report = await world.run()

    assert world.sent == [good.id]
    assert [turn.id for turn in report.left_out] == [poison.id, answered.id]
    report = await world.waited(asyncio.ensure_future(world.campaign.one(poison.id)))
    assert (report.redriven, report.stopped) == (1, "")


async def test_a_turn_that_lives_is_no_canary() -> None:
    world = World()
    alive = await world.kill(1)
    assert alive.letter.turn is not None
    await world.ledger.accept(alive.letter.turn, None)
    good = await world.kill(2)

    report = await world.run()

    assert world.sent == [good.id]
    assert [result.outcome for result in report.results] == ["alive", "redriven"]
