"""What one user saw of one turn, judged frame by frame. Pure: frames and times in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass, field

from clients.reducer import Turn, fold_frame
from shared.contracts.server_frames import (
    AnyServerFrame,
    ChatAccepted,
    ChatQueued,
    ChatRejected,
    LoggedFrame,
    ResponseDelta,
    ResponseStarted,
    TerminalFrame,
)

REPEATED = "frame repeated"


@dataclass
class ObservedTurn:
    """Frames of one turn as they came. Times in milliseconds of one clock, durations from `sent_at_ms`."""

    message_id: str
    sent_at_ms: int
    state: Turn = field(default_factory=Turn)
    turn_id: str | None = None
    path: str = "none"
    rejected: str | None = None
    retry_after_ms: int | None = None
    started_ms: int | None = None
    predictions: list[tuple[int, int]] = field(default_factory=list)
    """When each `chat.queued` came, and the wait that it predicted from then on."""
    first_token_ms: int | None = None
    total_ms: int | None = None
    longest_gap_ms: int = 0
    faults: list[str] = field(default_factory=list)
    _terminals: int = 0
    _last_delta_at_ms: int = 0

    @property
    def is_ended(self) -> bool:
        """True when nothing more is expected."""
        return self.rejected is not None or self._terminals > 0

    @property
    def outcome(self) -> str:
        """`completed`, another end's name, `rejected` with its code, or `lost` when the end never came."""
        if self.rejected:
            return f"rejected {self.rejected}"
        return self.state.status if self._terminals else "lost"

    @property
    def prediction_error(self) -> float | None:
        """By what share of the true wait the first `chat.queued` was wrong; None when there was none."""
        if not self.predictions or self.started_ms is None:
            return None
        at_ms, predicted_ms = self.predictions[0]
        actual_ms = max(1, self.started_ms - at_ms)
        return abs(predicted_ms - actual_ms) / actual_ms

    def observe(self, frame: AnyServerFrame, now_ms: int) -> None:
        """Take one frame of the connection; frames of other turns are left alone."""
        if isinstance(frame, ChatRejected) and frame.message_id == self.message_id:
            self.rejected = frame.code
            if isinstance(frame.retry_after_ms, int):
                self.retry_after_ms = frame.retry_after_ms
            self.total_ms = now_ms - self.sent_at_ms
        elif isinstance(frame, ChatAccepted) and frame.message_id == self.message_id:
            self.turn_id = frame.turn_id
        elif isinstance(frame, ChatQueued) and frame.turn_id == self.turn_id:
            self.predictions.append((now_ms - self.sent_at_ms, frame.wait_ms))
        elif isinstance(frame, LoggedFrame) and frame.turn_id == self.turn_id:
            self._observe_logged(frame, now_ms)

    def _observe_logged(self, frame: LoggedFrame, now_ms: int) -> None:
        if self._terminals:
            self.faults.append("frame after the end")
        if frame.attempt == self.state.attempt and frame.seq <= self.state.last_seq:
            self.faults.append(REPEATED)
        elif frame.attempt == self.state.attempt and frame.seq > self.state.last_seq + 1:
            self.faults.append("frames out of order")
        if isinstance(frame, ResponseStarted):
            self.path = frame.path
            if self.started_ms is None:
                self.started_ms = now_ms - self.sent_at_ms
        if isinstance(frame, ResponseDelta):
            self._observe_delta(now_ms)
        folded = fold_frame(self.state, frame, now_ms)
        self.state = folded.turn
        if isinstance(frame, TerminalFrame):
            self._terminals += 1
            self.total_ms = now_ms - self.sent_at_ms
            if folded.fetch:
                self.faults.append("text differs from its hash")

    def _observe_delta(self, now_ms: int) -> None:
        if self.first_token_ms is None:
            self.first_token_ms = now_ms - self.sent_at_ms
        else:
            self.longest_gap_ms = max(self.longest_gap_ms, now_ms - self._last_delta_at_ms)
        self._last_delta_at_ms = now_ms
