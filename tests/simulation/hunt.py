"""The worst moments to die: in the middle of an answer, and between storing it and saying so."""

from __future__ import annotations

from collections.abc import Callable

from shared.contracts.identifiers import TurnRef
from tests.simulation.loop import Process
from tests.simulation.monitor import Monitor, TurnTruth
from tests.simulation.network import Network

MIDDLE_S = 0.2


class Hunt:
    """Hits the producer of the next turn that is claimed, and then its successor, with `strike`."""

    def __init__(
        self,
        network: Network,
        monitor: Monitor,
        processes: list[Process],
        strike: Callable[[Process], None],
    ) -> None:
        self._network = network
        self._monitor = monitor
        self._processes = processes
        self._strike = strike
        self._prey: TurnTruth | None = None
        self._before = monitor.on_claim, monitor.on_store
        monitor.on_claim, monitor.on_store = self._claimed, self._stored

    def _claimed(self, truth: TurnTruth) -> None:
        if self._prey is None:
            self._prey = truth
            self._network.later(MIDDLE_S, self._hit, truth.holder_process)

    def _stored(self, ref: TurnRef) -> None:
        prey = self._prey
        if prey is None or prey.ref != ref or prey.holder is None or prey.holder.attempt == 1:
            return
        self._monitor.on_claim, self._monitor.on_store = self._before
        self._hit(prey.holder_process)

    def _hit(self, name: str) -> None:
        for process in self._processes:
            if process.name == name and process.is_alive:
                self._strike(process)
