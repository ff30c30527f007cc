"""Who may open a socket, and what refused callers are told."""

from __future__ import annotations

import base64
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
from services.gateway.rates import KeyedBuckets
from shared.clock import Clock, Randomness
from shared.contracts.identifiers import ConnectionId, SessionId, SessionRef, is_client_id

USER_AGENT_LIMIT = 256
DRAIN_RETRY_S = 1
UNAVAILABLE_RETRY_S = 2


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
        is_draining: Callable[[], bool],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._identities = identities
        self._allowed_origins = allowed_origins
        self._trusted_proxies = trusted_proxies
        self._rates = KeyedBuckets(address_handshakes_per_s, address_handshakes_per_s)
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
            return Denied(503, "unavailable", "Too many connections at once.", -(-wait_ms // 1_000))
        subprotocols: list[str] = scope.get("subprotocols") or []
        try:
            identity = self._identities.identify(headers.get("authorization"), subprotocols)
        except Unauthorized as error:
            return Denied(401, "unauthorized", str(error))
        session_id = self._session_id(scope["query_string"])
        if session_id is None:
            return Denied(400, "invalid_session", "session_id is 1 to 64 of A-Z a-z 0-9 _ -")
        return Admitted(
            identity=identity,
            session=SessionRef(identity.tenant, identity.user, session_id),
            peer=Peer(address, headers.get("user-agent", "")[:USER_AGENT_LIMIT]),
            subprotocol=SUBPROTOCOL if SUBPROTOCOL in subprotocols else None,
        )

    def new_connection_id(self) -> ConnectionId:
        """16 characters that nobody can guess."""
        return ConnectionId(self._random_id(12))

    def _session_id(self, query: bytes) -> SessionId | None:
        values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("session_id")
        if values is None:
            return SessionId(self._random_id(15))
        return SessionId(values[0]) if is_client_id(values[0]) else None

    def _random_id(self, size_bytes: int) -> str:
        return base64.urlsafe_b64encode(self._randomness.token_bytes(size_bytes)).decode()


def denial_headers(denied: Denied) -> list[tuple[bytes, bytes]]:
    """The headers of a refused handshake or request."""
    headers = [(b"content-type", b"application/json")]
    if denied.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    if denied.retry_after_s is not None:
        headers.append((b"retry-after", str(denied.retry_after_s).encode()))
    return headers
