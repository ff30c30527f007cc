"""Ids as distinct string types, and the references that name a session or a turn of one user."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import lru_cache
from typing import NewType

import msgspec

TurnId = NewType("TurnId", str)
SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
ConnectionId = NewType("ConnectionId", str)
TenantId = NewType("TenantId", str)
UserId = NewType("UserId", str)
OwnerId = NewType("OwnerId", str)
"""One running process that holds connections: a fresh id at every start."""
ClaimNonce = NewType("ClaimNonce", str)
"""Fresh for every claim; with the attempt number it fences older producers."""

ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def is_client_id(value: str) -> bool:
    """True when `value` may be a session or message id: `[A-Za-z0-9_-]{1,64}`."""
    return ID_PATTERN.fullmatch(value) is not None


def random_id(entropy: bytes) -> str:
    """`entropy` as an id of four characters for each three bytes, give multiples of three.

    It begins with a letter or digit, so that no command line takes it for an option.
    """
    text = base64.urlsafe_b64encode(entropy).decode()
    return text if text[0].isalnum() else f"A{text[1:]}"


def ulid(at_ms: int, entropy: bytes) -> str:
    """The ULID of `at_ms` (epoch milliseconds) and 10 bytes of entropy: 26 characters that sort by time."""
    number = (at_ms << 80) | int.from_bytes(entropy[:10], "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


class SessionRef(msgspec.Struct, frozen=True):
    """A session as its owner sees it: the id means nothing without tenant and user."""

    tenant: TenantId
    user: UserId
    session_id: SessionId

    @property
    def slot_tag(self) -> str:
        """26 hex characters for (tenant, user, session): the hash tag in Redis, the partition key of `turns`."""
        return _slot_tag(self.tenant, self.user, self.session_id)


class TurnRef(msgspec.Struct, frozen=True):
    """A turn as its owner sees it."""

    session: SessionRef
    turn_id: TurnId


def session_of_turn(turn_id: str) -> SessionId | None:
    """The session id inside a turn id (`<session_id>.<ULID>`), None when it is not a turn id."""
    session_id, dot, tail = turn_id.rpartition(".")
    if not dot or len(tail) != 26 or not is_client_id(session_id) or not tail.isalnum():
        return None
    return SessionId(session_id)


def made_at_ms(turn_id: TurnId) -> int:
    """When the id was made, epoch ms; 0 for an id that is none of ours."""
    if session_of_turn(turn_id) is None:
        return 0
    number = 0
    for character in turn_id[-26:-16]:
        number = number * 32 + max(0, _CROCKFORD.find(character))
    return number


def turn_of(caller: SessionRef, turn_id: TurnId) -> TurnRef | None:
    """The turn under the caller's own identity, whatever session of theirs it belongs to; None = no turn id.

    A foreign id falls into an empty namespace, so it is simply unknown.
    """
    session_id = session_of_turn(turn_id)
    if session_id is None:
        return None
    return TurnRef(SessionRef(caller.tenant, caller.user, session_id), turn_id)


def new_turn_id(session_id: SessionId, at_ms: int, entropy: bytes) -> TurnId:
    """`<session_id>.<ULID>`; opaque to clients."""
    return TurnId(f"{session_id}.{ulid(at_ms, entropy)}")


@lru_cache(maxsize=8192)
def _slot_tag(tenant: str, user: str, session_id: str) -> str:
    # NUL cannot occur in any of the three, so different triples never meet.
    digest = hashlib.sha256(f"{tenant}\0{user}\0{session_id}".encode())
    return digest.hexdigest()[:26]
