"""Which deployment the `dlq` commands act on: the one that the settings name, else the local stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from shared.errors import ConfigurationError
from shared.policy.sigv4 import Credential
from shared.settings import Settings, is_set, load_settings

ROOT = Path(__file__).resolve().parents[1]
_STATUS_WITHIN_S = 30
_LOCAL_KEY = "local"
_NAMED_BY = "BURSTCHAT_DEAD_TURNS_TABLE"


def find_deployment() -> tuple[Settings, Credential | None]:
    """Settings of a person at work, and the local stack's credential (None = AWS's default chain).

    Raises ConfigurationError in words when there is neither.
    """
    if is_set(_NAMED_BY):
        return load_settings("operator"), None
    status = _local_status()
    settings = load_settings("operator", local_environment(status))
    return settings, Credential(_LOCAL_KEY, _LOCAL_KEY, settings.aws.aws_region)


def local_environment(status: dict[str, Any]) -> dict[str, str]:
    """The operator's settings for the stack that `burstchat status --json` describes."""
    try:
        return {
            "BURSTCHAT_REDIS_URL": status["urls"]["redis"],
            "BURSTCHAT_AWS_ENDPOINT_URL": status["urls"]["aws"],
            "BURSTCHAT_BACKGROUND_QUEUE_URL": status["queues"]["background"]["url"],
            "BURSTCHAT_TURNS_TABLE": status["tables"]["turns"],
            "BURSTCHAT_DEAD_TURNS_TABLE": status["tables"]["dead_turns"],
        }
    except KeyError as error:
        raise ConfigurationError(f"the local stack is not ready: it has no {error} yet") from error


def _local_status() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "infra.local", "status", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_STATUS_WITHIN_S,
        check=False,
    )
    if done.returncode != 0:
        raise ConfigurationError(
            f"no local stack ({done.stderr.strip() or done.stdout.strip()}); for a deployment on AWS set "
            f"{_NAMED_BY}, BURSTCHAT_TURNS_TABLE, BURSTCHAT_BACKGROUND_QUEUE_URL and BURSTCHAT_REDIS_URL"
        )
    status: dict[str, Any] = json.loads(done.stdout)
    return status
