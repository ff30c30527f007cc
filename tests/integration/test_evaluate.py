"""`make evaluate` prints every table, and the example store does not get worse unnoticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ops.evaluation.__main__ import print_tables

KNOWLEDGE = Path(__file__).parents[2] / "knowledge"
TABLES = ("Intent", "Retrieval", "Follow-ups", "Guardrails")
AT_LEAST = {
    "held-out accuracy": 0.88,
    "recall@5": 0.95,
    "mean reciprocal rank": 0.85,
    "personal data, held out: precision": 0.98,
    "personal data, held out: recall": 0.95,
    "sources fit": 0.9,
}


async def test_every_table_is_printed_and_its_quality_holds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await print_tables(KNOWLEDGE)

    printed = capsys.readouterr().out
    assert re.findall(r"(?m)^(\w[\w-]+):", printed) == list(TABLES)
    figures = dict(re.findall(r"(?m)^  (\S.*?)  +([\d.]+)\b", printed))
    for name, least in AT_LEAST.items():
        assert float(figures[name]) >= least, name
