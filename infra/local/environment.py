"""The environment of each process: what the person set, over the stack's own defaults.

The emulator gets an allow-list only, because its Lambda workers inherit it: a function must find
nothing but what its template gives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from infra.local.credentials import Credentials
from infra.local.plan import HOST, PlannedProcess, StackPlan
from shared.policy.corpus import ASSISTANT_NAME
from shared.settings import LocalStackSettings

AWS_KEY = "local"
AWS_REGION = "us-east-1"

# Where the local stack differs from the defaults of shared/settings.py.
_LOCAL_DEFAULTS = {
    "BURSTCHAT_ENVIRONMENT": "local",
    "BURSTCHAT_AUTH_MODE": "dev",
    "BURSTCHAT_INLINE_SLOTS": "8",
    # infra/parameters/local.json: two workers of ten turns.
    "BURSTCHAT_BURST_CAPACITY_TURNS": "20",
    "BURSTCHAT_USER_TURNS_PER_MIN": "0",
    "BURSTCHAT_USER_CONNECTIONS": "0",
    "BURSTCHAT_ADDRESS_HANDSHAKES_PER_S": "0",
    "BURSTCHAT_GATEWAY_DRAIN_MS": "2000",
    "BURSTCHAT_ORCHESTRATOR_DRAIN_MS": "2000",
    "BURSTCHAT_QUEUE_RUNNER_DRAIN_MS": "2000",
    # A drain waits for open receives.
    "BURSTCHAT_QUEUE_POLL_S": "1",
}
_EMULATOR_ALLOWED = (
    "HOME",
    "HTTPS_PROXY",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "NO_PROXY",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "PATH",
    "SSL_CERT_FILE",
    "TZ",
)


def inherited() -> dict[str, str]:
    """The environment that this stack was started with."""
    return dict(os.environ)  # noqa: TID251  # handed on to child processes


def calls_real_model(person: Mapping[str, str]) -> bool:
    """Whether a key or another provider takes the model server's place."""
    if person.get("BURSTCHAT_MODEL_BASE_URL"):
        return True
    if person.get("BURSTCHAT_MODEL_PROVIDER", "anthropic") != "anthropic":
        return True
    return bool(person.get("ANTHROPIC_API_KEY"))


def service_environment(
    person: Mapping[str, str], plan: StackPlan, credentials: Credentials
) -> dict[str, str]:
    """Settings that all our processes share; what the person set wins, addresses excepted."""
    given = {
        name: value
        for name, value in person.items()
        if not name.startswith("AWS_") or person.get("BURSTCHAT_MODEL_PROVIDER") == "bedrock"
    }
    own = {
        "BURSTCHAT_REDIS_URL": plan.urls()["redis"],
        "BURSTCHAT_AWS_ENDPOINT_URL": plan.aws_emulator.url,
        "BURSTCHAT_AWS_REGION": AWS_REGION,
        "BURSTCHAT_BIND_HOST": HOST,
        "BURSTCHAT_INTAKE_URLS": ",".join(process.url for process in plan.orchestrators),
        "BURSTCHAT_PUSH_ACCESS_KEY_ID": credentials.push_access_key_id,
        "BURSTCHAT_PUSH_SECRET_ACCESS_KEY": credentials.push_secret_access_key,
        "BURSTCHAT_JWT_SECRET": credentials.jwt_secret,
        "PYTHONUNBUFFERED": "1",
    }
    folder = person.get("BURSTCHAT_KNOWLEDGE_DIR") or LocalStackSettings.knowledge_dir
    defaults = {
        **_LOCAL_DEFAULTS,
        "BURSTCHAT_ASSISTANT_FILE": f"{folder}/{ASSISTANT_NAME}",
        "AWS_ACCESS_KEY_ID": AWS_KEY,
        "AWS_SECRET_ACCESS_KEY": AWS_KEY,
        "AWS_DEFAULT_REGION": AWS_REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    if plan.model_server is not None:
        # It has no quota of tokens: a burst shows what the stack takes, not what an account may.
        defaults["BURSTCHAT_MODEL_TOKENS_PER_MIN"] = "0"
        # It has no quota of tokens; how many calls a minute it takes is a figure of this machine.
        defaults["BURSTCHAT_MODEL_TOKENS_PER_MIN"] = "0"
        own["BURSTCHAT_MODEL_BASE_URL"] = plan.model_server.url
        own["ANTHROPIC_API_KEY"] = "offline"
    return {**defaults, **{k: v for k, v in given.items() if v}, **own}


def process_environment(shared: Mapping[str, str], process: PlannedProcess) -> dict[str, str]:
    """The shared settings plus the ports of one service."""
    own: dict[str, str] = {}
    if process.role == "gateway":
        own["BURSTCHAT_PUBLIC_PORT"] = str(process.port)
        own["BURSTCHAT_PRIVATE_PORT"] = str(process.private_port)
    elif process.role == "orchestrator":
        own["BURSTCHAT_INTAKE_PORT"] = str(process.port)
    elif process.role == "queue_runner":
        own["BURSTCHAT_QUEUE_RUNNER_PORT"] = str(process.port)
    return {**shared, **own}


def emulator_environment(
    person: Mapping[str, str], process: PlannedProcess, scratch: str
) -> dict[str, str]:
    """The allow-list, and what binds the emulator to this machine and its folder."""
    allowed = {name: person[name] for name in _EMULATOR_ALLOWED if name in person}
    return {
        **allowed,
        "BIND_HOST": HOST,
        "MINISTACK_HOST": HOST,
        "GATEWAY_PORT": str(process.port),
        "MINISTACK_REGION": AWS_REGION,
        "TMPDIR": scratch,
        "S3_DATA_DIR": f"{scratch}/s3",
        "STATE_DIR": f"{scratch}/state",
        "LOG_LEVEL": "INFO",
        # AWS restores a snapshot in a second; a process that starts here again would make a burst wait.
        "LAMBDA_WARM_TTL_SECONDS": "86400",
        "AWS_SECRET_ACCESS_KEY": AWS_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
    }
