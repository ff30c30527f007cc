"""Admission at the door: what is refused here reaches nothing behind the gateway."""

from __future__ import annotations

import msgspec

from services.gateway.session_quota import SessionQuota
from services.gateway.shared_rate import SharedRate
from shared.clock import Clock
from shared.contracts.allowances import Rate
from shared.contracts.identifiers import MessageId, SessionRef
from shared.contracts.load import FleetLoad
from shared.contracts.server_frames import AcceptedPath, RejectedCode
from shared.contracts.turns import Priority
from shared.errors import ChatError
from shared.policy.admission import BurstLimits, burst_refusal, door_refusal
from shared.policy.load_level import LoadLevel
from shared.policy.tiers import LOW_PER_S, is_throttled, tier_refusal, tier_retry_after_ms
from shared.policy.wait_estimate import estimate_wait_ms
from shared.policy.waiting_shares import WaitingShares
from shared.ports import Allowances, SessionQueue
from shared.telemetry import Log
from shared.turn.load_watch import LoadWatch

_STALE_AFTER_S = 5.0
_S_PER_MIN = 60
_LIMITED_RETRY_MS = 30_000
_UNAVAILABLE_RETRY_MS = 1_000

_log = Log("door")


class Refusal(msgspec.Struct, frozen=True):
    """Why a message is refused before it is a turn, in the words of `chat.rejected`."""

    code: RejectedCode
    message: str
    retry_after_ms: int
    reason: str


class Admission(msgspec.Struct, frozen=True):
    """The message may become a turn. `is_counted`: what came of it is to be told, by `settle`."""

    is_counted: bool


class Door:
    """Decides for one process, on counters that all share. A refusal costs one read of the ledger, and no more.

    Without fresh counters nobody is refused for load: the orchestrator still decides.
    """

    def __init__(
        self,
        load: LoadWatch,
        limits: BurstLimits,
        *,
        user_turns_per_min: int,
        sessions: SessionQueue,
        allowances: Allowances,
        clock: Clock,
    ) -> None:
        self._load = load
        self._limits = limits
        self._sessions = sessions
        self._clock = clock
        self._quota = SessionQuota()
        self._shares = WaitingShares()
        self._user_rate = SharedRate(
            "user_turns",
            Rate(per_min=user_turns_per_min, burst=user_turns_per_min),
            allowances=allowances,
            sessions=sessions,
            clock=clock,
        )
        self._low_rate = SharedRate(
            "tenant_low_turns",
            Rate(per_min=LOW_PER_S * _S_PER_MIN, burst=LOW_PER_S),
            allowances=allowances,
            sessions=sessions,
            clock=clock,
        )

    async def admit(
        self, session: SessionRef, message_id: MessageId, priority: Priority = "high"
    ) -> Refusal | Admission:
        """Whether a message may become a turn. A message that is one already is never refused, nor counted."""
        load = self._fresh_load()
        refusal = None if load is None else self._load_refusal(load, session, priority)
        try:
            if refusal is not None:
                known = await self._sessions.find_message(session, message_id)
                return refusal if known is None else Admission(is_counted=False)
            return await self._take(session, message_id, priority)
        except ChatError as error:
            _log.warning("message.not_looked_up", error_type=type(error).__name__)
            return unavailable()

    def settle(
        self, session: SessionRef, priority: Priority, path: AcceptedPath, *, duplicate: bool
    ) -> None:
        """A counted message became a turn on `path`, or was a repeat."""
        if duplicate:
            rate = self._rate(priority)
            if rate is not None:
                rate.give_back(session)
            return
        if path == "burst":
            self._shares.queued(session.tenant, self._clock.now_ms())
        if priority == "high" and self._fresh_load() is not None:
            self._quota.count(session, is_limiting=self._is_limiting())

    def burst_refusal(self) -> Refusal | None:
        """Why the gateway itself must not put a turn on the burst queue now."""
        load = self._fresh_load()
        decision = None if load is None else burst_refusal(load, self._limits)
        return None if decision is None else overloaded(decision.retry_after_ms, decision.reason)

    def _load_refusal(
        self, load: FleetLoad, session: SessionRef, priority: Priority
    ) -> Refusal | None:
        wait_ms = estimate_wait_ms(load, self._limits.capacity_turns)
        now_ms = self._clock.now_ms()
        is_crowding = priority == "high" and self._shares.is_crowding(
            session.tenant, wait_ms, now_ms
        )
        decision = door_refusal(load, self._limits, is_crowding=is_crowding)
        if decision is not None:  # what interactive turns are refused for, the others are, too
            return overloaded(decision.retry_after_ms, decision.reason)
        reason = tier_refusal(priority, self._load.level)
        if reason is not None:
            return overloaded(tier_retry_after_ms(reason, wait_ms), reason)
        if priority == "high" and self._is_limiting() and not self._quota.admits(session):
            message = "The assistant is very busy: new conversations are kept short just now."
            return Refusal("session_limited", message, _LIMITED_RETRY_MS, "new_session")
        return None

    async def _take(
        self, session: SessionRef, message_id: MessageId, priority: Priority
    ) -> Refusal | Admission:
        rate = self._rate(priority)
        if rate is None:
            return Admission(is_counted=True)
        grant = await rate.take(session, message_id)
        if grant.is_known:
            return Admission(is_counted=False)
        if not grant.wait_ms:
            return Admission(is_counted=True)
        if priority == "high":
            message = "You are sending messages too fast. Please wait a moment."
            return Refusal("rate_limited", message, grant.wait_ms, "user_rate")
        message = "The assistant is busy: work of low priority is taken slowly just now."
        return Refusal("rate_limited", message, grant.wait_ms, "low_throttled")

    def _rate(self, priority: Priority) -> SharedRate | None:
        if priority == "high":
            return self._user_rate
        is_slow = self._fresh_load() is not None and is_throttled(priority, self._load.level)
        return self._low_rate if is_slow else None

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


def unavailable() -> Refusal:
    """Nobody could ask whether the message is a turn already."""
    message = "Your message could not be taken just now. Please send it again."
    return Refusal("unavailable", message, _UNAVAILABLE_RETRY_MS, "unavailable")
