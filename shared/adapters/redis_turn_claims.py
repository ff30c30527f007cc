"""Claims in Redis: one round trip per verb, one for all turns of a process where the verb says `many`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from shared.adapters import redis_keys
from shared.adapters.redis_client import RedisClient, Reply, answered
from shared.adapters.redis_endings import RedisEndings, decode_end
from shared.adapters.redis_keys import BURST_WAITING, SessionKeys, encode_ref, queue_mark
from shared.adapters.redis_ledger_replies import (
    decode_attempts,
    decode_finished,
    decode_followers,
    decode_hold,
    decode_refusal,
    decode_request,
    decode_state,
    encode_follower,
)
from shared.adapters.redis_scripts import Call, load_script
from shared.contracts.identifiers import ClaimNonce, OwnerId, TurnRef
from shared.contracts.ledger import (
    Append,
    ClaimAnswer,
    Claimed,
    ClaimRef,
    ClaimRefusal,
    ClaimRefused,
    EndAnswer,
    FinishAnswer,
    Follower,
    Held,
    HoldAnswer,
    StillClaimed,
    TurnUnknown,
)
from shared.contracts.recovery import SENT_RELEASES, Release
from shared.contracts.turns import EndStatus, Path, TurnRequest, encode_turn
from shared.errors import DependencyUnavailable
from shared.policy.lease_trust import LeaseTrust
from shared.telemetry import Log

_log = Log("ledger")


class RedisTurnClaims:
    """TurnClaims over lua/claim, append, release, finish, end_unclaimed and unfollow."""

    def __init__(
        self,
        client: RedisClient,
        *,
        lease_ms: int,
        owner_lease_ms: int,
        log_kept_ms: int,
        outcome_kept_ms: int,
        history_cached_ms: int,
        reservation_ms: int,
        attempts_per_turn: int,
        crashes_per_turn: int,
    ) -> None:
        self._client = client
        self._lease_ms = lease_ms
        self._log_kept_ms = log_kept_ms
        self._outcome_kept_ms = outcome_kept_ms
        self._unended_kept_ms = redis_keys.unended_kept_ms(outcome_kept_ms)
        self._endings = RedisEndings(
            client, log_kept_ms=log_kept_ms, outcome_kept_ms=outcome_kept_ms
        )
        self._history_cached_ms = history_cached_ms
        self._reservation_ms = reservation_ms
        self._attempts_per_turn = attempts_per_turn
        self._crashes_per_turn = crashes_per_turn
        self._owners = _OwnerWatch(owner_lease_ms)
        self._claim = load_script("claim", "session", "state")
        self._release = load_script("release")
        self._append = load_script("append", "producer")
        self._finish = load_script("finish", "session", "producer", "ending")
        self._end_unclaimed = load_script("end_unclaimed", "session", "state", "ending")
        self._unfollow = load_script("unfollow")

    async def claim(
        self,
        request: TurnRequest,
        *,
        nonce: ClaimNonce,
        worker: str,
        path: Path,
        grace_ms: int,
        now_ms: int,
    ) -> ClaimAnswer:
        """See TurnClaims. The due index learns when the lease would lapse; the same nonce again is the same claim."""
        keys = SessionKeys(request.session)
        turn_id = request.turn_id
        member = encode_ref(request.ref)
        due = redis_keys.due(request.ref)
        claim = self._claim.call(
            (
                *keys.queue,
                keys.turn(turn_id),
                keys.followers(turn_id),
                keys.log(turn_id),
                keys.message(request.message_id),
                keys.history,
                keys.attempts(turn_id),
            ),
            now_ms,
            self._unended_kept_ms,
            turn_id,
            request.message_id,
            encode_turn(request),
            queue_mark(request),
            int(request.detached),
            request.ready_at_ms,
            request.attempt_hint,
            nonce,
            worker,
            path,
            grace_ms,
            self._lease_ms,
            self._attempts_per_turn,
            self._crashes_per_turn,
        )
        replies = await self._client.run(
            (
                ("ZADD", due, "LT", now_ms + self._lease_ms - 1, member),
                ("PEXPIRE", due, self._unended_kept_ms),
                ("ZREM", BURST_WAITING, member),
                claim,
                # A millisecond, so that a sweeper that saw the turn unclaimed cannot move or remove the entry; no
                # more, so that refused claims, however many, do not keep sweepers from the turn.
                ("ZINCRBY", due, 1, member),
            ),
            repeatable=True,
        )
        *_, reply, _ = map(answered, replies)
        if reply[0] == b"refused":
            return ClaimRefused(
                ClaimRefusal(reply[1].decode()), decode_state(reply[2:], request.session)
            )
        followers = decode_followers(reply[8:])
        self._owners.note(followers)
        kept = decode_request(reply[3], reply[4])
        return Claimed(
            ref=ClaimRef(request.ref, reply[1], nonce),
            tries=int(reply[2]),
            request=kept or msgspec.structs.replace(request, ready_at_ms=int(reply[4])),
            followers=followers,
            cancel_requested=reply[5] == b"1",
            history=reply[6],
            earlier_attempts=decode_attempts(reply[7]),
        )

    async def append_many(self, appends: Sequence[Append], now_ms: int) -> Sequence[HoldAnswer]:
        """See TurnClaims. Also extends the leases."""
        if not appends:
            return []
        lease_until_ms = now_ms + self._lease_ms
        calls = [
            self._hold(append.claim, lease_until_ms, append.first_seq, append.frames)
            for append in appends
        ]
        replies = await self._client.run(calls, repeatable=True)
        claims = (append.claim for append in appends)
        answers = [_hold_answer(*pair) for pair in zip(claims, replies, strict=True)]
        for answer in answers:
            if isinstance(answer, Held):
                self._owners.note(answer.followers)
        return answers

    async def renew_many(self, claims: Sequence[ClaimRef], now_ms: int) -> Sequence[HoldAnswer]:
        """See TurnClaims. Owners are judged by their leases only after Redis has answered for one full owner lease:
        after an outage all leases have lapsed, of the living too."""
        if not claims:
            return []
        lease_until_ms = now_ms + self._lease_ms
        calls = [self._hold(claim, lease_until_ms, 0, ()) for claim in claims]
        owners = self._owners.known()
        leases: list[Call] = [("EXISTS", redis_keys.owner(owner)) for owner in owners]
        try:
            replies = await self._client.run([*calls, *leases], repeatable=True)
        except BaseException:
            self._owners.lost_touch()
            raise
        answers = [_hold_answer(*pair) for pair in zip(claims, replies[: len(claims)], strict=True)]
        dead = frozenset(
            owner for owner, lease in zip(owners, replies[len(claims) :], strict=True) if lease == 0
        )
        self._owners.replace(answers)
        if self._owners.may_judge(now_ms) and dead:
            return await self._without(dead, claims, answers, now_ms)
        return answers

    async def release(
        self, claim: ClaimRef, *, release: Release, due_at_ms: int, now_ms: int
    ) -> None:
        """See TurnClaims."""
        turn = claim.turn
        is_sent = release in SENT_RELEASES
        call = self._release.call(
            (SessionKeys(turn.session).turn(turn.turn_id),),
            now_ms,
            claim.attempt,
            claim.nonce,
            release,
            due_at_ms,
            due_at_ms + self._reservation_ms if is_sent else "",
        )
        next_look_at_ms = due_at_ms + self._reservation_ms if is_sent else now_ms
        due = redis_keys.due(turn)
        # The entry last: a sweeper that comes in between looks at a lease that still lives.
        replies = await self._client.run(
            (
                call,
                ("ZADD", due, next_look_at_ms, encode_ref(turn)),
                ("PEXPIRE", due, self._unended_kept_ms),
            ),
            repeatable=True,
        )
        for reply in replies:
            answered(reply)

    async def finish(
        self, append: Append, *, status: EndStatus, history: bytes | None, now_ms: int
    ) -> FinishAnswer:
        """See TurnClaims."""
        turn = append.claim.turn
        keys = SessionKeys(turn.session)
        turn_id = turn.turn_id
        finish = self._finish.call(
            (
                *keys.queue,
                keys.turn(turn_id),
                keys.followers(turn_id),
                keys.log(turn_id),
                keys.history,
            ),
            now_ms,
            self._unended_kept_ms,
            turn_id,
            append.claim.attempt,
            append.claim.nonce,
            append.first_seq,
            status,
            self._log_kept_ms,
            self._outcome_kept_ms,
            int(history is not None),
            history or b"",
            self._history_cached_ms,
            *append.frames,
        )
        replies = await self._client.run((finish, ("ZREM", BURST_WAITING, encode_ref(turn))))
        reply, _ = map(answered, replies)
        if reply[0] == b"finished":
            return decode_finished(reply)
        return decode_refusal(reply)

    async def end_unclaimed(
        self, turn: TurnRef, *, status: EndStatus, outcome: bytes, now_ms: int, attempt: int = 0
    ) -> EndAnswer:
        """See TurnClaims."""
        reply = await self._endings.run(self._end_unclaimed, turn, now_ms, attempt, status, outcome)
        if reply[0] == b"claimed":
            return StillClaimed(decode_state(reply[1:], turn.session))
        return decode_end(reply)

    def _hold(
        self, claim: ClaimRef, lease_until_ms: int, first_seq: int, frames: tuple[bytes, ...]
    ) -> Call:
        keys = SessionKeys(claim.turn.session)
        turn_id = claim.turn.turn_id
        return self._append.call(
            (keys.turn(turn_id), keys.followers(turn_id), keys.log(turn_id)),
            lease_until_ms,
            self._unended_kept_ms,
            claim.attempt,
            claim.nonce,
            first_seq,
            *frames,
        )

    async def _without(
        self,
        dead: frozenset[OwnerId],
        claims: Sequence[ClaimRef],
        answers: list[HoldAnswer],
        now_ms: int,
    ) -> list[HoldAnswer]:
        removals: list[Call] = []
        filtered: list[HoldAnswer] = []
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, Held):
                gone = [each for each in answer.followers if each.owner in dead]
                removals.extend(self._removal(claim.turn, each, now_ms) for each in gone)
                answer = _left(answer, gone, now_ms)
            filtered.append(answer)
        if removals:
            for reply in await self._client.run(removals, repeatable=True):
                answered(reply)
        return filtered

    def _removal(self, turn: TurnRef, follower: Follower, now_ms: int) -> Call:
        keys = SessionKeys(turn.session)
        both = (keys.turn(turn.turn_id), keys.followers(turn.turn_id))
        return self._unfollow.call(both, now_ms, encode_follower(follower))


def _left(answer: Held, gone: Sequence[Follower], now_ms: int) -> Held:
    if not gone:
        return answer
    left = tuple(each for each in answer.followers if each not in gone)
    return Held(left, answer.cancel_requested, answer.readerless_since_ms if left else now_ms)


def _hold_answer(claim: ClaimRef, reply: Reply) -> HoldAnswer:
    # A damaged turn must not stop its neighbours in the pipeline; re-claiming it raises for it alone.
    try:
        return decode_hold(answered(reply))
    except (DependencyUnavailable, ValueError) as error:
        _log.warning("turn.unreadable", turn_id=claim.turn.turn_id, error_type=type(error).__name__)
        return TurnUnknown()


class _OwnerWatch:
    """Whose connections the turns of this process are read by, and since when Redis answers about them."""

    def __init__(self, owner_lease_ms: int) -> None:
        self._owners: set[OwnerId] = set()
        self._trust = LeaseTrust(owner_lease_ms)

    def note(self, followers: Iterable[Follower]) -> None:
        self._owners.update(follower.owner for follower in followers)

    def known(self) -> list[OwnerId]:
        return list(self._owners)

    def replace(self, answers: Iterable[HoldAnswer]) -> None:
        """Keep the owners still in use, so that the set is bounded by the followers of running turns."""
        self._owners.clear()
        for answer in answers:
            if isinstance(answer, Held):
                self.note(answer.followers)

    def lost_touch(self) -> None:
        self._trust.lose()

    def may_judge(self, now_ms: int) -> bool:
        self._trust.answered(now_ms)
        return self._trust.is_earned(now_ms)
