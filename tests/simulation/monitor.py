"""Watches every effect on the ledger, the store and the wires, and holds the promises against it as they happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.identifiers import MessageId, SessionRef, TurnId, TurnRef
from shared.contracts.ledger import (
    AcceptedAsHead,
    AcceptedAsWaiting,
    AcceptedDetached,
    Append,
    CancelRequested,
    Claimed,
    ClaimRef,
    ClaimRefused,
    Finished,
    Follower,
    Held,
    Replay,
)
from shared.contracts.pushes import PushFrame
from shared.contracts.server_frames import ResponseCancelled, ResponseFailed, decode_server_frame
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import TurnRequest
from tests.fakes.ledger import FakeLedger
from tests.simulation.history import History
from tests.simulation.loop import Process


@dataclass
class TurnTruth:
    """A turn as the effects on the ledger tell it. Times in virtual seconds, `end` is its status."""

    request: TurnRequest
    number: int
    is_outside: bool = False
    holder: ClaimRef | None = None
    holder_process: str = ""
    end: str | None = None
    code: str = ""
    outcome: bytes = b""
    is_wounded: bool = False
    cancelled_at_s: float | None = None
    readers: frozenset[Follower] = frozenset()
    readerless: list[tuple[float, float | None]] = field(default_factory=list)
    lost_holder_at_s: float | None = None
    """When its producer was killed and nobody has claimed it since."""

    @property
    def may_take_hours(self) -> bool:
        """True for a detached turn whose queue message answered for a ledger that lost the answer.

        Its message is sent once more at half its limit, which is longer than a run.
        """
        return self.is_outside and self.is_wounded

    @property
    def ref(self) -> TurnRef:
        return self.request.ref


class Monitor:
    """The truth of a run. `observer` makes the callback that a process's clients report to."""

    def __init__(self, history: History, ledger: FakeLedger, now_s: Any) -> None:
        self._history = history
        self._ledger = ledger
        self._now_s = now_s
        self.turns: dict[TurnId, TurnTruth] = {}
        self.stored: dict[TurnRef, StoredTurn] = {}
        self.wounded_sessions: set[SessionRef] = set()
        self._known_frames: set[bytes] = set()
        self.takeovers: list[tuple[float, float]] = []
        """When producers died, and when their turns were claimed again."""
        self.on_claim: Callable[[TurnTruth], None] = lambda truth: None
        self.on_store: Callable[[TurnRef], None] = lambda ref: None
        self.on_end: Callable[[TurnTruth], None] = lambda truth: None

    # the ledger ----------------------------------------------------------------------------------

    def observer(self, process: Process) -> Any:
        """A callback (verb, args, kwargs, answer) for the calls of one process."""

        def observe(verb: str, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Any) -> None:
            handler = getattr(self, f"_on_{verb}", None)
            if handler is not None:
                handler(process.name, args, kwargs, answer)

        return observe

    def _on_accept(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        request: TurnRequest = args[0]
        self._transition(who, "accept", answer, request.ref)
        if not isinstance(answer, AcceptedAsHead | AcceptedAsWaiting | AcceptedDetached):
            self._look_for_readers(self._truth_of_message(request))
            return
        truth = TurnTruth(request, len(self.turns), isinstance(answer, AcceptedDetached))
        self._forbid_second_turn(truth)
        self.turns[request.turn_id] = truth
        self._look_for_readers(truth)

    def _on_claim(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        request: TurnRequest = args[0]
        if isinstance(answer, ClaimRefused):
            self._count(who, f"claim:{answer.reason.value}", request.ref)
            return
        assert isinstance(answer, Claimed)
        kind = "first" if answer.ref.attempt == 1 else "again"
        self._count(who, f"claim:{kind}", request.ref, f"attempt {answer.ref.attempt}")
        truth = self.turns.get(request.turn_id)
        if truth is None:
            # Entered from its message after a data loss, or by a queue message of a turn that was never accepted.
            truth = self.turns[request.turn_id] = TurnTruth(request, len(self.turns))
            truth.is_wounded = True
            self.wounded_sessions.add(request.session)
        if truth.end is not None and not truth.is_wounded:
            self._history.violate("P1", f"{_short(truth.ref)} was claimed after its end")
        if truth.holder != answer.ref:
            self._forbid_overtaking(truth)
        if truth.lost_holder_at_s is not None:
            self.takeovers.append((truth.lost_holder_at_s, self._now_s()))
            truth.lost_holder_at_s = None
        truth.holder, truth.holder_process = answer.ref, who
        self.on_claim(truth)
        self._look_for_readers(truth)

    def _on_append_many(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        for append, each in zip(args[0], answer, strict=True):
            self._count_answer("append", each)
            if isinstance(each, Held) and append.frames:
                self._appended(who, append)
            elif not isinstance(each, Held):
                self._history.note(who, f"append:{type(each).__name__}", _short(append.claim.turn))

    def _on_renew_many(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        for claim, each in zip(args[0], answer, strict=True):
            self._count_answer("renew", each)
            if not isinstance(each, Held):
                self._history.note(who, f"renew:{type(each).__name__}", _short(claim.turn))
            self._look_for_readers(self.turns.get(claim.turn.turn_id))

    def _on_finish(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        append: Append = args[0]
        self._transition(who, "finish", answer, append.claim.turn)
        if isinstance(answer, Finished):
            self._appended(who, append)
            self._ended(append.claim.turn, kwargs["status"], append.frames[-1])

    def _on_end_unclaimed(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        self._transition(who, "end_unclaimed", answer, args[0])
        if isinstance(answer, Finished):
            self._known_frames.add(kwargs["outcome"])
            self._ended(args[0], kwargs["status"], kwargs["outcome"])

    def _on_cancel(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        self._transition(who, "cancel", answer, args[0])
        if isinstance(answer, Finished):
            self._known_frames.add(args[1])
            self._ended(args[0], "cancelled", args[1])
        truth = self.turns.get(args[0].turn_id)
        if truth and isinstance(answer, CancelRequested) and truth.cancelled_at_s is None:
            truth.cancelled_at_s = self._now_s()

    def _on_release(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        self._count(who, f"release:{kwargs['release']}", args[0].turn)

    def _on_reserve(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        self._count(who, f"reserve:{kwargs['kind'] if answer else 'refused'}", args[0])

    def _on_follow(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        kind = "replay" if isinstance(answer, Replay) else "unknown"
        if args[1] is not None or kind == "unknown":
            self._count(who, f"follow:{kind}", args[0])
        self._look_for_readers(self.turns.get(args[0].turn_id))

    def _on_unfollow(self, who: str, args: Any, kwargs: Any, answer: Any) -> None:
        for turn in args[0]:
            self._count(who, "unfollow", turn)
            truth = self.turns.get(turn.turn_id)
            staying = truth.readers - {args[1]} if truth else frozenset()
            self._look_for_readers(truth)
            if truth and truth.end is None and not staying <= truth.readers:
                self._history.violate("P10", f"{_short(turn)} lost a reader that stayed")

    # store, wires and processes ------------------------------------------------------------------

    def store_observer(self, process: Process) -> Any:
        """A callback for each turn that the process stored, whether it learned so or not."""
        return lambda turn: self._stored(process.name, turn)

    def pushed(self, frame: PushFrame) -> None:
        """A frame arrives at a gateway: only what the ledger has may be shown."""
        if frame.data not in self._known_frames:
            self._history.violate("P4", f"pushed but not in the log: {frame.data[:120]!r}")

    def killed(self, process: Process) -> None:
        """Its claims now wait for a takeover."""
        for truth in self.turns.values():
            if truth.end is None and truth.holder_process == process.name and truth.holder:
                truth.lost_holder_at_s = self._now_s()

    def lost(self, refs: set[TurnRef]) -> None:
        """A failover changed these turns."""
        for ref in refs:
            self.wounded_sessions.add(ref.session)
            truth = self.turns.get(ref.turn_id)
            if truth is not None:
                truth.is_wounded = True
                truth.end = None
        for truth in self.turns.values():
            self._look_for_readers(truth)

    def _stored(self, who: str, turn: StoredTurn) -> None:
        self._history.note(who, f"store:{turn.status}", f"{_short(turn.ref)}/{turn.attempt}")
        self.on_store(turn.ref)
        before = self.stored.get(turn.ref)
        self.stored[turn.ref] = turn
        if before is None or turn.nonce == before.nonce:
            return
        if turn.attempt < before.attempt:
            self._history.violate("P4", f"{_short(turn.ref)}: an older attempt stored its answer")
        truth = self.turns.get(turn.ref.turn_id)
        is_ended = truth is not None and truth.end is not None and not truth.is_wounded
        if is_ended and turn.assistant_text != before.assistant_text:
            self._history.violate(
                "P3", f"{_short(turn.ref)}: another answer was stored after its end"
            )

    # parts ---------------------------------------------------------------------------------------

    def _appended(self, who: str, append: Append) -> None:
        self._known_frames.update(append.frames)
        truth = self.turns.get(append.claim.turn.turn_id)
        if truth is None or truth.is_wounded:
            return
        if truth.holder != append.claim:
            self._history.violate(
                "P4", f"{who} wrote to {_short(truth.ref)} that {truth.holder_process} holds"
            )

    def _ended(self, ref: TurnRef, status: str, outcome: bytes) -> None:
        truth = self.turns.get(ref.turn_id)
        if truth is None:
            return
        if truth.end is not None:
            self._history.violate("P1", f"{_short(ref)} ended {truth.end}, then {status}")
        truth.end, truth.outcome = status, outcome
        truth.lost_holder_at_s = None
        frame = decode_server_frame(outcome)
        if isinstance(frame, ResponseFailed):
            truth.code = frame.code
        elif isinstance(frame, ResponseCancelled):
            truth.code = frame.by
        self._history.count(f"end:{status}" + (f":{truth.code}" if truth.code else ""))
        self._close_readerless(truth)
        self.on_end(truth)

    def _forbid_second_turn(self, truth: TurnTruth) -> None:
        other = self._truth_of_message(truth.request)
        if other and other.end != "rejected" and truth.request.session not in self.wounded_sessions:
            self._history.violate("P3", f"a second turn for message {truth.request.message_id}")

    def _forbid_overtaking(self, truth: TurnTruth) -> None:
        if truth.request.session in self.wounded_sessions:
            return
        for other in self.turns.values():
            if other.request.session != truth.request.session or other is truth or other.end:
                continue
            is_queued = not (truth.is_outside or other.is_outside)
            if other.holder is not None or (is_queued and other.number < truth.number):
                self._history.violate(
                    "P5", f"{_short(truth.ref)} was claimed before {_short(other.ref)} ended"
                )

    def _truth_of_message(self, request: TurnRequest) -> TurnTruth | None:
        return self.of_message(request.session, request.message_id)

    def of_message(self, session: SessionRef, message_id: MessageId) -> TurnTruth | None:
        """The newest turn of a message."""
        found = None
        for truth in self.turns.values():
            request = truth.request
            if request.session == session and request.message_id == message_id:
                found = truth
        return found

    def _look_for_readers(self, truth: TurnTruth | None) -> None:
        if truth is None or truth.end is not None:
            return
        turn = self._ledger._find(truth.ref)
        truth.readers = frozenset(turn.followers if turn else ())
        if turn is None or turn.followers:
            self._close_readerless(truth)
        elif not truth.readerless or truth.readerless[-1][1] is not None:
            truth.readerless.append((self._now_s(), None))

    def _close_readerless(self, truth: TurnTruth) -> None:
        if truth.readerless and truth.readerless[-1][1] is None:
            truth.readerless[-1] = (truth.readerless[-1][0], self._now_s())

    def _transition(self, who: str, verb: str, answer: Any, ref: TurnRef) -> None:
        name = type(answer).__name__
        if isinstance(answer, Finished) and answer.next_head is not None:
            name += "+next"
        self._count(who, f"{verb}:{name}", ref)

    def _count(self, who: str, kind: str, ref: TurnRef, detail: str = "") -> None:
        self._history.count(kind)
        self._history.note(who, kind, f"{_short(ref)} {detail}".strip())

    def _count_answer(self, verb: str, answer: Any) -> None:
        self._history.count(f"{verb}:{type(answer).__name__}")


def _short(ref: TurnRef) -> str:
    return short_turn(ref.turn_id)


def short_turn(turn_id: str) -> str:
    """`s1~4K2P`: the session and the end of the ULID."""
    session, _, tail = turn_id.rpartition(".")
    return f"{session}~{tail[-4:]}"
