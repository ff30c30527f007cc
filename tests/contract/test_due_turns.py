"""DueTurns, and what claims leave for it: every answer of every verb, in memory and in Valkey."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shared.adapters.redis_due_turns import RedisDueTurns
from shared.adapters.redis_keys import DUE_SHARDS, due_shard, sweeper
from shared.adapters.redis_keys import due as due_set
from shared.contracts.identifiers import TurnRef
from shared.contracts.ledger import (
    Claimed,
    ClaimRef,
    ClaimRefusal,
    ClaimRefused,
    Fenced,
    Finished,
    StillClaimed,
)
from shared.contracts.recovery import (
    DueEntry,
    DueMove,
    DueTurn,
    Recovery,
    Release,
    ReservationKind,
)
from shared.contracts.turns import TurnRequest
from shared.ports import DueTurns
from tests.fakes.due_turns import FakeDueTurns
from tests.fakes.ledger_world import (
    GRACE_MS,
    LEASE_MS,
    OUTCOME_KEPT_MS,
    FakeWorld,
    LedgerWorld,
    ValkeyWorld,
    follower,
)

RESERVATION_MS = 5_000
LONG_MS = 600_000


@pytest.fixture
def due(world: LedgerWorld) -> DueTurns:
    if isinstance(world, ValkeyWorld):
        return RedisDueTurns(world.client, outcome_kept_ms=OUTCOME_KEPT_MS, held_ms=LONG_MS)
    assert isinstance(world, FakeWorld)
    return FakeDueTurns(world._ledger, world.clock, held_ms=LONG_MS)


async def let_go(world: LedgerWorld, due: DueTurns) -> None:
    """Let the holding of every set run out."""
    if isinstance(due, FakeDueTurns):
        due.holders.clear()
    if isinstance(world, ValkeyWorld):
        await world.client.run([("DEL", sweeper(shard)) for shard in range(DUE_SHARDS)])


async def seen(due: DueTurns, world: LedgerWorld, turn: TurnRef) -> DueTurn:
    (found,) = await due.look([turn], world.now_ms)
    assert found is not None
    return found


async def reserved(
    due: DueTurns,
    world: LedgerWorld,
    turn: TurnRef,
    *,
    attempt: int = 0,
    dispatches: int = 0,
    by: str = "sweeper-1",
    kind: ReservationKind = "dispatch",
) -> bool:
    return await due.reserve(
        turn,
        sweeper=by,
        attempt=attempt,
        dispatches=dispatches,
        kind=kind,
        until_ms=world.now_ms + RESERVATION_MS,
        now_ms=world.now_ms,
    )


async def crashed(world: LedgerWorld, request: TurnRequest, nonce: str) -> ClaimRef:
    claim = await world.claimed(request, nonce)
    world.clock.skip(LEASE_MS / 1000)
    return claim


class TestDue:
    async def test_entries_come_when_their_time_has_come(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        at_ms = request.accepted_at_ms + 5_000
        assert await due.due(sweeper="a", now_ms=at_ms - 1, limit=10) == []
        assert await due.due(sweeper="a", now_ms=at_ms, limit=10) == [DueEntry(request.ref, at_ms)]

    async def test_a_set_is_swept_by_one_sweeper_at_a_time(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        for number in range(40):
            await world.accepted(session=f"s{number}")
        later_ms = world.now_ms + 5_000
        assert len(await due.due(sweeper="a", now_ms=later_ms, limit=100)) == 40
        assert await due.due(sweeper="b", now_ms=later_ms, limit=100) == []
        assert len(await due.due(sweeper="a", now_ms=later_ms, limit=100)) == 40
        await let_go(world, due)
        assert len(await due.due(sweeper="b", now_ms=later_ms, limit=100)) == 40

    async def test_work_per_set_is_bounded_oldest_first(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        for number in range(80):
            await world.accepted(session=f"s{number}")
            world.clock.skip(0.001)
        later_ms = world.now_ms + 5_000
        some = await due.due(sweeper="a", now_ms=later_ms, limit=2)
        everything = await due.due(sweeper="a", now_ms=later_ms, limit=100)
        expected: dict[str, list[DueEntry]] = {}
        for entry in sorted(everything, key=lambda each: each.due_at_ms):
            expected.setdefault(due_set(entry.turn), []).append(entry)
        oldest = [entry for entries in expected.values() for entry in entries[:2]]
        assert len(everything) == 80
        assert set(some) == set(oldest)

    async def test_ask_only_asks(self, world: LedgerWorld, due: DueTurns) -> None:
        await due.ask()
        assert await world.due_at_ms() == {}

    async def test_foreign_members_are_removed(self, valkey_world: ValkeyWorld) -> None:
        due = RedisDueTurns(valkey_world.client, outcome_kept_ms=OUTCOME_KEPT_MS, held_ms=50)
        await valkey_world.client.run(
            [("ZADD", due_shard(3), 1, b"\xff"), ("PEXPIRE", due_shard(3), 60_000)]
        )
        assert await due.due(sweeper="a", now_ms=2, limit=10) == []
        assert await valkey_world.client.run([("ZCARD", due_shard(3))]) == [0]
        for shard in range(DUE_SHARDS):
            await valkey_world.client.run([("DEL", sweeper(shard))])


class TestMove:
    async def test_reschedules_and_removes(self, world: LedgerWorld, due: DueTurns) -> None:
        one, two = await world.accepted(), await world.accepted(session="s2")
        at = dict(await world.due_at_ms())
        moves = [
            DueMove(DueEntry(one.ref, at[one.ref]), at[one.ref] + 7),
            DueMove(DueEntry(two.ref, at[two.ref]), None),
        ]
        assert list(await due.move(moves)) == [True, True]
        assert await world.due_at_ms() == {one.ref: at[one.ref] + 7}

    async def test_an_entry_that_changed_since_it_was_read_stays(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        entry = DueEntry(request.ref, (await world.due_at_ms())[request.ref])
        await world.claimed(request)
        changed = {request.ref: world.now_ms + LEASE_MS}
        assert list(await due.move([DueMove(entry, None), DueMove(entry, 5)])) == [False, False]
        assert await world.due_at_ms() == changed

    async def test_a_claim_changes_an_entry_that_is_due_already(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        world.clock.skip(5)
        (entry,) = await due.due(sweeper="a", now_ms=world.now_ms, limit=1)
        await world.claimed(request)
        assert list(await due.move([DueMove(entry, None)])) == [False]

    async def test_refused_claims_do_not_put_the_next_look_off(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        await world.claimed(request)
        for number in range(40):
            world.clock.skip(0.1)
            await world.claim(request, f"n{number}")
        (entry,) = await due.due(sweeper="a", now_ms=world.now_ms, limit=1)
        assert entry.turn == request.ref

    async def test_an_entry_that_is_gone_is_not_made_again(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        entry = DueEntry(world.request().ref, 1)
        assert list(await due.move([DueMove(entry, 5)])) == [False]
        assert await due.move([]) == []
        assert await world.due_at_ms() == {}

    async def test_of_two_sweepers_one_moves_an_entry(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        move = DueMove(DueEntry(request.ref, (await world.due_at_ms())[request.ref]), 77)
        answers = await asyncio.gather(*(due.move([move]) for _ in range(8)))
        assert sum(moved for (moved,) in answers) == 1


class TestLook:
    async def test_unknown_turns_are_none_beside_known_ones(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        turns = [world.request().ref, request.ref]
        unknown, known = await due.look(turns, world.now_ms)
        assert unknown is None
        assert known is not None
        assert known == DueTurn(
            state=await world.queue.state(request.ref),  # type: ignore[arg-type]
            recovery=Recovery(),
        )
        assert await due.look([], world.now_ms) == []

    async def test_a_claim_shows_its_worker_and_counts(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        started_ms = world.now_ms
        await world.claimed(request)
        turn = await seen(due, world, request.ref)
        assert turn.recovery == Recovery(tries=1)
        (attempt,) = turn.attempts
        assert (attempt.attempt, attempt.worker, attempt.path) == (1, "worker-1", "inline")
        assert (attempt.started_at_ms, attempt.ended_at_ms) == (started_ms, started_ms + LEASE_MS)

    async def test_a_waiting_turn_whose_head_was_lost_becomes_head(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        head, second = await world.accepted(), await world.accepted()
        assert (await seen(due, world, second.ref)).state.position == 1
        await world.lose(head.ref)
        turn = await seen(due, world, second.ref)
        assert (turn.state.position, turn.state.placed) == (0, "inline")
        assert turn.state.request.ready_at_ms == world.now_ms

    async def test_a_damaged_turn_does_not_hide_its_neighbours(
        self, valkey_world: ValkeyWorld
    ) -> None:
        due = RedisDueTurns(valkey_world.client, outcome_kept_ms=OUTCOME_KEPT_MS)
        good, bad = await valkey_world.accepted(), await valkey_world.accepted(session="s2")
        (key,) = await valkey_world.keys(f"*:turn:{bad.turn_id}")
        await valkey_world.client.run(
            [("DEL", key), ("SET", key, "nonsense"), ("PEXPIRE", key, 9_000)]
        )
        damaged, whole = await due.look([bad.ref, good.ref], valkey_world.now_ms)
        assert damaged is None
        assert whole is not None


class TestReserve:
    async def test_of_many_sweepers_one_reserves(self, world: LedgerWorld, due: DueTurns) -> None:
        request = await world.accepted()
        answers = await asyncio.gather(
            *(reserved(due, world, request.ref, by=f"sweeper-{i}") for i in range(8))
        )
        assert sum(answers) == 1
        recovery = (await seen(due, world, request.ref)).recovery
        assert (recovery.dispatches, recovery.first_dispatched_at_ms) == (1, world.now_ms)
        assert recovery.reserved_until_ms == world.now_ms + RESERVATION_MS

    @pytest.mark.case("B-21")
    async def test_the_same_call_again_is_recognised(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        """test_b21: the answer to our own reservation got lost."""
        request = await world.accepted()
        assert await reserved(due, world, request.ref)
        assert await reserved(due, world, request.ref)
        assert (await seen(due, world, request.ref)).recovery.dispatches == 1

    async def test_nothing_is_reserved_within_a_reservation(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        assert await reserved(due, world, request.ref)
        world.clock.skip(RESERVATION_MS / 1000 - 0.001)
        assert not await reserved(due, world, request.ref, dispatches=1)
        world.clock.skip(0.001)
        assert not await reserved(due, world, request.ref, dispatches=0, by="late")
        assert await reserved(due, world, request.ref, dispatches=1)

    async def test_a_held_an_ended_and_an_unknown_turn_are_not_reserved(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        claim = await world.claimed(request)
        assert not await reserved(due, world, request.ref, attempt=1)
        assert not await reserved(due, world, request.ref, attempt=0)
        await world.finish(claim, 0, b"started", b"completed")
        assert not await reserved(due, world, request.ref, attempt=1)
        assert not await reserved(due, world, world.request().ref)

    async def test_a_claim_wipes_what_was_dispatched(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        assert await reserved(due, world, request.ref, kind="offer")
        assert (await seen(due, world, request.ref)).recovery.is_offered
        await world.claimed(request)
        assert (await seen(due, world, request.ref)).recovery == Recovery(tries=1)


class TestHistory:
    async def test_lapsed_attempts_are_crashes_and_kept_with_worker_and_times(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        began_ms = world.now_ms
        await crashed(world, request, "n1")
        answer = await world.claim(request, "n2", "burst")
        assert isinstance(answer, Claimed)
        assert [each.outcome for each in answer.earlier_attempts] == ["crashed"]
        turn = await seen(due, world, request.ref)
        assert (turn.recovery.tries, turn.recovery.crashes) == (2, 1)
        assert [(each.attempt, each.path, each.started_at_ms) for each in turn.attempts] == [
            (1, "inline", began_ms),
            (2, "burst", began_ms + LEASE_MS),
        ]
        assert turn.attempts[0].ended_at_ms == began_ms + LEASE_MS

    async def test_a_turn_that_crashed_twice_is_claimed_by_nobody(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        for nonce in ("n1", "n2"):
            await crashed(world, request, nonce)
        refused = await world.claim(request, "n3")
        assert isinstance(refused, ClaimRefused)
        assert refused.reason is ClaimRefusal.EXHAUSTED
        assert (await seen(due, world, request.ref)).recovery.crashes == 1

    async def test_used_up_attempts_are_claimed_by_nobody(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        for nonce in ("n1", "n2", "n3"):
            claim = await world.claimed(request, nonce)
            await world.claims.release(
                claim, release="handed_over", due_at_ms=world.now_ms, now_ms=world.now_ms
            )
        refused = await world.claim(request, "n4")
        assert isinstance(refused, ClaimRefused)
        assert refused.reason is ClaimRefusal.EXHAUSTED

    async def test_a_producer_whose_later_attempt_was_lost_comes_back(
        self, world: LedgerWorld
    ) -> None:
        request = await world.accepted()
        for nonce in ("n1", "n2"):
            await crashed(world, request, nonce)
        ahead = msgspec.structs.replace(request, attempt_hint=3)
        assert isinstance(await world.claim(ahead, "n3"), Claimed)

    async def test_a_delivery_is_claimed_in_spite_of_crashes_and_absent_readers(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        for nonce in ("n1", "n2"):
            await crashed(world, request, nonce)
        await world.followers.unfollow([request.ref], follower(), world.now_ms)
        world.clock.skip(GRACE_MS / 1000)
        assert await reserved(due, world, request.ref, attempt=2, kind="delivery")
        assert (await seen(due, world, request.ref)).recovery.is_delivery
        claimed = await world.claim(request, "n3")
        assert isinstance(claimed, Claimed)
        assert (claimed.ref.attempt, claimed.tries) == (3, 2)
        recovery = (await seen(due, world, request.ref)).recovery
        assert (recovery.tries, recovery.is_delivery) == (2, False)

    async def test_the_end_forgets_the_history(self, world: LedgerWorld, due: DueTurns) -> None:
        request = await world.accepted()
        await crashed(world, request, "n1")
        claim = await world.claimed(request, "n2")
        assert isinstance(await world.finish(claim, 0, b"started", b"completed"), Finished)
        assert (await seen(due, world, request.ref)).attempts == ()


class TestRelease:
    async def test_handed_over_turn_is_due_at_once_and_has_not_crashed(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        claim = await world.claimed(request)
        world.clock.skip(1)
        await world.claims.release(
            claim, release="handed_over", due_at_ms=world.now_ms, now_ms=world.now_ms
        )
        assert await world.due_at_ms() == {request.ref: world.now_ms}
        turn = await seen(due, world, request.ref)
        assert turn.recovery == Recovery(tries=1, released="handed_over", due_at_ms=world.now_ms)
        assert turn.attempts[0].outcome == "handed_over"
        await world.claimed(request, "n2")
        turn = await seen(due, world, request.ref)
        assert turn.recovery == Recovery(tries=2)
        assert turn.attempts[0].outcome == "handed_over"

    @pytest.mark.parametrize(("release", "delay_ms"), [("postponed", 8_000), ("passed_on", 0)])
    async def test_a_turn_that_its_consumer_sends_is_reserved_until_after_its_due_time(
        self, world: LedgerWorld, due: DueTurns, release: Release, delay_ms: int
    ) -> None:
        request = await world.accepted()
        claim = await world.claimed(request)
        due_at_ms = world.now_ms + delay_ms
        await world.claims.release(claim, release=release, due_at_ms=due_at_ms, now_ms=world.now_ms)
        assert await world.due_at_ms() == {request.ref: due_at_ms + RESERVATION_MS}
        assert (await seen(due, world, request.ref)).recovery == Recovery(
            tries=1,
            released=release,
            due_at_ms=due_at_ms,
            reserved_until_ms=due_at_ms + RESERVATION_MS,
            dispatches=1,
            first_dispatched_at_ms=due_at_ms,
        )

    async def test_a_throttled_claim_does_not_count_among_the_tries(
        self, world: LedgerWorld, due: DueTurns
    ) -> None:
        request = await world.accepted()
        for number in range(5):
            claim = await world.claimed(request, f"n{number}")
            await world.claims.release(
                claim, release="throttled", due_at_ms=world.now_ms, now_ms=world.now_ms
            )
            turn = await seen(due, world, request.ref)
            assert (turn.recovery.tries, turn.recovery.crashes) == (0, 0)
            assert turn.attempts[-1].outcome == "throttled"
        assert claim.attempt == 5

    async def test_released_claim_writes_nothing_more(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.claims.release(
            claim, release="handed_over", due_at_ms=world.now_ms, now_ms=world.now_ms
        )
        assert await world.renew(claim) == Fenced(1)
        assert await world.append(claim, 0, b"late") == Fenced(1)

    async def test_only_the_holder_releases(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        old = await crashed(world, request, "n1")
        await world.claimed(request, "n2")
        await world.claims.release(
            old, release="handed_over", due_at_ms=world.now_ms, now_ms=world.now_ms
        )
        answer = await world.claims.end_unclaimed(
            request.ref, status="failed", outcome=b"x", now_ms=world.now_ms, attempt=2
        )
        assert isinstance(answer, StillClaimed)
