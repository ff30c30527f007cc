"""This process's lease in the registry: while it holds, the connections of this process count as alive."""

from __future__ import annotations

from shared.clock import Clock
from shared.contracts.identifiers import OwnerId
from shared.errors import DependencyUnavailable
from shared.ports import ConnectionRegistry
from shared.telemetry import Log

_log = Log("owner_lease")


class OwnerLease:
    """Renews the lease; two renewals may fail in a row before it lapses."""

    name = "owner_lease"

    def __init__(
        self, registry: ConnectionRegistry, owner: OwnerId, renew_ms: int, clock: Clock
    ) -> None:
        self._registry = registry
        self._owner = owner
        self._renew_s = renew_ms / 1_000
        self._clock = clock
        self.fault: str | None = "not asked yet"
        """Why the registry could not be asked last time, None = it answered."""

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self.renew()
            await self._clock.sleep(self._renew_s)

    async def renew(self) -> None:
        """Renew once; a failure is noted, not raised."""
        try:
            await self._registry.renew_owner(self._owner)
            self.fault = None
        except DependencyUnavailable as error:
            if self.fault is None:
                _log.warning("owner.not_renewed", error_type=type(error).__name__)
            self.fault = str(error)
