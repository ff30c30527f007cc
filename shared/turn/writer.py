"""What one claim has to say: text in, frozen frames out, and the signals that end its work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from shared.contracts.identifiers import ClaimNonce
from shared.contracts.ledger import (
    Append,
    Claimed,
    ClaimRef,
    Fenced,
    Follower,
    Held,
    HoldAnswer,
    LogGap,
    TurnEnded,
    TurnUnknown,
)
from shared.contracts.server_frames import (
    ResponseDelta,
    ResponseStarted,
    StartedPath,
    encode_frame,
)
from shared.contracts.turns import Path, TurnRequest
from shared.policy.frame_cutting import cut_text
from shared.turn.interruption import Interruption
from shared.turn.terminal_frames import TerminalMaker


class Stop(Enum):
    """Why a turn's work must end before its answer is complete."""

    CANCELLED = "cancelled"
    """Its user pressed stop."""
    READERLESS = "readerless"
    """Its followers have been gone for longer than the grace."""
    FENCED = "fenced"
    """A newer producer owns it, or somebody else ended it: write nothing more."""
    REFUSED = "refused"
    """A transport refused a frame for its size: a failure of ours."""


@dataclass(frozen=True)
class _Opening:
    path: StartedPath
    intent: str
    model: str


class TurnWriter:
    """One claim's frames. Frozen frames never change, so every append and push of them may be repeated.

    The flusher cuts and appends them while `is_busy` is unset; after `quiesce` only the caller does. `wake` is called
    when something must not wait for the tick, `gone` when a follower's connection no longer exists.
    """

    def __init__(
        self,
        claimed: Claimed,
        path: Path,
        *,
        now_s: float,
        wake: Callable[[], None],
        gone: Callable[[TurnWriter, Follower], None],
    ) -> None:
        self.claim: ClaimRef = claimed.ref
        self.request: TurnRequest = claimed.request
        self.path: Path = path
        self.followers: tuple[Follower, ...] = claimed.followers
        self.ever_followed: set[Follower] = set(claimed.followers)  # those who left included
        self.earlier_attempts = claimed.earlier_attempts
        self.interruption = Interruption()
        self.stop_reason: Stop | None = None
        self.text = ""  # everything written, cut or not
        self.logged = 0  # frames known to be in the log
        self.pushed = 0  # frames given to the pusher
        self.is_urgent = False  # something must not wait for the tick
        self.is_lost = False  # the ledger does not know the claim
        self.is_closing = False  # the flusher keeps its hands off
        self.last_cut_s = now_s
        self.last_held_s = now_s  # when the ledger last confirmed the claim
        self._opening: _Opening | None = None
        self._cut_pieces: list[str] = []
        self._cut_characters = 0
        self._frames: list[bytes] = []
        self._gone_followers: set[Follower] = set()
        self._wake = wake
        self._gone = gone
        self._idle = asyncio.Event()
        self._idle.set()

    # what the pipeline says

    def start(self, path: StartedPath, intent: str, model: str) -> None:
        """Freeze `started`, the first frame of the attempt; it does not wait for the tick. Repeats do nothing."""
        if self._opening is None:
            self._opening = _Opening(path, intent, model)
            self._frames.append(self._started_frame(self._opening))
            self.hurry()

    def write(self, text: str) -> None:
        """Add visible text. The first does not wait for the tick."""
        first = not self.text
        self.text += text
        if first:
            self.hurry()

    def stop(self, reason: Stop) -> None:
        """Interrupt the turn's work; the first reason counts, but being fenced overrules all."""
        if self.stop_reason is None or reason is Stop.FENCED:
            self.stop_reason = reason
        self.interruption.interrupt()

    # what the flusher does

    @property
    def is_busy(self) -> bool:
        """True while an append of this turn is under way."""
        return not self._idle.is_set()

    def set_busy(self, busy: bool) -> None:
        """Mark the begin and the end of an append."""
        if busy:
            self._idle.clear()
        else:
            self._idle.set()

    @property
    def has_uncut_text(self) -> bool:
        """True when text waits for its frame."""
        return self._cut_characters < len(self.text)

    @property
    def has_unlogged_frames(self) -> bool:
        """True when frozen frames are not known to be in the log."""
        return self.logged < len(self._frames)

    def hurry(self) -> None:
        """Ask for a flush before the tick."""
        self.is_urgent = True
        self._wake()

    def cut(self, now_s: float) -> None:
        """Freeze the text so far into as few delta frames as the size limit allows."""
        fresh = self.text[self._cut_characters :]
        self._cut_characters = len(self.text)
        self.last_cut_s = now_s
        for piece in cut_text(fresh):
            self._cut_pieces.append(piece)
            self._frames.append(self._delta_frame(len(self._cut_pieces), piece))

    def unlogged(self) -> Append:
        """The frozen frames that the log does not hold yet."""
        return Append(self.claim, self.logged, tuple(self._frames[self.logged :]))

    def unpushed(self) -> list[bytes]:
        """Frames in the log that no follower was sent yet; they count as pushed from now on."""
        fresh = self._frames[self.pushed : self.logged]
        self.pushed = max(self.pushed, self.logged)
        return fresh

    def take(self, answer: HoldAnswer, *, appended: Append | None, now_s: float) -> None:
        """Learn from the ledger's answer to an append or (`appended` None) a renewal."""
        match answer:
            case Held():
                self.last_held_s = now_s
                self.follow(answer.followers)
                if appended is not None and appended.claim == self.claim:
                    self.logged = max(self.logged, appended.first_seq + len(appended.frames))
                if answer.cancel_requested:
                    self.stop(Stop.CANCELLED)
            case Fenced() | TurnEnded():
                self.stop(Stop.FENCED)
            case LogGap(last_seq):
                self.rewind(last_seq)
            case TurnUnknown():
                self.is_lost = True
                self.hurry()
            case _:
                assert_never(answer)

    def follow(self, followers: tuple[Follower, ...]) -> None:
        """Replace the followers by what the ledger says, without those known to be gone."""
        if self._gone_followers:
            followers = tuple(one for one in followers if one not in self._gone_followers)
        self.followers = followers
        self.ever_followed.update(followers)

    def rewind(self, last_seq: int) -> None:
        """The log ends at `last_seq`: everything after it is appended again from memory."""
        self.logged = min(last_seq + 1, len(self._frames))
        self.hurry()

    def rebase(self, claimed: Claimed, now_s: float) -> None:
        """Say everything again under a new claim; readers discard what they have when the attempt rises."""
        self.claim = claimed.ref
        self.is_lost = False
        self.last_held_s = now_s
        self.follow(claimed.followers)
        self.logged = self.pushed = 0
        opening = [] if self._opening is None else [self._started_frame(self._opening)]
        deltas = [
            self._delta_frame(seq, piece) for seq, piece in enumerate(self._cut_pieces, start=1)
        ]
        self._frames = [*opening, *deltas]
        if claimed.cancel_requested:
            self.stop(Stop.CANCELLED)
        self.hurry()

    # what settlement does

    async def quiesce(self) -> None:
        """Take the turn out of the flusher's hands, after an append that is under way."""
        self.is_closing = True
        await self._idle.wait()

    def seal(self, terminal: TerminalMaker) -> Append:
        """The unlogged frames with the terminal frame behind them; the log holds all of them or none."""
        seq = len(self._frames)
        last = encode_frame(terminal(self.claim.attempt, seq))
        return Append(self.claim, self.logged, (*self._frames[self.logged :], last))

    def unpushed_with(self, sealed: Append) -> list[bytes]:
        """Every frame that no follower was sent yet, now that the log holds `sealed`, terminal frame included."""
        self.logged = len(self._frames)
        return [*self.unpushed(), sealed.frames[-1]]

    # what the pusher tells

    def connection_gone(self, follower: Follower) -> None:
        """The follower's connection no longer exists."""
        self._gone_followers.add(follower)
        self.follow(self.followers)
        self._gone(self, follower)

    def frame_refused(self) -> None:
        """A frame was too large for a transport: this turn cannot be delivered."""
        self.stop(Stop.REFUSED)

    @property
    def nonce(self) -> ClaimNonce:
        """The claim's nonce."""
        return self.claim.nonce

    def _started_frame(self, opening: _Opening) -> bytes:
        return encode_frame(
            ResponseStarted(
                turn_id=self.request.turn_id,
                attempt=self.claim.attempt,
                seq=0,
                path=opening.path,
                intent=opening.intent,
                model=opening.model,
            )
        )

    def _delta_frame(self, seq: int, piece: str) -> bytes:
        return encode_frame(
            ResponseDelta(
                turn_id=self.request.turn_id,
                attempt=self.claim.attempt,
                seq=seq,
                delta=piece,
            )
        )
