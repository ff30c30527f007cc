"""What one client saw, judged as it came: the violations that no look at the server could show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from shared.contracts.server_frames import (
    AnyServerFrame,
    ChatAccepted,
    LoggedFrame,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
)

TERMINAL = ResponseCompleted | ResponseFailed | ResponseCancelled | ResponseExpired


@dataclass
class Witness:
    """All logged frames of one user's turns, each kept once under (attempt, seq)."""

    frames: dict[str, dict[tuple[int, int], LoggedFrame]] = field(default_factory=dict)
    ends: dict[str, list[LoggedFrame]] = field(default_factory=dict)
    turn_of: dict[str, str] = field(default_factory=dict)
    """Message id to the turn id that it was accepted as."""
    started_at_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """(turn, attempt) to the moment when its first frame arrived."""
    violations: list[str] = field(default_factory=list)
    repeats: int = 0
    """Frames that came more than once: legal, for clients drop them."""
    late: int = 0
    """First-time frames of an attempt below the newest one seen: legal, and dropped."""

    def see(self, frame: AnyServerFrame, now_ms: int) -> None:
        """Judge one frame."""
        if isinstance(frame, ChatAccepted):
            self._see_accepted(frame)
        elif isinstance(frame, ResponseStarted | ResponseDelta | TERMINAL):
            self._see_logged(frame, now_ms)

    def text(self, turn_id: str, attempt: int) -> str:
        """The deltas of one attempt put together in the order of their seq."""
        frames = sorted(self.frames.get(turn_id, {}).items())
        return "".join(
            frame.delta
            for (of_attempt, _), frame in frames
            if of_attempt == attempt and isinstance(frame, ResponseDelta)
        )

    def end_kinds(self) -> Counter[str]:
        """How turns ended, with the code of failures."""
        return Counter(end_kind(ends[0]) for ends in self.ends.values())

    def _see_accepted(self, frame: ChatAccepted) -> None:
        known = self.turn_of.setdefault(frame.message_id, frame.turn_id)
        if known != frame.turn_id:
            self.violations.append(
                f"message {frame.message_id} became two turns: {known}, {frame.turn_id}"
            )

    def _see_logged(self, frame: LoggedFrame, now_ms: int) -> None:
        seen = self.frames.setdefault(frame.turn_id, {})
        place = (frame.attempt, frame.seq)
        known = seen.setdefault(place, frame)
        if known is not frame:
            self.repeats += 1
            if known != frame:
                self.violations.append(f"turn {frame.turn_id}: two frames at {place}")
            return
        newest = max(attempt for attempt, _ in seen)
        self.late += frame.attempt < newest and not isinstance(frame, TERMINAL)
        self.started_at_ms.setdefault((frame.turn_id, frame.attempt), now_ms)
        ends = self.ends.setdefault(frame.turn_id, []) if isinstance(frame, TERMINAL) else None
        if ends is not None:
            ends.append(frame)
            if len(ends) > 1:
                kinds = [f"{end_kind(end)} {end.attempt}.{end.seq}" for end in ends]
                self.violations.append(f"turn {frame.turn_id} ended {len(ends)} times: {kinds}")
        elif any(end.attempt < frame.attempt for end in self.ends.get(frame.turn_id, ())):
            self.violations.append(f"turn {frame.turn_id} went on after its end, at {place}")


def end_kind(frame: LoggedFrame) -> str:
    """`completed`, `failed internal`, `cancelled disconnect` and so on."""
    kind = type(frame).__name__.removeprefix("Response").lower()
    if isinstance(frame, ResponseFailed):
        return f"{kind} {frame.code}"
    return f"{kind} {frame.by}" if isinstance(frame, ResponseCancelled) else kind


def is_stored(frame: LoggedFrame) -> bool:
    """Whether the end of a turn says that its text is kept."""
    return isinstance(frame, ResponseCompleted) or (
        isinstance(frame, ResponseCancelled) and frame.length > 0
    )
