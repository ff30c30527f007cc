"""A dead turn as triage keeps it: the letter, what to do about it, and who did what since."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.dead_letters import DeadLetter, DeadLetterClass
from shared.contracts.turns import QueueName

Verdict = Literal["redrive", "discard", "inspect"]
"""What triage proposes: run it again, drop it, or have a person look first."""
Reason = Literal[
    "unclaimed",
    "outage",
    "crashed",
    "bug",
    "refused_by_model",
    "shown_not_stored",
    "undecodable",
    "answered",
    "ended",
    "failed",
    "unknown",
    "too_old",
]
Origin = Literal["letter", "moved", "undecodable"]
"""Sent by our code, moved by SQS after its receives, or a body that is neither."""
DeadTurnState = Literal["open", "redriven", "discarded"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What a person did about a dead turn, and when (epoch ms).

    `life_ms` names the death: when the turn that died was accepted or last redriven. Times of hosts do not compare.
    """

    kind: Literal["redriven", "discarded"]
    by: str
    at_ms: int
    life_ms: int
    note: str = ""


class DeadTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One death of a turn. `id` is the turn id, or `message-<SQS message id>` where there is none."""

    id: str
    queue: QueueName
    origin: Origin
    letter: DeadLetter
    verdict: Verdict
    reason: Reason
    trail: tuple[Step, ...] = ()
    is_cut: bool = False
    """The letter was too large for an item: `raw`, `answer` or the error's words lost their end."""

    @property
    def last_attempt(self) -> int:
        """The highest attempt that anybody knew of, 0 = it never ran."""
        tried = max((each.attempt for each in self.letter.attempts), default=0)
        return max(tried, 0 if self.letter.turn is None else self.letter.turn.attempt_hint)

    @property
    def life_ms(self) -> int:
        """When the turn was accepted or last redriven, epoch ms: what dies twice has lived twice."""
        return 0 if self.letter.turn is None else self.letter.turn.accepted_at_ms

    @property
    def state(self) -> DeadTurnState:
        """`open` until somebody acts on this death; steps of an earlier death do not count."""
        steps = [step for step in self.trail if step.life_ms == self.life_ms]
        return steps[-1].kind if steps else "open"

    @property
    def redrives(self) -> int:
        """How often the turn was redriven, earlier deaths included."""
        return sum(step.kind == "redriven" for step in self.trail)


class DeadTurnBrief(msgspec.Struct, frozen=True, kw_only=True):
    """A dead turn without its letter: nothing that a user or a model wrote."""

    id: str
    fingerprint: str
    klass: DeadLetterClass
    verdict: Verdict
    reason: Reason
    state: DeadTurnState
    queue: QueueName
    error_type: str
    dead_at_ms: int


class Kept(msgspec.Struct, frozen=True):
    """What `keep` did. `is_new` False = this death is known. `is_new_fingerprint` = none like it for 30 days."""

    is_new: bool
    is_new_fingerprint: bool
