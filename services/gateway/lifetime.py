"""When a connection has to end, and with which words. Pure; times are epoch milliseconds."""

from __future__ import annotations

from typing import Literal

import msgspec

from services.gateway.session_io import Action, Close, Write
from shared.contracts.server_frames import SessionGoaway, encode_frame

CLOSE_LEAVING = 1001
CLOSE_BROKEN = 1011
CLOSE_REPLACED = 4000
CLOSE_PROTOCOL_ERRORS = 4400
CLOSE_TOKEN_EXPIRED = 4401
CLOSE_IDLE = 4408
CLOSE_SLOW = 4409
CLOSE_TOO_MANY = 4429
RENEWAL_GRACE_MS = 5_000
"""A client asked to renew an aged connection has this long before it is closed."""
SLOW_RECONNECT_MS = 1_000


class LifetimeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in ms, each a setting of its name."""

    idle_close_ms: int
    """Without user activity; pings are none."""
    max_age_ms: int
    """Before a client is asked to connect anew."""


class Lifetime:
    """The clocks of one connection. None of them ends it in mid-answer but the token's and the drain's last call."""

    __slots__ = (
        "_active_at_ms",
        "_expires_at_ms",
        "_is_draining",
        "_leave_at_ms",
        "_limits",
        "_opened_at_ms",
    )

    def __init__(
        self, limits: LifetimeLimits, opened_at_ms: int, expires_at_ms: int | None
    ) -> None:
        self._limits = limits
        self._opened_at_ms = opened_at_ms
        self._active_at_ms = opened_at_ms
        self._expires_at_ms = expires_at_ms
        self._leave_at_ms: int | None = None
        self._is_draining = False

    @property
    def due_at_ms(self) -> int:
        """The earliest time at which `tick` may have something to say."""
        times = [
            self._active_at_ms + self._limits.idle_close_ms,
            self._opened_at_ms + self._limits.max_age_ms
            if self._leave_at_ms is None
            else self._leave_at_ms,
        ]
        if self._expires_at_ms is not None:
            times.append(self._expires_at_ms)
        return min(times)

    @property
    def last_active_at_ms(self) -> int:
        """When the user last did something."""
        return self._active_at_ms

    def touch(self, now_ms: int) -> None:
        """The user did something."""
        self._active_at_ms = now_ms

    def drain(self, now_ms: int, reconnect_after_ms: int) -> list[Action]:
        """The process leaves: the client is told when to reconnect; the socket stays until then, or until its
        turns have ended if that is later."""
        if self._is_draining:
            return []
        self._is_draining = True
        self._leave_at_ms = now_ms + reconnect_after_ms
        return [_goaway("drain", reconnect_after_ms)]

    def tick(self, now_ms: int, is_answering: bool) -> list[Action]:
        """Close, or ask the client to renew, when a clock has run out."""
        if self._expires_at_ms is not None and now_ms >= self._expires_at_ms:
            return [Close(CLOSE_TOKEN_EXPIRED, "token expired")]
        if is_answering:
            return []
        if self._leave_at_ms is not None:
            if now_ms < self._leave_at_ms:
                return []
            return [Close(CLOSE_LEAVING, "drain" if self._is_draining else "max_age")]
        if now_ms - self._active_at_ms >= self._limits.idle_close_ms:
            return [Close(CLOSE_IDLE, "idle")]
        if now_ms - self._opened_at_ms >= self._limits.max_age_ms:
            self._leave_at_ms = now_ms + RENEWAL_GRACE_MS
            return [_goaway("max_age", 0)]
        return []


def slow_actions() -> list[Action]:
    """What a reader that cannot keep up is told last."""
    return [_goaway("slow", SLOW_RECONNECT_MS), Close(CLOSE_SLOW, "too slow, resume")]


def _goaway(reason: Literal["drain", "max_age", "slow"], reconnect_after_ms: int) -> Write:
    return Write(encode_frame(SessionGoaway(reason=reason, reconnect_after_ms=reconnect_after_ms)))
