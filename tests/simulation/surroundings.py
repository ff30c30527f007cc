"""What surrounds the processes of a run: services, sizes, and one process's ports to them."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.errors import DependencyUnavailable
from shared.settings import GatewaySettings, OrchestratorSettings, Settings, TurnSettings
from shared.telemetry import Metrics
from tests.fakes.clock import FakeRandomness
from tests.fakes.turn_store import FakeTurnStore
from tests.simulation.loop import Process
from tests.simulation.model import SimModel
from tests.simulation.monitor import Monitor
from tests.simulation.network import IntakeTarget, Network, PushTarget, Remote, SimIntake, SimPush
from tests.simulation.queues import QueueClient, SimQueues
from tests.simulation.redis import SimRedis

REDIS_TIMEOUT_S = 0.5
STORE_TIMEOUT_S = 2.0
DRAIN_MS = 5_000
"""Short, so that what still runs is handed over within a run."""


@dataclass
class Sizes:
    """What differs from run to run. Times in ms unless named otherwise."""

    slots: int = 4
    waiting_in_burst: int = 50
    batch: int = 5
    function_timeout_s: float = 75.0
    outbox_bytes: int = 262_144
    write_high_bytes: int = 32_768
    flush_tick_ms: int = 40
    retry_in_process_limit_ms: int = 4_000

    def settings(self) -> Settings:
        """The deployment's settings: defaults, small, without limits on the one simulated user."""
        return Settings(
            gateway=replace(
                GatewaySettings(),
                auth_mode="dev",
                outbox_bytes=self.outbox_bytes,
                user_turns_per_min=0,
                user_connections=0,
                address_handshakes_per_s=0,
                new_handshakes_per_s=0,
                returning_handshakes_per_s=0,
                gateway_drain_ms=DRAIN_MS,
            ),
            orchestrator=replace(
                OrchestratorSettings(),
                inline_slots=self.slots,
                burst_capacity_turns=20,
                waiting_burst_limit=self.waiting_in_burst,
                orchestrator_drain_ms=DRAIN_MS,
            ),
            turn=replace(
                TurnSettings(),
                flush_tick_ms=self.flush_tick_ms,
                retry_in_process_limit_ms=self.retry_in_process_limit_ms,
            ),
        )


class SilentMetrics(Metrics):
    """Counts nothing: a run reads the history instead."""

    def _emit(
        self,
        name: str,
        value: float,
        unit: str,
        dimensions: Mapping[str, str],
        is_fine: bool = False,
    ) -> None: ...


@dataclass
class Surroundings:
    """The services that every process talks to."""

    network: Network
    redis: SimRedis
    store: FakeTurnStore
    model: SimModel
    queues: SimQueues
    monitor: Monitor
    sizes: Sizes
    settings: Settings
    seed: int
    gateways: dict[str, PushTarget]
    doors: Callable[[], list[IntakeTarget]]


class Ports:
    """One process's clients of the surroundings."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        network, weather = world.network, world.network.weather
        observe = world.monitor.observer(process)

        def redis(service: Any) -> Any:
            return Remote(network, service, REDIS_TIMEOUT_S, observe, lambda: weather.redis_is_away)

        self.ledger = redis(world.redis.client())
        self.due = redis(world.redis.due)
        self.registry = redis(world.redis.registry)
        self.board = redis(world.redis.board)
        self.store = Remote(
            network,
            _Store(world.store, network, world.monitor.store_observer(process)),
            STORE_TIMEOUT_S,
            _observe_nothing,
        )
        self.queue = QueueClient(world.queues)
        self.push = SimPush(network, world.gateways.get, world.monitor.pushed)
        self.intake = SimIntake(network, world.doors)
        self.randomness = FakeRandomness(hash_of(world.seed, process.name))
        self.metrics = SilentMetrics("sim", process.name, process.clock, io.StringIO())


class _Store:
    """The table of turns in the present weather. A put whose answer got lost was made."""

    def __init__(
        self, store: FakeTurnStore, network: Network, stored: Callable[[Any], None]
    ) -> None:
        self._store = store
        self._network = network
        self._stored = stored

    async def put(self, turn: Any) -> Any:
        self._look()
        answer = await self._store.put(turn)
        if answer is None:
            self._stored(turn)
        weather = self._network.weather
        if weather.store_loses_answers and self._network.chance.random() < 0.6:
            raise DependencyUnavailable("the store's answer got lost")
        return answer

    async def get(self, turn: Any) -> Any:
        self._look()
        return await self._store.get(turn)

    async def newest(self, session: Any, *, limit: int, before: Any = None) -> Any:
        self._look()
        return await self._store.newest(session, limit=limit, before=before)

    def _look(self) -> None:
        if self._network.weather.store_is_away:
            raise DependencyUnavailable("the store is away")


def _observe_nothing(verb: str, args: Any, kwargs: Any, answer: Any) -> None: ...


def hash_of(seed: int, name: str) -> int:
    """A seed of its own for each part, the same in every process."""
    return random.Random(f"{seed}/{name}").getrandbits(48)
