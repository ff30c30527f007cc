"""Every key in Redis: its name, type, time to live and use. docs/data.md says the same for people.

`{tag}` is the session's slot tag with its braces: all keys of one session lie in one slot, and a script touches one
session only. The indexes lie in slots of their own, so they are written by commands beside the script.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

import msgspec

from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    OwnerId,
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
)
from shared.contracts.turns import TurnRequest

BURST_WAITING: Final = "bc:waiting:burst"
"""Sorted set: encoded turn refs put on the burst queue and not claimed since; score = when, epoch ms."""
BURST_WAITING_KEPT_MS: Final = 3_600_000
"""Retention of the burst queue: an older entry has no message any more."""
BURST_ENTERED: Final = "bc:entered:burst"
"""String: how many turns were ever put on the burst queue; as long without one as BURST_WAITING keeps them."""
BUDGET: Final = "bc:{budget}:window"
"""Hash: what the model budget's last window was charged with, by cell, and what is held; 10 min after the last call."""
BUDGET_SEEN: Final = "bc:{budget}:seen"
"""Sorted set: processes that share the budget; score = last call, epoch ms."""
BUDGET_LINES: Final = ("bc:{budget}:line:interactive", "bc:{budget}:line:detached")
"""Sorted sets: processes with calls that wait for the budget; score = since when the first waits, epoch ms."""
DUE_SHARDS: Final = 16

_ref_decoder = msgspec.json.Decoder(tuple[str, str, str, str])


class SessionKeys:
    """The keys of one session. Time to live of all: twice the outcome's while unended, see the scripts."""

    def __init__(self, session: SessionRef) -> None:
        self._base = f"bc:{{{session.slot_tag}}}:"
        self.head = self._base + "head"
        """String: id of the one turn that may run."""
        self.waiting = self._base + "waiting"
        """List: marked ids of the turns behind the head, next first."""
        self.outside = self._base + "outside"
        """List: ids of accepted detached turns that were never claimed."""
        self.history = self._base + "history"
        """String: the history window as the last finisher left it; 1 h."""

    @property
    def queue(self) -> tuple[str, str, str]:
        """The three keys that every script on the session's order starts with."""
        return self.head, self.waiting, self.outside

    def turn(self, turn_id: TurnId) -> str:
        """Hash: the turn; 24 h after its end."""
        return f"{self._base}turn:{turn_id}"

    def followers(self, turn_id: TurnId) -> str:
        """List: encoded followers, oldest first; deleted at the end of the turn."""
        return f"{self._base}followers:{turn_id}"

    def log(self, turn_id: TurnId) -> str:
        """List: frames of the current attempt, index = seq; 15 min after the end."""
        return f"{self._base}log:{turn_id}"

    def attempts(self, turn_id: TurnId) -> str:
        """List: encoded attempts before the present one, oldest first; deleted at the end of the turn."""
        return f"{self._base}attempts:{turn_id}"

    def message(self, message_id: MessageId) -> str:
        """String: id of the message's turn; 24 h after its end."""
        return f"{self._base}message:{message_id}"


def due(turn: TurnRef) -> str:
    """The sorted set that holds an unended turn: encoded turn refs; score = next check, epoch ms."""
    return due_shard(zlib.crc32(turn.turn_id.encode()) % DUE_SHARDS)


def due_shard(shard: int) -> str:
    """The due index's set number `shard`, 0..DUE_SHARDS - 1."""
    return f"bc:due:{{{shard}}}"


def sweeper(shard: int) -> str:
    """String: the sweeper that holds the due index's set number `shard`; about a second."""
    return f"bc:sweeper:{{{shard}}}"


def connection(connection_id: ConnectionId) -> str:
    """Hash: endpoint, owner, tenant, user, session; twice a connection's maximum age."""
    return f"bc:conn:{connection_id}"


def owner(owner_id: OwnerId) -> str:
    """String: exists while the process holds its lease."""
    return f"bc:owner:{owner_id}"


def allowance(kind: str, tenant: str, user: str) -> str:
    """String: when the count of that kind is even again, epoch ms; until then. Names are hashed, they may be long."""
    return f"bc:rate:{_digest(kind, tenant, user)}"


def user_connections(tenant: str, user: str) -> str:
    """Hash: open connection id → owner; twice a connection's maximum age after the last one opened."""
    return f"bc:user:{_digest(tenant, user)}"


def _digest(*names: str) -> str:
    return hashlib.sha256(msgspec.json.encode(names)).hexdigest()[:32]


def queue_mark(request: TurnRequest) -> str:
    """What stands before the id in `waiting`: `d` outside the session queue until claimed, `i` for all others."""
    return "d" if request.detached and request.priority != "high" else "i"


def unended_kept_ms(outcome_kept_ms: int) -> int:
    """Time to live of an unended turn's keys: longer than the longest limit of a detached turn (24 h)."""
    return 2 * outcome_kept_ms


def encode_ref(turn: TurnRef) -> bytes:
    """A turn ref as a member of the due index and of BURST_WAITING."""
    session = turn.session
    return msgspec.json.encode((session.tenant, session.user, session.session_id, turn.turn_id))


def decode_ref(member: bytes) -> TurnRef:
    """The turn ref of a member; raises msgspec.DecodeError for foreign bytes."""
    tenant, user, session_id, turn_id = _ref_decoder.decode(member)
    session = SessionRef(TenantId(tenant), UserId(user), SessionId(session_id))
    return TurnRef(session, TurnId(turn_id))
