"""Which processes the stack has and on which ports: pure, so that scripts and tests can rely on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shared.settings import LocalStackSettings

Role = Literal["gateway", "orchestrator", "queue_runner", "model_server", "aws_emulator", "valkey"]

HOST = "127.0.0.1"
_PORTS_PER_INDEX = 10
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class PlannedProcess:
    """One process; `health_path` "" = not asked over HTTP. `private_port` only gateways have."""

    role: Role
    index: int
    port: int
    health_path: str
    private_port: int | None = None

    @property
    def name(self) -> str:
        """Unique in the stack; also the name of its log file."""
        return f"{self.role}-{self.index}"

    @property
    def url(self) -> str:
        """Base address for HTTP."""
        return f"http://{HOST}:{self.port}"

    def ports(self) -> Iterator[tuple[int, str]]:
        """Every port with the words that name it."""
        what = f"{self.role} {self.index}"
        if self.private_port is None:
            yield self.port, what
        else:
            yield self.port, f"{what}, public"
            yield self.private_port, f"{what}, private"


@dataclass(frozen=True, slots=True)
class StackPlan:
    """Every process; the infrastructure starts before the services."""

    valkey: PlannedProcess
    aws_emulator: PlannedProcess
    model_server: PlannedProcess | None
    orchestrators: tuple[PlannedProcess, ...]
    queue_runner: PlannedProcess
    gateways: tuple[PlannedProcess, ...]

    def infrastructure(self) -> tuple[PlannedProcess, ...]:
        """What services need before they start."""
        model = () if self.model_server is None else (self.model_server,)
        return (self.valkey, self.aws_emulator, *model)

    def services(self) -> tuple[PlannedProcess, ...]:
        """Our own services, those that are called first."""
        return (*self.orchestrators, self.queue_runner, *self.gateways)

    def processes(self) -> tuple[PlannedProcess, ...]:
        """All of them in the order of starting."""
        return (*self.infrastructure(), *self.services())

    def urls(self) -> dict[str, str]:
        """Addresses that people and scripts use."""
        gateway = self.gateways[0]
        urls = {
            "chat": f"{gateway.url}/",
            "websocket": f"ws://{HOST}:{gateway.port}/ws",
            "management_api": f"http://{HOST}:{gateway.private_port}",
            "orchestrator": self.orchestrators[0].url,
            "aws": self.aws_emulator.url,
            "redis": f"redis://{HOST}:{self.valkey.port}/0",
        }
        if self.model_server is not None:
            urls["model_server"] = self.model_server.url
        return urls


def plan_stack(local: LocalStackSettings, *, has_model_server: bool) -> StackPlan:
    """Lay the stack out from its port base.

    Raises ValueError in words when a count or the base leaves no room.
    """
    if local.gateways < 1 or local.orchestrators < 1:
        raise ValueError(
            "BURSTCHAT_GATEWAYS and BURSTCHAT_ORCHESTRATORS must be at least 1 "
            f"({local.gateways} and {local.orchestrators})"
        )
    highest_index = max(local.gateways, local.orchestrators) - 1
    highest = local.port_base + max(6, _PORTS_PER_INDEX * highest_index + 2)
    if local.port_base < 1 or highest > _HIGHEST_PORT:
        raise ValueError(f"BURSTCHAT_PORT_BASE={local.port_base} leaves no room below port 65536")

    def at(index: int, offset: int) -> int:
        return local.port_base + _PORTS_PER_INDEX * index + offset

    return StackPlan(
        valkey=PlannedProcess("valkey", 0, at(0, 5), ""),
        aws_emulator=PlannedProcess("aws_emulator", 0, at(0, 4), "/_ministack/health"),
        model_server=(
            PlannedProcess("model_server", 0, at(0, 3), "/healthz") if has_model_server else None
        ),
        orchestrators=tuple(
            PlannedProcess("orchestrator", index, at(index, 2), "/readyz")
            for index in range(local.orchestrators)
        ),
        queue_runner=PlannedProcess("queue_runner", 0, at(0, 6), "/readyz"),
        gateways=tuple(
            PlannedProcess("gateway", index, at(index, 0), "/readyz", private_port=at(index, 1))
            for index in range(local.gateways)
        ),
    )
