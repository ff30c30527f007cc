"""The examples of docs/http.md, run as they stand against the running stack."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.stack import ROOT, Stack

_BLOCK = re.compile(
    r"^## (?P<title>.+?)$|^```(?P<kind>bash|python)\n(?P<code>.*?)^```$", re.M | re.S
)
_EXPECTED = {
    "Wait for the reply": "completed",
    "Read it while it is written": "",
    "Fetch it later": "completed",
    "Stop it": "",
    "Look back": "Fullmetal Alchemist",
}


def examples() -> list[tuple[str, str, str]]:
    """Title of the section, language and code of every block, in their order."""
    title, found = "", []
    for match in _BLOCK.finditer((ROOT / "docs" / "http.md").read_text()):
        title = match["title"] or title
        if match["kind"]:
            found.append((title, match["kind"], match["code"]))
    return found


def test_each_way_to_ask_has_an_example_for_the_shell_and_for_python() -> None:
    shown = {(title, kind) for title, kind, _ in examples()}
    assert shown == {(title, kind) for title in _EXPECTED for kind in ("bash", "python")}


@pytest.mark.timeout(240)
def test_the_examples_do_what_the_page_says(stack: Stack, tmp_path: Path) -> None:
    for number, (title, kind, code) in enumerate(examples()):
        done = _run(kind, code.replace("http://127.0.0.1:8080", stack.http_url), tmp_path, number)
        where = f"{title} ({kind}): {done.stdout[-500:]} {done.stderr[-2_000:]}"
        assert done.returncode == 0, where
        assert done.stdout.strip(), where
        assert _EXPECTED[title] in done.stdout, where
        if title.startswith("Read it") and kind == "bash":
            assert "event: chat.response.completed\nid: 1." in done.stdout, where
            assert ("id: 1.0\n" in done.stdout) == ("last-event-id" not in code), where


def _run(kind: str, code: str, folder: Path, number: int) -> subprocess.CompletedProcess[str]:
    script = folder / f"{number}.{kind}"
    script.write_text(code)
    start = [sys.executable] if kind == "python" else ["bash", "-euo", "pipefail"]
    # Told to the shell by the page's reader; a proxy of this machine has no business here.
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return subprocess.run(
        [*start, str(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
