"""A conversation as a client sees it (PROTOCOL §4): a pure fold over user actions, frames and time.

Every function answers a `Step`: the new conversation, the frames to send in order, and the turns
whose text must be fetched with `GET /v1/turns/{turn_id}`. `clients/web/client.js` is its twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from msgspec import UNSET

from clients.reducer import RESUME_REPEAT_MS, Folded, Turn, ask_again, fold_frame
from shared.contracts.client_frames import AnyClientFrame, ChatCancel, ChatSend
from shared.contracts.identifiers import MessageId, SessionId, TurnId
from shared.contracts.server_frames import (
    AnyServerFrame,
    ChatAccepted,
    ChatHistory,
    ChatQueued,
    ChatRejected,
    ChatResumed,
    HistoryTurn,
    LoggedFrame,
    Pong,
    ProtocolError,
    SessionGoaway,
    SessionReady,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The turns of one session, oldest first, and whether frames can be sent now."""

    connected: bool = False
    session_id: SessionId | None = None
    turns: tuple[Turn, ...] = ()
    more: bool = False
    """Earlier turns exist on the server."""


@dataclass(frozen=True, slots=True)
class Step:
    """A conversation after one event and what the event asks of the connection."""

    state: Conversation
    out: tuple[AnyClientFrame, ...] = ()
    fetch: tuple[TurnId, ...] = ()


def send(state: Conversation, message_id: MessageId, text: str) -> Step:
    """The user says something: sent at once when connected, else after the next `session.ready`."""
    known = next((turn for turn in state.turns if turn.message_id == message_id), None)
    if known is not None and known.status != "rejected":
        return Step(state)
    # A rejected message was never accepted: the same id may be used, and takes the newest place.
    kept = tuple(turn for turn in state.turns if turn is not known)
    turn = Turn(message_id=message_id, user_text=text)
    return Step(
        replace(state, turns=(*kept, turn)),
        (ChatSend(message_id=message_id, text=text),) if state.connected else (),
    )


def cancel(state: Conversation, message_id: MessageId) -> Step:
    """The user presses stop. A message without a turn id is stopped as soon as it has one."""

    def stop(turn: Turn) -> Folded:
        stopping = replace(turn, cancel_requested=True)
        return Folded(stopping, _cancel_frames(stopping) if state.connected else ())

    def concerns(turn: Turn) -> bool:
        return turn.message_id == message_id and not turn.is_ended

    return _each(state, concerns, stop)


def lost(state: Conversation) -> Step:
    """The connection is gone; nothing is outstanding any more."""
    turns = tuple(replace(turn, resume_sent_at_ms=None) for turn in state.turns)
    return Step(replace(state, connected=False, turns=turns))


def tick(state: Conversation, now_ms: int) -> Step:
    """Time passes: repeats each `chat.resume` that had no effect for 2 s."""

    def is_due(turn: Turn) -> bool:
        sent_at_ms = turn.resume_sent_at_ms
        return sent_at_ms is not None and now_ms - sent_at_ms >= RESUME_REPEAT_MS

    if not state.connected:
        return Step(state)
    return _each(state, is_due, lambda turn: ask_again(turn, now_ms))


def fetched(state: Conversation, turn_id: TurnId, text: str | None) -> Step:
    """The text of an ended turn came over HTTP; None when it could not be had."""
    if text is None:
        return Step(state)
    return _update(state, turn_id, lambda turn: Folded(replace(turn, text=text, verified=True)))


def refuse_unanswered(state: Conversation, code: str, message: str) -> Step:
    """The connection was closed because of a message without an answer: it will not be repeated."""
    return _each(
        state,
        lambda turn: turn.turn_id is None and not turn.is_ended,
        lambda turn: Folded(
            replace(turn, status="rejected", code=code, message=message, retryable=True)
        ),
    )


def receive(state: Conversation, frame: AnyServerFrame, now_ms: int) -> Step:
    """One frame of the server; `now_ms` on any clock that does not run backwards."""
    match frame:
        case SessionReady():
            return _ready(state, frame, now_ms)
        case ChatAccepted():
            return _accepted(state, frame)
        case ChatRejected():
            return _refused(state, frame.message_id, frame)
        case ChatQueued():
            return _queued(state, frame)
        case ChatResumed():
            return _resumed(state, frame)
        case ChatHistory():
            return _history(state, frame)
        case ProtocolError():
            return _error(state, frame)
        case SessionGoaway() | Pong():
            return Step(state)
        case _:
            return _logged(state, frame, now_ms)


def _logged(state: Conversation, frame: LoggedFrame, now_ms: int) -> Step:
    known = _ensure(state, frame.turn_id, None)
    return _update(known, frame.turn_id, lambda turn: fold_frame(turn, frame, now_ms))


def _ready(state: Conversation, frame: SessionReady, now_ms: int) -> Step:
    state = replace(state, connected=True, session_id=frame.session_id)
    for running in frame.running:
        state = _ensure(state, running.turn_id, running.message_id)

    def resume(turn: Turn) -> Folded:
        status = "accepted" if turn.status == "sent" else turn.status
        return ask_again(replace(turn, status=status, resume_sent_at_ms=None), now_ms)

    def is_running(turn: Turn) -> bool:
        return turn.turn_id is not None and not turn.is_ended

    resumed = _each(state, is_running, resume)
    unanswered = [
        ChatSend(message_id=turn.message_id, text=turn.user_text)
        for turn in state.turns
        if turn.status == "sent" and turn.turn_id is None and turn.message_id is not None
    ]
    stopping = [
        frame
        for turn in state.turns
        if turn.cancel_requested and is_running(turn)
        for frame in _cancel_frames(turn)
    ]
    return replace(resumed, out=(*unanswered, *resumed.out, *stopping))


def _accepted(state: Conversation, frame: ChatAccepted) -> Step:
    def accept(said: Turn) -> Folded:
        # With a text the server hid personal data: from here on nothing keeps what was typed.
        turn = said if frame.text is UNSET else replace(said, user_text=frame.text, is_masked=True)
        if turn.status not in ("sent", "accepted", "waiting"):
            return Folded(turn)
        accepted = replace(
            turn,
            status="waiting" if frame.path == "waiting" else "accepted",
            path=frame.path,
            position=None if frame.position is UNSET else frame.position,
        )
        stops_now = turn.cancel_requested and turn.status == "sent"
        return Folded(accepted, _cancel_frames(accepted) if stops_now else ())

    return _update(_ensure(state, frame.turn_id, frame.message_id), frame.turn_id, accept)


def _refused(
    state: Conversation, message_id: MessageId, frame: ChatRejected | ProtocolError
) -> Step:
    retry_after_ms = frame.retry_after_ms if isinstance(frame, ChatRejected) else UNSET

    def refuse(turn: Turn) -> Folded:
        return Folded(
            replace(
                turn,
                status="rejected",
                code=frame.code,
                message=frame.message,
                retryable=True,
                retry_after_ms=None if retry_after_ms is UNSET else retry_after_ms,
            )
        )

    # A message that became a turn can no longer be refused; the frame answers a repeat of it.
    def concerns(turn: Turn) -> bool:
        return turn.message_id == message_id and turn.turn_id is None and not turn.is_ended

    return _each(state, concerns, refuse)


def _queued(state: Conversation, frame: ChatQueued) -> Step:
    def queue(turn: Turn) -> Folded:
        if turn.is_ended or turn.status == "streaming":
            return Folded(turn)
        return Folded(replace(turn, status="queued", position=None, wait_ms=frame.wait_ms))

    return _update(state, frame.turn_id, queue)


def _resumed(state: Conversation, frame: ChatResumed) -> Step:
    def answer(turn: Turn) -> Folded:
        # While frames are held the gap is still open, so the request stays outstanding.
        return Folded(turn if turn.held else replace(turn, resume_sent_at_ms=None))

    return _update(state, frame.turn_id, answer)


def _error(state: Conversation, frame: ProtocolError) -> Step:
    if frame.message_id is not UNSET:
        return _refused(state, frame.message_id, frame)
    if frame.code != "unknown_turn" or frame.turn_id is UNSET:
        return Step(state)

    def give_up(turn: Turn) -> Folded:
        if turn.is_ended:
            return Folded(turn)
        return Folded(
            replace(
                turn,
                status="failed",
                code=frame.code,
                message=frame.message,
                retryable=True,
                partial=turn.text != "",
                held={},
                resume_sent_at_ms=None,
            )
        )

    return _update(state, frame.turn_id, give_up)


def _history(state: Conversation, frame: ChatHistory) -> Step:
    turns = list(state.turns)
    at = 0  # where the next turn that is not known yet belongs
    for stored in reversed(frame.turns):
        index = _find(turns, stored.turn_id, stored.message_id)
        if index is None:
            turns.insert(at, _from_history(Turn(), stored))
            at += 1
            continue
        known = turns[index]
        adopts = not known.is_ended and known.last_seq < 0
        turns[index] = (
            _from_history(known, stored)
            if adopts
            else replace(known, user_text=stored.user_text or known.user_text)
        )
        at = index + 1
    return Step(replace(state, turns=tuple(turns), more=frame.more))


def _from_history(turn: Turn, stored: HistoryTurn) -> Turn:
    return replace(
        turn,
        turn_id=stored.turn_id,
        message_id=stored.message_id,
        user_text=stored.user_text,
        text=stored.assistant_text,
        stop_reason=stored.stop_reason,
        path=stored.path or turn.path,
        intent=stored.intent or None,
        model=stored.model or None,
        usage=None if stored.usage is UNSET else stored.usage,
        timings=None if stored.timings is UNSET else stored.timings,
        sources=stored.sources,
        status="cancelled" if stored.stop_reason == "cancelled" else "completed",
        resume_sent_at_ms=None,
        position=None,
        wait_ms=None,
        verified=True,
    )


def _cancel_frames(turn: Turn) -> tuple[AnyClientFrame, ...]:
    return () if turn.turn_id is None else (ChatCancel(turn_id=turn.turn_id),)


def _find(turns: list[Turn], turn_id: TurnId, message_id: MessageId | None) -> int | None:
    for index, turn in enumerate(turns):
        if turn.turn_id == turn_id or (message_id is not None and turn.message_id == message_id):
            return index
    return None


def _ensure(state: Conversation, turn_id: TurnId, message_id: MessageId | None) -> Conversation:
    turns = list(state.turns)
    index = _find(turns, turn_id, message_id)
    if index is None:
        turns.append(Turn(turn_id=turn_id, message_id=message_id, status="accepted"))
    else:
        turn = turns[index]
        if turn.turn_id is not None and turn.message_id is not None:
            return state
        turns[index] = replace(
            turn, turn_id=turn.turn_id or turn_id, message_id=turn.message_id or message_id
        )
    return replace(state, turns=tuple(turns))


def _update(state: Conversation, turn_id: TurnId, change: Callable[[Turn], Folded]) -> Step:
    """Change the turn of that id; nothing when it is not known."""
    # From the end: the turn that frames arrive for is nearly always among the newest.
    for index in range(len(state.turns) - 1, -1, -1):
        turn = state.turns[index]
        if turn.turn_id == turn_id:
            folded = change(turn)
            turns = (*state.turns[:index], folded.turn, *state.turns[index + 1 :])
            fetch = (turn_id,) if folded.fetch else ()
            return Step(replace(state, turns=turns), folded.out, fetch)
    return Step(state)


def _each(
    state: Conversation, concerns: Callable[[Turn], bool], change: Callable[[Turn], Folded]
) -> Step:
    folded = [change(turn) if concerns(turn) else Folded(turn) for turn in state.turns]
    turns = tuple(each.turn for each in folded)
    return Step(replace(state, turns=turns), tuple(frame for each in folded for frame in each.out))
