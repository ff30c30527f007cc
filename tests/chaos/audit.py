"""Judges a run: what clients saw against what ledger, table and model server know."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from shared.contracts.server_frames import ResponseCompleted
from tests.chaos.inside import UNENDED, Inside, LedgerTurn
from tests.chaos.user import ChaosUser
from tests.chaos.witness import end_kind, is_stored
from tests.harness.stack import Stack

ModelCalls = Callable[[str], Sequence[Mapping[str, Any]]]


@dataclass
class Audit:
    """Faults by promise, each in words that name the turn."""

    turns: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    second_attempts: int = 0
    repeats: int = 0
    late: int = 0
    losses: list[str] = field(default_factory=list)
    """Accepted or sent, and no end; or an answer that its user does not have whole."""
    duplicates: list[str] = field(default_factory=list)
    """Two ends, two turns of one message, two stored answers, more model calls than attempts."""
    mixed: list[str] = field(default_factory=list)
    """Text that is not exactly one attempt's."""

    @property
    def faults(self) -> list[str]:
        """All of them."""
        return [*self.losses, *self.duplicates, *self.mixed]


def merged(audits: Sequence[Audit]) -> Audit:
    """The sum of several runs."""
    whole = Audit()
    for each in audits:
        for count in fields(Audit):
            setattr(whole, count.name, getattr(whole, count.name) + getattr(each, count.name))
    return whole


def judge(stack: Stack, users: Sequence[ChaosUser]) -> Audit:
    """Ask the stack, and judge a run that has settled."""
    inside = Inside(stack)
    try:
        return audit(users, inside.ledger_turns(), inside.stored(), stack.model_calls)
    finally:
        inside.close()


def audit(
    users: Sequence[ChaosUser],
    ledger: Mapping[str, LedgerTurn],
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
    model_calls: ModelCalls,
) -> Audit:
    """Judge a run that has settled."""
    found = Audit()
    for user in users:
        _audit_user(found, user, ledger, stored, model_calls)
    _audit_server(found, ledger, stored)
    return found


def _audit_user(
    found: Audit,
    user: ChaosUser,
    ledger: Mapping[str, LedgerTurn],
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
    model_calls: ModelCalls,
) -> None:
    witness = user.witness
    found.repeats += witness.repeats
    found.late += witness.late
    found.refused.update(user.rejections)
    found.ends.update(witness.end_kinds())
    for words in witness.violations:
        (found.mixed if "text" in words or "frames" in words else found.duplicates).append(words)
    for turn in user.state.turns:
        message_id = str(turn.message_id)
        if not turn.is_ended:
            found.losses.append(f"message {message_id} ({turn.turn_id}) has no end: {turn.status}")
            continue
        if turn.status == "rejected":
            continue
        found.turns += 1
        turn_id = str(turn.turn_id)
        ends = witness.ends.get(turn_id)
        if not ends:
            found.losses.append(f"turn {turn_id} ended without a terminal frame: {turn.code}")
            continue
        known = ledger.get(turn_id)
        attempts = max(end.attempt for end in ends) if known is None else known.attempt
        found.second_attempts += attempts > 1
        _audit_text(found, user, message_id, turn_id, stored.get(turn_id, ()))
        calls = model_calls(message_id)
        if len(calls) > attempts:
            found.duplicates.append(
                f"turn {turn_id}: {len(calls)} model calls, {attempts} attempts"
            )
        if turn.status == "completed" and not calls:
            found.losses.append(f"turn {turn_id} was answered without a model call")


def _audit_text(
    found: Audit,
    user: ChaosUser,
    message_id: str,
    turn_id: str,
    items: Sequence[Mapping[str, Any]],
) -> None:
    end = user.witness.ends[turn_id][0]
    shown = user.turn(message_id).text
    if shown != user.witness.text(turn_id, end.attempt) and is_stored(end):
        found.mixed.append(f"turn {turn_id}: the text shown is not attempt {end.attempt}'s")
    answers = [item for item in items if item["status"] != "marker"]
    if len(answers) > 1:
        found.duplicates.append(f"turn {turn_id}: {len(answers)} stored answers")
    if not is_stored(end):
        if answers:
            found.losses.append(f"turn {turn_id} ended {end_kind(end)}, but its answer is stored")
        return
    if not answers:
        found.losses.append(f"turn {turn_id} ended {end_kind(end)}, but nothing is stored")
        return
    if answers[0]["assistant_text"] != shown:
        found.mixed.append(f"turn {turn_id}: the stored text is not the one shown")
    if isinstance(end, ResponseCompleted):
        if hashlib.sha256(shown.encode()).hexdigest() != end.sha256:
            found.mixed.append(f"turn {turn_id}: the text shown has another sha256")
        if shown != user.scripts[message_id].answer():
            found.mixed.append(f"turn {turn_id}: the text shown is not what the model said")


def _audit_server(
    found: Audit,
    ledger: Mapping[str, LedgerTurn],
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    for turn in ledger.values():
        if turn.status in UNENDED:
            found.losses.append(f"turn {turn.turn_id} is still {turn.status} in the ledger")
    answered = Counter(
        (item["ref"]["session"]["session_id"], item["message_id"])
        for items in stored.values()
        for item in items
        if item["status"] != "marker"
    )
    for (session_id, message_id), count in answered.items():
        if count > 1:
            found.duplicates.append(f"{session_id} {message_id}: {count} stored answers")
