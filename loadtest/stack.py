"""Finds the local stack, or starts one, through the `burstchat` command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BURSTCHAT = Path(sys.executable).parent / "burstchat"


def chat_url() -> str | None:
    """The WebSocket address of the running stack, None when none runs."""
    done = subprocess.run(
        [str(BURSTCHAT), "status", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return None
    url: str | None = json.loads(done.stdout)["urls"].get("websocket")
    return url


def start_stack() -> bool:
    """Start a stack in the background; False (after its own words on the terminal) when it cannot."""
    print("burst    no stack is running, starting one …", flush=True)
    return subprocess.run([str(BURSTCHAT), "up"], check=False).returncode == 0


def stop_stack() -> None:
    """Stop the stack that `start_stack` started."""
    subprocess.run([str(BURSTCHAT), "down"], check=False)
