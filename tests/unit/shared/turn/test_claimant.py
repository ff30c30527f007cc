"""Becoming the producer of a turn, also when the ledger's answer gets lost."""

from __future__ import annotations

import pytest

from shared.contracts.ledger import ClaimAnswer, Claimed
from shared.errors import DependencyUnavailable
from shared.turn.claimant import Claimant
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.turn_world import TurnWorld


def claimant_of(world: TurnWorld) -> Claimant:
    clock = FakeClock(auto=True)
    return Claimant(world.ledger, clock, FakeRandomness(), worker="w", grace_ms=15_000)


@pytest.mark.case("B-21")
async def test_a_claim_whose_answer_got_lost_is_recognised_as_our_own() -> None:
    world = TurnWorld()
    real = world.ledger.claim
    tries: list[ClaimAnswer] = []

    async def lose_the_first_answer(*args: object, **rest: object) -> ClaimAnswer:
        tries.append(await real(*args, **rest))  # type: ignore[arg-type]
        if len(tries) == 1:
            raise DependencyUnavailable("the answer got lost")
        return tries[-1]

    world.ledger.claim = lose_the_first_answer  # type: ignore[method-assign,assignment]
    request = await world.accept()
    answer = await claimant_of(world).claim(request, "inline", patience_ms=1_000)

    assert isinstance(answer, Claimed)
    assert answer.ref.attempt == 1


async def test_every_claim_has_a_nonce_of_its_own() -> None:
    world = TurnWorld()
    claimant = claimant_of(world)
    nonces = set()
    for number in range(3):
        request = await world.accept(session_id=f"s{number}")
        answer = await claimant.claim(request, "inline", patience_ms=0)
        assert isinstance(answer, Claimed)
        nonces.add(answer.ref.nonce)

    assert len(nonces) == 3


async def test_patience_has_an_end() -> None:
    world = TurnWorld()
    request = await world.accept()
    world.ledger.unavailable = True

    with pytest.raises(DependencyUnavailable):
        await claimant_of(world).claim(request, "inline", patience_ms=5_000)
    assert 6 <= len(world.ledger.calls) <= 20
    world.ledger.calls.clear()
    with pytest.raises(DependencyUnavailable):
        await claimant_of(world).claim(request, "inline", patience_ms=0)
    assert len(world.ledger.calls) == 1
