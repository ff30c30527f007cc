"""What the ledger answers. Each union is exhaustive: match it and end with assert_never."""

from __future__ import annotations

from enum import Enum

import msgspec

from shared.contracts.dead_letters import AttemptRecord
from shared.contracts.identifiers import ClaimNonce, ConnectionId, OwnerId, TurnRef
from shared.contracts.server_frames import AcceptedPath
from shared.contracts.turns import EndStatus, TurnRequest, TurnStatus


class Follower(msgspec.Struct, frozen=True):
    """A connection that receives a turn's frames; `endpoint` is the Management API address of its task."""

    connection_id: ConnectionId
    endpoint: str
    owner: OwnerId


class TurnState(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as the ledger holds it. `outcome` is the terminal frame's bytes once ended.

    `last_seq` is -1 before the first frame of `attempt`. `lease_until_ms` is 0 without a claim.
    `placed` is where the turn was last put, `placed_at_ms` when (0 = `mark_placed` was never called).
    `position` (1 = next) only while behind the head, else 0.
    `unreadable` is the stored request when this version cannot read it; `request` then holds its ids and no text, and
    nobody may run it.
    """

    request: TurnRequest
    status: TurnStatus
    placed: AcceptedPath
    placed_at_ms: int = 0
    attempt: int
    last_seq: int
    lease_until_ms: int
    position: int = 0
    cancel_requested: bool = False
    outcome: bytes | None = None
    unreadable: bytes | None = None

    @property
    def is_ended(self) -> bool:
        """True once a terminal frame is fixed."""
        return self.outcome is not None


# accept ------------------------------------------------------------------------------------------


class AcceptedAsHead(msgspec.Struct, frozen=True):
    """The turn may run now; the caller dispatches it."""


class AcceptedAsWaiting(msgspec.Struct, frozen=True):
    """Behind the head; `position` 1 = next. The finisher of its predecessor dispatches it."""

    position: int


class AcceptedDetached(msgspec.Struct, frozen=True):
    """Outside the session queue; the caller puts it on its priority's queue."""


class AlreadyAccepted(msgspec.Struct, frozen=True):
    """The message id is known; the follower was added to that turn."""

    state: TurnState


class SessionBusy(msgspec.Struct, frozen=True):
    """Too many waiting turns; nothing was kept."""


AcceptAnswer = AcceptedAsHead | AcceptedAsWaiting | AcceptedDetached | AlreadyAccepted | SessionBusy


# claim -------------------------------------------------------------------------------------------


class ClaimRef(msgspec.Struct, frozen=True):
    """Proof of being a turn's only producer."""

    turn: TurnRef
    attempt: int
    nonce: ClaimNonce


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """The caller is the producer. `history` is the session's cached window as `finish` wrote it, or None.

    `request` is the ledger's copy of the turn (the caller's where that is unreadable), with its true `ready_at_ms`.
    `tries` counts the turn's claims since it was accepted or last reopened, this one included; deliveries of a stored
    answer are left out.
    """

    ref: ClaimRef
    tries: int
    request: TurnRequest
    followers: tuple[Follower, ...]
    cancel_requested: bool
    history: bytes | None
    earlier_attempts: tuple[AttemptRecord, ...] = ()


class ClaimRefusal(Enum):
    """Why a claim was refused. All mean: stop, and ack."""

    LEASED = "leased"
    ENDED = "ended"
    NOT_HEAD = "not_head"
    READERLESS = "readerless"
    """No follower for longer than the grace: the caller ends it with `end_unclaimed`."""
    EXHAUSTED = "exhausted"
    """Its attempts are used up, or it has crashed too often; a sweeper ends it."""


class ClaimRefused(msgspec.Struct, frozen=True):
    """Nothing changed. `state` is the turn as it is."""

    reason: ClaimRefusal
    state: TurnState


ClaimAnswer = Claimed | ClaimRefused


# append, renew, finish ---------------------------------------------------------------------------


class Append(msgspec.Struct, frozen=True):
    """Frozen frames of one claim, consecutive from `first_seq`."""

    claim: ClaimRef
    first_seq: int
    frames: tuple[bytes, ...]


class Held(msgspec.Struct, frozen=True):
    """The claim stands, the frames (if any) are in the log. `readerless_since_ms` 0 = someone reads."""

    followers: tuple[Follower, ...]
    cancel_requested: bool
    readerless_since_ms: int


class Fenced(msgspec.Struct, frozen=True):
    """A newer producer owns the turn: close the model call, write nothing more."""

    attempt: int


class TurnEnded(msgspec.Struct, frozen=True):
    """The turn has ended, by someone else or by an earlier try of ours; `outcome` is its terminal frame."""

    status: EndStatus
    outcome: bytes


class LogGap(msgspec.Struct, frozen=True):
    """The log ends at `last_seq`: append again from `last_seq + 1`."""

    last_seq: int


class TurnUnknown(msgspec.Struct, frozen=True):
    """The ledger lost the turn (or holds a lower attempt): claim again with a hint above one's own."""


HoldAnswer = Held | Fenced | TurnEnded | LogGap | TurnUnknown


class Finished(msgspec.Struct, frozen=True):
    """The turn ended by this call. `next_head` is the session's next turn: the caller dispatches it.

    None also where the next turn is unreadable: a sweeper ends it.
    """

    followers: tuple[Follower, ...]
    next_head: TurnRequest | None


FinishAnswer = Finished | Fenced | TurnEnded | LogGap | TurnUnknown


class StillClaimed(msgspec.Struct, frozen=True):
    """A producer holds (or held) the turn; it is not ours to end."""

    state: TurnState


EndAnswer = Finished | TurnEnded | StillClaimed | TurnUnknown


# cancel, follow ----------------------------------------------------------------------------------


class CancelRequested(msgspec.Struct, frozen=True):
    """The flag is set; the owner honours it within its renewal interval."""


CancelAnswer = CancelRequested | Finished | TurnEnded | TurnUnknown


class Replay(msgspec.Struct, frozen=True):
    """What the log holds after (`attempt`, `after_seq`); `frames` start at `from_seq` of `state.attempt`.

    `log_kept` False: the log is gone (or the turn ended before any claim); only `state.outcome` is left.
    """

    state: TurnState
    from_seq: int
    frames: tuple[bytes, ...]
    log_kept: bool


FollowAnswer = Replay | TurnUnknown


# reopen ------------------------------------------------------------------------------------------


class Reopened(msgspec.Struct, frozen=True):
    """The turn waits again, to be claimed above `attempt`; the caller sends it to its queue."""

    attempt: int


class NotReopened(msgspec.Struct, frozen=True):
    """Nothing changed: only a failed turn is reopened, and this one is `status`."""

    status: TurnStatus


ReopenAnswer = Reopened | NotReopened
