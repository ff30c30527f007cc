"""A small fault, planted on purpose, and the test that must notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """Replace `old` by `new` in `file`; `test` (file::function, or file::Class::function where several classes have
    one of that name) must turn red. `guards` names promises or cases."""

    guards: str
    what: str
    file: str
    old: str
    new: str
    test: str

    def apply(self, root: Path) -> str:
        """The file's text with the fault in it. Raises LookupError unless `old` occurs exactly once."""
        text = (root / self.file).read_text()
        found = text.count(self.old)
        if found != 1:
            raise LookupError(f"{self.what}: {found} places in {self.file} read {self.old!r}")
        return text.replace(self.old, self.new)


def node_id(root: Path, test: str) -> str:
    """pytest's id of a mutant's test, with the class that the function is in. Raises LookupError."""
    file, _, name = test.partition("::")
    nodes = [
        node
        for node in _functions(root / file).get(name.rpartition("::")[2], [])
        if "::" not in name or node == name
    ]
    if len(nodes) != 1:
        raise LookupError(f"{len(nodes)} tests are called {test}")
    return f"{file}::{nodes[0]}"


@lru_cache
def _functions(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if not path.exists():
        return found
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.setdefault(node.name, []).append(node.name)
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.setdefault(inner.name, []).append(f"{node.name}::{inner.name}")
    return found
