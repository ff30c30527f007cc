"""The in-memory twin of the ledger: SessionQueue, TurnClaims, TurnFollowers and TurnRevival over dictionaries.

It passes the same suite as the Redis adapters (tests/contract/test_ledger.py), so a test that uses it learns the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from shared.clock import Clock
from shared.contracts.dead_letters import AttemptRecord
from shared.contracts.identifiers import (
    ClaimNonce,
    MessageId,
    OwnerId,
    SessionRef,
    TurnId,
    TurnRef,
    made_at_ms,
)
from shared.contracts.ledger import (
    AcceptAnswer,
    AcceptedAsHead,
    AcceptedAsWaiting,
    AcceptedDetached,
    AlreadyAccepted,
    Append,
    CancelAnswer,
    CancelRequested,
    ClaimAnswer,
    Claimed,
    ClaimRef,
    ClaimRefusal,
    ClaimRefused,
    EndAnswer,
    Fenced,
    FinishAnswer,
    Finished,
    FollowAnswer,
    Follower,
    Held,
    HoldAnswer,
    LogGap,
    NotReopened,
    ReopenAnswer,
    Reopened,
    Replay,
    SessionBusy,
    StillClaimed,
    TurnEnded,
    TurnState,
    TurnUnknown,
)
from shared.contracts.recovery import SENT_RELEASES, Recovery, Release
from shared.contracts.server_frames import AcceptedPath, RunningTurn
from shared.contracts.turns import EndStatus, Path, TurnRequest, TurnStatus
from shared.errors import DependencyUnavailable
from tests.fakes.registry import FakeRegistry

_Item = TypeVar("_Item")


@dataclass
class _Turn:
    request: TurnRequest
    status: TurnStatus = "waiting"
    placed: AcceptedPath = "inline"
    placed_at_ms: int = 0
    attempt: int = 0
    nonce: str = ""
    lease_until_ms: int = 0
    last_seq: int = -1
    log: list[bytes] = field(default_factory=list)
    log_kept_until_ms: int | None = None
    kept_until_ms: int | None = None
    cancel_requested: bool = False
    readerless_since_ms: int = 0
    is_detached: bool = False
    outcome: bytes | None = None
    followers: list[Follower] = field(default_factory=list)
    worker: str = ""
    path: str = ""
    claimed_at_ms: int = 0
    recovery: Recovery = field(default_factory=Recovery)
    reserved_by: str = ""
    earlier_attempts: tuple[AttemptRecord, ...] = ()
    unreadable: bytes | None = None

    @property
    def present_attempt(self) -> AttemptRecord:
        """The attempt as the history keeps it once its lease has lapsed."""
        return AttemptRecord(
            attempt=self.attempt,
            worker=self.worker,
            path=self.path,
            started_at_ms=self.claimed_at_ms,
            ended_at_ms=self.lease_until_ms,
            outcome=self.recovery.released or "crashed",
        )

    @property
    def is_outside_queue(self) -> bool:
        return self.request.detached and self.request.priority != "high"


@dataclass
class _Session:
    turns: dict[TurnId, _Turn] = field(default_factory=dict)
    messages: dict[MessageId, TurnId] = field(default_factory=dict)
    head: TurnId | None = None
    waiting: list[TurnId] = field(default_factory=list)
    outside: list[TurnId] = field(default_factory=list)
    lost_detached: set[TurnId] = field(default_factory=set)
    history: bytes | None = None
    history_until_ms: int = 0


class FakeLedger:
    """The ledger in memory.

    `unavailable` makes every call raise DependencyUnavailable; `forget` plays a data loss. `calls` holds the names of
    the verbs called, one per round trip. `burst_waiting` and `due_at_ms` are the indexes that the sweeper and the
    load board read.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        registry: FakeRegistry | None = None,
        lease_ms: int = 3_000,
        owner_lease_ms: int = 5_000,
        waiting_turns_per_session: int = 3,
        followers_per_turn: int = 5,
        log_kept_ms: int = 900_000,
        outcome_kept_ms: int = 86_400_000,
        history_cached_ms: int = 3_600_000,
        first_check_ms: int = 5_000,
        reservation_ms: int = 5_000,
        attempts_per_turn: int = 3,
        crashes_per_turn: int = 2,
    ) -> None:
        self._clock = clock
        self._registry = registry
        self._lease_ms = lease_ms
        self._owner_lease_ms = owner_lease_ms
        self._waiting_limit = waiting_turns_per_session
        self._followers_limit = followers_per_turn
        self._log_kept_ms = log_kept_ms
        self._outcome_kept_ms = outcome_kept_ms
        self._history_cached_ms = history_cached_ms
        self._first_check_ms = first_check_ms
        self._reservation_ms = reservation_ms
        self._attempts_per_turn = attempts_per_turn
        self._crashes_per_turn = crashes_per_turn
        self._sessions: dict[SessionRef, _Session] = {}
        self._renewed_at_ms: int | None = None
        self._answering_since_ms = 0
        self.burst_waiting: dict[TurnRef, int] = {}
        self.burst_entered = [0]  # a box, since clients of one ledger are copies
        self.due_at_ms: dict[TurnRef, int] = {}
        self.calls: list[str] = []
        self.unavailable = False

    def forget(self, turn: TurnRef) -> None:
        """Lose the turn, as a failover without its last second would."""
        session = self._session(turn.session)
        lost = session.turns.pop(turn.turn_id, None)
        if lost is not None and lost.is_outside_queue:
            session.lost_detached.add(turn.turn_id)

    def damage(self, turn: TurnRef, raw: bytes) -> None:
        """Replace the stored request by something that is none."""
        found = self._find(turn)
        assert found is not None
        found.unreadable = raw

    # SessionQueue --------------------------------------------------------------------------------

    async def accept(self, request: TurnRequest, follower: Follower | None) -> AcceptAnswer:
        self._ask("accept")
        session = self._session(request.session)
        self._due(request.ref, request.accepted_at_ms + self._first_check_ms)
        known = self._turn_of_message(session, request.message_id)
        if known is not None:
            if known.outcome is None and follower is not None:
                self._add_follower(known, follower)
            return AlreadyAccepted(self._state(session, known))
        head = self._heal_head(session, request.accepted_at_ms)
        turn = _Turn(request)
        is_full = self._interactive_waiting(session) >= self._waiting_limit
        if head is not None and is_full and not turn.is_outside_queue:
            self.due_at_ms.pop(request.ref, None)
            return SessionBusy()
        session.turns[request.turn_id] = turn
        session.messages[request.message_id] = request.turn_id
        turn.readerless_since_ms = request.accepted_at_ms
        if follower is not None:
            self._add_follower(turn, follower)
        if turn.is_outside_queue:
            session.outside.append(request.turn_id)
            return AcceptedDetached()
        if head is None:
            session.head = request.turn_id
            turn.request = msgspec.structs.replace(request, ready_at_ms=request.accepted_at_ms)
            return AcceptedAsHead()
        turn.placed = "waiting"
        turn.request = msgspec.structs.replace(request, ready_at_ms=0)
        session.waiting.append(request.turn_id)
        return AcceptedAsWaiting(len(session.waiting))

    async def mark_placed(self, turn: TurnRef, path: Path, at_ms: int) -> None:
        self._ask("mark_placed")
        self.burst_waiting.pop(turn, None)
        self.burst_entered[0] += path == "burst"
        held = self._find(turn)
        if held is None or held.outcome is not None:
            return
        held.placed = path
        held.placed_at_ms = at_ms
        if path == "burst" and held.lease_until_ms <= at_ms:
            self.burst_waiting[turn] = at_ms

    async def find_message(self, session: SessionRef, message_id: MessageId) -> TurnState | None:
        self._ask("find_message")
        held = self._session(session)
        turn = self._turn_of_message(held, message_id)
        return None if turn is None else self._state(held, turn)

    async def state(self, turn: TurnRef) -> TurnState | None:
        self._ask("state")
        held = self._find(turn)
        return None if held is None else self._state(self._session(turn.session), held)

    async def running(self, session: SessionRef) -> Sequence[RunningTurn]:
        self._ask("running")
        held = self._session(session)
        head = [held.head] if held.head is not None else []
        turns = (held.turns.get(turn_id) for turn_id in (*head, *held.waiting, *held.outside))
        return [
            RunningTurn(
                turn_id=turn.request.turn_id,
                message_id=turn.request.message_id,
                attempt=turn.attempt,
                last_seq=turn.last_seq,
            )
            for turn in turns
            if turn is not None and turn.outcome is None
        ]

    async def cancel(self, turn: TurnRef, outcome: bytes, at_ms: int) -> CancelAnswer:
        self._ask("cancel")
        self.burst_waiting.pop(turn, None)
        held = self._find(turn)
        if held is None:
            return TurnUnknown()
        if held.outcome is not None:
            return _ended(held)
        if held.attempt > 0:
            held.cancel_requested = True
            return CancelRequested()
        return self._end(turn.session, held, "cancelled", outcome, at_ms)

    # TurnClaims ----------------------------------------------------------------------------------

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
        self._ask("claim")
        self.burst_waiting.pop(request.ref, None)
        self._due(request.ref, now_ms + self._lease_ms - 1)
        self.due_at_ms[request.ref] += 1
        session = self._session(request.session)
        turn = self._find(request.ref)
        is_new = turn is None
        if turn is None:
            turn = _Turn(request, readerless_since_ms=now_ms)
            session.turns[request.turn_id] = turn
            session.messages.setdefault(request.message_id, request.turn_id)
        if turn.outcome is not None:
            return self._refused(session, turn, ClaimRefusal.ENDED)
        if turn.nonce == nonce:
            turn.lease_until_ms = now_ms + self._lease_ms
            return self._claimed(session, turn, request, now_ms)
        is_lost = request.attempt_hint > turn.attempt
        if turn.lease_until_ms > now_ms and not is_lost:
            return self._refused(session, turn, ClaimRefusal.LEASED)
        past = turn.recovery
        is_running = turn.status == "running"
        crashes = past.crashes + (is_running and past.released is None and not is_lost)
        is_used_up = crashes >= self._crashes_per_turn or past.tries >= self._attempts_per_turn
        if is_used_up and not is_lost and not past.is_delivery:
            return self._refused(session, turn, ClaimRefusal.EXHAUSTED)
        enters_front = is_lost or (is_new and not turn.is_outside_queue)
        if not self._take_head(session, turn, enters_front, now_ms):
            return self._refused(session, turn, ClaimRefusal.NOT_HEAD)
        if not past.is_delivery and self._is_readerless(turn, grace_ms, now_ms):
            return self._refused(session, turn, ClaimRefusal.READERLESS)
        if is_running:
            turn.earlier_attempts = (*turn.earlier_attempts, turn.present_attempt)[-20:]
        turn.recovery = Recovery(tries=past.tries + (not past.is_delivery), crashes=crashes)
        turn.worker = worker
        turn.path = path
        turn.claimed_at_ms = now_ms
        turn.status = "running"
        turn.placed = path
        turn.attempt = max(turn.attempt, request.attempt_hint) + 1
        turn.nonce = nonce
        turn.lease_until_ms = now_ms + self._lease_ms
        turn.last_seq = -1
        turn.log = []
        return self._claimed(session, turn, request, now_ms)

    async def append_many(self, appends: Sequence[Append], now_ms: int) -> Sequence[HoldAnswer]:
        self._ask("append_many")
        return [self._append(append, now_ms) for append in appends]

    async def renew_many(self, claims: Sequence[ClaimRef], now_ms: int) -> Sequence[HoldAnswer]:
        self._ask("renew_many")
        may_judge = self._may_judge_owners(now_ms)
        answers: list[HoldAnswer] = []
        for claim in claims:
            turn = self._check(claim)
            if isinstance(turn, _Turn):
                turn.lease_until_ms = now_ms + self._lease_ms
                for follower in [*turn.followers] if may_judge else []:
                    if not self._is_alive(follower.owner):
                        _remove_follower(turn, follower, now_ms)
                answers.append(_held(turn))
            else:
                answers.append(turn)
        return answers

    async def release(
        self, claim: ClaimRef, *, release: Release, due_at_ms: int, now_ms: int
    ) -> None:
        self._ask("release")
        is_sent = release in SENT_RELEASES
        reserved_until_ms = due_at_ms + self._reservation_ms if is_sent else 0
        self.due_at_ms[claim.turn] = reserved_until_ms or now_ms
        turn = self._check(claim)
        if isinstance(turn, _Turn):
            turn.lease_until_ms = now_ms
            turn.nonce = ""
            turn.recovery = msgspec.structs.replace(
                turn.recovery,
                tries=turn.recovery.tries - (release == "throttled"),
                released=release,
                due_at_ms=due_at_ms,
                reserved_until_ms=reserved_until_ms,
                dispatches=int(is_sent),
                first_dispatched_at_ms=due_at_ms if is_sent else 0,
            )

    async def finish(
        self, append: Append, *, status: EndStatus, history: bytes | None, now_ms: int
    ) -> FinishAnswer:
        self._ask("finish")
        self.burst_waiting.pop(append.claim.turn, None)
        answer = self._append(append, now_ms)
        if not isinstance(answer, Held):
            return answer
        ref = append.claim.turn
        turn = self._find(ref)
        assert turn is not None
        if history is not None:
            session = self._session(ref.session)
            session.history = history
            session.history_until_ms = now_ms + self._history_cached_ms
        return self._end(ref.session, turn, status, append.frames[-1], now_ms)

    async def end_unclaimed(
        self,
        turn: TurnRef,
        *,
        status: EndStatus,
        outcome: bytes,
        now_ms: int,
        attempt: int = 0,
    ) -> EndAnswer:
        self._ask("end_unclaimed")
        self.burst_waiting.pop(turn, None)
        held = self._find(turn)
        if held is None:
            return TurnUnknown()
        if held.outcome is not None:
            return _ended(held)
        if held.attempt != attempt or held.lease_until_ms > now_ms:
            return StillClaimed(self._state(self._session(turn.session), held))
        if attempt > 0:
            held.log.append(outcome)
            held.last_seq += 1
        return self._end(turn.session, held, status, outcome, now_ms)

    # TurnFollowers -------------------------------------------------------------------------------

    async def follow(
        self,
        turn: TurnRef,
        follower: Follower | None,
        *,
        attempt: int | None,
        after_seq: int,
        now_ms: int,
    ) -> FollowAnswer:
        self._ask("follow")
        held = self._find(turn)
        if held is None:
            return TurnUnknown()
        if follower is not None and held.outcome is None:
            self._add_follower(held, follower)
        from_seq = after_seq + 1 if attempt == held.attempt and after_seq > 0 else 0
        from_seq = min(from_seq, held.last_seq + 1)
        log_until_ms = held.log_kept_until_ms
        log_kept = held.outcome is None or (
            bool(held.log) and log_until_ms is not None and log_until_ms > self._clock.now_ms()
        )
        frames = tuple(held.log[from_seq:]) if log_kept else ()
        state = self._state(self._session(turn.session), held)
        return Replay(state, from_seq, frames, log_kept)

    async def unfollow(self, turns: Sequence[TurnRef], follower: Follower, now_ms: int) -> None:
        self._ask("unfollow")
        for ref in turns:
            turn = self._find(ref)
            if turn is not None:
                _remove_follower(turn, follower, now_ms)

    async def detach(self, turn: TurnRef) -> None:
        self._ask("detach")
        held = self._find(turn)
        if held is not None and held.outcome is None:
            held.is_detached = True
            held.readerless_since_ms = 0

    # TurnRevival ---------------------------------------------------------------------------------

    async def reopen(self, request: TurnRequest, *, now_ms: int) -> ReopenAnswer:
        self._ask("reopen")
        self._due(request.ref, now_ms + self._first_check_ms)
        session = self._session(request.session)
        known = self._find(request.ref)
        if known is not None and known.status != "failed":
            return NotReopened(known.status)
        attempt = max(request.attempt_hint, known.attempt if known is not None else 0)
        request = msgspec.structs.replace(request, ready_at_ms=0)
        session.turns[request.turn_id] = _Turn(request, attempt=attempt, readerless_since_ms=now_ms)
        _discard(session.waiting, request.turn_id)
        _discard(session.outside, request.turn_id)
        if session.head != request.turn_id:
            session.outside.append(request.turn_id)
        session.messages.setdefault(request.message_id, request.turn_id)
        return Reopened(attempt)

    # the inside ----------------------------------------------------------------------------------

    def _ask(self, verb: str) -> None:
        self.calls.append(verb)
        if self.unavailable:
            self._renewed_at_ms = None
            raise DependencyUnavailable("the fake ledger was told to be away")

    def _session(self, ref: SessionRef) -> _Session:
        return self._sessions.setdefault(ref, _Session())

    def _find(self, ref: TurnRef) -> _Turn | None:
        turn = self._session(ref.session).turns.get(ref.turn_id)
        if turn is None or turn.kept_until_ms is None:
            return turn
        return turn if turn.kept_until_ms > self._clock.now_ms() else None

    def _turn_of_message(self, session: _Session, message_id: MessageId) -> _Turn | None:
        turn_id = session.messages.get(message_id)
        turn = None if turn_id is None else session.turns.get(turn_id)
        turn = None if turn is None else self._find(turn.request.ref)
        return None if turn is None or turn.status == "rejected" else turn

    def _due(self, ref: TurnRef, at_ms: int) -> None:
        self.due_at_ms[ref] = min(at_ms, self.due_at_ms.get(ref, at_ms))

    def _heal_head(self, session: _Session, now_ms: int) -> TurnId | None:
        head = session.turns.get(session.head) if session.head is not None else None
        if head is None or head.outcome is not None:
            self._pop_head(session, now_ms)
        return session.head

    def _pop_head(self, session: _Session, now_ms: int) -> TurnRequest | None:
        session.head = None
        while session.waiting:
            turn = session.turns.get(session.waiting.pop(0))
            if turn is None or turn.outcome is not None:
                continue
            session.head = turn.request.turn_id
            if turn.lease_until_ms > now_ms:
                return None
            turn.placed = "inline"
            if turn.attempt == 0:
                turn.request = msgspec.structs.replace(turn.request, ready_at_ms=now_ms)
            return None if turn.unreadable is not None else turn.request
        return None

    def _take_head(self, session: _Session, turn: _Turn, enters_front: bool, now_ms: int) -> bool:
        turn_id = turn.request.turn_id
        head = self._heal_head(session, now_ms)
        if head == turn_id:
            return True
        if head is not None and not enters_front:
            if turn_id not in session.waiting:
                session.waiting.append(turn_id)
            turn.placed = "waiting"
            _discard(session.outside, turn_id)
            return False
        _discard(session.waiting, turn_id)
        _discard(session.outside, turn_id)
        if head is not None:
            session.waiting.insert(0, head)
        session.head = turn_id
        if turn.request.ready_at_ms == 0:
            turn.request = msgspec.structs.replace(turn.request, ready_at_ms=now_ms)
        return True

    def _interactive_waiting(self, session: _Session) -> int:
        # A lost turn keeps its place, and counts, until it is popped.
        detached = {id_ for id_, turn in session.turns.items() if turn.is_outside_queue}
        return len(
            [each for each in session.waiting if each not in detached | session.lost_detached]
        )

    def _is_readerless(self, turn: _Turn, grace_ms: int, now_ms: int) -> bool:
        if turn.request.detached or turn.is_detached or turn.followers:
            return False
        return now_ms - turn.readerless_since_ms >= grace_ms

    def _add_follower(self, turn: _Turn, follower: Follower) -> None:
        _discard(turn.followers, follower)
        turn.followers.append(follower)
        del turn.followers[: -self._followers_limit]
        turn.readerless_since_ms = 0

    def _may_judge_owners(self, now_ms: int) -> bool:
        last_ms = self._renewed_at_ms
        if last_ms is None or now_ms - last_ms > self._owner_lease_ms:
            self._answering_since_ms = now_ms
        self._renewed_at_ms = now_ms
        return now_ms - self._answering_since_ms >= self._owner_lease_ms

    def _is_alive(self, owner: OwnerId) -> bool:
        return self._registry is None or self._registry.is_alive(owner)

    def _check(self, claim: ClaimRef) -> _Turn | TurnUnknown | TurnEnded | Fenced:
        turn = self._find(claim.turn)
        if turn is None:
            return TurnUnknown()
        if turn.outcome is not None:
            return _ended(turn)
        if turn.attempt < claim.attempt:
            return TurnUnknown()
        if turn.attempt > claim.attempt or turn.nonce != claim.nonce:
            return Fenced(turn.attempt)
        return turn

    def _append(self, append: Append, now_ms: int) -> HoldAnswer:
        turn = self._check(append.claim)
        if not isinstance(turn, _Turn):
            return turn
        if append.frames:
            if append.first_seq > turn.last_seq + 1:
                return LogGap(turn.last_seq)
            known = turn.log[append.first_seq : append.first_seq + len(append.frames)]
            if known != list(append.frames[: len(known)]):
                return Fenced(turn.attempt)
            turn.log.extend(append.frames[len(known) :])
            turn.last_seq = len(turn.log) - 1
        turn.lease_until_ms = now_ms + self._lease_ms
        return _held(turn)

    def _end(
        self, ref: SessionRef, turn: _Turn, status: EndStatus, outcome: bytes, now_ms: int
    ) -> Finished:
        session = self._session(ref)
        turn_id = turn.request.turn_id
        followers = tuple(turn.followers)
        turn.status = status
        turn.outcome = outcome
        turn.lease_until_ms = 0
        turn.followers = []
        turn.earlier_attempts = ()
        turn.log_kept_until_ms = now_ms + self._log_kept_ms
        turn.kept_until_ms = now_ms + self._outcome_kept_ms
        if status == "rejected" and session.messages.get(turn.request.message_id) == turn_id:
            del session.messages[turn.request.message_id]
        _discard(session.waiting, turn_id)
        _discard(session.outside, turn_id)
        is_head = session.head == turn_id
        return Finished(followers, self._pop_head(session, now_ms) if is_head else None)

    def _state(self, session: _Session, turn: _Turn) -> TurnState:
        turn_id = turn.request.turn_id
        is_waiting = turn_id in session.waiting
        return TurnState(
            request=turn.request if turn.unreadable is None else _ids_alone(turn.request),
            unreadable=turn.unreadable,
            status=turn.status,
            placed=turn.placed,
            placed_at_ms=turn.placed_at_ms,
            attempt=turn.attempt,
            last_seq=turn.last_seq,
            lease_until_ms=turn.lease_until_ms,
            position=session.waiting.index(turn_id) + 1 if is_waiting else 0,
            cancel_requested=turn.cancel_requested,
            outcome=turn.outcome,
        )

    def _claimed(
        self, session: _Session, turn: _Turn, request: TurnRequest, now_ms: int
    ) -> Claimed:
        if turn.unreadable is None:
            request = turn.request
        history = session.history if session.history_until_ms > now_ms else None
        return Claimed(
            ref=ClaimRef(turn.request.ref, turn.attempt, ClaimNonce(turn.nonce)),
            tries=turn.recovery.tries,
            request=msgspec.structs.replace(request, ready_at_ms=turn.request.ready_at_ms),
            followers=tuple(turn.followers),
            cancel_requested=turn.cancel_requested,
            history=history,
            earlier_attempts=turn.earlier_attempts,
        )

    def _refused(self, session: _Session, turn: _Turn, reason: ClaimRefusal) -> ClaimRefused:
        return ClaimRefused(reason, self._state(session, turn))


def _ids_alone(request: TurnRequest) -> TurnRequest:
    return TurnRequest(
        turn_id=request.turn_id,
        session_id=request.session_id,
        message_id=request.message_id,
        tenant=request.tenant,
        user=request.user,
        text="",
        accepted_at_ms=made_at_ms(request.turn_id),
        ready_at_ms=request.ready_at_ms,
    )


def _held(turn: _Turn) -> Held:
    return Held(tuple(turn.followers), turn.cancel_requested, turn.readerless_since_ms)


def _ended(turn: _Turn) -> TurnEnded:
    assert turn.outcome is not None
    return TurnEnded(turn.status, turn.outcome)  # type: ignore[arg-type]


def _remove_follower(turn: _Turn, follower: Follower, now_ms: int) -> None:
    if follower in turn.followers and turn.outcome is None:
        turn.followers.remove(follower)
        if not turn.followers and not (turn.request.detached or turn.is_detached):
            turn.readerless_since_ms = now_ms


def _discard(items: list[_Item], item: _Item) -> None:
    if item in items:
        items.remove(item)
