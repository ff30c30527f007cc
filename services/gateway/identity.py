"""Who is calling: bearer tokens (JWT, HS256) from the header or the sub-protocol list, and browser origins.

Tokens are never read from the query string, where they would end up in logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

import jwt
import msgspec

from shared.clock import Clock
from shared.contracts.identifiers import TenantId, UserId

SUBPROTOCOL = "burstchat.v1"
DEFAULT_TENANT = TenantId("default")
_TOKEN_SUBPROTOCOL = "bearer."
_ANONYMOUS = UserId("dev")
_LEEWAY_MS = 5_000
_NAME_LIMIT_CHARACTERS = 128
_LATEST_EPOCH_S = 2**40


class Identity(msgspec.Struct, frozen=True):
    """A user of a tenant, until `expires_at_ms` (None = no token, so no end)."""

    tenant: TenantId
    user: UserId
    expires_at_ms: int | None


class Unauthorized(Exception):
    """No token, or one that is not accepted. The text is for the caller and names no secret."""


class Identities:
    """Checks and issues tokens; `dev` also admits callers without one as the user `dev`."""

    def __init__(
        self, *, mode: Literal["dev", "jwt"], secret: str, audience: str, issuer: str, clock: Clock
    ) -> None:
        self._is_dev = mode == "dev"
        self._secret = secret
        self._audience = audience
        self._issuer = issuer
        self._clock = clock

    def identify(self, authorization: str | None, subprotocols: Sequence[str] = ()) -> Identity:
        """The caller's identity. Raises Unauthorized."""
        token = _bearer(authorization, subprotocols)
        if token is not None:
            return self._verified(token)
        if self._is_dev:
            return Identity(DEFAULT_TENANT, _ANONYMOUS, None)
        raise Unauthorized("A bearer token is required.")

    def issue(self, user: str, tenant: str, lifetime_ms: int) -> tuple[str, int]:
        """A token for a named user and its end in epoch ms. ValueError for a name that no token may carry."""
        if not _is_name(user) or not _is_name(tenant):
            raise ValueError(
                f"user and tenant are 1 to {_NAME_LIMIT_CHARACTERS} printable characters"
            )
        expires_at_s = (self._clock.now_ms() + lifetime_ms) // 1_000
        claims = {
            "sub": user,
            "tenant": tenant,
            "exp": expires_at_s,
            "aud": self._audience,
            "iss": self._issuer,
        }
        return jwt.encode(claims, self._secret, algorithm="HS256"), expires_at_s * 1_000

    def _verified(self, token: str) -> Identity:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                audience=self._audience,
                issuer=self._issuer,
                # The times are judged below, by our own clock.
                options={
                    "require": ["sub", "exp", "aud", "iss"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise Unauthorized("The token is not valid.") from error
        user, tenant = claims["sub"], claims.get("tenant", DEFAULT_TENANT)
        if not _is_name(user) or not _is_name(tenant):
            raise Unauthorized("The token names no user.")
        expires_at_ms = self._checked_times(claims)
        return Identity(TenantId(tenant), UserId(user), expires_at_ms)

    def _checked_times(self, claims: Mapping[str, Any]) -> int:
        now_ms = self._clock.now_ms()
        expires_at_ms = _epoch_ms(claims["exp"])
        if expires_at_ms is None or now_ms >= expires_at_ms + _LEEWAY_MS:
            raise Unauthorized("The token has expired.")
        if "nbf" in claims:
            not_before_ms = _epoch_ms(claims["nbf"])
            if not_before_ms is None or now_ms < not_before_ms - _LEEWAY_MS:
                raise Unauthorized("The token is not valid yet.")
        return expires_at_ms


def is_allowed_origin(origin: str | None, host: str | None, allowed: Sequence[str]) -> bool:
    """True without an Origin (no browser), for a listed one, and, when none is listed, for the page's own."""
    if origin is None:
        return True
    if allowed:
        return origin.rstrip("/").lower() in {entry.rstrip("/").lower() for entry in allowed}
    try:
        own = urlsplit(origin).netloc.lower()
    except ValueError:
        return False
    return bool(own) and host is not None and own == host.lower()


def _bearer(authorization: str | None, subprotocols: Sequence[str]) -> str | None:
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("The authorization scheme is Bearer.")
        return token.strip()
    if SUBPROTOCOL in subprotocols:
        for entry in subprotocols:
            if entry.startswith(_TOKEN_SUBPROTOCOL):
                return entry.removeprefix(_TOKEN_SUBPROTOCOL)
    return None


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str) and 1 <= len(value) <= _NAME_LIMIT_CHARACTERS and value.isprintable()
    )


def _epoch_ms(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value * 1_000) if abs(value) < _LATEST_EPOCH_S else None  # NaN fails this, too
