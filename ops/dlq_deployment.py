"""Which deployment the `dlq` commands act on: the one that the settings name, else the local stack."""

from __future__ import annotations

from typing import Any

from ops.local_stack import StackAway, local_status
from shared.errors import ConfigurationError
from shared.policy.sigv4 import Credential
from shared.settings import Settings, is_set, load_settings

_LOCAL_KEY = "local"
_NAMED_BY = "BURSTCHAT_DEAD_TURNS_TABLE"


def find_deployment() -> tuple[Settings, Credential | None]:
    """Settings of a person at work, and the local stack's credential (None = AWS's default chain).

    Raises ConfigurationError in words when there is neither.
    """
    if is_set(_NAMED_BY):
        return load_settings("operator"), None
    try:
        status = local_status()
    except StackAway as error:
        raise ConfigurationError(
            f"no local stack ({error}); for a deployment on AWS set "
            f"{_NAMED_BY}, BURSTCHAT_TURNS_TABLE, BURSTCHAT_BACKGROUND_QUEUE_URL and BURSTCHAT_REDIS_URL"
        ) from error
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
