"""What the session machine asks for (actions) and what it is told (answers)."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.client_frames import ChatSend
from shared.contracts.identifiers import MessageId, TurnId
from shared.contracts.server_frames import AcceptedPath, ChatHistory, RejectedCode
from shared.contracts.turns import TurnStatus

Purpose = Literal["resume", "check", "cancel", "history"]
"""Why the ledger was asked: the client resumes, the turn was silent, the client stops it, the client looks back."""

# actions -----------------------------------------------------------------------------------------


class Write(msgspec.Struct, frozen=True):
    """Send one frame to the client, unaltered, after all earlier ones."""

    data: bytes


class Close(msgspec.Struct, frozen=True):
    """Close the socket with a code of PROTOCOL §5; nothing follows."""

    code: int
    reason: str


class NoteWait(msgspec.Struct, frozen=True):
    """A turn that waited in burst has started: the wait from its first `chat.queued` on, and what that predicted."""

    predicted_ms: int
    actual_ms: int


class AskSend(msgspec.Struct, frozen=True):
    """Make the message a turn; answer with Accepted or Refused."""

    frame: ChatSend


class AskReplay(msgspec.Struct, frozen=True):
    """Follow the turn and read what its log holds after (`attempt`, `after_seq`);
    answer with Replayed, NotFound or CouldNotAsk."""

    turn_id: TurnId
    attempt: int | None
    after_seq: int
    purpose: Purpose


class AskCancel(msgspec.Struct, frozen=True):
    """Stop the turn; answer with Stopping, Stopped, NotFound or CouldNotAsk."""

    turn_id: TurnId


class AskHistory(msgspec.Struct, frozen=True):
    """Read earlier turns; answer with HistoryPage or CouldNotAsk."""

    before: TurnId | None
    limit: int


class WriteReplay(msgspec.Struct, frozen=True):
    """Send these frames at the reader's pace, then say `replay_written`."""

    turn_id: TurnId
    frames: tuple[bytes, ...]


Ask = AskSend | AskReplay | AskCancel | AskHistory
Command = Ask | WriteReplay
Action = Write | Close | NoteWait | Command

# answers -----------------------------------------------------------------------------------------


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The message is a turn; this connection follows it. `position` 0 = not waiting.

    `status` is other than `waiting` only for a turn that was known already.
    """

    message_id: MessageId
    turn_id: TurnId
    path: AcceptedPath
    duplicate: bool = False
    position: int = 0
    status: TurnStatus = "waiting"
    masked_text: str = ""
    """The message as it is kept, when personal data in it was masked."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The message was not accepted. Frames of `turn_id`, should it run after all, are dropped."""

    message_id: MessageId
    code: RejectedCode
    message: str
    retry_after_ms: int | None = None
    turn_id: TurnId | None = None
    reason: str = ""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Frames of `attempt` from `from_seq`; `complete`: the last of them is terminal.

    `is_stored`: cut anew from the stored turn, so the numbers differ from those sent before.
    `is_queued`: the turn waits in the burst queue, since `queued_at_ms`.
    """

    turn_id: TurnId
    purpose: Purpose
    attempt: int
    from_seq: int
    frames: tuple[bytes, ...]
    complete: bool
    is_stored: bool = False
    is_queued: bool = False
    queued_at_ms: int = 0


class NotFound(msgspec.Struct, frozen=True):
    """Neither the ledger nor the store knows the turn."""

    turn_id: TurnId
    purpose: Purpose


class CouldNotAsk(msgspec.Struct, frozen=True):
    """The ledger or the store did not answer."""

    turn_id: TurnId | None
    purpose: Purpose


class Stopping(msgspec.Struct, frozen=True):
    """The cancel flag is set; the producer sends the terminal frame."""

    turn_id: TurnId


class Stopped(msgspec.Struct, frozen=True):
    """The turn has ended, now or before; `outcome` is its terminal frame."""

    turn_id: TurnId
    outcome: bytes


class HistoryPage(msgspec.Struct, frozen=True):
    """Earlier turns, cut to the page size."""

    frame: ChatHistory


Answer = Accepted | Refused | Replayed | NotFound | CouldNotAsk | Stopping | Stopped | HistoryPage
