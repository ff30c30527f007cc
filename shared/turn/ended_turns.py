"""Tells analytics of each ended turn: what was measured, never what was said, and nobody's name."""

from __future__ import annotations

import hashlib
import hmac

from shared.contracts.identifiers import SessionRef, TurnId, TurnRef
from shared.contracts.turn_events import EndedBy, TurnEndedEvent
from shared.contracts.turns import EndStatus, Path, TurnRequest
from shared.ports import TurnEvents
from shared.turn.endings import AnswerFacts, Completed, Ending
from shared.turn.result import TurnResult
from shared.turn.timings import Stopwatch

_ULID_CHARACTERS = 26
_HASH_CHARACTERS = 26


class EndedTurns:
    """Makes the events. Without `events` nobody is told; without a `user_key` no event names its user, even hashed.

    Whoever won a turn's end in the ledger calls one of the verbs, so that each end is told once; a process that dies
    in between tells nobody. Nothing here waits or raises.
    """

    def __init__(self, events: TurnEvents | None, *, user_key: str = "") -> None:
        self._events = events
        self._user_key = user_key.encode()

    def unclaimed(
        self,
        turn: TurnRef,
        status: EndStatus,
        *,
        by: EndedBy,
        now_ms: int,
        code: str = "",
        request: TurnRequest | None = None,
        attempt: int = 0,
    ) -> None:
        """A turn that nobody held was ended; `request` where the caller knows it."""
        if self._events is None:
            return
        self._events.note(
            TurnEndedEvent(
                turn=_own_part(turn.turn_id),
                session=turn.session.slot_tag,
                tenant=turn.session.tenant,
                user=self._hashed(turn.session),
                status=status,
                code=code,
                ended_by=by,
                attempt=attempt,
                priority=request.priority if request else "",
                detached=request.detached if request else False,
                accepted_at_ms=request.accepted_at_ms if request else 0,
                total_ms=max(0, now_ms - request.accepted_at_ms) if request else 0,
                ended_at_ms=now_ms,
            )
        )

    def worked(
        self,
        request: TurnRequest,
        result: TurnResult,
        path: Path,
        *,
        ending: Ending,
        facts: AnswerFacts,
        text: str,
        stopwatch: Stopwatch,
        now_ms: int,
    ) -> None:
        """A worker ended its turn as `result` says; nothing if it did not."""
        if self._events is None or result.status is None:
            return
        timings = stopwatch.timings()
        answer = ending if isinstance(ending, Completed) else None
        session = request.ref.session
        self._events.note(
            TurnEndedEvent(
                turn=_own_part(request.turn_id),
                session=session.slot_tag,
                tenant=request.tenant,
                user=self._hashed(session),
                status=result.status,
                code=result.code,
                ended_by="worker",
                path=path,
                attempt=result.attempt,
                priority=request.priority,
                detached=request.detached,
                intent=facts.intent,
                model=facts.model,
                stop_reason=answer.stop_reason if answer else "",
                input_tokens=answer.usage.input_tokens if answer else 0,
                output_tokens=answer.usage.output_tokens if answer else 0,
                characters=len(text),
                queued_ms=timings.queued_ms,
                first_text_ms=timings.first_token_ms if stopwatch.first_text_at_ms else 0,
                total_ms=timings.total_ms,
                accepted_at_ms=request.accepted_at_ms,
                ended_at_ms=now_ms,
            )
        )

    def _hashed(self, session: SessionRef) -> str:
        if not self._user_key:
            return ""
        # NUL cannot occur in either, so different pairs never meet.
        name = f"{session.tenant}\0{session.user}".encode()
        return hmac.new(self._user_key, name, hashlib.sha256).hexdigest()[:_HASH_CHARACTERS]


NOBODY_TOLD = EndedTurns(None)
"""For processes without analytics."""


def _own_part(turn_id: TurnId) -> str:
    # What stands before it is the session id, which clients choose.
    return turn_id[-_ULID_CHARACTERS:]
