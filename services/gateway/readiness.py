"""Whether this process should get traffic, and why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Readiness:
    """Ready unless draining or some dependency fails; each probe answers its fault, or None."""

    def __init__(self, probes: Mapping[str, Callable[[], str | None]]) -> None:
        self._probes = probes
        self.is_draining = False
        """True from SIGTERM on: no new sockets."""

    def faults(self) -> dict[str, str]:
        """The reason of each failing dependency, by its name."""
        found = {name: probe() for name, probe in self._probes.items()}
        faults = {name: fault for name, fault in found.items() if fault is not None}
        if self.is_draining:
            faults["process"] = "draining"
        return faults
