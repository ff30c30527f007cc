"""Every case of docs/cases.md has tests that bear its number, and the page names tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/cases.md").read_text()
CASES = [f"B-{number:02}" for number in range(1, 41)]
EXCUSED = {"B-11"}
"""Only what needs tools, which the assistant does not have."""


def _functions(nodes: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def _marked() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for function in _functions(ast.parse(path.read_text()).body):
            for case in _marks(function):
                found.setdefault(case, set()).add(function.name)
    return found


def _rows() -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for line in PAGE.splitlines():
        row = re.match(r"\| (B-\d\d) \|", line)
        if row:
            assert row.group(1) not in rows, f"{row.group(1)} has two rows"
            rows[row.group(1)] = re.findall(r"`(test_\w+)`", line)
    return rows


MARKED = _marked()
ROWS = _rows()


def test_only_known_cases_are_marked() -> None:
    assert set(MARKED) <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_tested_or_excused(case: str) -> None:
    assert case in ROWS, "docs/cases.md has no row for it"
    if case in EXCUSED:
        assert "does not apply" in PAGE.partition(f"| {case} |")[2].partition("\n")[0]
    else:
        assert MARKED.get(case), "no test bears its number"
        assert ROWS[case], "its row names no test"


@pytest.mark.parametrize("case", CASES)
def test_a_row_names_tests_that_bear_its_number(case: str) -> None:
    assert set(ROWS.get(case, [])) <= MARKED.get(case, set())


def test_numbers_are_marks_and_not_parts_of_names() -> None:
    named = [
        (path.name, function.name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for function in _functions(ast.parse(path.read_text()).body)
        if re.match(r"test_b\d\d_", function.name)
    ]
    assert named == []
