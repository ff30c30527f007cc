"""Dead letters: what is kept of a turn that failed for a reason of ours."""

from __future__ import annotations

from dataclasses import dataclass

from shared.clock import Clock, Randomness
from shared.contracts.dead_letters import (
    AttemptRecord,
    DeadLetter,
    DeadLetterClass,
    DeadLetterError,
)
from shared.contracts.turns import Path, QueueName, TurnRequest
from shared.errors import ChatError, PermanentError
from shared.policy.fingerprint import fingerprint
from shared.policy.routing import queue_for
from shared.ports import DeadLetterQueue
from shared.telemetry import Log, describe_stack
from shared.turn.patience import Patience

_log = Log("evidence")
_PATIENCE_MS = 5_000
_FIRST_WAIT_MS = 200
_LONGEST_WAIT_MS = 2_000
_MESSAGE_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Death:
    """Why and where a turn died."""

    klass: DeadLetterClass
    error: Exception
    attempt: int
    path: Path
    started_at_ms: int
    answer: str | None = None
    earlier_attempts: tuple[AttemptRecord, ...] = ()


class Evidence:
    """Sends dead letters in the name of one process."""

    def __init__(
        self, queue: DeadLetterQueue, clock: Clock, randomness: Randomness, *, worker: str
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._patience = Patience(
            work="dead_letter",
            clock=clock,
            randomness=randomness,
            first_wait_ms=_FIRST_WAIT_MS,
            longest_wait_ms=_LONGEST_WAIT_MS,
        )
        self._worker = worker

    async def keep(self, request: TurnRequest, death: Death) -> bool:
        """Send the letter, again for a few seconds if need be; False, and an error in the log, when none was taken.

        Repeats are recognised by the turn id.
        """
        return await self.send(dead_letter_queue(request, death.path), self._letter(request, death))

    async def send(self, queue: QueueName, letter: DeadLetter) -> bool:
        """Send a letter as `keep` does."""
        try:
            await self._patience.until_done(
                lambda: self._queue.send(queue, letter), limit_ms=_PATIENCE_MS
            )
        except ChatError as error:
            _log.error(
                "dead_letter.not_sent",
                fingerprint=letter.fingerprint,
                error_type=type(error).__name__,
            )
            return False
        _log.error(
            "turn.dead_lettered",
            dead_letter_class=letter.klass,
            fingerprint=letter.fingerprint,
            error_type=letter.error.type,
        )
        return True

    def _letter(self, request: TurnRequest, death: Death) -> DeadLetter:
        now_ms = self._clock.now_ms()
        error_type, stack = type(death.error).__name__, describe_stack(death.error)
        return DeadLetter(
            turn=request,
            klass=death.klass,
            error=DeadLetterError(
                type=error_type, message=str(death.error)[:_MESSAGE_CHARACTERS], stack=stack
            ),
            attempts=(
                *death.earlier_attempts,
                AttemptRecord(
                    attempt=death.attempt,
                    worker=self._worker,
                    path=death.path,
                    started_at_ms=death.started_at_ms,
                    ended_at_ms=now_ms,
                    outcome="failed",
                    error_type=error_type,
                ),
            ),
            answer=death.answer,
            dead_at_ms=now_ms,
            fingerprint=fingerprint(error_type, stack),
        )


def dead_letter_queue(request: TurnRequest, path: Path) -> QueueName:
    """The queue whose dead-letter queue keeps the turn: its own behind the queue_runner, otherwise burst."""
    return queue_for(request) if path == "queue" else "burst"


def malformed_letter(body: str, error: PermanentError, dead_at_ms: int) -> DeadLetter:
    """A message that is none of ours, as evidence: the raw body, and no word of the decoder, which may quote it."""
    name, stack = type(error).__name__, describe_stack(error)
    return DeadLetter(
        turn=None,
        raw=body.encode("utf-8", "backslashreplace").decode(),
        klass="malformed",
        error=DeadLetterError(type=name, message="not a queue message of schema 1", stack=stack),
        attempts=(),
        dead_at_ms=dead_at_ms,
        fingerprint=fingerprint(name, stack),
    )
