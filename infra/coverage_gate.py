"""How much of the code the unit tests run, lines and branches together, against a floor for each part.

What decides without I/O is held to everything: the modules of .importlinter's contract `pure-core` inside shared and
the gateway. What talks to the world is run by contract and integration tests too, so its floor here only shows decay.
"""

from __future__ import annotations

import configparser
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DECISIONS = "decisions"
_DECIDING_PARTS = ("shared.", "services.gateway.")
# By the longest prefix that fits.
FLOORS = {
    DECISIONS: 100.0,
    "shared/turn/": 99.0,
    "shared/adapters/": 60.0,
    "shared/bootstrap/": 60.0,
    "shared/": 98.0,
    "services/gateway/": 45.0,
    "services/orchestrator/": 70.0,
    "services/": 70.0,
    "functions/": 50.0,
    "clients/": 85.0,
    "ops/": 65.0,
}


@dataclass(frozen=True)
class Part:
    """What was run of one part; `missing` names what was not, file by file."""

    name: str
    run: int
    of: int
    missing: tuple[str, ...]

    @property
    def percent(self) -> float:
        """Share of lines and branches that were run."""
        return 100.0 * self.run / self.of if self.of else 100.0

    @property
    def passes(self) -> bool:
        """Whether the part reaches its floor."""
        return self.percent >= FLOORS[self.name]


def read_report(report: Path, rules: Path) -> list[Part]:
    """The parts of coverage.py's JSON report, in the order of FLOORS."""
    files: dict[str, Any] = json.loads(report.read_text())["files"]
    deciding = tuple(_deciding(rules))
    by_part: dict[str, list[str]] = {name: [] for name in FLOORS}
    for path in sorted(files):
        by_part[_part_of(path, deciding)].append(path)
    return [_sum_up(name, {path: files[path] for path in paths}) for name, paths in by_part.items()]


def describe(part: Part) -> Iterator[str]:
    """One line, and what is missing when the part fails."""
    verdict = "ok" if part.passes else "FAILED"
    yield f"coverage {part.name:<24}{verdict:<8}{part.percent:6.2f} % of {FLOORS[part.name]:.0f}"
    if not part.passes:
        yield from (f"         not run: {place}" for place in part.missing)


def _deciding(rules: Path) -> Iterator[str]:
    parser = configparser.ConfigParser()
    parser.read(rules)
    for module in parser["importlinter:contract:pure-core"]["source_modules"].split():
        if module.startswith(_DECIDING_PARTS):
            yield module.replace(".", "/")


def _part_of(path: str, deciding: Iterable[str]) -> str:
    if any(path == f"{module}.py" or path.startswith(f"{module}/") for module in deciding):
        return DECISIONS
    return max((name for name in FLOORS if path.startswith(name)), key=len)


def _sum_up(name: str, files: dict[str, Any]) -> Part:
    totals = [found["summary"] for found in files.values()]
    missing = {path: _missing_lines(found) for path, found in files.items()}
    return Part(
        name=name,
        run=sum(total["covered_lines"] + total["covered_branches"] for total in totals),
        of=sum(total["num_statements"] + total["num_branches"] for total in totals),
        missing=tuple(f"{path}: {', '.join(lines)}" for path, lines in missing.items() if lines),
    )


def _missing_lines(found: dict[str, Any]) -> list[str]:
    branching = {start for start, _ in found["missing_branches"]}
    return [str(line) for line in sorted(branching.union(found["missing_lines"]))]
