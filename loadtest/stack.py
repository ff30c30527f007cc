"""Finds the local stack, or starts one, through the `burstchat` command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BURSTCHAT = Path(sys.executable).parent / "burstchat"


def status() -> dict[str, Any] | None:
    """What `burstchat status --json` says of the running stack, None when none runs."""
    done = subprocess.run(
        [str(BURSTCHAT), "status", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    found: dict[str, Any] = json.loads(done.stdout)
    return found if found["urls"].get("websocket") else None


def chat_url() -> str | None:
    """The WebSocket address of the running stack, None when none runs."""
    found = status()
    url: str | None = found["urls"]["websocket"] if found else None
    return url


def start_stack() -> bool:
    """Start a stack in the background; False (after its own words on the terminal) when it cannot."""
    print("burst    no stack is running, starting one …", flush=True)
    return subprocess.run([str(BURSTCHAT), "up"], check=False).returncode == 0


def stop_stack() -> None:
    """Stop the stack that `start_stack` started."""
    subprocess.run([str(BURSTCHAT), "down"], check=False)
