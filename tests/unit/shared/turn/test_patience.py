"""Trying again: growing waits, an end, and no second try of what was refused."""

from __future__ import annotations

import pytest

from shared.errors import ConfigurationError, DependencyUnavailable, ItemTooLarge
from shared.turn.patience import Patience
from tests.fakes.clock import FakeClock, FakeRandomness


class Work:
    """Fails as told, then answers `done`; `tried_at_s` holds when it was tried."""

    def __init__(self, clock: FakeClock, *failures: Exception) -> None:
        self.clock = clock
        self.failures = list(failures)
        self.tried_at_s: list[float] = []

    async def __call__(self) -> str:
        self.tried_at_s.append(self.clock.monotonic_s())
        if self.failures:
            raise self.failures.pop(0)
        return "done"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(auto=True)


@pytest.fixture
def patience(clock: FakeClock) -> Patience:
    return Patience(
        work="test",
        clock=clock,
        randomness=FakeRandomness(),
        first_wait_ms=100,
        longest_wait_ms=1_000,
    )


def away(times: int) -> list[Exception]:
    return [DependencyUnavailable(f"away {number}") for number in range(times)]


async def test_what_can_be_done_is_done_without_a_wait(
    clock: FakeClock, patience: Patience
) -> None:
    assert await patience.until_done(Work(clock), limit_ms=0) == "done"
    assert clock.monotonic_s() == 0


async def test_waits_grow_to_the_longest_and_never_below_its_half(
    clock: FakeClock, patience: Patience
) -> None:
    work = Work(clock, *away(7))

    assert await patience.until_done(work, limit_ms=60_000) == "done"

    waits = [later - at for at, later in zip(work.tried_at_s, work.tried_at_s[1:], strict=False)]
    for wait, longest_s in zip(waits, (0.1, 0.2, 0.4, 0.8, 1, 1, 1), strict=True):
        assert longest_s / 2 <= wait <= longest_s


async def test_the_last_error_is_raised_before_the_limit_without_another_wait(
    clock: FakeClock, patience: Patience
) -> None:
    work = Work(clock, *away(99))

    with pytest.raises(DependencyUnavailable) as raised:
        await patience.until_done(work, limit_ms=3_000)

    assert str(raised.value) == f"away {len(work.tried_at_s) - 1}"
    assert clock.monotonic_s() == work.tried_at_s[-1] < 3


async def test_without_patience_there_is_one_try(clock: FakeClock, patience: Patience) -> None:
    work = Work(clock, *away(2))

    with pytest.raises(DependencyUnavailable):
        await patience.until_done(work, limit_ms=0)

    assert work.tried_at_s == [0]


@pytest.mark.parametrize("error", [ConfigurationError("no"), ItemTooLarge("no"), ValueError("bug")])
async def test_what_asking_again_cannot_mend_is_raised_at_once(
    clock: FakeClock, patience: Patience, error: Exception
) -> None:
    work = Work(clock, error)

    with pytest.raises(type(error)):
        await patience.until_done(work, limit_ms=60_000)

    assert work.tried_at_s == [0]
