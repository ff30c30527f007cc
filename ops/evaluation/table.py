"""What a measurement of the assistant's quality looks like: figures beside their goals."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure; `at_most` tells which side of the goal is good. Without a goal it only informs."""

    name: str
    value: float
    digits: int = 3
    unit: str = ""
    goal: float | None = None
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        """True as well when there is no goal."""
        if self.goal is None:
            return True
        return self.value <= self.goal if self.at_most else self.value >= self.goal


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one part, and lines that explain them."""

    title: str
    measures: tuple[Measure, ...]
    notes: tuple[str, ...] = ()


def table_lines(table: Table) -> Iterator[str]:
    """The table for a terminal."""
    yield table.title
    for measure in table.measures:
        yield f"  {measure.name:44s}{_figure(measure, measure.value):>14s}  {_verdict(measure)}"
    yield from (f"  {note}" for note in table.notes)


def _figure(measure: Measure, value: float) -> str:
    return f"{value:.{measure.digits}f}{measure.unit and f' {measure.unit}'}"


def _verdict(measure: Measure) -> str:
    if measure.goal is None:
        return ""
    sign = "<=" if measure.at_most else ">="
    return f"{sign} {_figure(measure, measure.goal)}  {'met' if measure.is_met else 'MISSED'}"
