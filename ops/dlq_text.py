"""How dead turns are shown to a person, and to programs. Words of users and models only on request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import msgspec

from ops.dlq_campaign import CampaignReport
from shared.contracts.dead_turns import DeadTurn, DeadTurnBrief
from shared.policy.triage import DeadTurnGroup

HIDDEN = "(hidden; --text shows it)"
OUTCOMES = {
    "redriven": "runs again",
    "already_redriven": "was redriven already: nothing changed",
    "answered": "is answered already: nothing changed",
    "alive": "is not dead (any more): nothing changed",
    "ended": "ended otherwise since: nothing changed",
    "discarded": "was discarded: nothing changed",
    "no_turn": "has no turn that could run: nothing changed",
    "too_often": "was redriven too often: repair first; nothing changed",
    "unknown": "is no dead turn: nothing changed",
}


def groups_text(groups: Sequence[DeadTurnGroup]) -> str:
    """One line a fingerprint, the latest first."""
    if not groups:
        return "no dead turns"
    rows = [("FINGERPRINT", "CLASS", "VERDICT", "COUNT", "OPEN", "FIRST", "LAST", "ERROR")]
    rows += [
        (
            group.fingerprint,
            group.klass,
            group.verdict,
            str(group.count),
            str(group.open),
            when(group.first_dead_at_ms),
            when(group.last_dead_at_ms),
            group.error_type,
        )
        for group in groups
    ]
    return table(rows)


def turns_text(turns: Sequence[DeadTurnBrief]) -> str:
    """One line a dead turn, oldest first."""
    rows = [("TURN", "CLASS", "VERDICT", "REASON", "STATE", "QUEUE", "DIED")]
    rows += [
        (
            turn.id,
            turn.klass,
            turn.verdict,
            turn.reason,
            turn.state,
            turn.queue,
            when(turn.dead_at_ms),
        )
        for turn in turns
    ]
    return table(rows)


def turn_fields(turn: DeadTurn, *, with_text: bool) -> dict[str, Any]:
    """Everything about one dead turn; what a user, a model or an exception said only `with_text`."""
    fields: dict[str, Any] = msgspec.to_builtins(turn)
    fields |= {"state": turn.state, "redrives": turn.redrives, "last_attempt": turn.last_attempt}
    if with_text:
        return fields
    letter = fields["letter"]
    # An exception's words may quote what it stumbled over.
    letter["error"]["message"] = HIDDEN
    for name in ("raw", "answer"):
        letter[name] = HIDDEN if letter[name] is not None else None
    if letter["turn"] is not None:
        letter["turn"] |= {"text": HIDDEN, "metadata": HIDDEN}
    return fields


def turn_text(turn: DeadTurn, *, with_text: bool) -> str:
    """The same for a person."""
    letter = turn.letter
    lines = [
        f"turn         {turn.id}",
        f"fingerprint  {letter.fingerprint}",
        f"class        {letter.klass}, {turn.reason}; proposed: {turn.verdict}; {turn.state}",
        f"died         {when(letter.dead_at_ms)}, queue {turn.queue}, {turn.origin}",
        f"error        {letter.error.type}",
        f"stack        {letter.error.stack or '(none)'}",
    ]
    if letter.turn is not None:
        request = letter.turn
        lines.append(f"of           {_plain(request.tenant)} / {_plain(request.user)}")
    lines += [
        f"attempt {each.attempt}    {each.path} on {each.worker}: {each.outcome} after "
        f"{(each.ended_at_ms - each.started_at_ms) / 1000:.1f} s, begun {when(each.started_at_ms)}"
        for each in letter.attempts
    ]
    lines += [
        f"{step.kind:<12} by {_plain(step.by)}, {when(step.at_ms)} {_plain(step.note)}".rstrip()
        for step in turn.trail
    ]
    said = {
        "text": None if letter.turn is None else letter.turn.text,
        "raw": letter.raw,
        "answer": letter.answer,
        "error said": letter.error.message,
    }
    lines += [
        f"{name:<12} {_plain(words) if with_text else HIDDEN}"
        for name, words in said.items()
        if words
    ]
    return "\n".join(lines)


def report_text(report: CampaignReport) -> str:
    """What a redrive did, line by line."""
    lines = [
        f"{result.turn_id} {OUTCOMES[result.outcome]}"
        + (f" (now {result.status})" if result.status else "")
        for result in report.results
    ]
    lines += [
        f"{turn.id} left out ({turn.klass}, {turn.reason}): name it to redrive it"
        for turn in report.left_out
    ]
    if report.stopped:
        lines.append(f"stopped: {report.stopped}")
    if report.untouched:
        lines.append(f"{report.untouched} untouched")
    lines.append(f"{report.redriven} redriven")
    return "\n".join(lines)


def report_fields(report: CampaignReport) -> dict[str, Any]:
    """The same for programs."""
    return {
        "redriven": report.redriven,
        "results": [asdict(result) for result in report.results],
        "left_out": [msgspec.to_builtins(turn) for turn in report.left_out],
        "untouched": report.untouched,
        "stopped": report.stopped or None,
    }


def when(at_ms: int) -> str:
    """UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _plain(words: str) -> str:
    """On one line and without control characters: what others wrote must not drive the terminal."""
    return json.dumps(words, ensure_ascii=False)[1:-1]
