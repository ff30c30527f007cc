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
        self,
        registry: ConnectionRegistry,
        owner: OwnerId,
        clock: Clock,
        *,
        lease_ms: int,
        renew_ms: int,
    ) -> None:
        self._registry = registry
        self._owner = owner
        self._clock = clock
        self._lease_s = lease_ms / 1_000
        self._renew_s = renew_ms / 1_000
        self._held_until_s: float | None = None
        self._failure: str | None = "not asked yet"

    @property
    def fault(self) -> str | None:
        """Why the lease does not hold, None while it does: one failed renewal must not flap the readiness."""
        if self._held_until_s is not None and self._clock.monotonic_s() < self._held_until_s:
            return None
        return self._failure or "the lease has lapsed"

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self.renew()
            await self._clock.sleep(self._renew_s)

    async def renew(self) -> None:
        """Renew once; a failure is noted, not raised."""
        asked_at_s = self._clock.monotonic_s()
        try:
            await self._registry.renew_owner(self._owner)
        except DependencyUnavailable as error:
            if self._failure is None:
                _log.warning("owner.not_renewed", error_type=type(error).__name__)
            self._failure = str(error)
        else:
            self._failure = None
            self._held_until_s = asked_at_s + self._lease_s
