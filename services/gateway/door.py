"""Admission at the door: what is refused here reaches nothing behind the gateway."""

from __future__ import annotations

import msgspec

from services.gateway.rates import KeyedBuckets
from shared.clock import Clock
from shared.contracts.identifiers import TenantId, UserId
from shared.contracts.load import FleetLoad
from shared.contracts.server_frames import RejectedCode
from shared.errors import DependencyUnavailable
from shared.policy.admission import BurstLimits, burst_refusal, door_refusal
from shared.policy.wait_estimate import estimate_wait_ms
from shared.ports import LoadBoard
from shared.telemetry import Log

READ_EVERY_S = 1.0
_STALE_AFTER_MS = 5_000
_MS_PER_MIN = 60_000

_log = Log("door")


class Refusal(msgspec.Struct, frozen=True):
    """Why a message is refused before it is a turn, in the words of `chat.rejected`."""

    code: RejectedCode
    message: str
    retry_after_ms: int
    reason: str


class LoadView:
    """The fleet's counters as last read. Without fresh ones nobody is refused: the orchestrator still decides."""

    def __init__(self, board: LoadBoard, burst_capacity_turns: int, clock: Clock) -> None:
        self._board = board
        self._capacity_turns = burst_capacity_turns
        self._clock = clock
        self._load: FleetLoad | None = None
        self._read_at_ms = 0

    @property
    def fleet(self) -> FleetLoad | None:
        """The counters, None when they are not fresh."""
        if self._load is None or self._clock.now_ms() - self._read_at_ms > _STALE_AFTER_MS:
            return None
        return self._load

    def queued_wait_ms(self) -> int:
        """The predicted wait in the burst queue, for `chat.queued`."""
        load = self.fleet
        return 0 if load is None else estimate_wait_ms(load, self._capacity_turns)

    async def read_for_ever(self) -> None:
        """Read once a second; runs until cancelled."""
        while True:
            await self.read()
            await self._clock.sleep(READ_EVERY_S)

    async def read(self) -> None:
        """Read now; a failure leaves the old counters to age."""
        try:
            self._load = await self._board.read()
            self._read_at_ms = self._clock.now_ms()
        except DependencyUnavailable as error:
            _log.warning("load.unreadable", error_type=type(error).__name__)


class Door:
    """Decides for one process; the rate of a user's turns is per process."""

    def __init__(
        self, load: LoadView, limits: BurstLimits, user_turns_per_min: int, clock: Clock
    ) -> None:
        self._load = load
        self._limits = limits
        self._clock = clock
        self._rates = KeyedBuckets(user_turns_per_min / 60, user_turns_per_min)

    def refusal(self, tenant: TenantId, user: UserId) -> Refusal | None:
        """Why a new interactive message is refused; None admits it and counts it against the user's rate."""
        load = self._load.fleet
        if load is not None:
            decision = door_refusal(load, self._limits)
            if decision is not None:
                return overloaded(decision.retry_after_ms, decision.reason)
        wait_ms = self._rates.take((tenant, user), self._clock.now_ms())
        if wait_ms:
            message = "You are sending messages too fast. Please wait a moment."
            return Refusal("rate_limited", message, min(wait_ms, _MS_PER_MIN), "user_rate")
        return None

    def give_back(self, tenant: TenantId, user: UserId) -> None:
        """An admitted message was a repeat: it does not count against the rate."""
        self._rates.give_back((tenant, user))

    def burst_refusal(self) -> Refusal | None:
        """Why the gateway itself must not put a turn on the burst queue now."""
        load = self._load.fleet
        decision = None if load is None else burst_refusal(load, self._limits)
        return None if decision is None else overloaded(decision.retry_after_ms, decision.reason)


def overloaded(retry_after_ms: int | None, reason: str) -> Refusal:
    """Too much to do; come back later."""
    message = "The assistant is very busy right now. Please try again in a moment."
    return Refusal("overloaded", message, retry_after_ms or 1_000, reason)
