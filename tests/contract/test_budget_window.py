"""What every BudgetWindow does, asked of the fake and of Valkey."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shared.adapters.redis_budget_window import RedisBudgetWindow
from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_keys import BUDGET, BUDGET_LINES, BUDGET_SEEN
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.model_budget import (
    BudgetCorrection,
    BudgetExchange,
    BudgetGrant,
    BudgetLine,
    ProviderAllowance,
)
from shared.errors import DependencyUnavailable
from tests.fakes.budget_window import FakeBudgetWindow
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.valkey import WatchedRedisClient

START_MS = 1_700_000_000_000


class Rig:
    """A window of 10 requests and 1,000 tokens a minute, and a clock that the exchanges carry."""

    def __init__(self, window: Any) -> None:
        self.window = window
        self.now_ms = START_MS

    async def ask(
        self, *tokens: int, worker: str = "w1", detached: bool = False, **changes: Any
    ) -> BudgetGrant:
        line = BudgetLine(tokens=tokens, since_ms=changes.pop("since_ms", self.now_ms))
        fields: dict[str, Any] = {
            "requests_per_min": 10,
            "tokens_per_min": 1_000,
            "detached" if detached else "interactive": line,
        }
        return await self.window.exchange(
            BudgetExchange(worker=worker, now_ms=self.now_ms, **(fields | changes))
        )


def redis_client(url: str) -> WatchedRedisClient:
    return WatchedRedisClient(
        url, clock=SystemClock(), randomness=SystemRandomness(), timeout_ms=5_000, connections=2
    )


@pytest.fixture(params=["fake", "valkey"])
async def rig(request):
    if request.param == "fake":
        yield Rig(FakeBudgetWindow())
        return
    client = redis_client(request.getfixturevalue("valkey_url"))
    await client.run([("DEL", BUDGET, BUDGET_SEEN, *BUDGET_LINES)])
    yield Rig(RedisBudgetWindow(client))
    await client.aclose()


async def test_calls_go_in_their_order_as_far_as_the_limits_reach(rig):
    grant = await rig.ask(300, 300, 300, 300)

    assert grant.interactive == 3
    assert grant.detached == 0


async def test_requests_are_limited_like_tokens(rig):
    assert (await rig.ask(*[1] * 12)).interactive == 10
    assert (await rig.ask(1)).interactive == 0


async def test_a_charge_lapses_after_its_minute_and_not_before(rig):
    await rig.ask(1_000)
    rig.now_ms += 30_000
    refused = await rig.ask(1_000)
    rig.now_ms += refused.wait_ms - 250
    early = await rig.ask(1_000)
    rig.now_ms += 250
    granted = await rig.ask(1_000)

    assert refused.interactive == early.interactive == 0
    assert 30_000 <= refused.wait_ms <= 30_250
    assert granted.interactive == 1


async def test_what_was_not_used_comes_back_into_the_cell_that_was_charged(rig):
    grant = await rig.ask(900)
    rig.now_ms += 10_000
    refund = BudgetCorrection(cell=grant.cell, kind="interactive", tokens=-800)
    second = await rig.ask(900, corrections=(refund,))
    rig.now_ms += 50_250
    third = await rig.ask(900)

    assert second.interactive == 1
    # The first call has lapsed with its refund, the second has not.
    assert third.interactive == 0


async def test_a_correction_of_a_lapsed_charge_changes_nothing(rig):
    grant = await rig.ask(900)
    rig.now_ms += 61_000
    refund = BudgetCorrection(cell=grant.cell, kind="interactive", tokens=-800)

    assert (await rig.ask(600, 600, corrections=(refund,))).interactive == 1


async def test_an_advance_counts_until_it_is_given_back(rig):
    first = await rig.ask(advance_requests=2, advance_tokens=400)
    second = await rig.ask(700, worker="w2")
    # With somebody waiting nobody gets an advance, so this gives it back.
    returned = await rig.ask(advance_requests=2, advance_tokens=400)
    third = await rig.ask(700, worker="w2")

    assert (first.advance_requests, first.advance_tokens) == (2, 400)
    assert second.interactive == 0
    assert returned.advance_requests == 0
    assert third.interactive == 1


async def test_an_advance_takes_a_small_part_of_what_is_free(rig):
    await rig.ask(worker="w2")
    grant = await rig.ask(advance_requests=9, advance_tokens=9_000)
    tiny = await rig.ask(*[1] * 8, advance_requests=1, advance_tokens=1)

    assert (grant.advance_requests, grant.advance_tokens) == (2, 250)
    assert tiny.advance_requests == 0


async def test_use_of_an_advance_is_charged_when_it_is_told(rig):
    await rig.ask(advance_requests=2, advance_tokens=400)
    rig.now_ms += 1_000
    await rig.ask(used_requests=1, used_tokens=300)

    assert (await rig.ask(701)).interactive == 0
    assert (await rig.ask(700)).interactive == 1


async def test_what_a_dead_process_held_counts_as_used(rig):
    await rig.ask(worker="dead", advance_requests=5, advance_tokens=400)
    rig.now_ms += 10_000
    grant = await rig.ask(700)

    assert grant.interactive == 0
    assert grant.workers == 1
    assert grant.wait_ms > 59_000


async def test_interactive_calls_go_before_detached_ones(rig):
    grant = await rig.ask(*[1] * 6, detached=True, interactive=BudgetLine(tokens=(1,) * 6))

    assert grant.interactive == 6
    assert grant.detached == 1


async def test_detached_calls_keep_a_share_while_interactive_ones_wait(rig):
    await rig.ask(*[1] * 20, worker="batch", detached=True)
    rig.now_ms += 60_000
    waiting = await rig.ask(*[1] * 10, worker="batch", detached=True)
    rig.now_ms += 250
    interactive = await rig.ask(*[1] * 20)
    batch = await rig.ask(*[1] * 10, worker="batch", detached=True)

    assert waiting.detached == 0
    assert (interactive.interactive, batch.detached) == (9, 1)


async def test_either_class_may_use_everything_while_it_is_alone(rig):
    assert (await rig.ask(*[1] * 20, detached=True)).detached == 10


async def test_whoever_waits_longest_is_served_before_later_ones(rig):
    await rig.ask(500, worker="w2")
    await rig.ask(600, worker="large")  # waits
    rig.now_ms += 500
    small = await rig.ask(100, worker="small")
    rig.now_ms += 59_750
    await rig.ask(600, worker="large", since_ms=START_MS)
    late = await rig.ask(100, worker="small")

    assert small.interactive == 0
    assert late.interactive == 1


async def test_a_process_that_died_in_the_line_holds_nobody_up(rig):
    await rig.ask(500, worker="w2")
    await rig.ask(600, worker="dead")
    rig.now_ms += 2_000

    assert (await rig.ask(100, worker="small")).interactive == 1


async def test_a_call_larger_than_the_limit_takes_an_empty_window(rig):
    assert (await rig.ask(5_000)).interactive == 1
    assert (await rig.ask(1)).interactive == 0


async def test_no_limit_of_one_kind_leaves_the_other(rig):
    assert (await rig.ask(*[9_000] * 12, tokens_per_min=0)).interactive == 10
    assert (await rig.ask(*[100] * 12, worker="w2", requests_per_min=0)).interactive == 0


async def test_the_provider_may_lower_the_limits(rig):
    told = ProviderAllowance(requests_limit=4, tokens_limit=1_000)

    assert (await rig.ask(*[1] * 8, allowance=told)).interactive == 4
    rig.now_ms += 600_000
    assert (await rig.ask(*[1] * 12, since_ms=rig.now_ms)).interactive == 10


async def test_a_limit_that_is_off_stays_off_whatever_the_provider_says(rig):
    told = ProviderAllowance(requests_limit=4, requests_left=1, tokens_limit=300, tokens_left=10)
    off = {"requests_per_min": 0, "tokens_per_min": 0}

    assert (await rig.ask(*[100] * 8, allowance=told, **off)).interactive == 8


async def test_the_provider_does_not_raise_them(rig):
    told = ProviderAllowance(requests_limit=400, requests_left=400, tokens_limit=10**6)

    assert (await rig.ask(*[1] * 12, allowance=told)).interactive == 10


async def test_what_others_used_of_the_quota_counts_for_a_minute(rig):
    told = ProviderAllowance(requests_left=3, tokens_left=1_000)

    assert (await rig.ask(*[1] * 8, allowance=told)).interactive == 3
    rig.now_ms += 60_250
    assert (await rig.ask(*[1] * 8)).interactive == 8


async def test_tokens_left_count_like_requests_left(rig):
    told = ProviderAllowance(tokens_left=150)

    assert (await rig.ask(100, 100, allowance=told)).interactive == 1


async def test_a_refusal_by_the_provider_stops_all_until_it_may_be_asked_again(rig):
    await rig.ask(allowance=ProviderAllowance(pause_ms=7_000))
    refused = await rig.ask(1, worker="w2", advance_requests=1, advance_tokens=1)
    rig.now_ms += 7_000

    assert refused.interactive == refused.advance_requests == 0
    assert refused.wait_ms == refused.next_wait_ms == 7_000
    assert (await rig.ask(1, worker="w2")).interactive == 1


async def test_the_wait_of_the_next_call_counts_the_requests_before_it(rig):
    idle = await rig.ask()
    first = await rig.ask(*[1] * 9)
    full = await rig.ask(1)
    rig.now_ms += 10_000
    line = await rig.ask(1, 1)
    flood = await rig.ask(*[1] * 25)

    assert idle.next_wait_ms == first.next_wait_ms == 0
    assert 60_000 <= full.next_wait_ms <= 60_250
    assert 50_000 <= line.next_wait_ms <= 50_250
    assert 120_000 <= flood.next_wait_ms <= 180_000


async def test_only_what_is_never_given_back_makes_a_wait_certain(rig):
    await rig.ask(*[50] * 10)
    rig.now_ms += 10_000
    requests_short = await rig.ask(50)
    tokens_short = await rig.ask(600, requests_per_min=20)

    assert 50_000 <= requests_short.certain_wait_ms <= 50_250
    assert tokens_short.certain_wait_ms == 0
    assert tokens_short.wait_ms >= 50_000


async def test_a_clock_far_ahead_blocks_nobody_for_long(rig):
    rig.now_ms += 3_600_000
    await rig.ask(1_000, worker="ahead")
    rig.now_ms -= 3_600_000

    assert (await rig.ask(1_000)).interactive == 1


async def test_a_clock_a_little_behind_is_no_reason_to_forget(rig):
    await rig.ask(1_000)
    rig.now_ms -= 3_000

    assert (await rig.ask(1)).interactive == 0


async def test_a_long_silence_leaves_nothing(rig):
    await rig.ask(1_000)
    rig.now_ms += 86_400_000

    assert (await rig.ask(1_000)).interactive == 1


async def test_a_ledger_that_cannot_be_asked_says_so():
    client = RedisClient(
        "redis://127.0.0.1:1/0",
        clock=FakeClock(auto=True),
        randomness=FakeRandomness(),
        timeout_ms=500,
        connections=1,
    )
    with pytest.raises(DependencyUnavailable):
        await Rig(RedisBudgetWindow(client)).ask(1)


async def test_fake_and_script_answer_alike_whatever_comes(valkey_url):
    client = redis_client(valkey_url)
    await client.run([("DEL", BUDGET, BUDGET_SEEN, *BUDGET_LINES)])
    chance = random.Random(7)
    rigs = [Rig(FakeBudgetWindow()), Rig(RedisBudgetWindow(client))]
    for number in range(400):
        step_ms = chance.choice([0, 20, 250, 900, 4_000, 15_000])
        worker = f"w{chance.randrange(4)}"
        line = [chance.choice([20, 150, 400]) for _ in range(chance.randrange(5))]
        batch = [chance.choice([20, 150]) for _ in range(chance.randrange(3))]
        cell = (rigs[0].now_ms - chance.randrange(70_000)) // 250
        changes: dict[str, Any] = {
            "detached": BudgetLine(tokens=tuple(batch), since_ms=rigs[0].now_ms - 100),
            "advance_requests": chance.randrange(3),
            "advance_tokens": chance.randrange(300),
            "used_requests": chance.randrange(2),
            "used_tokens": chance.randrange(50),
        }
        if chance.random() < 0.2:
            changes["corrections"] = (
                BudgetCorrection(cell=cell, kind="detached", tokens=-10),
                BudgetCorrection(cell=cell + 1, kind="interactive", tokens=5),
            )
        if chance.random() < 0.1:
            changes["allowance"] = ProviderAllowance(
                requests_limit=chance.choice([None, 6]),
                requests_left=chance.choice([None, 2]),
                tokens_limit=chance.choice([None, 800]),
                tokens_left=chance.choice([None, 300]),
                pause_ms=chance.choice([0, 0, 2_000]),
            )
        answers = []
        for rig in rigs:
            rig.now_ms += step_ms
            line_of = {"interactive": BudgetLine(tokens=tuple(line), since_ms=rig.now_ms - 50)}
            answers.append(await rig.ask(worker=worker, **(line_of | changes)))
        assert answers[0] == answers[1], f"exchange {number}"
    await client.aclose()


async def test_an_exchange_is_one_round_trip_and_its_keys_do_not_stay(valkey_url):
    client = redis_client(valkey_url)
    rig = Rig(RedisBudgetWindow(client))
    await rig.ask(1)
    client.round_trips = 0
    await rig.ask(*[400] * 5, advance_requests=1, advance_tokens=1)
    assert client.round_trips == 1
    lives = await client.run([("PTTL", key) for key in (BUDGET, BUDGET_SEEN, BUDGET_LINES[0])])
    await client.aclose()

    assert all(0 < life <= 600_000 for life in lives)
