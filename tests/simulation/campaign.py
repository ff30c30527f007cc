"""Many seeds on all cores, what they covered, and the smallest set of faults behind a failure."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import quantiles
from typing import get_args

from tests.simulation.history import Violation
from tests.simulation.plan import FaultKind, draw_plan
from tests.simulation.planted import planted
from tests.simulation.world import Outcome, run_plan

CHUNK = 20

TRANSITIONS = (
    "accept:AcceptedDetached",
    "accept:AcceptedAsHead",
    "accept:AcceptedAsWaiting",
    "accept:AlreadyAccepted",
    "accept:SessionBusy",
    "append:Fenced",
    "append:Held",
    "append:LogGap",
    "append:TurnEnded",
    "append:TurnUnknown",
    "cancel:CancelRequested",
    "cancel:Finished",
    "cancel:TurnEnded",
    "cancel:TurnUnknown",
    "claim:again",
    "claim:ended",
    "claim:exhausted",
    "claim:first",
    "claim:leased",
    "claim:not_head",
    "claim:readerless",
    "end_unclaimed:Finished",
    "end_unclaimed:Finished+next",
    "end_unclaimed:StillClaimed",
    "end_unclaimed:TurnEnded",
    "finish:Fenced",
    "finish:Finished",
    "finish:Finished+next",
    "finish:LogGap",
    "finish:TurnEnded",
    "finish:TurnUnknown",
    "follow:replay",
    "follow:unknown",
    "release:handed_over",
    "release:passed_on",
    "release:postponed",
    "renew:Fenced",
    "renew:Held",
    "renew:TurnEnded",
    "renew:TurnUnknown",
    "reserve:delivery",
    "reserve:dispatch",
    "reserve:offer",
    "unfollow",
)
ENDS = (
    "end:cancelled:disconnect",
    "end:cancelled:user",
    "end:completed",
    "end:expired",
    "end:failed:attempts_exhausted",
    "end:failed:deadline_exceeded",
    "end:failed:internal",
    "end:failed:model_disconnected",
    "end:failed:model_overloaded",
    "end:failed:model_rate_limited",
    "end:failed:model_rejected",
    "end:failed:model_timeout",
    "end:rejected",
)
FAULTS = tuple(f"fault:{kind}" for kind in get_args(FaultKind))


@dataclass(frozen=True)
class Report:
    """One run, small enough to travel between processes. `seen` says in how many places of the run."""

    seed: int
    seen: frozenset[str]
    violations: tuple[Violation, ...]
    takeovers_s: tuple[float, ...]
    lasted_s: float
    steps: int


@dataclass
class Coverage:
    """What a campaign reached: in how many runs each fault, transition and end occurred."""

    runs: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    failed: list[Report] = field(default_factory=list)
    takeovers_s: list[float] = field(default_factory=list)
    virtual_s: float = 0.0
    steps: int = 0

    def add(self, report: Report) -> None:
        self.runs += 1
        self.seen.update(report.seen)
        self.takeovers_s += report.takeovers_s
        self.virtual_s += report.lasted_s
        self.steps += report.steps
        if report.violations:
            self.failed.append(report)

    @property
    def missing(self) -> list[str]:
        """Transitions and ends that no run reached."""
        return [name for name in (*TRANSITIONS, *ENDS) if not self.seen[name]]

    @property
    def takeover_p99_s(self) -> float:
        """From the death of a producer to the next claim, in calm weather."""
        times = self.takeovers_s
        return quantiles(times, n=100)[98] if len(times) > 1 else 0.0

    def table(self) -> Iterator[str]:
        """Lines for people."""
        for title, names in (("faults", FAULTS), ("ends", ENDS), ("transitions", TRANSITIONS)):
            yield f"{title} (runs that had it, of {self.runs})"
            for name in names:
                share = self.seen[name] / max(1, self.runs)
                yield f"  {name:<34} {self.seen[name]:>6}  {share:6.1%}"
        yield (
            f"takeovers in calm weather: {len(self.takeovers_s)}, "
            f"p99 {self.takeover_p99_s:.2f} s after the death"
        )
        yield f"{self.virtual_s / 3600:.1f} virtual hours, {self.steps:,} steps"


def report_of(outcome: Outcome) -> Report:
    history = outcome.history
    return Report(
        outcome.plan.seed,
        frozenset(history.seen),
        tuple(history.violations),
        tuple(history.takeovers_s),
        outcome.lasted_s,
        outcome.steps,
    )


def run_seeds(seeds: Sequence[int], bug: str = "") -> list[Report]:
    """Run seeds in this process, with a planted bug if named."""
    gc.collect()
    gc.freeze()  # what is imported is not looked at after each run
    try:
        with planted(bug):
            return [report_of(run_plan(draw_plan(seed))) for seed in seeds]
    finally:
        gc.unfreeze()


def run_campaign(seeds: Sequence[int], workers: int = 2) -> Iterator[Report]:
    """Run seeds on a pool of processes, in no particular order of their ends."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for reports in pool.map(run_seeds, chunks):
            yield from reports


def first_caught(bug: str, seeds: Sequence[int]) -> Report | None:
    """The first run that shows a planted bug."""
    for start in range(0, len(seeds), CHUNK):
        for report in run_seeds(seeds[start : start + CHUNK], bug):
            if report.violations:
                return report
    return None


def minimise(seed: int, rule: str) -> Outcome:
    """The same run with as few faults as still break `rule`."""
    plan = draw_plan(seed)
    smallest = run_plan(plan)
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for fault in plan.faults:
            without = replace(plan, faults=[each for each in plan.faults if each is not fault])
            outcome = run_plan(without)
            if any(violation.rule == rule for violation in outcome.history.violations):
                plan, smallest, is_smaller = without, outcome, True
                break
    return smallest


def seconds() -> float:
    """Real time, for progress only."""
    return time.perf_counter()
