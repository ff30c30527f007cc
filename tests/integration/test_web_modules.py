"""Runs the tests of the web client's modules in Node's own test runner."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NODE = shutil.which("node")
SUITES = sorted((Path(__file__).parent / "web").glob("*_test.mjs"))


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_web_module_passes_its_suite(suite: Path) -> None:
    if NODE is None:
        words = (
            "node is missing: the web client's modules are NOT tested (install Node 20 or later)"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    done = subprocess.run(
        [NODE, "--test", str(suite)], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
