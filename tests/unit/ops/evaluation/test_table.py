from __future__ import annotations

from ops.evaluation.table import Measure, Table, table_lines


def test_measure_is_met_on_the_good_side_of_its_goal() -> None:
    assert Measure(name="recall", value=0.95, goal=0.95).is_met
    assert not Measure(name="recall", value=0.94, goal=0.95).is_met
    assert Measure(name="p99", value=1, goal=1, at_most=True).is_met
    assert not Measure(name="p99", value=1.1, goal=1, at_most=True).is_met
    assert Measure(name="p50", value=7).is_met


def test_table_lines_show_each_figure_beside_its_goal() -> None:
    table = Table(
        title="Search",
        measures=(
            Measure(name="recall", value=0.912, goal=0.95),
            Measure(name="p99", value=812.4, digits=0, unit="µs", goal=1_000, at_most=True),
            Measure(name="recall@1", value=0.5),
        ),
        notes=("missed: ramen",),
    )
    title, recall, p99, first, note = table_lines(table)
    assert title == "Search"
    assert recall.split() == ["recall", "0.912", ">=", "0.950", "MISSED"]
    assert p99.split() == ["p99", "812", "µs", "<=", "1000", "µs", "met"]
    assert first.split() == ["recall@1", "0.500"]
    assert note.strip() == "missed: ramen"
