"""The table that each scenario ends with, and whether it held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from loadtest.observed_turn import REPEATED, ObservedTurn
from loadtest.scenarios.later import Later
from loadtest.scenarios.runs import Outcome
from loadtest.summary import PATHS, faults_of, percentile, predictions


def report(name: str, outcome: Outcome) -> str:
    """Waits and first tokens by tier and path, refusals, predictions, faults and the verdict."""
    turns, later = outcome.seen.turns, outcome.later
    lines = [
        "",
        f"scenario   {name}",
        f"{'tier, path':<24}{'turns':>7}   {'wait p50':>10}{'p95':>9}{'p99':>9}   {'first token p50':>16}"
        f"{'p95':>9}{'p99':>9}",
    ]
    for path, words in PATHS.items():
        of_path = [turn for turn in turns if turn.path == path]
        if of_path:
            lines.append(_row(f"high, {words}", of_path))
    for priority in ("normal", "low"):
        of_tier = [turn for turn in later.turns if turn.priority == priority]
        if of_tier:
            ended = [turn.ended_ms - turn.accepted_ms for turn in of_tier if turn.ended_ms]
            marks = "".join(_ms(percentile(ended, share), 9) for share in (0.5, 0.95, 0.99))
            lines.append(
                f"{priority + ', queue (ECS)':<24}{len(of_tier):>7}   answered after{marks}"
            )
    accepted = [turn for turn in turns if turn.rejected is None]
    ended_turns = sum(turn.is_ended for turn in accepted)
    ended_later = sum(turn.ended_ms is not None for turn in later.turns)
    lines.append("")
    lines.append(
        f"accepted   {len(accepted) + len(later.turns)}, ended {ended_turns + ended_later}"
    )
    lines.append("refused    " + (_refusals(turns, later) or "none"))
    lines.append("predicted  " + predictions(turns))
    lines.append("faults     " + (_counts(_faults(accepted)) or "none"))
    lines.extend(f"note       {note}" for note in outcome.notes)
    broken = broken_promises(outcome)
    lines.append("verdict    " + ("; ".join(broken) if broken else "held"))
    return "\n".join(lines)


def broken_promises(outcome: Outcome) -> list[str]:
    """What did not hold, in words."""
    turns, later = outcome.seen.turns, outcome.later
    unanswered = sum(turn.rejected is not None and turn.retry_after_ms is None for turn in turns)
    lost = sum(not turn.is_ended for turn in turns) + sum(
        turn.ended_ms is None for turn in later.turns
    )
    found = {
        "accepted turns did not end": lost,
        "refusals came without a hint": unanswered,
        "interactive turns were shed in a second in which low ones were taken": inversions(outcome),
        "faults, see above": sum(_faults(turn for turn in turns if turn.rejected is None).values()),
    }
    return [f"{count} {words}" for words, count in found.items() if count]


def inversions(outcome: Outcome) -> int:
    """Interactive messages shed for load while work of low priority was let in."""
    taken_s = {turn.accepted_ms // 1_000 for turn in outcome.later.turns if turn.priority == "low"}
    return sum(
        turn.rejected == "overloaded"
        and (turn.sent_at_ms + (turn.total_ms or 0)) // 1_000 in taken_s
        for turn in outcome.seen.turns
    )


def _faults(turns: Iterable[ObservedTurn]) -> Counter[str]:
    """A repeated frame is none: a push that was not answered in time is sent again, and clients drop it."""
    faults = faults_of(list(turns))
    del faults[REPEATED]
    return faults


def _row(name: str, turns: Sequence[ObservedTurn]) -> str:
    waits = [turn.started_ms for turn in turns if turn.started_ms is not None]
    firsts = [turn.first_token_ms for turn in turns if turn.first_token_ms is not None]
    shares = (0.5, 0.95, 0.99)
    wait = "".join(_ms(percentile(waits, share), 10 if share == 0.5 else 9) for share in shares)
    first = "".join(_ms(percentile(firsts, share), 16 if share == 0.5 else 9) for share in shares)
    return f"{name:<24}{len(turns):>7}   {wait}   {first}"


def _ms(value: int | None, width: int) -> str:
    return f"{'-' if value is None else f'{value} ms':>{width}}"


def _refusals(turns: Sequence[ObservedTurn], later: Later) -> str:
    refused: Counter[str] = Counter(f"high {turn.rejected}" for turn in turns if turn.rejected)
    for (priority, status, code), count in later.refused.items():
        refused[f"{priority} {status} {code}"] += count
    return _counts(refused)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in counter.most_common())
