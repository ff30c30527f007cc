import json

import pytest

from ops.dlq_campaign import CampaignReport
from ops.dlq_text import (
    HIDDEN,
    groups_text,
    report_fields,
    report_text,
    turn_fields,
    turn_text,
    turns_text,
)
from shared.contracts.dead_letters import DeadLetterError
from shared.contracts.dead_turns import Step
from shared.policy.triage import group_dead_turns
from shared.turn.redrive import Redriven
from tests.fakes.dead_turns import brief_of
from tests.fakes.deaths import NOW_MS, death

SECRET = "my \x1b[2Jsecret"
DEAD = death(
    turn_text=SECRET,
    turn_metadata={"note": SECRET},
    letter_answer=SECRET,
    letter_raw=SECRET,
    letter_error=DeadLetterError(type="KeyError", message=SECRET, stack="a.py:1:f"),
    trail=(
        Step(kind="redriven", by="ann", at_ms=NOW_MS + 5_000, life_ms=NOW_MS, note="after the fix"),
    ),
)


def test_words_of_user_model_and_exception_are_hidden() -> None:
    shown = turn_text(DEAD, with_text=False)
    assert "secret" not in shown + json.dumps(turn_fields(DEAD, with_text=False))
    assert HIDDEN in shown


def test_on_request_they_are_shown_without_control_characters() -> None:
    shown = turn_text(DEAD, with_text=True)
    assert shown.count("secret") == 4
    assert "\x1b" not in shown
    assert turn_fields(DEAD, with_text=True)["letter"]["turn"]["text"] == SECRET


def test_a_turn_is_shown_with_its_attempts_and_its_trail() -> None:
    shown = turn_text(DEAD, with_text=False)
    assert "attempt 1    burst on worker-1: failed after 0.0 s, begun 2023-11-14T22:13:20Z" in shown
    assert "redriven     by ann, 2023-11-14T22:13:25Z after the fix" in shown


def test_groups_and_turns_are_tables() -> None:
    briefs = [brief_of(death(1)), brief_of(death(2))]
    head, line = groups_text(group_dead_turns(briefs)).splitlines()
    assert head.split() == [
        "FINGERPRINT",
        "CLASS",
        "VERDICT",
        "COUNT",
        "OPEN",
        "FIRST",
        "LAST",
        "ERROR",
    ]
    assert line.split()[:5] == ["0123456789abcdef", "failed", "inspect", "2", "2"]
    assert len(turns_text(briefs).splitlines()) == 3
    assert groups_text([]) == "no dead turns"


@pytest.mark.parametrize("stopped", ["", "the canary s1.x ended failed"])
def test_a_report_says_what_became_of_each_turn(stopped: str) -> None:
    report = CampaignReport(
        results=[Redriven("s1.x", "redriven", "failed"), Redriven("s1.y", "answered", "completed")],
        left_out=[brief_of(death(3, letter_klass="poison"))],
        untouched=4,
        stopped=stopped,
    )
    said = report_text(report)
    assert "s1.x runs again (now failed)" in said
    assert "s1.y is answered already: nothing changed (now completed)" in said
    assert "left out (poison, bug)" in said
    assert ("stopped: " in said) is bool(stopped)
    assert report_fields(report)["redriven"] == 1
    assert report_fields(report)["stopped"] == (stopped or None)
