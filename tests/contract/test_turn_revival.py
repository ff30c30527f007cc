"""TurnRevival: a failed turn waits again, and nothing of its first life comes back; in memory and in Valkey."""

from __future__ import annotations

import msgspec
import pytest

from shared.contracts.identifiers import MessageId
from shared.contracts.ledger import (
    AcceptedAsHead,
    AlreadyAccepted,
    Append,
    Claimed,
    ClaimRef,
    ClaimRefusal,
    ClaimRefused,
    Fenced,
    Finished,
    Held,
    NotReopened,
    Reopened,
    Replay,
)
from shared.contracts.turns import EndStatus, TurnRequest
from tests.fakes.ledger_world import LEASE_MS, LedgerWorld, follower


def revived(request: TurnRequest, hint: int = 0) -> TurnRequest:
    return msgspec.structs.replace(
        request, detached=True, priority="low", connection_id=None, attempt_hint=hint
    )


async def ended(world: LedgerWorld, status: EndStatus = "failed") -> tuple[TurnRequest, ClaimRef]:
    request = await world.accepted()
    claim = await world.claimed(request)
    append = Append(claim, 0, (b"started", b"some text", b"the end"))
    answer = await world.claims.finish(append, status=status, history=None, now_ms=world.now_ms)
    assert isinstance(answer, Finished)
    return request, claim


async def reopen(world: LedgerWorld, request: TurnRequest, hint: int = 0) -> object:
    return await world.revival.reopen(revived(request, hint), now_ms=world.now_ms)


async def test_a_failed_turn_waits_again_and_keeps_its_attempt(world: LedgerWorld) -> None:
    request, _ = await ended(world)

    assert await reopen(world, request, hint=1) == Reopened(1)

    state = await world.queue.state(request.ref)
    assert state is not None
    assert (state.status, state.attempt, state.last_seq, state.outcome) == ("waiting", 1, -1, None)
    assert state.request == revived(request, 1)


async def test_the_next_claim_is_above_every_attempt_of_old(world: LedgerWorld) -> None:
    request, old = await ended(world)
    await reopen(world, request)

    claim = await world.claimed(revived(request, 1), nonce="n2")

    assert claim.attempt == 2
    assert await world.append(old, 3, b"late") == Fenced(2)


async def test_a_producer_of_old_is_fenced_before_the_next_claim_too(world: LedgerWorld) -> None:
    request, old = await ended(world)
    await reopen(world, request)

    assert await world.append(old, 3, b"late") == Fenced(1)


@pytest.mark.case("B-29")
async def test_nobody_follows_a_reopened_turn(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    await reopen(world, request)

    answer = await world.claim(revived(request, 1), "n2", "queue")

    assert isinstance(answer, Claimed)
    assert answer.followers == ()


async def test_a_duplicate_of_the_message_is_told_that_the_turn_waits(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    await reopen(world, request)

    answer = await world.queue.accept(world.request(message=request.message_id), None)

    assert isinstance(answer, AlreadyAccepted)
    assert (answer.state.request.turn_id, answer.state.status) == (request.turn_id, "waiting")


async def test_the_log_of_the_failed_attempt_is_gone(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    await reopen(world, request)

    replay = await world.read(request.ref, attempt=1, after_seq=0)

    assert isinstance(replay, Replay)
    assert (replay.frames, replay.state.outcome) == ((), None)


async def test_crashes_and_attempts_count_from_nought(world: LedgerWorld) -> None:
    request = await world.accepted()
    await world.claimed(request)
    world.clock.skip(LEASE_MS / 1000)
    await world.claimed(request, nonce="n2")
    world.clock.skip(LEASE_MS / 1000)
    assert isinstance(await world.claim(request, "n3"), ClaimRefused)
    await world.claims.end_unclaimed(
        request.ref, status="failed", outcome=b"poison", now_ms=world.now_ms, attempt=2
    )

    assert await reopen(world, request, hint=2) == Reopened(2)

    answer = await world.claim(revived(request, 2), "n4")
    assert isinstance(answer, Claimed)
    assert (answer.ref.attempt, answer.tries) == (3, 1)
    world.clock.skip(LEASE_MS / 1000)
    assert (await world.claimed(revived(request, 2), nonce="n5")).attempt == 4


async def test_a_reopened_turn_waits_behind_the_head_of_its_session(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    newer = world.request()
    assert await world.queue.accept(newer, follower()) == AcceptedAsHead()
    await reopen(world, request)

    answer = await world.claim(revived(request, 1), "n2", "queue")

    assert isinstance(answer, ClaimRefused)
    assert (answer.reason, answer.state.position) == (ClaimRefusal.NOT_HEAD, 1)
    finished = await world.finish(await world.claimed(newer, nonce="n3"), 0, b"started", b"end")
    assert isinstance(finished, Finished)
    assert finished.next_head is not None
    assert finished.next_head.turn_id == request.turn_id


async def test_a_reopened_turn_needs_no_reader(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    await reopen(world, request)
    world.clock.skip(3_600)

    claim = await world.claimed(revived(request, 1), nonce="n2")

    assert isinstance(await world.renew(claim), Held)


@pytest.mark.case("B-29")
async def test_a_second_reopening_changes_nothing(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    await reopen(world, request)

    assert await reopen(world, request) == NotReopened("waiting")
    await world.claimed(revived(request, 1), nonce="n2")
    assert await reopen(world, request) == NotReopened("running")


@pytest.mark.parametrize("status", ["completed", "cancelled", "expired"])
@pytest.mark.case("B-29")
async def test_only_a_failed_turn_is_reopened(world: LedgerWorld, status: EndStatus) -> None:
    request, _ = await ended(world, status)

    assert await reopen(world, request) == NotReopened(status)

    state = await world.queue.state(request.ref)
    assert state is not None
    assert state.outcome == b"the end"


async def test_a_turn_that_the_ledger_forgot_is_entered_behind_the_living(
    world: LedgerWorld,
) -> None:
    request, _ = await ended(world)
    await world.lose(request.ref)
    await world.queue.accept(world.request(), follower())

    assert await reopen(world, request, hint=4) == Reopened(4)

    answer = await world.claim(revived(request, 4), "n2", "queue")
    assert isinstance(answer, ClaimRefused)
    assert answer.reason is ClaimRefusal.NOT_HEAD


async def test_a_turn_that_was_never_claimed_begins_with_its_first_attempt(
    world: LedgerWorld,
) -> None:
    request = await world.accepted()
    await world.claims.end_unclaimed(
        request.ref, status="failed", outcome=b"the end", now_ms=world.now_ms
    )

    assert await reopen(world, request) == Reopened(0)
    assert (await world.claimed(revived(request), nonce="n2")).attempt == 1


async def test_a_reopened_turn_is_due_so_that_it_cannot_get_lost(world: LedgerWorld) -> None:
    request, _ = await ended(world)
    world.clock.skip(60)
    before = dict(await world.due_at_ms())

    await reopen(world, request)

    assert (await world.due_at_ms())[request.ref] == before.get(request.ref, world.now_ms + 5_000)


async def test_the_message_id_stays_with_a_turn_that_came_later(world: LedgerWorld) -> None:
    first = await world.accepted()
    await world.claims.end_unclaimed(
        first.ref, status="rejected", outcome=b"rejected", now_ms=world.now_ms
    )
    second = await world.accepted(message=first.message_id)

    assert await reopen(world, first) == NotReopened("rejected")

    state = await world.queue.find_message(first.session, MessageId(first.message_id))
    assert state is not None
    assert state.request.turn_id == second.turn_id
