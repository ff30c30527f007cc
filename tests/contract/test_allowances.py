"""Allowances: rates that all processes share, in memory and in Valkey."""

from __future__ import annotations

import pytest

from shared.adapters.redis_allowances import RedisAllowances
from shared.contracts.allowances import Rate
from shared.contracts.identifiers import MessageId, SessionId, SessionRef, TenantId, UserId
from shared.errors import DependencyUnavailable
from tests.fakes.allowances import FakeAllowances
from tests.fakes.ledger_world import FakeWorld, LedgerWorld, ValkeyWorld

ANN = SessionRef(TenantId("shop"), UserId("ann"), SessionId("s1"))
NEW = MessageId("never-sent")
RATE = Rate(per_min=60, burst=3)


class Processes:
    """Two processes over one store."""

    def __init__(self, world: LedgerWorld) -> None:
        self.world = world
        self.now_ms = world.now_ms
        if isinstance(world, ValkeyWorld):
            self.both = [RedisAllowances(world.client), RedisAllowances(world.client)]
        else:
            assert isinstance(world, FakeWorld)
            self.both = [FakeAllowances(world._ledger)] * 2

    async def take(self, process: int = 0, wanted: int = 1, *, kind="user_turns", session=ANN):
        return await self.both[process].take(
            kind, RATE, wanted, session=session, message_id=NEW, now_ms=self.now_ms
        )


@pytest.fixture
def processes(world: LedgerWorld) -> Processes:
    return Processes(world)


async def test_all_processes_together_grant_what_the_rate_allows_and_no_more(processes):
    granted = [(await processes.take(number % 2)).granted for number in range(5)]
    assert granted == [1, 1, 1, 0, 0]


async def test_a_slice_is_what_is_left_of_it(processes):
    assert (await processes.take(0, 2)).granted == 2
    assert (await processes.take(1, 2)).granted == 1


async def test_a_refusal_says_when_there_is_one_again_and_takes_nothing(processes):
    await processes.take(0, 3)
    for _ in range(3):
        assert (await processes.take(1)).wait_ms == 1_000
    processes.now_ms += 999
    assert (await processes.take(1)).wait_ms == 1
    processes.now_ms += 1
    assert (await processes.take(1)).granted == 1


async def test_what_was_not_used_is_saved_up_to_the_burst(processes):
    await processes.take(0, 3)
    processes.now_ms += 3_600_000
    assert (await processes.take(0, 9)).granted == 3


async def test_users_are_counted_apart_and_a_tenants_users_together(processes):
    bob = SessionRef(ANN.tenant, UserId("bob"), SessionId("s2"))
    other = SessionRef(TenantId("other"), ANN.user, ANN.session_id)
    assert (await processes.take(0, 3)).granted == 3
    assert (await processes.take(0, 3, session=bob)).granted == 3
    assert (await processes.take(0, 3, session=other)).granted == 3
    assert (await processes.take(0, 2, kind="tenant_low_turns")).granted == 2
    assert (await processes.take(0, 2, kind="tenant_low_turns", session=bob)).granted == 1


async def test_a_message_that_is_a_turn_already_is_named(processes):
    request = await processes.world.accepted()
    answer = await processes.both[0].take(
        "user_turns",
        RATE,
        1,
        session=request.session,
        message_id=MessageId(request.message_id),
        now_ms=processes.now_ms,
    )
    assert answer.known is not None
    assert answer.known.request.turn_id == request.turn_id
    assert (await processes.take()).known is None


async def test_a_question_takes_one_round_trip(valkey_world: ValkeyWorld):
    processes = Processes(valkey_world)
    await processes.take()
    valkey_world.client.round_trips = 0
    await processes.take()
    assert valkey_world.client.round_trips == 1


async def test_a_count_is_forgotten_when_it_is_even_again(valkey_world: ValkeyWorld):
    processes = Processes(valkey_world)
    await processes.take(0, 3)
    (key,) = await valkey_world.client.run_one(("KEYS", "bc:rate:*"))
    assert 0 < await valkey_world.client.run_one(("PTTL", key)) <= 3_001


async def test_when_nobody_can_be_asked_that_is_said():
    world = FakeWorld()
    world._ledger.unavailable = True
    with pytest.raises(DependencyUnavailable):
        await Processes(world).take()
