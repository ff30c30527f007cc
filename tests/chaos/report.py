"""The result as a table for people. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.abandoned import Abandoned
from tests.chaos.audit import Audit, merged
from tests.chaos.drain import Drained
from tests.chaos.faults import Kind
from tests.chaos.processes import ROLES, Role
from tests.chaos.storm import StormResult
from tests.chaos.takeover import Takeovers

TAKEOVER_GOAL_MS = 6_000
RESUME_GOAL_MS = 20
_SHOWN_FAULTS = 20


@dataclass
class Results:
    """Whatever was measured; None = left out."""

    storm: StormResult | None = None
    abandoned: Abandoned | None = None
    takeovers: Takeovers | None = None
    resumes_ms: Sequence[float] = ()
    resumed_frames: int = 0
    drained: Drained | None = None

    def faults(self) -> list[str]:
        """Broken promises in words. Figures that depend on the machine alone are not among them."""
        found: list[str] = []
        if self.storm is not None:
            found += self.storm.audit.faults
        if self.abandoned is not None:
            found += [f"turn {turn_id} has no end" for turn_id in self.abandoned.unended]
        if self.takeovers is not None:
            found += [words for audit in self.takeovers.audits for words in audit.faults]
            late_ms = percentile(
                [ms for each in self.takeovers.warm_ms.values() for ms in each], 99
            )
            if late_ms > TAKEOVER_GOAL_MS:
                found.append(f"takeover p99 {late_ms:.0f} ms, promised {TAKEOVER_GOAL_MS} ms")
        if self.drained is not None:
            found += self.drained.audit.faults
        return found


def percentile(values: Sequence[float], per_cent: int) -> float:
    """The value that so many per cent do not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * per_cent // 100) - 1)] if ordered else 0.0


def table(results: Results) -> str:
    """All lines."""
    return "\n".join(_lines(results))


def _lines(results: Results) -> Iterator[str]:
    if results.storm is not None:
        yield from _storm(results.storm)
    if results.abandoned is not None:
        found = results.abandoned
        yield ""
        yield f"abandoned      {_counts(found.states)}, the last after {found.took_s:.1f} s"
        yield f"  without end  {len(found.unended)}"
    if results.takeovers is not None:
        yield from _takeovers(results.takeovers)
    if results.resumes_ms:
        p50, p99 = (percentile(results.resumes_ms, n) for n in (50, 99))
        goal = "met" if p99 <= RESUME_GOAL_MS else "missed"
        yield ""
        yield (
            f"resume         1,000 tokens in {results.resumed_frames} frames, "
            f"{len(results.resumes_ms)} times: p50 {p50:.1f} ms, p99 {p99:.1f} ms "
            f"(goal {RESUME_GOAL_MS} ms: {goal})"
        )
    if results.drained is not None:
        yield from _drained(results.drained)
    faults = results.faults()
    yield ""
    yield f"broken promises  {len(faults)}"
    yield from (f"  {words}" for words in faults[:_SHOWN_FAULTS])


def _storm(storm: StormResult) -> Iterator[str]:
    yield f"{'faults':<15}{'kill':>6}{'stop':>6}"
    for role in ROLES:
        done = (storm.faults[Kind(means, role)] for means in ("kill", "stop"))
        yield f"  {role:<13}" + "".join(f"{count:>6}" for count in done)
    yield from _audit(storm.audit)
    yield f"settled        {storm.settled_s:.1f} s after the last fault"


def _audit(audit: Audit) -> Iterator[str]:
    yield f"turns          {audit.turns}: {_counts(audit.ends)}"
    if audit.refused:
        yield f"refused        {audit.refused.total()}, each sent again: {_counts(audit.refused)}"
    yield f"more attempts  {audit.second_attempts} turns"
    yield f"repeats        {audit.repeats} frames came again, {audit.late} of an overtaken attempt"
    yield f"losses         {len(audit.losses)}"
    yield f"duplicates     {len(audit.duplicates)}"
    yield f"mixed          {len(audit.mixed)}"


def _takeovers(found: Takeovers) -> Iterator[str]:
    yield ""
    yield f"{'takeover, ms':<15}{'':<6}{'n':>6}{'p50':>8}{'p99':>8}{'max':>8}"
    yield from _durations("warm", found.warm_ms)
    yield from _durations("cold", found.cold_ms)
    yield f"  {found.kills.total()} kills in mid-turn: {_counts(found.kills)}"
    if found.audits:
        yield from (f"  {line}" for line in _audit(merged(found.audits)))


def _durations(label: str, by_role: Mapping[Role, Sequence[int]]) -> Iterator[str]:
    groups = [*by_role.items()]
    if len(groups) > 1:
        groups.append(("all", [ms for each in by_role.values() for ms in each]))  # type: ignore[arg-type]
    for role, values in groups:
        p50, p99 = percentile(values, 50), percentile(values, 99)
        yield f"  {role:<13}{label:<6}{len(values):>6}{p50:>8.0f}{p99:>8.0f}{max(values):>8}"


def _drained(found: Drained) -> Iterator[str]:
    lost = len(found.audit.losses) + len(found.audit.mixed)
    yield ""
    yield (
        f"drain          {found.sockets} sockets, {found.streaming} turns in mid-answer: "
        f"all back after {found.back_s:.1f} s, process gone after {found.exit_s:.1f} s"
    )
    yield f"  lost deltas  {lost} of {found.deltas} frames"


def _counts(counter: Counter[str] | Counter[Role]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counter.most_common()) or "none"
