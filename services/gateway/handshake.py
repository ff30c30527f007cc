"""Who may open a socket, and what refused callers are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import parse_qs

import msgspec

from services.asgi import Scope, client_address, headers_of
from services.gateway.connection import Peer
from services.gateway.identity import (
    SUBPROTOCOL,
    Identities,
    Identity,
    Unauthorized,
    is_allowed_origin,
)
from services.gateway.rates import ConnectBudget, KeyedBuckets
from shared.clock import Clock, Randomness
from shared.contracts.identifiers import (
    ConnectionId,
    SessionId,
    SessionRef,
    is_client_id,
    random_id,
)
from shared.policy.backoff import spread_ms

USER_AGENT_LIMIT = 256
DRAIN_RETRY_S = 1
UNAVAILABLE_RETRY_MS = 2_000
RETRY_MAX_S = 60


class Admitted(msgspec.Struct, frozen=True):
    """A caller who may connect."""

    identity: Identity
    session: SessionRef
    peer: Peer
    subprotocol: str | None


class Denied(msgspec.Struct, frozen=True):
    """The handshake is answered with `status`; `retry_after_s` when coming back helps."""

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


class Handshakes:
    """Judges handshakes of one process. Tokens are looked at after the cheap checks."""

    def __init__(
        self,
        *,
        identities: Identities,
        allowed_origins: Sequence[str],
        trusted_proxies: int,
        address_handshakes_per_s: int,
        new_handshakes_per_s: int,
        returning_handshakes_per_s: int,
        is_draining: Callable[[], bool],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._identities = identities
        self._allowed_origins = allowed_origins
        self._trusted_proxies = trusted_proxies
        self._rates = KeyedBuckets(address_handshakes_per_s, address_handshakes_per_s)
        self._budgets = {
            False: ConnectBudget(new_handshakes_per_s),
            True: ConnectBudget(returning_handshakes_per_s),
        }
        self._is_draining = is_draining
        self._clock = clock
        self._randomness = randomness

    def judge(self, scope: Scope) -> Admitted | Denied:
        """Admit or deny one WebSocket handshake."""
        headers = headers_of(scope)
        if self._is_draining():
            return Denied(503, "unavailable", "This server is leaving.", DRAIN_RETRY_S)
        origin, host = headers.get("origin"), headers.get("host")
        if not is_allowed_origin(origin, host, self._allowed_origins):
            return Denied(403, "forbidden", "This origin is not allowed.")
        address = client_address(scope, headers, self._trusted_proxies)
        wait_ms = self._rates.take(address, self._clock.now_ms())
        if wait_ms:
            return _come_back_after(self._spread(wait_ms))
        subprotocols: list[str] = scope.get("subprotocols") or []
        try:
            identity = self._identities.identify(headers.get("authorization"), subprotocols)
        except Unauthorized as error:
            return Denied(401, "unauthorized", str(error))
        named = _named_session(scope["query_string"])
        if named is not None and not is_client_id(named):
            return Denied(400, "invalid_session", "session_id is 1 to 64 of A-Z a-z 0-9 _ -")
        # Last, so that only those who may connect use it up; still before anything is asked of the ledger.
        wait_ms = self._budgets[named is not None].take(self._clock.now_ms())
        if wait_ms:
            return _come_back_after(wait_ms)  # a place in the line, spread already
        session_id = SessionId(named or self._random_id(15))
        return Admitted(
            identity=identity,
            session=SessionRef(identity.tenant, identity.user, session_id),
            peer=Peer(address, headers.get("user-agent", "")[:USER_AGENT_LIMIT]),
            subprotocol=SUBPROTOCOL if SUBPROTOCOL in subprotocols else None,
        )

    def unavailable(self) -> Denied:
        """Nobody can be asked just now; the next second would be too soon for everybody at once."""
        return _come_back_after(self._spread(UNAVAILABLE_RETRY_MS), "Try again.")

    def new_connection_id(self) -> ConnectionId:
        """16 characters that nobody can guess."""
        return ConnectionId(self._random_id(12))

    def _spread(self, wait_ms: int) -> int:
        return spread_ms(wait_ms, self._randomness.uniform(0, 1))

    def _random_id(self, size_bytes: int) -> str:
        return random_id(self._randomness.token_bytes(size_bytes))


def _come_back_after(wait_ms: int, message: str = "Too many connections at once.") -> Denied:
    return Denied(503, "unavailable", message, min(RETRY_MAX_S, math.ceil(wait_ms / 1_000)))


def _named_session(query: bytes) -> str | None:
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("session_id")
    return None if values is None else values[0]


def denial_headers(denied: Denied) -> list[tuple[bytes, bytes]]:
    """The headers of a refused handshake or request."""
    headers = [(b"content-type", b"application/json")]
    if denied.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    if denied.retry_after_s is not None:
        headers.append((b"retry-after", str(denied.retry_after_s).encode()))
    return headers
