"""What the local stack says of itself, asked as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_STATUS_WITHIN_S = 30.0


class StackAway(Exception):
    """No local stack runs here; the text is its own sentence."""


def local_status() -> dict[str, Any]:
    """`burstchat status --json`; raises StackAway."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.local", "status", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_STATUS_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        raise StackAway((done.stderr.strip() or done.stdout.strip()).removeprefix("burstchat: "))
    status: dict[str, Any] = json.loads(done.stdout)
    return status
