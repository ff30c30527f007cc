"""What a sweeper does about a turn that is due: one decision, from the turn as it is and the time.

The clocks: a turn that was never claimed has its own limit (the stale rule, the wait behind predecessors, the limit of
its priority) and ends `expired`; a claimed one is dispatched again and again, and fails when nobody claims it for
`unclaimed_limit_ms` after the first dispatch, or when its attempts or crashes are used up. The limits of a claimed
turn count from a dispatch, never from its lease, so that an outage of the ledger ends no turn by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shared.contracts.dead_letters import DeadLetterClass
from shared.contracts.ledger import TurnState
from shared.contracts.recovery import DueTurn, Recovery
from shared.contracts.turns import TurnRequest
from shared.policy.limits import DetachedLimits
from shared.policy.routing import has_own_queue
from shared.policy.staleness import ready_at_ms

Target = Literal["retry", "intake", "own_queue"]
"""Where a takeover is sent: the retry queue, a kept slot of an orchestrator, or the queue of its priority."""


@dataclass(frozen=True, kw_only=True)
class SweepLimits:
    """Limits of an unclaimed turn; the composition root fills them from settings."""

    stale_after_ms: int
    predecessor_wait_limit_ms: int
    detached: DetachedLimits
    unclaimed_limit_ms: int
    attempts_per_turn: int
    crashes_per_turn: int
    lease_ms: int
    reservation_ms: int
    undispatched_after_ms: int = 5_000
    """A head that nobody queued or claimed for so long lost its dispatcher."""
    offer_after_ms: int = 20_000
    """In burst for so long: the trigger may be off, or the message lost."""
    waiting_look_ms: int = 5_000
    unknown_kept_ms: int = 30_000
    """An entry is written before its turn, so that it may be unknown for a moment."""


@dataclass(frozen=True)
class Remove:
    """The turn has ended, or never came to be."""


@dataclass(frozen=True)
class LookAgain:
    """Nothing to do before `at_ms`, which lies ahead."""

    at_ms: int


@dataclass(frozen=True)
class DispatchAsNew:
    """Nobody dispatched the head, or whoever took it died before its claim."""


@dataclass(frozen=True)
class OfferToIntake:
    """Queued in burst for long: once to the orchestrators, never to a second queue."""


@dataclass(frozen=True)
class ResendToOwnQueue:
    """Half the limit of a deferred or background turn is over: its message may be lost."""


@dataclass(frozen=True)
class Expire:
    """Past its limit and never claimed."""

    age_ms: int


@dataclass(frozen=True)
class TakeOver:
    """Its producer is gone: the next attempt. A reservation comes first."""

    target: Target


@dataclass(frozen=True)
class Fail:
    """No further attempt. `overdue_ms` says for how long that has been so."""

    code: Literal["attempts_exhausted", "deadline_exceeded", "internal"]
    dead_letter: DeadLetterClass | None
    overdue_ms: int


Dispatch = DispatchAsNew | OfferToIntake | ResendToOwnQueue | TakeOver
Decision = Remove | LookAgain | Dispatch | Expire | Fail


def decide_unknown(made_at_ms: int, now_ms: int, limits: SweepLimits) -> Remove | LookAgain:
    """About an entry whose turn the ledger does not know; `made_at_ms` is when its id was made."""
    kept_until_ms = made_at_ms + limits.unknown_kept_ms
    return LookAgain(kept_until_ms) if now_ms < kept_until_ms else Remove()


def decide(turn: DueTurn, now_ms: int, limits: SweepLimits) -> Decision:
    """About a turn that the ledger knows."""
    state = turn.state
    if state.is_ended:
        return Remove()
    if state.lease_until_ms > now_ms:
        return LookAgain(state.lease_until_ms)
    if state.unreadable is not None:
        return _decide_unreadable(state, now_ms, limits)
    if state.status == "waiting":
        return _decide_unclaimed(state, turn.recovery, now_ms, limits)
    return _decide_lapsed(state, turn.recovery, now_ms, limits)


def next_look_ms(
    turn: DueTurn | None, decision: Decision, now_ms: int, limits: SweepLimits
) -> int | None:
    """When the turn is due again after `decision`, whoever performs it and however it goes; None = never."""
    match decision:
        case Remove():
            return None
        case LookAgain(at_ms):
            return at_ms
        case _:
            again_at_ms = now_ms + limits.reservation_ms
    if turn is None or turn.state.status != "waiting":
        return again_at_ms
    _, limit_at_ms = _limit(turn.state, limits)
    return min(again_at_ms, limit_at_ms) if now_ms < limit_at_ms else again_at_ms


def second_target(target: Target, request: TurnRequest) -> Target | None:
    """Who is asked at once when the retry queue cannot be; None = nobody before the reservation ends."""
    if target != "retry":
        return None
    return "own_queue" if has_own_queue(request) else "intake"


def _decide_unreadable(state: TurnState, now_ms: int, limits: SweepLimits) -> LookAgain | Fail:
    """A newer version may have written it, whose sweepers and workers can read it: they go first."""
    since_ms = max(state.request.accepted_at_ms, state.lease_until_ms)
    overdue_ms = now_ms - since_ms - limits.unclaimed_limit_ms
    if overdue_ms < 0:
        return LookAgain(now_ms + min(limits.waiting_look_ms, -overdue_ms))
    return Fail("internal", "malformed", overdue_ms)


def _decide_unclaimed(
    state: TurnState, recovery: Recovery, now_ms: int, limits: SweepLimits
) -> Decision:
    if state.attempt and not state.placed_at_ms:
        # Reopened, and whoever did it could not send it: its clocks start when it is.
        if recovery.reserved_until_ms > now_ms:
            return LookAgain(recovery.reserved_until_ms)
        return DispatchAsNew()
    since_ms, limit_at_ms = _limit(state, limits)
    if now_ms >= limit_at_ms:
        return Expire(now_ms - since_ms)
    if state.position:
        next_at_ms = now_ms + limits.waiting_look_ms
    elif recovery.reserved_until_ms > now_ms:
        next_at_ms = recovery.reserved_until_ms
    else:
        decision, next_at_ms = _next_dispatch(state, recovery, since_ms, limit_at_ms, limits)
        if now_ms >= next_at_ms:
            return decision
    return LookAgain(min(next_at_ms, limit_at_ms))


def _limit(state: TurnState, limits: SweepLimits) -> tuple[int, int]:
    """When the clocks of a never claimed turn started, and when they end."""
    request = state.request
    if has_own_queue(request):
        # A reopened turn was accepted long ago.
        since_ms = state.placed_at_ms if state.attempt else request.accepted_at_ms
        longest_ms = limits.detached.of(request.priority)
    elif state.position:
        since_ms = request.accepted_at_ms
        return since_ms, since_ms + limits.predecessor_wait_limit_ms
    else:
        since_ms = ready_at_ms(request)
        longest_ms = limits.stale_after_ms
    limit_at_ms = since_ms + longest_ms
    if request.limit_at_ms and not state.attempt:
        limit_at_ms = min(limit_at_ms, request.limit_at_ms)
    return since_ms, limit_at_ms


def _next_dispatch(
    state: TurnState, recovery: Recovery, since_ms: int, limit_at_ms: int, limits: SweepLimits
) -> tuple[Dispatch, int]:
    """The next dispatch of a never claimed head, and when; at the limit when there is none any more."""
    is_queued = state.placed in ("burst", "queue")
    if not is_queued:
        ready_ms = state.request.ready_at_ms or since_ms
        return DispatchAsNew(), ready_ms + limits.undispatched_after_ms
    has_own = has_own_queue(state.request)
    dispatch: Dispatch = ResendToOwnQueue() if has_own else OfferToIntake()
    if recovery.is_offered:
        return dispatch, limit_at_ms
    if has_own:
        return dispatch, since_ms + (limit_at_ms - since_ms) // 2
    return dispatch, state.placed_at_ms + limits.offer_after_ms


def _decide_lapsed(
    state: TurnState, recovery: Recovery, now_ms: int, limits: SweepLimits
) -> Decision:
    if not recovery.is_delivery:
        hopeless = _hopeless(state, recovery, now_ms, limits)
        if hopeless is not None:
            return hopeless
    if state.position:
        # Beside a head that re-entered after a data loss: dispatched when it is its turn again.
        return LookAgain(now_ms + limits.waiting_look_ms)
    if recovery.reserved_until_ms > now_ms:
        return LookAgain(recovery.reserved_until_ms)
    return TakeOver(_target(state, recovery))


def _hopeless(
    state: TurnState, recovery: Recovery, now_ms: int, limits: SweepLimits
) -> Fail | None:
    lapsed_ms = now_ms - state.lease_until_ms
    crashes = recovery.crashes + (recovery.released is None)
    if crashes >= limits.crashes_per_turn:
        return Fail("attempts_exhausted", "poison", lapsed_ms)
    if recovery.tries >= limits.attempts_per_turn:
        return Fail("attempts_exhausted", "failed", lapsed_ms)
    if state.position:
        if lapsed_ms >= limits.predecessor_wait_limit_ms:
            return Fail("deadline_exceeded", None, lapsed_ms - limits.predecessor_wait_limit_ms)
        return None
    # Never before the dispatch that follows the last claim: before it nobody could claim.
    since_ms = max(recovery.first_dispatched_at_ms, recovery.due_at_ms)
    unclaimed_ms = now_ms - since_ms - limits.unclaimed_limit_ms
    if not recovery.dispatches or unclaimed_ms < 0:
        return None
    if recovery.released in ("postponed", "throttled"):
        return Fail("deadline_exceeded", None, unclaimed_ms)
    return Fail("attempts_exhausted", "failed", unclaimed_ms)


def _target(state: TurnState, recovery: Recovery) -> Target:
    other = second_target("retry", state.request)
    return other if other and recovery.dispatches % 2 else "retry"
