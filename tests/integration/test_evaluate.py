from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ops import evaluate

KNOWLEDGE = Path(__file__).parents[2] / "knowledge"


def test_evaluate_prints_its_measurements_and_the_example_store_does_not_get_worse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate", str(KNOWLEDGE)])
    evaluate.main()
    lines = capsys.readouterr().out.splitlines()
    accuracy = next(line for line in lines if line.startswith("held-out accuracy"))
    recall = next(line for line in lines if line.startswith("recall@5"))
    assert float(accuracy.split()[2]) >= 0.75
    assert float(recall.split()[1].rstrip(",")) >= 0.9
    assert any(line.startswith("search: p50") for line in lines)
