"""One process's part of the shared budget: the advance, the line, patience, corrections, and a ledger that is away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.contracts.model_budget import ProviderAllowance
from shared.turn.model_budget import (
    ADVANCE_KEPT_MS,
    ASKED_AT_ONCE,
    UNCERTAIN_WAIT_MS,
    BudgetShort,
    ModelBudget,
    Ticket,
)
from tests.fakes.budget_window import FakeBudgetWindow
from tests.fakes.clock import FakeClock, settle


class World:
    """Some processes over one window."""

    def __init__(
        self, requests: int = 100, tokens: int = 100_000, *, holds_advance: bool = True
    ) -> None:
        self.clock = FakeClock()
        self.window = FakeBudgetWindow()
        self.requests, self.tokens = requests, tokens
        self.budget = self.make("w1", holds_advance=holds_advance)

    def make(self, worker: str, *, holds_advance: bool = True) -> ModelBudget:
        return ModelBudget(
            self.window,
            self.clock,
            worker=worker,
            requests_per_min=self.requests,
            tokens_per_min=self.tokens,
            holds_advance=holds_advance,
        )

    @asynccontextmanager
    async def running(self, *others: ModelBudget) -> Any:
        loops = [asyncio.create_task(budget.run()) for budget in (self.budget, *others)]
        await self.clock.advance(0)
        try:
            yield self
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    def ask(self, tokens: int = 100, **options: Any) -> asyncio.Task[Ticket]:
        return asyncio.create_task(self.budget.reserve(tokens, **options))

    async def ask_for(self, number: int, tokens: int = 100, **options: Any) -> list[Any]:
        asked = [self.ask(tokens, **options) for _ in range(number)]
        await settle()
        return asked


def granted(asked: list[asyncio.Task[Ticket]]) -> int:
    return sum(task.done() and task.exception() is None for task in asked)


async def test_a_call_takes_from_the_advance_without_asking_anybody():
    world = World()
    async with world.running():
        exchanges = len(world.window.calls)
        ticket = await world.budget.reserve(100)

        assert len(world.window.calls) == exchanges
        assert ticket.tokens == 100


async def test_exchanges_follow_time_and_not_the_number_of_calls():
    world = World(requests=4_000, tokens=2_000_000)
    async with world.running():
        for _ in range(300):
            ticket = await world.budget.reserve(1_000)
            world.budget.settle(ticket, 400)
            await world.clock.advance(0.02)

        # Six seconds at fifty calls a second: the pace has to be learnt first.
        assert len(world.window.calls) <= 25
        await world.clock.advance(3)
        used = sum(charge.requests for charge in world.window._cells.values())
        assert used == 300
        assert sum(charge.tokens for charge in world.window._cells.values()) == 300 * 400


async def test_without_limits_nobody_is_asked():
    world = World(requests=0, tokens=0)
    async with world.running():
        ticket = await world.budget.reserve(10**9)
        world.budget.settle(ticket, 5)
        world.budget.note(ProviderAllowance(requests_left=0, pause_ms=9_000))
        await world.clock.advance(5)

        assert world.window.calls == []
        assert world.budget.expected_wait_ms() == 0


async def test_a_short_budget_serves_the_line_in_order_as_charges_lapse():
    world = World(requests=10)
    async with world.running():
        asked = await world.ask_for(14)
        await world.clock.advance(1)
        assert granted(asked[:10]) == 10
        assert granted(asked[10:]) == 0
        assert world.budget.expected_wait_ms() > 58_000
        await world.clock.advance(60)
        assert granted(asked) == 14
        assert world.budget.expected_wait_ms() == 0


async def test_while_tokens_are_short_the_expected_wait_is_what_others_wait_already():
    world = World(tokens=2_000)
    async with world.running():
        await world.ask_for(1, 1_900)
        await world.clock.advance(0.1)
        assert world.budget.expected_wait_ms() == 0
        await world.ask_for(1, 1_900)
        await world.clock.advance(8)

        assert world.budget.expected_wait_ms() == 8_000


async def test_interactive_calls_pass_detached_ones_that_wait():
    world = World(requests=10)
    async with world.running():
        detached = await world.ask_for(12, is_detached=True)
        await world.clock.advance(1)
        assert granted(detached) == 10
        interactive = await world.ask_for(5)
        await world.clock.advance(60)

        assert granted(interactive) == 5
        assert granted(detached) == 12


async def test_an_interactive_call_is_asked_for_at_once_behind_waiting_detached_ones():
    world = World(requests=20)
    async with world.running():
        # Interactive work of another process leaves a tenth to detached calls while it waits.
        other = world.make("w2")
        await world.ask_for(21, is_detached=True)
        await world.clock.advance(1)
        world.window._cells.clear()
        await world.clock.advance(0.1)
        asked = await world.ask_for(1)
        await world.clock.advance(0.01)

        assert granted(asked) == 1
        assert other.expected_wait_ms() == 0


async def test_many_are_asked_for_at_once_and_the_rest_right_after():
    world = World()
    async with world.running():
        asked = await world.ask_for(ASKED_AT_ONCE + 10)
        await world.clock.advance(0.01)

        assert granted(asked) == ASKED_AT_ONCE + 10


async def test_patience_ends_with_the_wait_that_is_known():
    world = World(requests=2)
    async with world.running():
        await world.ask_for(2)
        await world.clock.advance(0.1)
        [impatient] = await world.ask_for(1, patience_ms=4_000)
        await world.clock.advance(0.1)

        assert isinstance(impatient.exception(), BudgetShort)
        assert 59_000 <= impatient.exception().wait_ms <= 60_500


async def test_while_tokens_are_short_patience_is_kept_for_what_comes_back():
    world = World(tokens=2_000)
    async with world.running():
        [first] = await world.ask_for(1, 1_900)
        await world.clock.advance(0.1)
        impatient, patient = (
            await world.ask_for(1, 1_900, patience_ms=4_000),
            await world.ask_for(1),
        )
        await world.clock.advance(3)
        assert not impatient[0].done()
        world.budget.settle(first.result(), 100)
        await world.clock.advance(1)

        assert granted(impatient) == 1
        assert granted(patient) == 0


async def test_patience_that_is_over_tells_a_modest_wait_while_tokens_may_come_back():
    world = World(tokens=2_000)
    async with world.running():
        await world.ask_for(1, 1_900)
        await world.clock.advance(0.1)
        [impatient] = await world.ask_for(1, 1_900, patience_ms=4_000)
        await world.clock.advance(5)

        assert impatient.exception().wait_ms == UNCERTAIN_WAIT_MS


async def test_what_was_set_aside_and_not_used_comes_back_with_the_next_exchange():
    world = World(tokens=2_000)
    async with world.running():
        ticket = await world.budget.reserve(1_000)
        second = await world.budget.reserve(900)
        [third] = await world.ask_for(1, 1_200)
        await world.clock.advance(1)
        assert not third.done()
        world.budget.settle(ticket, 200)
        world.budget.settle(second, 450)
        world.budget.settle(second, 900)  # exactly what is charged: nothing to correct
        await world.clock.advance(1)

        assert third.done()


async def test_a_correction_waits_until_its_charge_has_been_told():
    world = World()
    async with world.running():
        ticket = await world.budget.reserve(500)
        world.budget.settle(ticket, 100)
        await world.budget.tick()
        await world.budget.tick()

        assert [len(call.corrections) for call in world.window.calls[-2:]] == [0, 1]
        assert sum(charge.tokens for charge in world.window._cells.values()) == 100


async def test_a_call_larger_than_the_advance_waits_for_an_exchange():
    world = World()
    async with world.running():
        [asked] = await world.ask_for(1, 90_000)
        await world.clock.advance(0.01)
        assert asked.done()


async def test_who_leaves_the_line_costs_nothing():
    world = World(requests=1)
    async with world.running():
        [first] = await world.ask_for(1)
        await world.clock.advance(0.1)
        [leaver] = await world.ask_for(1)
        leaver.cancel()
        await settle()
        await world.clock.advance(61)
        [after] = await world.ask_for(1)
        await world.clock.advance(0.1)

        assert leaver.cancelled()
        assert granted([first, after]) == 2


@pytest.mark.parametrize("passes", [0, 1])
async def test_what_was_granted_to_somebody_who_left_meanwhile_is_given_back(passes):
    world = World(tokens=1_000, holds_advance=False)
    leaver = world.ask(900)
    await settle()
    ticking = asyncio.create_task(world.budget.tick())
    for _ in range(passes):
        await asyncio.sleep(0)
    leaver.cancel()
    await ticking
    await settle()
    await world.budget.flush()

    assert leaver.cancelled()
    assert sum(charge.tokens for charge in world.window._cells.values()) == 0


async def test_a_granted_ticket_is_given_back_when_its_caller_is_cancelled_in_the_same_moment():
    world = World(tokens=1_000, holds_advance=False)
    leaver = world.ask(900)
    await settle()
    await world.budget.tick()  # the ticket is there, its task has not run yet
    leaver.cancel()
    await settle()
    await world.budget.flush()

    assert leaver.cancelled()
    assert sum(charge.tokens for charge in world.window._cells.values()) == 0


async def test_whose_patience_ends_as_he_leaves_is_no_error():
    world = World(requests=1, holds_advance=False)
    await world.ask_for(1)
    await world.budget.tick()
    [leaver] = await world.ask_for(1, patience_ms=100)
    leaver.cancel()
    await world.budget.tick()
    await settle()

    assert leaver.cancelled()


async def test_whose_patience_ended_before_he_left_is_no_error():
    world = World(requests=1, holds_advance=False)
    await world.ask_for(1)
    await world.budget.tick()
    [leaver] = await world.ask_for(1, patience_ms=100)
    await world.budget.tick()
    leaver.cancel()
    await settle()

    assert leaver.cancelled()


async def test_calls_that_come_while_the_ledger_is_asked_take_from_the_new_advance():
    world = World()
    async with world.running():
        await world.clock.advance(1)
        late: list[asyncio.Task[Ticket]] = []
        exchange = world.window.exchange

        async def slow(asked):
            grant = await exchange(asked)
            late.append(world.ask())
            await settle()
            return grant

        world.window.exchange = slow
        await world.budget.tick()
        world.window.exchange = exchange
        await settle(2)

        assert granted(late) == 1


async def test_an_advance_too_old_to_be_kept_for_us_is_not_used():
    world = World()
    await world.budget.tick()
    world.clock.skip(ADVANCE_KEPT_MS / 1000)
    [asked] = await world.ask_for(1)

    assert not asked.done()
    asked.cancel()


async def test_a_process_that_holds_no_advance_asks_only_when_it_has_calls_or_news():
    world = World(holds_advance=False)
    async with world.running():
        await world.clock.advance(10)
        assert world.window.calls == []
        ticket = await world.budget.reserve(500)
        assert len(world.window.calls) == 1
        world.budget.settle(ticket, 100)
        await world.clock.advance(2)

        assert len(world.window.calls) == 2
        assert sum(charge.tokens for charge in world.window._cells.values()) == 100


async def test_a_flush_tells_what_is_not_told_yet_and_else_nothing():
    world = World(holds_advance=False)
    waiting = world.ask(500)
    await settle()
    await world.budget.tick()
    await world.budget.flush()
    assert len(world.window.calls) == 1
    world.budget.settle(await waiting, 100)
    await world.budget.flush()

    assert len(world.window.calls) == 2


async def test_a_refusal_by_the_provider_stops_all_processes():
    world = World()
    other = world.make("w2")
    async with world.running(other):
        world.budget.note(ProviderAllowance(requests_left=0, pause_ms=7_000))
        [mine] = await world.ask_for(1)
        await world.clock.advance(1.5)
        theirs = asyncio.create_task(other.reserve(100))
        await world.clock.advance(5)
        assert not mine.done()
        assert not theirs.done()
        await world.clock.advance(61)

        assert mine.done()
        assert theirs.done()


async def test_what_the_provider_said_last_counts_and_no_pause_is_forgotten():
    world = World()
    world.budget.note(ProviderAllowance(requests_left=50, pause_ms=3_000))
    world.budget.note(ProviderAllowance(requests_left=40, tokens_left=9))
    world.budget.note(ProviderAllowance())
    await world.budget.tick()

    told = world.window.calls[0].allowance
    assert told == ProviderAllowance(requests_left=40, tokens_left=9, pause_ms=3_000)


async def test_without_the_ledger_the_process_spends_half_of_its_even_part():
    world = World(requests=60, tokens=60_000)
    other = world.make("w2")
    async with world.running(other):
        await world.clock.advance(1)
        world.window.available = False
        asked = await world.ask_for(100)
        await world.clock.advance(60)
        alone = granted(asked)
        world.window.available = True
        await world.clock.advance(2)
        told = sum(charge.requests for charge in world.window._cells.values())

        # Two processes: a quarter of sixty, and the advance that was held.
        assert 14 <= alone <= 18
        assert told >= alone
        for task in asked:
            task.cancel()
        await settle()


async def test_a_process_that_never_saw_the_ledger_is_more_careful_still():
    world = World(requests=320)
    world.window.available = False
    async with world.running():
        asked = await world.ask_for(100)
        await world.clock.advance(60)

        assert 9 <= granted(asked) <= 10
        for task in asked:
            task.cancel()
        await settle()


async def test_a_refund_that_may_have_got_lost_is_not_told_twice_but_a_debit_is():
    world = World(holds_advance=False)
    refunded, debited = world.ask(500), world.ask(500)
    await settle()
    await world.budget.tick()
    world.budget.settle(await refunded, 100)
    await world.budget.flush()
    more = world.ask(500)
    await settle()
    await world.budget.tick()
    world.window.available = False
    world.budget.settle(await debited, 700)
    await world.budget.tick()
    world.budget.settle(await more, 100)
    await world.budget.tick()
    world.window.available = True
    await world.budget.flush()

    assert sum(charge.tokens for charge in world.window._cells.values()) == 100 + 700 + 500


async def test_news_of_the_provider_outlive_an_exchange_that_failed_without_their_pause():
    world = World()
    world.window.available = False
    world.budget.note(ProviderAllowance(requests_left=5, pause_ms=1_000))
    await world.budget.tick()
    world.window.available = True
    await world.budget.tick()

    assert world.window.calls[-1].allowance == ProviderAllowance(requests_left=5)


async def test_newer_news_replace_those_of_an_exchange_that_failed():
    world = World()
    exchange = world.window.exchange

    async def failing(asked):
        world.budget.note(ProviderAllowance(requests_left=4))
        world.window.available = False
        return await exchange(asked)

    world.budget.note(ProviderAllowance(requests_left=5))
    world.window.exchange = failing
    await world.budget.tick()
    world.window.exchange, world.window.available = exchange, True
    await world.budget.tick()

    assert world.window.calls[-1].allowance == ProviderAllowance(requests_left=4)
