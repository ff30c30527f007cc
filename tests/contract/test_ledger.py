"""SessionQueue, TurnClaims and TurnFollowers: every answer of every verb, in memory and in Valkey."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from shared.contracts.identifiers import ClaimNonce, MessageId, OwnerId
from shared.contracts.ledger import (
    AcceptedAsHead,
    AcceptedAsWaiting,
    AcceptedDetached,
    AlreadyAccepted,
    Append,
    CancelRequested,
    Claimed,
    ClaimRef,
    ClaimRefusal,
    ClaimRefused,
    Fenced,
    Finished,
    Held,
    LogGap,
    Replay,
    SessionBusy,
    StillClaimed,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from tests.fakes.ledger_world import (
    GRACE_MS,
    LEASE_MS,
    OWNER_LEASE_MS,
    LedgerWorld,
    follower,
)

ANN, BOB = follower("ann"), follower("bob", "gateway-2")


def refused(answer: object) -> ClaimRefusal:
    assert isinstance(answer, ClaimRefused), answer
    return answer.reason


def replayed(answer: object) -> Replay:
    assert isinstance(answer, Replay), answer
    return answer


async def state_of(world: LedgerWorld, turn: object) -> TurnState:
    state = await world.queue.state(turn)  # type: ignore[arg-type]
    assert state is not None
    return state


async def end(
    world: LedgerWorld, turn: object, status: str = "expired", attempt: int = 0
) -> object:
    return await world.claims.end_unclaimed(
        turn,  # type: ignore[arg-type]
        status=status,  # type: ignore[arg-type]
        outcome=b"the end",
        now_ms=world.now_ms,
        attempt=attempt,
    )


class TestAccept:
    async def test_first_message_of_a_session_is_its_head(self, world: LedgerWorld) -> None:
        request = world.request()
        assert await world.queue.accept(request, ANN) == AcceptedAsHead()
        assert await world.queue.state(request.ref) == TurnState(
            request=msgspec.structs.replace(request, ready_at_ms=request.accepted_at_ms),
            status="waiting",
            placed="inline",
            attempt=0,
            last_seq=-1,
            lease_until_ms=0,
        )

    @pytest.mark.case("B-31")
    async def test_later_messages_wait_in_order_with_their_position(
        self, world: LedgerWorld
    ) -> None:
        await world.accepted()
        second, third = world.request(), world.request()
        assert await world.queue.accept(second, ANN) == AcceptedAsWaiting(1)
        assert await world.queue.accept(third, ANN) == AcceptedAsWaiting(2)
        state = await state_of(world, third.ref)
        assert (state.position, state.placed, state.request.ready_at_ms) == (2, "waiting", 0)

    async def test_fourth_waiting_message_is_busy_and_leaves_nothing(
        self, world: LedgerWorld
    ) -> None:
        for _ in range(4):
            await world.accepted()
        fifth = world.request()
        assert await world.queue.accept(fifth, ANN) == SessionBusy()
        assert fifth.ref not in await world.due_at_ms()
        assert await world.queue.state(fifth.ref) is None
        assert await world.queue.find_message(fifth.session, fifth.message_id) is None

    async def test_other_sessions_have_their_own_queue(self, world: LedgerWorld) -> None:
        for _ in range(4):
            await world.accepted()
        assert await world.queue.accept(world.request(session="s2"), ANN) == AcceptedAsHead()

    async def test_same_message_id_never_starts_a_second_turn(self, world: LedgerWorld) -> None:
        first = await world.accepted(ANN, message="m")
        again = world.request(message="m")
        answer = await world.queue.accept(again, BOB)
        assert answer == AlreadyAccepted(await state_of(world, first.ref))
        assert await world.queue.state(again.ref) is None
        held = await world.renew(await world.claimed(first))
        assert held == Held((ANN, BOB), False, 0)

    async def test_two_sends_of_one_message_at_once_make_one_turn(self, world: LedgerWorld) -> None:
        requests = [world.request(message="m") for _ in range(8)]
        answers = await asyncio.gather(*(world.queue.accept(each, ANN) for each in requests))
        assert sum(isinstance(answer, AcceptedAsHead) for answer in answers) == 1
        assert sum(isinstance(answer, AlreadyAccepted) for answer in answers) == 7

    async def test_repeated_message_of_an_ended_turn_brings_its_outcome(
        self, world: LedgerWorld
    ) -> None:
        first = await world.accepted(message="m")
        await world.finished(first)
        answer = await world.queue.accept(world.request(message="m"), ANN)
        assert isinstance(answer, AlreadyAccepted)
        assert (answer.state.status, answer.state.outcome) == ("completed", b"completed")

    async def test_message_of_a_rejected_turn_counts_as_new(self, world: LedgerWorld) -> None:
        first = await world.accepted(message="m")
        await end(world, first.ref, "rejected")
        assert await world.queue.find_message(first.session, MessageId("m")) is None
        assert await world.queue.accept(world.request(message="m"), ANN) == AcceptedAsHead()
        assert refused(await world.claim(first)) is ClaimRefusal.ENDED

    async def test_detached_turn_of_lower_priority_stays_outside_the_queue(
        self, world: LedgerWorld
    ) -> None:
        head = await world.accepted()
        low = world.request(detached=True, priority="low")
        assert await world.queue.accept(low, None) == AcceptedDetached()
        assert await world.queue.accept(world.request(), ANN) == AcceptedAsWaiting(1)
        running = [turn.turn_id for turn in await world.queue.running(head.session)]
        assert (running[0], running[-1]) == (head.turn_id, low.turn_id)

    async def test_detached_turn_of_high_priority_is_an_ordinary_turn(
        self, world: LedgerWorld
    ) -> None:
        first, second = world.request(detached=True), world.request(detached=True)
        assert await world.queue.accept(first, None) == AcceptedAsHead()
        assert await world.queue.accept(second, None) == AcceptedAsWaiting(1)

    async def test_accepted_turn_is_in_the_due_index(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        assert (await world.due_at_ms())[request.ref] == request.accepted_at_ms + 5_000

    async def test_a_lost_head_does_not_block_its_session(self, world: LedgerWorld) -> None:
        head, second = await world.accepted(), await world.accepted()
        await world.lose(head.ref)
        assert isinstance(await world.queue.accept(world.request(), ANN), AcceptedAsWaiting)
        assert isinstance(await world.claim(second), Claimed)


class TestReading:
    async def test_unknown_turn_is_none_and_unknown_message_is_none(
        self, world: LedgerWorld
    ) -> None:
        request = world.request()
        assert await world.queue.state(request.ref) is None
        assert await world.queue.find_message(request.session, request.message_id) is None
        assert await world.queue.running(request.session) == []

    async def test_message_finds_its_turn(self, world: LedgerWorld) -> None:
        await world.accepted()
        request = await world.accepted()
        found = await world.queue.find_message(request.session, request.message_id)
        assert found == await state_of(world, request.ref)
        assert found.position == 1

    async def test_running_lists_unended_turns_head_first(self, world: LedgerWorld) -> None:
        first, second = await world.accepted(), await world.accepted()
        claim = await world.claimed(first)
        await world.append(claim, 0, b"started", b"one")
        running = await world.queue.running(first.session)
        assert [(t.turn_id, t.message_id, t.attempt, t.last_seq) for t in running] == [
            (first.turn_id, first.message_id, 1, 1),
            (second.turn_id, second.message_id, 0, -1),
        ]
        await world.finish(claim, 2, b"completed")
        assert [t.turn_id for t in await world.queue.running(first.session)] == [second.turn_id]

    async def test_another_identity_sees_an_empty_namespace(self, world: LedgerWorld) -> None:
        request = await world.accepted(message="m")
        for stranger in (world.request(user="eve", message="m"), world.request(tenant="other")):
            foreign = msgspec.structs.replace(stranger, turn_id=request.turn_id)
            assert await world.queue.state(foreign.ref) is None
            assert await world.queue.find_message(foreign.session, MessageId("m")) is None
            assert await world.queue.running(foreign.session) == []
            assert await world.join(foreign.ref, BOB) == TurnUnknown()
            assert await world.queue.cancel(foreign.ref, b"x", world.now_ms) == TurnUnknown()
            assert await end(world, foreign.ref) == TurnUnknown()
        assert (await state_of(world, request.ref)).status == "waiting"

    async def test_odd_ids_and_text_survive(self, world: LedgerWorld) -> None:
        request = await world.accepted(user="{}*?[\n é", text="漫画 \U0001f4da {x}")
        assert (await state_of(world, request.ref)).request.text == "漫画 \U0001f4da {x}"
        assert isinstance(await world.claim(request), Claimed)


class TestMarkPlaced:
    async def test_notes_where_and_when(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        await world.queue.mark_placed(request.ref, "queue", world.now_ms + 5)
        state = await state_of(world, request.ref)
        assert (state.placed, state.placed_at_ms) == ("queue", world.now_ms + 5)

    async def test_turn_put_on_burst_is_counted_until_it_is_claimed(
        self, world: LedgerWorld
    ) -> None:
        request = await world.accepted()
        await world.queue.mark_placed(request.ref, "burst", world.now_ms)
        assert await world.burst_waiting() == {request.ref: world.now_ms}
        assert await world.burst_entered() == 1
        await world.claimed(request)
        assert await world.burst_waiting() == {}
        assert await world.burst_entered() == 1

    async def test_mark_that_comes_after_the_claim_is_not_counted(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        await world.claimed(request)
        await world.queue.mark_placed(request.ref, "burst", world.now_ms)
        assert await world.burst_waiting() == {}
        assert (await state_of(world, request.ref)).placed == "burst"

    async def test_every_end_uncounts(self, world: LedgerWorld) -> None:
        ended, cancelled = await world.accepted(), await world.accepted(session="s2")
        for request in (ended, cancelled):
            await world.queue.mark_placed(request.ref, "burst", world.now_ms)
        await end(world, ended.ref)
        await world.queue.cancel(cancelled.ref, b"cancelled", world.now_ms)
        assert await world.burst_waiting() == {}

    async def test_offer_to_another_path_uncounts(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        await world.queue.mark_placed(request.ref, "burst", world.now_ms)
        await world.queue.mark_placed(request.ref, "inline", world.now_ms)
        assert await world.burst_waiting() == {}

    async def test_does_nothing_to_ended_and_unknown_turns(self, world: LedgerWorld) -> None:
        request, unknown = await world.accepted(), world.request()
        await end(world, request.ref)
        for each in (request, unknown):
            await world.queue.mark_placed(each.ref, "burst", world.now_ms)
        assert (await state_of(world, request.ref)).placed == "inline"
        assert await world.queue.state(unknown.ref) is None
        assert await world.burst_waiting() == {}


class TestClaim:
    async def test_claimant_gets_turn_followers_and_flag(self, world: LedgerWorld) -> None:
        request = await world.accepted(ANN)
        answer = await world.claim(request, "n1", "burst")
        assert answer == Claimed(
            ref=ClaimRef(request.ref, 1, ClaimNonce("n1")),
            tries=1,
            request=msgspec.structs.replace(request, ready_at_ms=request.accepted_at_ms),
            followers=(ANN,),
            cancel_requested=False,
            history=None,
        )
        state = await state_of(world, request.ref)
        assert (state.status, state.placed, state.attempt) == ("running", "burst", 1)
        assert state.lease_until_ms == world.now_ms + LEASE_MS

    async def test_exactly_one_of_many_claimants_wins(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        answers = await asyncio.gather(*(world.claim(request, f"n{i}") for i in range(10)))
        assert sum(isinstance(answer, Claimed) for answer in answers) == 1
        refusals = [each.reason for each in answers if isinstance(each, ClaimRefused)]
        assert refusals == [ClaimRefusal.LEASED] * 9

    @pytest.mark.case("B-21")
    async def test_same_nonce_again_is_the_same_claim(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        assert await world.claim(request, "n1") == await world.claim(request, "n1")

    async def test_lapsed_lease_is_claimed_with_a_higher_attempt(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        first = await world.claimed(request, "n1")
        await world.append(first, 0, b"started", b"old text")
        world.clock.skip(LEASE_MS / 1000 - 0.001)
        assert refused(await world.claim(request, "n2")) is ClaimRefusal.LEASED
        world.clock.skip(0.001)
        second = await world.claimed(request, "n2")
        assert second.attempt == 2
        replay = replayed(await world.read(request.ref))
        assert (replay.state.attempt, replay.state.last_seq, replay.frames) == (2, -1, ())

    async def test_refused_after_the_end_with_the_outcome(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        await world.finished(request)
        answer = await world.claim(request, "n2")
        assert refused(answer) is ClaimRefusal.ENDED
        assert isinstance(answer, ClaimRefused)
        assert answer.state.outcome == b"completed"

    async def test_refused_when_not_head(self, world: LedgerWorld) -> None:
        head, second = await world.accepted(), await world.accepted()
        assert refused(await world.claim(second)) is ClaimRefusal.NOT_HEAD
        assert (await state_of(world, second.ref)).position == 1
        await world.finished(head)
        assert isinstance(await world.claim(second), Claimed)

    async def test_refused_when_readerless_for_the_grace(self, world: LedgerWorld) -> None:
        request = await world.accepted(ANN)
        await world.followers.unfollow([request.ref], ANN, world.now_ms)
        world.clock.skip(GRACE_MS / 1000 - 0.001)
        early = await world.claimed(request)
        world.clock.skip(LEASE_MS / 1000)
        answer = await world.claim(request, "n2")
        assert refused(answer) is ClaimRefusal.READERLESS
        assert await end(world, request.ref, "cancelled") == StillClaimed(
            await state_of(world, request.ref)
        )
        assert isinstance(await end(world, request.ref, "cancelled", early.attempt), Finished)

    async def test_reader_that_comes_back_ends_the_grace(self, world: LedgerWorld) -> None:
        request = await world.accepted(ANN)
        await world.followers.unfollow([request.ref], ANN, world.now_ms)
        await world.join(request.ref, BOB)
        world.clock.skip(GRACE_MS / 1000)
        assert isinstance(await world.claim(request), Claimed)

    async def test_detached_turn_needs_no_reader(self, world: LedgerWorld) -> None:
        request = world.request(detached=True)
        await world.queue.accept(request, None)
        world.clock.skip(GRACE_MS / 1000)
        assert isinstance(await world.claim(request), Claimed)

    async def test_turn_accepted_without_follower_is_readerless_from_the_start(
        self, world: LedgerWorld
    ) -> None:
        request = world.request()
        await world.queue.accept(request, None)
        world.clock.skip(GRACE_MS / 1000)
        assert refused(await world.claim(request)) is ClaimRefusal.READERLESS

    async def test_attempt_is_above_the_hint(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        hinted = msgspec.structs.replace(request, attempt_hint=4)
        assert (await world.claimed(hinted)).attempt == 5

    async def test_unknown_turn_is_entered_from_the_request(self, world: LedgerWorld) -> None:
        request = msgspec.structs.replace(world.request(hint=2), ready_at_ms=world.now_ms - 900)
        answer = await world.claim(request)
        assert isinstance(answer, Claimed)
        assert (answer.ref.attempt, answer.followers) == (3, ())
        assert answer.request.ready_at_ms == world.now_ms - 900
        again = await world.queue.accept(world.request(message=request.message_id), ANN)
        assert isinstance(again, AlreadyAccepted)
        assert isinstance(await world.finish(answer.ref, 0, b"end"), Finished)

    async def test_lost_turn_enters_beside_a_head_claimed_meanwhile(
        self, world: LedgerWorld
    ) -> None:
        lost = await world.accepted()
        await world.claimed(lost)
        await world.lose(lost.ref)
        head, third = await world.accepted(), await world.accepted()
        running = await world.claimed(head, "n2")
        back = await world.claimed(msgspec.structs.replace(lost, attempt_hint=1), "n3")
        assert back.attempt == 2
        assert isinstance(await world.append(running, 0, b"a"), Held)
        assert isinstance(await world.append(back, 0, b"b"), Held)
        assert await world.finish(back, 1, b"end") == Finished((), None)
        answer = await world.finish(running, 1, b"end")
        assert isinstance(answer, Finished)
        assert answer.next_head is not None
        assert answer.next_head.turn_id == third.turn_id

    async def test_lost_attempt_takes_the_turn_back_from_the_one_before_it(
        self, world: LedgerWorld
    ) -> None:
        request = await world.accepted()
        overtaken = await world.claimed(request, "n1")
        answer = await world.claimed(msgspec.structs.replace(request, attempt_hint=2), "n3")
        assert answer.attempt == 3
        assert isinstance(await world.append(overtaken, 0, b"old"), Fenced)
        assert isinstance(await world.append(answer, 0, b"new"), Held)

    async def test_head_claimed_meanwhile_may_end_first(self, world: LedgerWorld) -> None:
        lost = await world.accepted()
        await world.lose(lost.ref)
        head, third = await world.accepted(), await world.accepted()
        running = await world.claimed(head, "n2")
        back = await world.claimed(lost, "n3")
        assert await world.finish(running, 0, b"end") == Finished((follower(),), None)
        assert refused(await world.claim(third, "n4")) is ClaimRefusal.NOT_HEAD
        answer = await world.finish(back, 0, b"end")
        assert isinstance(answer, Finished)
        assert answer.next_head is not None
        assert answer.next_head.turn_id == third.turn_id

    async def test_detached_claim_becomes_head_of_an_idle_session(self, world: LedgerWorld) -> None:
        low = world.request(detached=True, priority="low")
        await world.queue.accept(low, None)
        world.clock.skip(600)
        answer = await world.claim(low, path="queue")
        assert isinstance(answer, Claimed)
        assert answer.request.ready_at_ms == world.now_ms
        assert await world.queue.accept(world.request(), ANN) == AcceptedAsWaiting(1)

    async def test_detached_claim_waits_behind_a_head_outside_the_limit(
        self, world: LedgerWorld
    ) -> None:
        head = await world.accepted()
        lows = [world.request(detached=True, priority="low") for _ in range(4)]
        for low in lows:
            await world.queue.accept(low, None)
            assert refused(await world.claim(low, path="queue")) is ClaimRefusal.NOT_HEAD
            assert refused(await world.claim(low, path="queue")) is ClaimRefusal.NOT_HEAD
        state = await state_of(world, lows[3].ref)
        assert (state.position, state.placed, state.status) == (4, "waiting", "waiting")
        assert await world.queue.accept(world.request(), ANN) == AcceptedAsWaiting(5)
        claim = await world.claimed(head)
        answer = await world.finish(claim, 0, b"end")
        assert isinstance(answer, Finished)
        assert answer.next_head == msgspec.structs.replace(lows[0], ready_at_ms=world.now_ms)

    async def test_claim_moves_the_next_check_to_the_end_of_its_lease(
        self, world: LedgerWorld
    ) -> None:
        request = await world.accepted()
        await world.claimed(request)
        assert (await world.due_at_ms())[request.ref] == world.now_ms + LEASE_MS


class TestAppendAndRenew:
    async def test_frames_are_kept_in_order_and_followers_come_back(
        self, world: LedgerWorld
    ) -> None:
        claim = await world.claimed()
        assert await world.append(claim, 0, b"started") == Held((follower(),), False, 0)
        assert await world.append(claim, 1, b"one", b"two") == Held((follower(),), False, 0)
        replay = replayed(await world.read(claim.turn))
        assert (replay.frames, replay.state.last_seq) == ((b"started", b"one", b"two"), 2)

    @pytest.mark.case("B-21")
    async def test_same_bytes_again_are_held_whole_or_in_part(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.append(claim, 0, b"0", b"1")
        assert isinstance(await world.append(claim, 0, b"0", b"1"), Held)
        assert isinstance(await world.append(claim, 0, b"0"), Held)
        assert isinstance(await world.append(claim, 1, b"1", b"2"), Held)
        assert replayed(await world.read(claim.turn)).frames == (b"0", b"1", b"2")

    async def test_other_bytes_at_a_known_seq_are_refused(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.append(claim, 0, b"0", b"1")
        assert await world.append(claim, 1, b"other", b"2") == Fenced(1)
        assert replayed(await world.read(claim.turn)).frames == (b"0", b"1")

    async def test_gap_names_the_last_seq(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        assert await world.append(claim, 1, b"1") == LogGap(-1)
        await world.append(claim, 0, b"0")
        assert await world.append(claim, 3, b"3") == LogGap(0)
        assert replayed(await world.read(claim.turn)).frames == (b"0",)

    async def test_older_producer_is_fenced_everywhere(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        old = await world.claimed(request, "n1")
        world.clock.skip(LEASE_MS / 1000)
        new = await world.claimed(request, "n2")
        assert await world.append(old, 0, b"old") == Fenced(2)
        assert await world.renew(old) == Fenced(2)
        assert await world.finish(old, 0, b"old end") == Fenced(2)
        assert isinstance(await world.finish(new, 0, b"new end"), Finished)
        assert await world.append(old, 0, b"old") == TurnEnded("completed", b"new end")

    async def test_same_attempt_with_another_nonce_is_fenced(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        stranger = ClaimRef(claim.turn, claim.attempt, ClaimNonce("stranger"))
        assert await world.append(stranger, 0, b"x") == Fenced(1)

    async def test_lower_attempt_in_the_ledger_is_unknown(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        ahead = ClaimRef(claim.turn, 2, ClaimNonce("n9"))
        assert await world.append(ahead, 0, b"x") == TurnUnknown()
        assert await world.renew(ahead) == TurnUnknown()

    async def test_lost_turn_is_unknown(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.lose(claim.turn)
        assert await world.append(claim, 0, b"x") == TurnUnknown()
        assert await world.renew(claim) == TurnUnknown()
        assert await world.finish(claim, 0, b"x") == TurnUnknown()

    async def test_ended_turn_answers_its_outcome(self, world: LedgerWorld) -> None:
        claim = await world.finished()
        ended = TurnEnded("completed", b"completed")
        assert await world.append(claim, 2, b"more") == ended
        assert await world.renew(claim) == ended
        assert await world.finish(claim, 1, b"completed") == ended

    async def test_renewal_keeps_others_out(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        claim = await world.claimed(request)
        for _ in range(5):
            world.clock.skip(LEASE_MS / 1000 * 0.9)
            await world.registry.renew_owner(follower().owner)
            assert await world.renew(claim) == Held((follower(),), False, 0)
            assert refused(await world.claim(request, "n2")) is ClaimRefusal.LEASED

    async def test_lapsed_owner_that_nobody_replaced_goes_on(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        world.clock.skip(LEASE_MS / 1000 * 10)
        assert isinstance(await world.append(claim, 0, b"x"), Held)
        state = await state_of(world, claim.turn)
        assert state.lease_until_ms == world.now_ms + LEASE_MS

    async def test_each_of_many_gets_its_own_answer_in_order(self, world: LedgerWorld) -> None:
        good = await world.claimed(await world.accepted(session="a"))
        ended = await world.finished(await world.accepted(session="b"))
        lost = await world.claimed(await world.accepted(session="c"))
        await world.lose(lost.turn)
        other = await world.claimed(await world.accepted(session="d"))
        stranger = ClaimRef(other.turn, 1, ClaimNonce("stranger"))
        appends = [
            Append(good, 0, (b"0",)),
            Append(ended, 2, (b"x",)),
            Append(lost, 0, (b"x",)),
            Append(stranger, 0, (b"x",)),
            Append(other, 5, (b"x",)),
            Append(good, 1, (b"1",)),
        ]
        answers = await world.claims.append_many(appends, world.now_ms)
        kinds = [Held, TurnEnded, TurnUnknown, Fenced, LogGap, Held]
        assert [type(answer) for answer in answers] == kinds
        claims = [good, ended, lost, stranger, other]
        answers = await world.claims.renew_many(claims, world.now_ms)
        assert [type(answer) for answer in answers] == [Held, TurnEnded, TurnUnknown, Fenced, Held]

    async def test_nothing_to_do_is_no_answer(self, world: LedgerWorld) -> None:
        assert await world.claims.append_many([], world.now_ms) == []
        assert await world.claims.renew_many([], world.now_ms) == []

    async def test_many_frames_at_once_are_kept(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        frames = tuple(b"%d" % number for number in range(12_000))
        assert isinstance(await world.append(claim, 0, *frames), Held)
        assert replayed(await world.read(claim.turn)).frames == frames

    async def test_cancel_flag_is_told_with_every_answer(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        answer = await world.queue.cancel(claim.turn, b"cancelled", world.now_ms)
        assert answer == CancelRequested()
        assert await world.renew(claim) == Held((follower(),), True, 0)
        assert await world.append(claim, 0, b"0") == Held((follower(),), True, 0)


class TestDeadOwners:
    @pytest.mark.case("B-17")
    async def test_followers_of_a_dead_owner_do_not_count_and_the_grace_starts(
        self, world: LedgerWorld
    ) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.join(claim.turn, BOB)
        await world.registry.renew_owner(BOB.owner)
        await self._renew_for_one_owner_lease(world, claim, BOB)
        assert await world.renew(claim) == Held((BOB,), False, 0)
        await world.kill(BOB.owner)
        died_at_ms = world.now_ms
        assert await world.renew(claim) == Held((), False, died_at_ms)
        world.clock.skip(1)
        assert await world.renew(claim) == Held((), False, died_at_ms)

    async def test_nobody_is_judged_before_redis_answered_for_one_owner_lease(
        self, world: LedgerWorld
    ) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        assert await world.renew(claim) == Held((ANN,), False, 0)
        world.clock.skip(OWNER_LEASE_MS / 1000 + 1)
        assert await world.renew(claim) == Held((ANN,), False, 0)

    async def test_reader_of_a_living_owner_saves_the_turn(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.kill(OwnerId(ANN.owner))
        await self._renew_for_one_owner_lease(world, claim, BOB)
        await world.join(claim.turn, BOB)
        assert await world.renew(claim) == Held((BOB,), False, 0)

    async def _renew_for_one_owner_lease(
        self, world: LedgerWorld, claim: ClaimRef, living: object
    ) -> None:
        for _ in range(6):
            await world.registry.renew_owner(living.owner)  # type: ignore[attr-defined]
            await world.renew(claim)
            world.clock.skip(1)
        await world.registry.renew_owner(living.owner)  # type: ignore[attr-defined]


class TestFinish:
    async def test_ends_the_turn_with_its_last_frame(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.append(claim, 0, b"started")
        assert await world.finish(claim, 1, b"last text", b"completed") == Finished((ANN,), None)
        state = await state_of(world, claim.turn)
        assert (state.status, state.outcome, state.last_seq) == ("completed", b"completed", 2)
        assert (state.attempt, state.lease_until_ms, state.is_ended) == (1, 0, True)

    @pytest.mark.case("B-27")
    async def test_next_head_is_popped_in_order_and_ready_now(self, world: LedgerWorld) -> None:
        requests = [await world.accepted() for _ in range(3)]
        for index, request in enumerate(requests):
            claim = await world.claimed(request, f"n{index}")
            world.clock.skip(7)
            answer = await world.finish(claim, 0, b"end")
            assert isinstance(answer, Finished)
            if index < 2:
                expected = msgspec.structs.replace(requests[index + 1], ready_at_ms=world.now_ms)
                assert answer.next_head == expected
                state = await state_of(world, expected.ref)
                assert (state.position, state.placed) == (0, "inline")
            else:
                assert answer.next_head is None

    async def test_gap_ends_nothing(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        assert await world.finish(claim, 2, b"end") == LogGap(-1)
        assert not (await state_of(world, claim.turn)).is_ended

    async def test_one_end_wins(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        answers = await asyncio.gather(
            *(world.finish(claim, 0, b"end") for _ in range(5)),
            world.queue.cancel(claim.turn, b"cancelled", world.now_ms),
        )
        assert sum(isinstance(answer, Finished) for answer in answers) == 1

    async def test_cancel_flag_does_not_stop_a_completed_end(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.queue.cancel(claim.turn, b"cancelled", world.now_ms)
        assert isinstance(await world.finish(claim, 0, b"end"), Finished)
        assert (await state_of(world, claim.turn)).status == "completed"

    async def test_history_is_for_the_next_claim_of_the_session(self, world: LedgerWorld) -> None:
        first = await world.claimed(await world.accepted())
        await world.claims.finish(
            Append(first, 0, (b"end",)), status="completed", history=b"[1]", now_ms=world.now_ms
        )
        second = await world.claim(await world.accepted())
        assert isinstance(second, Claimed)
        assert second.history == b"[1]"
        await world.finish(second.ref, 0, b"end")
        third = await world.claim(await world.accepted())
        assert isinstance(third, Claimed)
        assert third.history == b"[1]"
        other = await world.claim(await world.accepted(session="s2"))
        assert isinstance(other, Claimed)
        assert other.history is None

    async def test_waiting_turn_that_ended_is_not_popped(self, world: LedgerWorld) -> None:
        head, second, third = [await world.accepted() for _ in range(3)]
        await world.queue.cancel(second.ref, b"cancelled", world.now_ms)
        assert (await state_of(world, third.ref)).position == 1
        answer = await world.finish(await world.claimed(head), 0, b"end")
        assert isinstance(answer, Finished)
        assert answer.next_head is not None
        assert answer.next_head.turn_id == third.turn_id


class TestEndUnclaimed:
    async def test_ends_a_never_claimed_turn_and_pops_the_next(self, world: LedgerWorld) -> None:
        head, second = await world.accepted(ANN), await world.accepted()
        answer = await end(world, head.ref)
        next_head = msgspec.structs.replace(second, ready_at_ms=world.now_ms)
        assert answer == Finished((ANN,), next_head)
        state = await state_of(world, head.ref)
        assert (state.status, state.outcome, state.attempt) == ("expired", b"the end", 0)
        replay = replayed(await world.read(head.ref))
        assert (replay.frames, replay.log_kept) == ((), False)

    async def test_ends_a_detached_turn_outside_the_queue(self, world: LedgerWorld) -> None:
        low = world.request(detached=True, priority="low")
        await world.queue.accept(low, None)
        assert await end(world, low.ref) == Finished((), None)
        assert await world.queue.running(low.session) == []

    async def test_claimed_turn_is_not_ours_to_end(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        state = await state_of(world, claim.turn)
        assert await end(world, claim.turn) == StillClaimed(state)
        assert await end(world, claim.turn, attempt=1) == StillClaimed(state)
        world.clock.skip(LEASE_MS / 1000)
        assert await end(world, claim.turn) == StillClaimed(state)

    async def test_lapsed_attempt_ends_with_its_log_closed(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.append(claim, 0, b"started", b"text")
        world.clock.skip(LEASE_MS / 1000)
        assert await end(world, claim.turn, "failed", attempt=1) == Finished((follower(),), None)
        replay = replayed(await world.read(claim.turn))
        assert replay.frames == (b"started", b"text", b"the end")
        assert (replay.state.last_seq, replay.log_kept) == (2, True)

    async def test_ended_and_unknown_turns_say_so(self, world: LedgerWorld) -> None:
        claim = await world.finished()
        assert await end(world, claim.turn) == TurnEnded("completed", b"completed")
        assert await end(world, world.request().ref) == TurnUnknown()


class TestCancel:
    async def test_ends_an_unclaimed_turn_itself(self, world: LedgerWorld) -> None:
        head, second = await world.accepted(ANN), await world.accepted()
        answer = await world.queue.cancel(head.ref, b"cancelled", world.now_ms)
        assert answer == Finished((ANN,), msgspec.structs.replace(second, ready_at_ms=world.now_ms))
        assert (await state_of(world, head.ref)).status == "cancelled"
        assert refused(await world.claim(head)) is ClaimRefusal.ENDED

    async def test_flags_a_lapsed_turn_for_its_next_claimer(self, world: LedgerWorld) -> None:
        request = await world.accepted()
        await world.claimed(request)
        world.clock.skip(LEASE_MS / 1000)
        answer = await world.queue.cancel(request.ref, b"cancelled", world.now_ms)
        assert answer == CancelRequested()
        claim = await world.claim(request, "n2")
        assert isinstance(claim, Claimed)
        assert claim.cancel_requested
        assert (await state_of(world, request.ref)).cancel_requested

    async def test_ended_and_unknown_turns_say_so(self, world: LedgerWorld) -> None:
        claim = await world.finished()
        answer = await world.queue.cancel(claim.turn, b"cancelled", world.now_ms)
        assert answer == TurnEnded("completed", b"completed")
        unknown = world.request().ref
        assert await world.queue.cancel(unknown, b"cancelled", world.now_ms) == TurnUnknown()


class TestFollow:
    async def test_reads_after_what_the_client_has(self, world: LedgerWorld) -> None:
        claim = await world.claimed()
        await world.append(claim, 0, b"0", b"1", b"2")
        for after_seq, from_seq in ((-1, 0), (0, 0), (1, 2), (2, 3), (99, 3)):
            replay = replayed(await world.read(claim.turn, attempt=1, after_seq=after_seq))
            assert replay.from_seq == from_seq
            assert replay.frames == (b"0", b"1", b"2")[from_seq:]
            assert replay.log_kept

    @pytest.mark.parametrize("attempt", [None, 0, 2])
    async def test_another_attempt_reads_from_the_start(
        self, world: LedgerWorld, attempt: int | None
    ) -> None:
        claim = await world.claimed()
        await world.append(claim, 0, b"0", b"1")
        replay = replayed(await world.read(claim.turn, attempt=attempt, after_seq=1))
        assert (replay.from_seq, replay.frames) == (0, (b"0", b"1"))

    async def test_follower_gets_frames_from_then_on(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.join(claim.turn, BOB)
        assert await world.append(claim, 0, b"0") == Held((ANN, BOB), False, 0)

    async def test_sixth_follower_replaces_the_oldest(self, world: LedgerWorld) -> None:
        readers = [follower(f"c{number}") for number in range(6)]
        claim = await world.claimed(await world.accepted(readers[0]))
        for reader in readers[1:]:
            await world.join(claim.turn, reader)
        assert await world.renew(claim) == Held(tuple(readers[1:]), False, 0)

    @pytest.mark.case("B-17")
    async def test_following_twice_counts_once_and_as_newest(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.join(claim.turn, BOB)
        await world.join(claim.turn, ANN)
        assert await world.renew(claim) == Held((BOB, ANN), False, 0)

    async def test_reading_alone_adds_nobody(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.read(claim.turn)
        assert await world.renew(claim) == Held((ANN,), False, 0)

    async def test_ended_turn_is_replayed_whole(self, world: LedgerWorld) -> None:
        claim = await world.finished()
        replay = replayed(await world.join(claim.turn, BOB))
        assert replay.frames == (b"started", b"completed")
        assert (replay.state.outcome, replay.log_kept) == (b"completed", True)

    async def test_outcome_is_left_when_the_log_is_gone(self, world: LedgerWorld) -> None:
        claim = await world.finished()
        await world.expire_log(claim.turn)
        replay = replayed(await world.join(claim.turn, BOB))
        assert (replay.frames, replay.log_kept) == ((), False)
        assert (replay.state.outcome, replay.state.last_seq) == (b"completed", 1)

    async def test_waiting_turn_can_be_followed(self, world: LedgerWorld) -> None:
        await world.accepted()
        second = await world.accepted(ANN)
        replay = replayed(await world.join(second.ref, BOB))
        assert (replay.state.position, replay.frames, replay.log_kept) == (1, (), True)

    async def test_unknown_turn_says_so(self, world: LedgerWorld) -> None:
        assert await world.join(world.request().ref, ANN) == TurnUnknown()


class TestUnfollow:
    @pytest.mark.case("B-35")
    async def test_removes_exactly_this_follower_from_all_turns(self, world: LedgerWorld) -> None:
        first = await world.claimed(await world.accepted(ANN, session="a"))
        second = await world.claimed(await world.accepted(ANN, session="b"))
        await world.join(first.turn, BOB)
        same_id_elsewhere = msgspec.structs.replace(ANN, owner=OwnerId("gateway-9"))
        turns = [first.turn, second.turn, world.request().ref]
        await world.followers.unfollow(turns, same_id_elsewhere, world.now_ms)
        assert await world.renew(second) == Held((ANN,), False, 0)
        await world.followers.unfollow(turns, ANN, world.now_ms)
        assert await world.renew(first) == Held((BOB,), False, 0)
        assert await world.renew(second) == Held((), False, world.now_ms)

    async def test_readerless_time_is_that_of_the_last_leaver(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.followers.unfollow([claim.turn], ANN, world.now_ms)
        left_at_ms = world.now_ms
        world.clock.skip(2)
        await world.followers.unfollow([claim.turn], ANN, world.now_ms)
        assert await world.renew(claim) == Held((), False, left_at_ms)

    async def test_of_no_turn_does_nothing(self, world: LedgerWorld) -> None:
        await world.followers.unfollow([], ANN, world.now_ms)


class TestDetach:
    async def test_turn_goes_on_after_its_last_reader_left(self, world: LedgerWorld) -> None:
        claim = await world.claimed(await world.accepted(ANN))
        await world.followers.detach(claim.turn)
        await world.followers.unfollow([claim.turn], ANN, world.now_ms)
        assert await world.renew(claim) == Held((), False, 0)

    async def test_grace_that_runs_already_ends(self, world: LedgerWorld) -> None:
        request = await world.accepted(ANN)
        await world.followers.unfollow([request.ref], ANN, world.now_ms)
        await world.followers.detach(request.ref)
        world.clock.skip(GRACE_MS / 1000)
        assert isinstance(await world.claim(request), Claimed)

    async def test_ended_and_unknown_turns_stay_as_they_are(self, world: LedgerWorld) -> None:
        request = await world.accepted(ANN)
        await end(world, request.ref)
        before = await state_of(world, request.ref)
        await world.followers.detach(request.ref)
        assert await state_of(world, request.ref) == before
        unknown = world.request().ref
        await world.followers.detach(unknown)
        assert await world.queue.state(unknown) is None
