"""A rate that all gateways share, seen from several of them."""

from __future__ import annotations

import msgspec

from services.gateway.shared_rate import HELD_FOR_MS, SharedRate
from shared.contracts.allowances import Rate
from shared.contracts.identifiers import MessageId, SessionId, SessionRef, TenantId, UserId
from tests.fakes.allowances import FakeAllowances
from tests.fakes.clock import FakeClock
from tests.fakes.ledger import FakeLedger

ANN = SessionRef(TenantId("shop"), UserId("ann"), SessionId("s1"))


class Gateways:
    def __init__(self, per_min: int, count: int = 2, keys_limit: int = 100) -> None:
        self.clock = FakeClock()
        self.ledger = FakeLedger(self.clock)
        self.allowances = FakeAllowances(self.ledger)
        self.rates = [
            SharedRate(
                "user_turns",
                Rate(per_min=per_min, burst=per_min),
                allowances=self.allowances,
                sessions=self.ledger,
                clock=self.clock,
                keys_limit=keys_limit,
            )
            for _ in range(count)
        ]
        self._sent = 0

    async def granted(self, gateway: int = 0, session: SessionRef = ANN) -> bool:
        self._sent += 1
        grant = await self.rates[gateway].take(session, MessageId(f"m{self._sent}"))
        return grant.wait_ms == 0

    @property
    def questions(self) -> int:
        return len(self.ledger.calls)


async def test_without_a_limit_nobody_is_asked() -> None:
    gateways = Gateways(0)
    assert [await gateways.granted() for _ in range(50)] == [True] * 50
    assert gateways.questions == 0


async def test_never_more_is_granted_than_the_rate_by_all_gateways_together() -> None:
    gateways = Gateways(20, count=3)
    granted = [await gateways.granted(number % 3) for number in range(60)]
    assert sum(granted) == 20


async def test_one_question_is_good_for_several_turns() -> None:
    gateways = Gateways(20)
    assert [await gateways.granted() for _ in range(20)] == [True] * 20
    assert gateways.questions == 5


async def test_a_refusal_is_one_question_each_time() -> None:
    gateways = Gateways(1)
    await gateways.granted()
    for number in range(1, 4):
        assert not await gateways.granted()
        assert gateways.questions == 1 + number


async def test_what_is_held_too_long_lapses() -> None:
    gateways = Gateways(20)
    await gateways.granted()
    gateways.clock.skip(HELD_FOR_MS / 1_000)
    await gateways.granted()
    assert gateways.questions == 2


async def test_what_is_given_back_is_used_before_anybody_is_asked() -> None:
    gateways = Gateways(1)
    await gateways.granted()
    for _ in range(3):
        gateways.rates[0].give_back(ANN)
    assert await gateways.granted()
    assert gateways.questions == 1
    assert not await gateways.granted()


async def test_giving_back_for_somebody_unknown_is_nothing() -> None:
    gateways = Gateways(1)
    gateways.rates[0].give_back(ANN)
    await gateways.granted()
    assert not await gateways.granted()


async def test_users_beyond_the_bound_are_asked_about_again() -> None:
    gateways = Gateways(20, keys_limit=1)
    bob = msgspec.structs.replace(ANN, user=UserId("bob"))
    for session in (ANN, bob, ANN):
        await gateways.granted(session=session)
    assert gateways.questions == 3
