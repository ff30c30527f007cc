"""Admission at the door: what is refused here reaches nothing behind the gateway."""

from __future__ import annotations

import msgspec

from services.gateway.rates import KeyedBuckets
from services.gateway.session_quota import SessionQuota
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef
from shared.contracts.load import FleetLoad
from shared.contracts.server_frames import RejectedCode
from shared.contracts.turns import Priority
from shared.policy.admission import BurstLimits, burst_refusal, door_refusal
from shared.policy.load_level import LoadLevel
from shared.turn.load_watch import LoadWatch

_STALE_AFTER_S = 5.0
_MS_PER_MIN = 60_000
_LIMITED_RETRY_MS = 30_000


class Refusal(msgspec.Struct, frozen=True):
    """Why a message is refused before it is a turn, in the words of `chat.rejected`."""

    code: RejectedCode
    message: str
    retry_after_ms: int
    reason: str


class Door:
    """Decides for one process; the rate of a user's turns is per process.

    Without fresh counters nobody is refused for load: the orchestrator still decides.
    """

    def __init__(
        self, load: LoadWatch, limits: BurstLimits, user_turns_per_min: int, clock: Clock
    ) -> None:
        self._load = load
        self._limits = limits
        self._clock = clock
        self._quota = SessionQuota()
        self._rates = KeyedBuckets(user_turns_per_min / 60, user_turns_per_min)

    def refusal(self, session: SessionRef, priority: Priority = "high") -> Refusal | None:
        """Why a new message is refused; None admits it and counts an interactive one against the user's rate.

        What came of an interactive one is to be told: `count_turn` or `give_back`. Turns of lower priority take neither
        a slot nor a place in burst, and nobody's time at a screen.
        """
        if priority != "high":
            return None
        load = self._fresh_load()
        if load is not None:
            decision = door_refusal(load, self._limits)
            if decision is not None:
                return overloaded(decision.retry_after_ms, decision.reason)
            if self._is_limiting() and not self._quota.admits(session):
                message = "The assistant is very busy: new conversations are kept short just now."
                return Refusal("session_limited", message, _LIMITED_RETRY_MS, "new_session")
        wait_ms = self._rates.take((session.tenant, session.user), self._clock.now_ms())
        if wait_ms:
            message = "You are sending messages too fast. Please wait a moment."
            return Refusal("rate_limited", message, min(wait_ms, _MS_PER_MIN), "user_rate")
        return None

    def count_turn(self, session: SessionRef) -> None:
        """An admitted message became a turn: it counts against what a new session gets."""
        if self._fresh_load() is not None:
            self._quota.count(session, is_limiting=self._is_limiting())

    def give_back(self, session: SessionRef) -> None:
        """An admitted message was a repeat: it does not count against the rate."""
        self._rates.give_back((session.tenant, session.user))

    def burst_refusal(self) -> Refusal | None:
        """Why the gateway itself must not put a turn on the burst queue now."""
        load = self._fresh_load()
        decision = None if load is None else burst_refusal(load, self._limits)
        return None if decision is None else overloaded(decision.retry_after_ms, decision.reason)

    def _is_limiting(self) -> bool:
        return self._load.level >= LoadLevel.MODERATE

    def _fresh_load(self) -> FleetLoad | None:
        failed_since_s = self._load.failed_since_s
        if failed_since_s is None or self._clock.monotonic_s() - failed_since_s < _STALE_AFTER_S:
            return self._load.fleet
        return None


def overloaded(retry_after_ms: int | None, reason: str) -> Refusal:
    """Too much to do; come back later."""
    message = "The assistant is very busy right now. Please try again in a moment."
    return Refusal("overloaded", message, retry_after_ms or 1_000, reason)
