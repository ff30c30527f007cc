"""Who may open a socket: the budgets of a gateway, and what those beyond them are told."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.handshake import RETRY_MAX_S, Admitted, Denied, Handshakes
from services.gateway.identity import Identities
from tests.fakes.clock import FakeClock, FakeRandomness


def handshakes(**budgets: int) -> Handshakes:
    clock = FakeClock()
    return Handshakes(
        identities=Identities(mode="dev", secret="", audience="a", issuer="i", clock=clock),
        allowed_origins=(),
        trusted_proxies=0,
        address_handshakes_per_s=budgets.get("address", 0),
        new_handshakes_per_s=budgets.get("new", 0),
        returning_handshakes_per_s=budgets.get("returning", 0),
        is_draining=lambda: False,
        clock=clock,
        randomness=FakeRandomness(),
    )


def scope(query: bytes = b"", address: str = "192.0.2.1") -> dict[str, Any]:
    return {"headers": [], "client": (address, 1), "query_string": query, "subprotocols": []}


BACK = b"session_id=s1"


@pytest.mark.case("B-26")
def test_those_who_return_have_a_budget_of_their_own() -> None:
    judged = handshakes(new=2, returning=3)
    new = [isinstance(judged.judge(scope()), Admitted) for _ in range(4)]
    back = [isinstance(judged.judge(scope(BACK)), Admitted) for _ in range(4)]
    assert (new, back) == ([True, True, False, False], [True, True, True, False])


@pytest.mark.case("B-26")
def test_a_storm_is_told_to_come_back_at_different_times() -> None:
    judged = handshakes(returning=100)
    told = [judged.judge(scope(BACK)) for _ in range(2_000)]
    denied = [each for each in told if isinstance(each, Denied)]
    assert len(denied) == 1_900
    assert {each.status for each in denied} == {503}
    seconds = [each.retry_after_s or 0 for each in denied]
    assert min(seconds) >= 1
    assert max(seconds) <= RETRY_MAX_S
    # Each second is told to as many as it admits.
    assert max(seconds.count(second) for second in set(seconds)) <= 101


def test_a_refused_stranger_uses_up_nobodys_budget() -> None:
    judged = handshakes(returning=1)
    assert isinstance(judged.judge(scope(b"session_id=not%20one")), Denied)
    assert isinstance(judged.judge(scope(BACK)), Admitted)


def test_an_address_that_knocks_too_often_is_denied_alone() -> None:
    judged = handshakes(address=1)
    assert isinstance(judged.judge(scope()), Admitted)
    denied = judged.judge(scope())
    assert isinstance(denied, Denied)
    assert denied.retry_after_s in (1, 2)
    assert isinstance(judged.judge(scope(address="192.0.2.2")), Admitted)
