"""What a dead letter is, what to do about it, and which of many need a person at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from shared.contracts.dead_letters import TURN_UNCLAIMED, DeadLetter, DeadLetterClass
from shared.contracts.dead_turns import DeadTurnBrief, Reason, Verdict
from shared.contracts.ledger import TurnState
from shared.contracts.turns import TurnRequest
from shared.errors import DependencyUnavailable, ModelRejected
from shared.policy.staleness import is_interactive

GROWTH_WINDOW_MS = 600_000
GROWTH_TURNS = 10
"""So many deaths of one fingerprint within the window are a fault that is going on."""
REDRIVES_PER_TURN = 3
"""A turn that died again so often needs a repair, not another try."""
_WORTH_AN_ANSWER_MS = 86_400_000
_OUTAGES = frozenset({DependencyUnavailable.__name__, TURN_UNCLAIMED})
_DANGEROUS: frozenset[DeadLetterClass] = frozenset({"poison", "not_stored", "malformed"})


@dataclass(frozen=True)
class Assessment:
    """Class, proposed verdict, and why."""

    klass: DeadLetterClass
    verdict: Verdict
    reason: Reason


@dataclass(frozen=True)
class StillAlive:
    """Somebody runs the turn or will: nothing has died yet, ask again later."""


def assess_letter(letter: DeadLetter, *, is_answered: bool) -> Assessment:
    """About a letter that our own code sent: its class stands."""
    if is_answered:
        return Assessment(letter.klass, "discard", "answered")
    return Assessment(letter.klass, *_verdict(letter))


def assess_moved(
    request: TurnRequest, state: TurnState | None, *, is_answered: bool, now_ms: int
) -> Assessment | StillAlive:
    """About a plain message that SQS moved, from the turn as the ledger has it now (None = forgotten)."""
    tried = request.attempt_hint if state is None else state.attempt
    klass: DeadLetterClass = "failed" if tried else "never_ran"
    if is_answered and (state is None or state.is_ended):
        return Assessment(klass, "discard", "answered")
    if state is None:
        is_old = now_ms - request.accepted_at_ms > _WORTH_AN_ANSWER_MS
        if is_old and is_interactive(request):
            return Assessment(klass, "discard", "too_old")
        return Assessment(klass, "inspect", "unknown")
    if not state.is_ended:
        return StillAlive()
    if state.status != "failed":
        return Assessment(klass, "discard", "ended")
    if not tried:
        return Assessment(klass, "redrive", "unclaimed")
    return Assessment(klass, "inspect", "failed")


def is_abandoned(state: TurnState, now_ms: int) -> bool:
    """True when SQS has given up the turn and nobody else will move it: unclaimed, and not behind another turn.

    A claimed turn whose lease lapsed is the sweeper's.
    """
    return state.status == "waiting" and not state.position and state.lease_until_ms <= now_ms


def is_growing(recent: int) -> bool:
    """True when a fingerprint counts `recent` deaths within GROWTH_WINDOW_MS and that is fast."""
    return recent >= GROWTH_TURNS


def is_redriven_with_others(turn: DeadTurnBrief) -> bool:
    """True when a redrive of the whole fingerprint may include the turn; others must be named one by one."""
    return turn.state == "open" and turn.verdict != "discard" and turn.klass not in _DANGEROUS


@dataclass(frozen=True, kw_only=True)
class DeadTurnGroup:
    """The dead turns of one fingerprint; times are epoch ms. `verdict` is `inspect` when the open ones differ."""

    fingerprint: str
    klass: DeadLetterClass
    error_type: str
    verdict: Verdict
    count: int
    open: int
    redriven: int
    discarded: int
    first_dead_at_ms: int
    last_dead_at_ms: int


def group_dead_turns(turns: Iterable[DeadTurnBrief]) -> list[DeadTurnGroup]:
    """By fingerprint, the one that died last first."""
    by_fingerprint: dict[str, list[DeadTurnBrief]] = {}
    for turn in turns:
        by_fingerprint.setdefault(turn.fingerprint, []).append(turn)
    groups = [_group(members) for members in by_fingerprint.values()]
    return sorted(groups, key=lambda group: group.last_dead_at_ms, reverse=True)


def _group(members: list[DeadTurnBrief]) -> DeadTurnGroup:
    newest = max(members, key=lambda turn: turn.dead_at_ms)
    states = [turn.state for turn in members]
    verdicts = {turn.verdict for turn in members if turn.state == "open"} or {newest.verdict}
    return DeadTurnGroup(
        fingerprint=newest.fingerprint,
        klass=newest.klass,
        error_type=newest.error_type,
        verdict=verdicts.pop() if len(verdicts) == 1 else "inspect",
        count=len(members),
        open=states.count("open"),
        redriven=states.count("redriven"),
        discarded=states.count("discarded"),
        first_dead_at_ms=min(turn.dead_at_ms for turn in members),
        last_dead_at_ms=newest.dead_at_ms,
    )


def _verdict(letter: DeadLetter) -> tuple[Verdict, Reason]:
    match letter.klass:
        case "never_ran":
            return "redrive", "unclaimed"
        case "poison":
            return "inspect", "crashed"
        case "not_stored":
            # Another run would store another answer than the one that was shown.
            return "inspect", "shown_not_stored"
        case "malformed":
            return "inspect", "undecodable"
        case "failed":
            if letter.error.type == ModelRejected.__name__:
                return "inspect", "refused_by_model"
            if letter.error.type in _OUTAGES:
                return "redrive", "outage"
            return "inspect", "bug"
        case _:
            assert_never(letter.klass)
