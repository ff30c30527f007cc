"""The records as tables for people, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.policies.record import TIERS, Record, percentile

HOUR_S = 3_600.0


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def waits(record: Record) -> str:
    """How long turns waited, by tier and path."""
    rows = []
    for tier in TIERS:
        for path in ("inline", "burst", "queue"):
            found = record.waits_s(tier, path)
            if found:
                marks = [f"{percentile(found, share):.1f} s" for share in (0.5, 0.95, 0.99)]
                rows.append((tier, path, len(found), *marks, f"{max(found):.1f} s"))
    return table(("tier", "path", "turns", "p50", "p95", "p99", "longest"), rows)


def sheds(record: Record) -> str:
    """How many messages were refused, why, and of which tier."""
    rows = [
        (tier, reason, count)
        for (tier, reason), count in sorted(
            record.refusals.items(),
            key=lambda each: (TIERS.index(each[0][0]), -each[1]),  # type: ignore[arg-type]
        )
    ]
    return table(("tier", "reason", "refusals"), rows or [("none", "", 0)])


def levels(record: Record) -> str:
    """When the level changed."""
    rows = []
    for number, (at_s, level) in enumerate(record.levels):
        until_s = record.levels[number + 1][0] if number + 1 < len(record.levels) else None
        lasted = "" if until_s is None else f"{until_s - at_s:.0f} s"
        rows.append((_clock(at_s), level.name.lower(), lasted))
    return table(("at", "level", "for"), rows)


def pauses(record: Record) -> str:
    """The longest time in which a tier had turns waiting and none of them started."""
    rows = [(tier, f"{record.longest_pause_s(tier):.1f} s") for tier in TIERS]
    return table(("tier", "longest pause"), rows)


def _clock(at_s: float) -> str:
    minutes, seconds = divmod(int(at_s), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
