"""The dead letter of PROTOCOL §9: a turn that used up its chances, with its evidence."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from shared.contracts.turns import TurnRequest
from shared.errors import MalformedMessage

SCHEMA = 1

DeadLetterClass = Literal["never_ran", "failed", "not_stored", "malformed", "poison"]

WORKER_LOST: Final = "WorkerLost"
"""The error's type where attempts ended without a word."""
TURN_UNCLAIMED: Final = "TurnUnclaimed"
"""The error's type where nobody claimed a turn any more."""
TURN_UNREADABLE: Final = "TurnUnreadable"
"""The error's type where the ledger's copy of a turn could not be read."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's try; times in epoch ms."""

    attempt: int
    worker: str
    path: str
    started_at_ms: int
    ended_at_ms: int
    outcome: str
    error_type: str = ""


class DeadLetterError(msgspec.Struct, frozen=True, kw_only=True):
    """The last error; `stack` holds file, line and function names, never values."""

    type: str
    message: str
    stack: str


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename={"klass": "class"}):
    """A dead turn. `raw` only for undecodable bodies, `answer` only when answered but not stored."""

    schema: int = SCHEMA
    kind: Literal["dead_letter"] = "dead_letter"
    turn: TurnRequest | None
    raw: str | None = None
    klass: DeadLetterClass
    error: DeadLetterError
    attempts: tuple[AttemptRecord, ...]
    answer: str | None = None
    dead_at_ms: int
    fingerprint: str


_decoder = msgspec.json.Decoder(DeadLetter)


def decode_dead_letter(raw: str) -> DeadLetter:
    """Parse a dead letter; unknown fields are ignored. Raises MalformedMessage for anything else."""
    try:
        letter = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise MalformedMessage("not a dead letter", raw.encode("utf-8", "surrogatepass")) from error
    if letter.schema != SCHEMA:
        raise MalformedMessage(f"dead letter schema {letter.schema}", raw.encode())
    return letter
