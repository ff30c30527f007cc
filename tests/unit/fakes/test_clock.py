from __future__ import annotations

import asyncio

from tests.fakes.clock import FakeClock, FakeRandomness


async def test_sleepers_wake_in_order_each_at_its_own_moment() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *durations_s: float) -> None:
        for duration_s in durations_s:
            await clock.sleep(duration_s)
            woken.append((name, clock.monotonic_s()))

    tasks = [
        asyncio.create_task(sleeper("late", 3)),
        asyncio.create_task(sleeper("twice", 1, 1)),
    ]
    await clock.advance(2.5)
    assert woken == [("twice", 1.0), ("twice", 2.0)]
    assert (clock.monotonic_s(), clock.sleepers) == (2.5, 1)
    await clock.advance(0.5)
    assert woken[-1] == ("late", 3.0)
    await asyncio.gather(*tasks)


async def test_cancelled_sleeper_is_passed_over() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    task.cancel()
    await clock.advance(2)
    assert task.cancelled()


async def test_skip_moves_time_and_wakes_nobody() -> None:
    clock = FakeClock(start_ms=1_000)
    task = asyncio.create_task(clock.sleep(1))
    await clock.advance(0)
    clock.skip(5)
    assert (clock.now_ms(), task.done()) == (6_000, False)
    await clock.advance(0)
    await task


async def test_auto_clock_jumps_to_the_next_sleeper_when_all_rest() -> None:
    clock = FakeClock(auto=True)
    order: list[str] = []

    async def sleeper(name: str, duration_s: float) -> None:
        await clock.sleep(duration_s)
        order.append(name)

    await asyncio.gather(sleeper("b", 20), sleeper("a", 10), sleeper("c", 30))
    assert (order, clock.monotonic_s()) == (["a", "b", "c"], 30)


def test_seeded_chance_repeats() -> None:
    one, two = FakeRandomness(7), FakeRandomness(7)
    assert one.token_bytes(10) == two.token_bytes(10)
    assert one.uniform(0, 1) == two.uniform(0, 1)
