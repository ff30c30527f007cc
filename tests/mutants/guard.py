"""A pytest plugin: the code under test must be the copy's. An editable install could put another tree in its place."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

PRODUCT = ("shared", "services", "functions", "clients", "loadtest", "infra", "ops", "tests")
EXIT_FOREIGN = 90


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with an exit code of its own when product code came from outside the root."""
    root = session.config.rootpath
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in PRODUCT and file and root not in Path(file).parents:
            session.exitstatus = EXIT_FOREIGN
            sys.stderr.write(f"{name} was loaded from {file}, not from {root}\n")
            return
