"""Planted faults keep fitting the code: each is found in exactly one place, and its test exists.

`make mutants` plants them and demands that the tests turn red.
"""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutants.mutant import Mutant, node_id
from tests.mutants.patches import ALL
from tests.mutants.runner import ROOT


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.what)
def test_a_mutant_fits_the_code_and_names_a_test(mutant: Mutant) -> None:
    text = mutant.apply(ROOT)
    assert text != (ROOT / mutant.file).read_text()
    if mutant.file.endswith(".py"):
        ast.parse(text)
    assert node_id(ROOT, mutant.test)


def test_each_fault_is_planted_once() -> None:
    counts = Counter((mutant.file, mutant.old, mutant.new) for mutant in ALL)
    assert [key for key, count in counts.items() if count > 1] == []


@pytest.mark.case("B-40")
def test_every_promise_has_faults_planted_against_it() -> None:
    guarded = {word for mutant in ALL for word in mutant.guards.split()}
    assert {f"P{number}" for number in range(1, 13)} <= guarded
