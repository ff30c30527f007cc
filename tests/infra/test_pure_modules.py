"""Who calls itself pure is held to it by the import linter."""

import ast
import configparser
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("shared", "services", "functions", "clients", "loadtest", "infra", "ops")


def held_pure():
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    return rules["importlinter:contract:pure-core"]["source_modules"].split()


def claims_to_be_pure(path):
    return re.search(r"\bpure\b(?!-)", ast.get_docstring(ast.parse(path.read_text())) or "", re.I)


def test_every_module_that_calls_itself_pure_is_under_the_contract():
    held = held_pure()
    claiming = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if claims_to_be_pure(path)
    }
    assert claiming  # or the words have changed
    loose = {
        module
        for module in claiming
        if not any(module == rule or module.startswith(f"{rule}.") for rule in held)
    }
    assert loose == set()
