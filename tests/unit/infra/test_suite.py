from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from infra import suite

ROOT = Path(__file__).resolve().parents[3]


def run_with(monkeypatch: pytest.MonkeyPatch, failing: set[str]) -> int:
    commands = {tuple(module): name for name, module in suite.PARTS.items()}

    def run(command: list[str], **options: object) -> SimpleNamespace:
        return SimpleNamespace(returncode=int(commands[tuple(command[2:])] in failing))

    monkeypatch.setattr(suite.subprocess, "run", run)
    return suite.main()


def test_the_last_line_says_what_passed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, set()) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "test     passed: check; contract, integration, infra, page; simulation;"
    )
    assert last.endswith("in 0 min 00 s")


def test_a_failed_part_is_named_and_keeps_none_from_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(monkeypatch, {"check"}) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("test     FAILED: check; passed: contract, integration, infra, page;")
    assert last.count("chaos") == 1


def test_every_file_with_tests_is_run_once() -> None:
    run = [ROOT / word for module in suite.PARTS.values() for word in module if "tests/" in word]
    for path in _test_files():
        if path.relative_to(ROOT / "tests").parts[0] != "unit":  # a part of `check`
            assert [part for part in run if path.is_relative_to(part)], path
    assert len(run) == len(set(run))


def _test_files() -> list[Path]:
    return list((ROOT / "tests").rglob("test_*.py"))
