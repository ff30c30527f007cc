from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.backoff import LONGEST_DELAY_MS, full_jitter_ms


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
@pytest.mark.case("B-26")
def test_delay_stays_between_nothing_and_the_longest(failures: int, chance: float) -> None:
    assert 0 <= full_jitter_ms(failures, chance) <= LONGEST_DELAY_MS


@pytest.mark.case("B-26")
def test_two_thousand_clients_do_not_come_back_on_one_beat() -> None:
    delays = {full_jitter_ms(6, number / 2_000) for number in range(2_000)}
    assert len(delays) == 2_000


def test_delay_doubles_its_ceiling_with_every_failure() -> None:
    ceilings = [full_jitter_ms(failures, 0.999999) for failures in range(8)]
    assert ceilings[:3] == [499, 999, 1999]
    assert ceilings[-1] == LONGEST_DELAY_MS - 1
    assert full_jitter_ms(5, 0.0) == 0
