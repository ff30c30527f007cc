"""Takes dead letters out of their queues: ends what nobody ended, keeps what died, and tells which are new or many."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import assert_never

from functions.dlq_triage.dead_message import DeadMessage
from shared.clock import Clock
from shared.contracts.dead_letters import (
    DeadLetter,
    DeadLetterClass,
    DeadLetterError,
    decode_dead_letter,
)
from shared.contracts.dead_turns import DeadTurn, Origin
from shared.contracts.ledger import Finished, StillClaimed, TurnEnded, TurnState, TurnUnknown
from shared.contracts.turns import TurnRequest, decode_turn
from shared.errors import ChatError, MalformedMessage, UnsupportedTurn
from shared.policy.failed_ends import failed_end
from shared.policy.fingerprint import fingerprint
from shared.policy.triage import (
    GROWTH_TURNS,
    GROWTH_WINDOW_MS,
    Assessment,
    StillAlive,
    assess_letter,
    assess_moved,
    is_abandoned,
    is_growing,
)
from shared.ports import DeadTurns, FramePush, SessionQueue, TurnClaims, TurnDispatcher, TurnStore
from shared.telemetry import Log, Metrics, bind
from shared.turn.broadcast import broadcast
from shared.turn.ended_turns import NOBODY_TOLD, EndedTurns
from shared.turn.markers import is_answer
from shared.turn.terminal_frames import failed_unclaimed_frame, place_of_end
from shared.turn.unclaimed_ends import UnclaimedEnds, count_end

_MOVED = "MovedBySqs"
_log = Log("dlq_triage")


class Triage:
    """The consumer of every dead-letter queue.

    A message is acknowledged when its death is kept (or known). It comes back while its turn may still be run by
    somebody, and while a table or the ledger cannot be asked: a dead-letter queue counts no receives.
    """

    def __init__(
        self,
        *,
        sessions: SessionQueue,
        claims: TurnClaims,
        store: TurnStore,
        push: FramePush,
        dispatcher: TurnDispatcher,
        dead_turns: DeadTurns,
        clock: Clock,
        metrics: Metrics,
        ended: EndedTurns = NOBODY_TOLD,
    ) -> None:
        self._sessions = sessions
        self._ends = UnclaimedEnds(claims, dispatcher, partial(broadcast, push), clock)
        self._store = store
        self._dead_turns = dead_turns
        self._clock = clock
        self._metrics = metrics
        self._ended = ended

    async def run(self, messages: Sequence[DeadMessage]) -> Sequence[DeadMessage]:
        """The messages that must come back, in their order. Raises nothing for a single message's sake."""
        kept = await asyncio.gather(*(self._settle(message) for message in messages))
        await self._note_growth({each for each in kept if isinstance(each, str)})
        return [message for message, done in zip(messages, kept, strict=True) if done is None]

    async def _settle(self, message: DeadMessage) -> str | None:
        """The fingerprint under which the death is kept, None when the message must come back."""
        with bind(queue=message.queue, sqs_message_id=message.message_id):
            try:
                turn = await self._assess(message)
                if turn is None:
                    _log.info("dead_letter.turn_alive")
                    return None
                return await self._keep(turn)
            except ChatError as error:
                _log.warning("dead_letter.not_triaged", error_type=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - its neighbours have done nothing wrong
                _log.exception("dead_letter.triage_crashed", error)
            return None

    async def _assess(self, message: DeadMessage) -> DeadTurn | None:
        """The death that the message stands for, None when its turn lives."""
        try:
            letter = decode_dead_letter(message.body)
        except MalformedMessage:
            return await self._assess_plain(message)
        is_answered = letter.turn is not None and await self._is_answered(letter.turn)
        return _dead_turn(message, "letter", letter, assess_letter(letter, is_answered=is_answered))

    async def _assess_plain(self, message: DeadMessage) -> DeadTurn | None:
        try:
            request = decode_turn(message.body.encode("utf-8", "surrogatepass"))
        except (MalformedMessage, UnsupportedTurn) as error:
            raw = message.body.encode("utf-8", "backslashreplace").decode()
            # The decoder's own words may quote the body, so the type has to do.
            letter = self._letter(
                None, "malformed", type(error).__name__, "not a message of schema 1", raw
            )
            assessment = assess_letter(letter, is_answered=False)
            return _dead_turn(message, "undecodable", letter, assessment)
        with bind(turn_id=request.turn_id, session_id=request.session_id):
            return await self._assess_moved(message, request)

    async def _assess_moved(self, message: DeadMessage, request: TurnRequest) -> DeadTurn | None:
        is_answered = await self._is_answered(request)
        state = await self._sessions.state(request.ref)
        if state is not None and is_abandoned(state, self._clock.now_ms()) and not is_answered:
            await self._end(request, state)
            state = await self._sessions.state(request.ref)
        assessment = assess_moved(
            request, state, is_answered=is_answered, now_ms=self._clock.now_ms()
        )
        if isinstance(assessment, StillAlive):
            return None
        words = f"SQS moved the message of the {message.queue} queue; it was received {message.receives} times"
        # The reason parts what was never run from what only lost its acknowledgement.
        letter = self._letter(request, assessment.klass, _MOVED, words, place=assessment.reason)
        return _dead_turn(message, "moved", letter, assessment)

    async def _is_answered(self, request: TurnRequest) -> bool:
        return is_answer(await self._store.get(request.ref))

    async def _end(self, request: TurnRequest, state: TurnState) -> None:
        """End a turn that SQS gave up unclaimed, tell its followers, and let the next of the session go on."""
        terminal = failed_unclaimed_frame(request.turn_id, failed_end("internal"))
        answer = await self._ends.end(request.ref, "failed", terminal, place_of_end(state))
        match answer:
            case Finished():
                count_end(self._metrics, "failed", path="triage", code="internal")
                self._ended.unclaimed(
                    request.ref,
                    "failed",
                    by="triage",
                    now_ms=self._clock.now_ms(),
                    code="internal",
                    request=request,
                    attempt=state.attempt,
                )
                _log.error("turn.failed", code="internal")
            case TurnEnded() | StillClaimed() | TurnUnknown():
                pass
            case _:
                assert_never(answer)

    def _letter(
        self,
        request: TurnRequest | None,
        klass: DeadLetterClass,
        error_type: str,
        message: str,
        raw: str | None = None,
        place: str = "",
    ) -> DeadLetter:
        return DeadLetter(
            turn=request,
            raw=raw,
            klass=klass,
            error=DeadLetterError(type=error_type, message=message, stack=""),
            attempts=(),
            dead_at_ms=self._clock.now_ms(),
            fingerprint=fingerprint(error_type, place),
        )

    async def _keep(self, turn: DeadTurn) -> str:
        kept = await self._dead_turns.keep(turn)
        letter = turn.letter
        fields = {"turn_id": turn.id, "fingerprint": letter.fingerprint}
        if kept.is_new:
            self._metrics.count("DeadTurns", dead_letter_class=letter.klass)
            _log.error(
                "dead_turn.kept",
                dead_letter_class=letter.klass,
                error_type=letter.error.type,
                verdict=turn.verdict,
                reason=turn.reason,
                **fields,
            )
        else:
            _log.info("dead_turn.known", **fields)
        if kept.is_new_fingerprint:
            self._metrics.count("NewFingerprint")
            _log.error("fingerprint.new", **fields)
        return letter.fingerprint

    async def _note_growth(self, fingerprints: set[str]) -> None:
        since_ms = self._clock.now_ms() - GROWTH_WINDOW_MS
        for each in sorted(fingerprints):
            try:
                recent = await self._dead_turns.of_fingerprint(
                    each, since_ms=since_ms, limit=GROWTH_TURNS
                )
            except ChatError as error:
                _log.warning("growth.not_read", error_type=type(error).__name__)
                return
            if is_growing(len(recent)):
                self._metrics.count("GrowingFingerprint")
                _log.error("fingerprint.growing", fingerprint=each)


def _dead_turn(
    message: DeadMessage, origin: Origin, letter: DeadLetter, assessment: Assessment
) -> DeadTurn:
    lost = f"message-{message.message_id}"
    return DeadTurn(
        id=lost if letter.turn is None else letter.turn.turn_id,
        queue=message.queue,
        origin=origin,
        letter=letter,
        verdict=assessment.verdict,
        reason=assessment.reason,
    )
