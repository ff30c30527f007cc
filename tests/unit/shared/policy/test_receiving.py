import itertools
from collections import Counter, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.policy.load_level import LoadLevel
from shared.policy.receiving import (
    FETCH_WAIT_S,
    Receive,
    ReceiveLimits,
    ReceivePlan,
    served_queues,
)
from tests.fakes.limits import receive_limits

OLD_MS = 600_000
LAMBDA = served_queues("lambda")
ECS = served_queues("ecs")
LEVELS = st.sampled_from(LoadLevel)


def limits(**changes) -> ReceiveLimits:
    return receive_limits(**{"queues": LAMBDA, "slots": 20, "consumers": 5, **changes})


class Runner:
    """Consumers and queues in virtual time: a receive takes a moment, a turn one second."""

    def __init__(self, given: ReceiveLimits, backlog: dict, *, age_ms: dict | None = None) -> None:
        self.limits = given
        self.plan = ReceivePlan(given)
        self.backlog = dict(backlog)  # queue -> messages left, None = endless
        self.age_ms = age_ms or {}
        self.level = LoadLevel.NORMAL
        self.now_s = 0.0
        self.running: deque[float] = deque()
        self.receiving: list[tuple[float, Receive]] = []
        self.log: list[tuple[float, Receive, int]] = []  # start, receive, messages
        self.most = 0

    def take(self, receive: Receive) -> int:
        left = self.backlog.get(receive.queue, 0)
        taken = receive.limit if left is None else min(receive.limit, left)
        if left is not None:
            self.backlog[receive.queue] = left - taken
        return taken

    def run(self, seconds: float, step_s: float = 0.05) -> None:
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            while self.running and self.running[0] <= self.now_s:
                self.running.popleft()
            self._answer()
            self._ask()
            held = sum(receive.limit for _, receive in self.receiving)
            self.most = max(self.most, len(self.running) + held)
            self.now_s = round(self.now_s + step_s, 6)

    def _answer(self) -> None:
        for started_s, receive in list(self.receiving):
            count = self.take(receive)
            if not count and self.now_s < started_s + receive.wait_s:
                continue
            self.receiving.remove((started_s, receive))
            self.plan.answered(receive, [self.age_ms.get(receive.queue, 0)] * count)
            self.running.extend([self.now_s + 1.0] * count)
            self.log.append((started_s, receive, count))

    def _ask(self) -> None:
        while len(self.receiving) < self.limits.consumers:
            receive = self.plan.next(running=len(self.running), level=self.level, now_s=self.now_s)
            if receive is None:
                return
            self.receiving.append((self.now_s, receive))

    def messages(self) -> Counter:
        counts: Counter = Counter()
        for _, receive, count in self.log:
            counts[receive.queue] += count
        return counts

    def starts(self, queue: str) -> list[float]:
        return sorted(started_s for started_s, receive, _ in self.log if receive.queue == queue)


def endless(*queues: str) -> dict:
    return dict.fromkeys(queues)


def test_deferred_gets_four_messages_for_each_of_background():
    runner = Runner(limits(), endless(*LAMBDA))
    runner.run(120)
    counts = runner.messages()
    assert counts["deferred"] / counts["background"] == pytest.approx(4, rel=0.05)
    assert sum(counts.values()) > 110 * 20, "no slot stays idle"


def test_interactive_queues_get_four_times_the_share_of_deferred():
    runner = Runner(limits(queues=ECS), endless(*ECS))
    runner.run(240)
    counts = runner.messages()
    for queue, weight in (("burst", 16), ("retry", 16), ("deferred", 4)):
        assert counts[queue] / counts["background"] == pytest.approx(weight, rel=0.1)


@pytest.mark.parametrize("busy", LAMBDA)
def test_a_share_that_is_not_used_goes_to_the_other_queue(busy):
    runner = Runner(limits(), endless(busy))
    runner.run(60)
    # One slot is held by the receive that listens to the empty queue.
    assert runner.messages()[busy] >= 0.94 * 19 * 55


def test_an_idle_queue_does_not_save_up_a_share():
    runner = Runner(limits(), endless("deferred"))
    runner.run(60)
    before = runner.messages()["deferred"]
    runner.backlog["background"] = None
    runner.run(10)
    counts = runner.messages()
    assert counts["deferred"] - before > 3 * counts["background"]


def test_empty_queues_are_listened_to_with_one_receive_of_one_message_each():
    runner = Runner(limits(), {})
    runner.run(65)
    assert runner.starts("deferred") == pytest.approx([0, 20, 40], abs=0.2)
    listening = runner.receiving
    assert {(r.queue, r.limit, r.wait_s) for _, r in listening} == {
        ("deferred", 1, 20),
        ("background", 1, 20),
    }


def test_with_too_few_consumers_nobody_listens_for_long():
    runner = Runner(limits(consumers=1), endless("background"))
    runner.run(60)
    assert all(receive.wait_s == FETCH_WAIT_S for _, receive, _ in runner.log)
    assert runner.messages()["background"] > 300


def test_a_batch_is_a_consumers_part_of_the_slots_and_never_above_ten():
    assert limits().batch == 4
    assert limits(slots=3).batch == 1
    assert limits(slots=200).batch == 10


@pytest.mark.parametrize("level", [LoadLevel.MODERATE, LoadLevel.SEVERE])
def test_a_paused_tier_gets_one_message_per_five_seconds(level):
    runner = Runner(limits(), endless("background"))
    runner.level = level
    runner.run(61)
    assert runner.messages()["background"] in (12, 13)
    starts = runner.starts("background")
    assert all(b - a >= 5 for a, b in itertools.pairwise(starts))


@pytest.mark.parametrize("level", [LoadLevel.NORMAL, LoadLevel.MILD])
def test_background_is_not_paused_below_moderate(level):
    runner = Runner(limits(), endless("background"))
    runner.level = level
    runner.run(20)
    assert runner.messages()["background"] > 19 * 17


def test_messages_older_than_ten_minutes_count_as_the_tier_above():
    runner = Runner(limits(), endless(*LAMBDA), age_ms={"background": OLD_MS})
    runner.run(120)
    counts = runner.messages()
    assert counts["deferred"] / counts["background"] == pytest.approx(1, rel=0.1)


def test_old_background_messages_are_not_paused():
    runner = Runner(limits(), endless("background"), age_ms={"background": OLD_MS})
    runner.level = LoadLevel.SEVERE
    runner.run(30)
    assert runner.messages()["background"] > 19 * 25


def test_a_promoted_queue_falls_back_when_its_old_messages_are_gone():
    runner = Runner(limits(), endless(*LAMBDA), age_ms={"background": OLD_MS})
    runner.run(60)
    runner.age_ms["background"] = 0
    runner.log.clear()
    runner.run(120)
    counts = runner.messages()
    assert counts["deferred"] / counts["background"] == pytest.approx(4, rel=0.1)


def test_a_receive_that_could_not_be_made_changes_nothing():
    plan = ReceivePlan(limits())
    first = plan.next(running=0, level=LoadLevel.NORMAL, now_s=0)
    assert first is not None
    plan.withdrawn(first)
    assert plan.next(running=0, level=LoadLevel.NORMAL, now_s=0) == first


def test_without_a_free_slot_nothing_is_received():
    assert ReceivePlan(limits()).next(running=20, level=LoadLevel.NORMAL, now_s=0) is None


any_limits = st.builds(
    receive_limits,
    queues=st.sampled_from([LAMBDA, ECS]),
    slots=st.integers(1, 30),
    consumers=st.integers(1, 8),
    tier_weight=st.integers(1, 6),
)


@given(any_limits, LEVELS, st.data())
def test_slots_are_never_exceeded_and_always_come_back(given, level, data):
    plan, running, open_receives = ReceivePlan(given), 0, []
    for _ in range(data.draw(st.integers(1, 60))):
        now_s = float(data.draw(st.integers(0, 1_000)))
        receive = plan.next(running=running, level=level, now_s=now_s)
        if receive is not None:
            open_receives.append(receive)
        held = sum(each.limit for each in open_receives)
        assert running + held <= given.slots
        if open_receives and data.draw(st.booleans()):
            answered = open_receives.pop(data.draw(st.integers(0, len(open_receives) - 1)))
            count = data.draw(st.integers(0, answered.limit))
            if count == 0 and data.draw(st.booleans()):
                plan.withdrawn(answered)
            else:
                plan.answered(answered, [0] * count)
                running += count
        running -= data.draw(st.integers(0, running))
    for receive in open_receives:
        plan.answered(receive, [0])
    after = plan.next(running=0, level=LoadLevel.NORMAL, now_s=1e6)
    assert after is not None
    assert after.limit <= given.slots


@settings(max_examples=25, deadline=None)
@given(any_limits, st.data())
def test_no_queue_starves_under_endless_load_of_the_others(given, data):
    """The module's bound, with answers of any size, in any order, at any pace of the turns."""
    plan, running, open_receives = ReceivePlan(given), 0, []
    asked = dict.fromkeys(given.queues, 1)
    for _ in given.queues:  # the first receive of each finds out that it has messages
        first = plan.next(running=0, level=LoadLevel.NORMAL, now_s=0)
        plan.answered(first, [0])
    brought: dict = {queue: Counter() for queue in given.queues}
    for _ in range(100):
        while len(open_receives) < given.consumers:
            receive = plan.next(running=running, level=LoadLevel.NORMAL, now_s=0)
            if receive is None:
                break
            asked[receive.queue], brought[receive.queue] = receive.limit, Counter()
            open_receives.append(receive)
        index = data.draw(st.integers(0, len(open_receives) - 1))
        answered = open_receives.pop(index)
        count = data.draw(st.integers(1, answered.limit))
        plan.answered(answered, [0] * count)
        running += count
        for queue in given.queues:
            if queue != answered.queue:
                brought[queue][answered.queue] += count
                weight = given.tier_weight ** (_rank(answered.queue) - _rank(queue))
                limit = asked[queue] * weight + given.consumers * given.batch
                assert brought[queue][answered.queue] <= limit
        running -= data.draw(st.integers(0 if open_receives else 1, running))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([LoadLevel.MODERATE, LoadLevel.SEVERE]),
    st.integers(1, 30),
    st.integers(1, 8),
)
def test_even_a_paused_tier_is_served_under_endless_load_of_the_tier_above(level, slots, consumers):
    runner = Runner(limits(slots=slots, consumers=consumers), endless(*LAMBDA))
    runner.level = level
    runner.run(120, step_s=0.1)
    starts = runner.starts("background")
    # Its interval, or its weight where a few slots turn over more slowly.
    longest_s = max(5.0, 2 * (4 + consumers) / slots) + 2.0
    gaps = [b - a for a, b in zip([0.0, *starts], [*starts, 120.0], strict=True)]
    assert max(gaps) <= longest_s
    assert min(gaps[1:-1], default=5.0) >= 5.0
    assert runner.most <= slots


def _rank(queue: str) -> int:
    return {"background": 0, "deferred": 1}.get(queue, 2)
