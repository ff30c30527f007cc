"""What only the real ledger can get wrong: round trips, scripts after a restart, damaged keys, times to live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from shared.adapters.redis_keys import SessionKeys
from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import (
    AcceptedAsHead,
    Append,
    Claimed,
    ClaimRef,
    Finished,
    Held,
    TurnUnknown,
)
from shared.errors import DependencyUnavailable
from tests.fakes.ledger_world import (
    LOG_KEPT_MS,
    OUTCOME_KEPT_MS,
    LedgerWorld,
    ValkeyWorld,
    follower,
)
from tests.fakes.valkey import ask


async def _trips(world: ValkeyWorld, verb: Awaitable[object]) -> int:
    world.client.round_trips = 0
    await verb
    return world.client.round_trips


async def _full_life(world: LedgerWorld, session: str = "life") -> None:
    claim = await world.claimed(await world.accepted(follower(), session=session))
    await world.append(claim, 0, b"started")
    await world.renew(claim)
    await world.join(claim.turn, follower("c2"))
    await world.queue.mark_placed(claim.turn, "inline", world.now_ms)
    await world.followers.unfollow([claim.turn], follower("c2"), world.now_ms)
    assert await world.queue.state(claim.turn)
    assert await world.queue.running(claim.turn.session)
    assert isinstance(await world.finish(claim, 1, b"end"), Finished)


@pytest.mark.case("B-38")
async def test_each_step_of_a_turn_is_one_round_trip(valkey_world: ValkeyWorld) -> None:
    world = valkey_world
    await _full_life(world)
    request = world.request()
    assert await _trips(world, world.queue.accept(request, follower())) == 1
    assert await _trips(world, world.queue.mark_placed(request.ref, "burst", 1)) == 1
    assert await _trips(world, world.claim(request)) == 1
    claim = ClaimRef(request.ref, 1, ClaimNonce("n1"))
    assert await _trips(world, world.append(claim, 0, b"started")) == 1
    assert await _trips(world, world.renew(claim)) == 1
    assert await _trips(world, world.join(request.ref, follower("c2"))) == 1
    assert await _trips(world, world.queue.state(request.ref)) == 1
    assert await _trips(world, world.queue.running(request.session)) == 1
    assert await _trips(world, world.finish(claim, 1, b"end")) == 1


@pytest.mark.case("B-38")
async def test_a_hundred_turns_share_one_round_trip(valkey_world: ValkeyWorld) -> None:
    world = valkey_world
    claims = [await world.claimed(await world.accepted(session=f"s{i}")) for i in range(100)]
    appends = [Append(claim, 0, (b"started",)) for claim in claims]
    await world.claims.append_many(appends[:1], world.now_ms)
    assert await _trips(world, world.claims.append_many(appends, world.now_ms)) == 1
    assert await _trips(world, world.claims.renew_many(claims, world.now_ms)) == 1


async def test_scripts_come_back_after_the_server_forgot_them(
    valkey_world: ValkeyWorld, valkey_server: object
) -> None:
    world = valkey_world
    await _full_life(world)
    claims = [await world.claimed(await world.accepted(session=f"s{i}")) for i in range(5)]
    ask(valkey_server, "SCRIPT FLUSH")  # type: ignore[arg-type]
    appends = [Append(claim, 0, (b"started",)) for claim in claims]
    answers = await world.claims.append_many(appends, world.now_ms)
    assert [type(answer) for answer in answers] == [Held] * 5
    ask(valkey_server, "SCRIPT FLUSH")  # type: ignore[arg-type]
    await _full_life(world)


async def test_one_damaged_turn_does_not_poison_the_pipeline(valkey_world: ValkeyWorld) -> None:
    world = valkey_world
    claims = [await world.claimed(await world.accepted(session=f"s{i}")) for i in range(3)]
    key = SessionKeys(claims[1].turn.session).turn(claims[1].turn.turn_id)
    await world.client.run([("SET", key, "not a hash", "PX", 60_000)])
    appends = [Append(claim, 0, (b"started",)) for claim in claims]
    kinds = [Held, TurnUnknown, Held]
    answers = await world.claims.append_many(appends, world.now_ms)
    assert [type(answer) for answer in answers] == kinds
    answers = await world.claims.renew_many(claims, world.now_ms)
    assert [type(answer) for answer in answers] == kinds
    with pytest.raises(DependencyUnavailable):
        await world.finish(claims[1], 1, b"end")


async def test_ended_turn_keeps_log_and_outcome_for_their_times(
    valkey_world: ValkeyWorld,
) -> None:
    world = valkey_world
    request = await world.accepted(follower())
    claim = await world.finished(request)
    keys = SessionKeys(claim.turn.session)
    names = (
        keys.log(request.turn_id),
        keys.turn(request.turn_id),
        keys.message(request.message_id),
        keys.followers(request.turn_id),
        keys.head,
    )
    lifetimes = await world.client.run([("PTTL", name) for name in names])
    gone = -2
    expected = (LOG_KEPT_MS, OUTCOME_KEPT_MS, OUTCOME_KEPT_MS, gone, gone)
    for ttl, wanted in zip(lifetimes, expected, strict=True):
        assert wanted - 5_000 <= ttl <= wanted


async def test_unended_turn_outlives_the_longest_limit(valkey_world: ValkeyWorld) -> None:
    claim = await valkey_world.claimed()
    await valkey_world.append(claim, 0, b"started")
    names = await valkey_world.keys("*" + claim.turn.session.slot_tag + "*")
    assert len(names) == 5
    for ttl in await valkey_world.client.run([("PTTL", name) for name in names]):
        assert ttl > OUTCOME_KEPT_MS


async def test_many_sessions_at_once_keep_their_order(valkey_world: ValkeyWorld) -> None:
    world = valkey_world

    async def converse(session: str) -> list[str]:
        accepted = [await world.accepted(session=session) for _ in range(4)]
        order = []
        request = accepted[0]
        for number in range(4):
            claim = await world.claim(request, f"{session}-{number}")
            assert isinstance(claim, Claimed)
            order.append(request.turn_id)
            answer = await world.finish(claim.ref, 0, b"end")
            assert isinstance(answer, Finished)
            if answer.next_head is not None:
                request = answer.next_head
        assert order == [each.turn_id for each in accepted]
        return order

    await asyncio.gather(*(converse(f"s{number}") for number in range(30)))


async def test_due_entry_is_sent_before_the_turn(valkey_world: ValkeyWorld) -> None:
    answer = await valkey_world.queue.accept(valkey_world.request(), follower())
    assert answer == AcceptedAsHead()
    names = [str(call[0]) for call in valkey_world.client.sent[0]]
    assert names == ["ZADD", "PEXPIRE", "EVALSHA"]
