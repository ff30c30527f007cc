"""The table that a burst ends with: who answered what, how fast, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import quantiles

from loadtest.observed_turn import ObservedTurn

RIGHT_SHARE = 0.3
PREDICTIONS_NEEDED = 100
PATHS = {"inline": "inline (ECS)", "burst": "burst (Lambda)", "queue": "queue (ECS)"}


def faults_of(turns: Sequence[ObservedTurn]) -> Counter[str]:
    """Everything that a user would complain about, counted."""
    faults: Counter[str] = Counter()
    for turn in turns:
        faults.update(set(turn.faults))
        if turn.outcome != "completed" and turn.rejected is None:
            faults[f"ended {turn.outcome} {turn.state.code or ''}".strip()] += 1
    return faults


def summarise(turns: Sequence[ObservedTurn], length_s: float) -> str:
    """A table by path, the refusals, the faults and one sentence that says how it went."""
    lines = [
        "",
        f"{'answered by':<16}{'turns':>7}{'whole':>7}   {'first token p50':>15}{'p95':>11}{'p99':>11}"
        f"{'longest gap':>14}",
    ]
    for path, name in PATHS.items():
        of_path = [turn for turn in turns if turn.path == path]
        if of_path:
            lines.append(_row(name, of_path))
    answered = [turn for turn in turns if turn.path in PATHS]
    lines.append(_row("all", answered))
    refused = Counter(turn.rejected for turn in turns if turn.rejected)
    lines.append("")
    lines.append("refused    " + (_counts(refused) or "none"))
    lines.append("predicted  " + predictions(turns))
    lines.append("faults     " + (_counts(faults_of(turns)) or "none"))
    lines.append("verdict    " + verdict(turns, length_s))
    return "\n".join(lines)


def verdict(turns: Sequence[ObservedTurn], length_s: float) -> str:
    """One sentence: whether the burst overflowed and whether every accepted turn ended whole."""
    if not turns:
        return "no turn was sent: does a gateway answer at this address?"
    burst = sum(turn.path == "burst" for turn in turns)
    faulty = sum(faults_of(turns).values())
    accepted = sum(turn.rejected is None for turn in turns)
    overflow = f"{burst} of them overflowed to Lambda" if burst else "nothing overflowed"
    whole = "every accepted turn ended whole" if not faulty else f"{faulty} faults, see above"
    return f"{accepted} turns in {length_s:.0f} s, {overflow}; {whole}."


def predictions(turns: Sequence[ObservedTurn]) -> str:
    """By what share of the true wait the first `chat.queued` of half of the turns was wrong at most."""
    errors = [turn.prediction_error for turn in turns if turn.prediction_error is not None]
    if not errors:
        return "no turn waited long enough to be told"
    median = percentile([round(error * 1_000) for error in errors], 0.5) or 0
    if len(errors) < PREDICTIONS_NEEDED:
        words = f"too few to judge, {PREDICTIONS_NEEDED} are needed"
    else:
        words = "right" if median <= RIGHT_SHARE * 1_000 else "more than 30 % wrong"
    return f"{len(errors)} waits, half of them within {median / 10:.0f} %: {words}"


def percentile(values: Sequence[int], share: float) -> int | None:
    """The value below which `share` of the values lie, None without values."""
    if len(values) < 2:
        return values[0] if values else None
    return round(quantiles(values, n=100, method="inclusive")[round(share * 100) - 1])


def _row(name: str, turns: Sequence[ObservedTurn]) -> str:
    firsts = [turn.first_token_ms for turn in turns if turn.first_token_ms is not None]
    whole = sum(turn.outcome == "completed" and not turn.faults for turn in turns)
    gap = max((turn.longest_gap_ms for turn in turns), default=0)
    marks = [percentile(firsts, share) for share in (0.5, 0.95, 0.99)]
    p50, p95, p99 = ("-" if mark is None else f"{mark} ms" for mark in marks)
    return f"{name:<16}{len(turns):>7}{whole:>7}   {p50:>15}{p95:>11}{p99:>11}{f'{gap} ms':>14}"


def _counts(counter: Counter[str] | Counter[str | None]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in counter.most_common())
