"""Plants each mutant in a copy of the tree and runs its one test: green without the fault, red with it.

The copies hold the files as they are in the work tree, committed or not; the work tree itself is never touched.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.mutant import Mutant, node_id

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
TEST_LIMIT_S = 60
"""A test that hangs because of the fault has noticed it."""
_PYTEST_FAILED = 1


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant. `detail` is pytest's output where a person has to look."""

    mutant: Mutant
    result: str  # killed, survived or broken
    took_s: float
    detail: str = ""


class Tree:
    """One copy of the tree, in which one mutant at a time is planted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._edits = 0
        self._zygote = subprocess.Popen(
            [str(ROOT / ".venv/bin/python"), "-m", "tests.mutants.zygote"],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        assert self._zygote.stdin is not None
        self._zygote.stdin.close()
        self._zygote.wait()

    def check(self, nodes: Sequence[str]) -> str | None:
        """pytest's output when these tests are not green in the unchanged copy."""
        code, output = self._pytest(nodes)
        return None if code == 0 else output

    def try_mutant(self, mutant: Mutant) -> Verdict:
        """Plant the fault, run its test, take the fault out again."""
        started_s = time.perf_counter()
        path = self._root / mutant.file
        original = path.read_text()
        try:
            self._write(path, mutant.apply(self._root))
            code, output = self._pytest([node_id(self._root, mutant.test)])
        except LookupError as error:
            code, output = -1, str(error)
        finally:
            self._write(path, original)
        result = {_PYTEST_FAILED: "killed", 0: "survived"}.get(code, "broken")
        took_s = time.perf_counter() - started_s
        return Verdict(mutant, result, took_s, "" if result == "killed" else output)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        # Python takes a cached module for fresh when size and second of change are the same.
        self._edits += 1
        stamp_s = 1_000_000_000 + self._edits
        os.utime(path, (stamp_s, stamp_s))

    def _pytest(self, nodes: Sequence[str]) -> tuple[int, str]:
        arguments = ["-q", "-x", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
        arguments += ["-p", "tests.mutants.guard", "-o", f"timeout={TEST_LIMIT_S}", *nodes]
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(arguments) + "\n")
        self._zygote.stdin.flush()
        code, output = json.loads(self._zygote.stdout.readline())
        return code, output


@contextmanager
def copies(count: int) -> Iterator[queue.SimpleQueue[Tree]]:
    """Copies of the tree in a folder of their own, gone afterwards."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    with TemporaryDirectory(prefix="mutants-") as folder:
        for number in range(count):
            root = Path(folder) / str(number)
            for name in filter(None, listed.split("\0")):
                source, target = ROOT / name, root / name
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
            for environment in (".venv", ".venv-emulator"):
                (root / environment).symlink_to(ROOT / environment)
            trees.put(Tree(root))
        try:
            yield trees
        finally:
            while not trees.empty():
                trees.get().close()


def run(mutants: Sequence[Mutant]) -> bool:
    """Try them all, print a table; True when every one was killed."""
    started_s = time.perf_counter()
    nodes = sorted({node_id(ROOT, mutant.test) for mutant in mutants})
    with copies(WORKERS) as trees, ThreadPoolExecutor(WORKERS) as pool:
        halves = [nodes[start::WORKERS] for start in range(WORKERS)]
        for complaint in pool.map(lambda half: _with_tree(trees, half), halves):
            if complaint is not None:
                print(complaint)
                print("mutants  the tests are not green without any fault")
                return False
        print(f"mutants  {len(nodes)} tests are green without a fault", flush=True)

        def attempt(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                return tree.try_mutant(mutant)
            finally:
                trees.put(tree)

        verdicts = []
        for verdict in pool.map(attempt, mutants):
            verdicts.append(verdict)
            _print_row(verdict)
    return _summarise(verdicts, time.perf_counter() - started_s)


def _with_tree(trees: queue.SimpleQueue[Tree], nodes: Sequence[str]) -> str | None:
    tree = trees.get()
    try:
        return tree.check(nodes) if nodes else None
    finally:
        trees.put(tree)


def _print_row(verdict: Verdict) -> None:
    mutant = verdict.mutant
    print(
        f"{verdict.result:<9}{verdict.took_s:5.1f} s  {mutant.guards:<12} {mutant.what}"
        f"  ({mutant.test.rpartition('::')[2]})",
        flush=True,
    )
    if verdict.detail and verdict.result == "broken":
        print(verdict.detail, file=sys.stderr, flush=True)


def _summarise(verdicts: Sequence[Verdict], took_s: float) -> bool:
    survived = [verdict for verdict in verdicts if verdict.result != "killed"]
    print(f"mutants  {len(verdicts) - len(survived)} of {len(verdicts)} killed in {took_s:.0f} s")
    for verdict in survived:
        print(f"         {verdict.result}: {verdict.mutant.what} ({verdict.mutant.file})")
    return not survived
