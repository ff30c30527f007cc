from __future__ import annotations

import pytest

from clients.conversation import Conversation
from clients.reducer import Status, Turn
from clients.transcript import Style, Transcript, format_history, sanitize
from shared.contracts.identifiers import MessageId
from shared.contracts.server_frames import SourceLink, Timings

PLAIN = Style(is_terminal=False)


def turn(status: Status, text: str = "", message_id: str = "m1", **fields: object) -> Turn:
    return Turn(message_id=MessageId(message_id), status=status, text=text, **fields)  # type: ignore[arg-type]


def play(*states: list[Turn]) -> str:
    transcript = Transcript(PLAIN)
    return "".join(transcript.update(Conversation(turns=tuple(turns))) for turns in states)


def test_transcript_prints_only_what_is_new() -> None:
    done = turn(
        "completed",
        "Hello, world",
        attempt=1,
        path="burst",
        timings=Timings(queued_ms=1, first_token_ms=320, total_ms=900),
        sources=(SourceLink(title="Guide", id="g"),),
        verified=True,
    )
    shown = play(
        [turn("sent")],
        [turn("streaming", "Hello, ", attempt=1)],
        [turn("streaming", "Hello, wor", attempt=1)],
        [done],
        [done],
    )
    assert shown == ("Hello, world\n[burst · first words after 0.32 s · sources: Guide]\n\n")


def test_transcript_starts_again_with_a_higher_attempt() -> None:
    shown = play(
        [turn("streaming", "Half", attempt=1)],
        [turn("streaming", "Whole", attempt=2)],
        [turn("completed", "Whole", attempt=2, path="inline", verified=True)],
    )
    assert shown == "Half\n[starting again]\nWhole\n[inline]\n\n"


def test_transcript_holds_a_later_answer_until_the_earlier_ended() -> None:
    shown = play(
        [turn("streaming", "A", attempt=1), turn("sent", message_id="m2")],
        [turn("streaming", "A", attempt=1), turn("streaming", "B", "m2", attempt=1)],
        [turn("cancelled", "A", attempt=1), turn("streaming", "B!", "m2", attempt=1)],
    )
    assert shown == "A\n[stopped]\n\nB!"


def asked(status: Status, number: int, text: str = "", **fields: object) -> Turn:
    return turn(status, text, f"m{number}", user_text=f"q{number}", **fields)


def test_transcript_tells_of_refusals_behind_an_unfinished_turn() -> None:
    refused = [asked("rejected", number, message="Busy.") for number in (2, 3)]
    shown = play(
        [asked("sent", 1), asked("sent", 2), asked("sent", 3)],
        [asked("sent", 1), refused[0], asked("sent", 3)],
        [asked("sent", 1), *refused],
        [asked("streaming", 1, "A", attempt=1), *refused],
        [asked("cancelled", 1, "A", attempt=1), *refused],
    )
    assert shown == ("› q2\nNot sent: Busy.\n\n› q3\nNot sent: Busy.\n\n› q1\nA\n[stopped]\n\n")


def test_transcript_holds_a_refusal_until_the_answer_being_shown_ended() -> None:
    refused = asked("rejected", 2, message="Busy.")
    shown = play(
        [asked("streaming", 1, "A", attempt=1)],
        [asked("streaming", 1, "A", attempt=1), asked("sent", 2)],
        [asked("streaming", 1, "AB", attempt=1), refused],
        [asked("cancelled", 1, "AB", attempt=1), refused],
        [asked("cancelled", 1, "AB", attempt=1), refused],
    )
    assert shown == "AB\n[stopped]\n\n› q2\nNot sent: Busy.\n\n"


def test_transcript_says_that_a_message_waits_and_names_the_question_of_each_answer() -> None:
    shown = play(
        [asked("queued", 1)],
        [asked("queued", 1), asked("sent", 2)],
        [asked("queued", 1), asked("waiting", 2)],
        [asked("streaming", 1, "A", attempt=1), asked("waiting", 2)],
        [asked("cancelled", 1, "A", attempt=1), asked("waiting", 2)],
        [asked("cancelled", 1, "A", attempt=1), asked("streaming", 2, "B", attempt=1)],
        [asked("cancelled", 1, "A", attempt=1), asked("cancelled", 2, "B", attempt=1)],
    )
    assert shown == (
        "[busy just now, your turn comes shortly]\n"
        "› q2\n[waiting for the answer before it]\n"
        "› q1\nA\n[stopped]\n\n"
        "› q2\nB\n[stopped]\n\n"
    )


def test_transcript_shortens_a_long_question_to_one_line() -> None:
    long = turn("cancelled", user_text="a\nb\x1b " + "x" * 100)
    shown = play([turn("sent"), asked("sent", 2)], [long, asked("sent", 2)])
    assert shown == "› a b " + "x" * 67 + "…\n[stopped]\n\n"


def test_transcript_prints_a_stored_answer_only_between_answers() -> None:
    def stored(verified: bool) -> Turn:
        return asked("completed", 1, "right", path="inline", verified=verified)

    shown = play(
        [asked("sent", 1), asked("sent", 2)],
        [stored(False), asked("streaming", 2, "B", attempt=1)],
        [stored(True), asked("streaming", 2, "BC", attempt=1)],
        [stored(True), asked("cancelled", 2, "BC", attempt=1)],
    )
    assert shown.endswith(
        "› q2\nBC\n[stopped]\n\n› q1\n[the stored answer differs from what was shown]\nright\n\n"
    )


def test_transcript_is_silent_about_turns_that_had_ended_when_first_seen() -> None:
    assert play([turn("completed", "old")]) == ""


def test_transcript_shows_a_message_that_was_rejected_and_sent_again() -> None:
    rejected = turn("rejected", message="Busy.", retryable=True, retry_after_ms=1500)
    shown = play([turn("sent")], [rejected], [turn("sent")], [turn("streaming", "Now", attempt=1)])
    assert shown == "Not sent: Busy. Try again in 2 s. /retry asks again.\n\nNow"


def test_transcript_says_once_that_a_turn_is_queued() -> None:
    shown = play([turn("queued", wait_ms=3000)], [turn("queued", wait_ms=2000)])
    assert shown == "[busy just now, your turn comes shortly]\n"


def test_transcript_prints_the_stored_answer_when_the_shown_one_was_wrong() -> None:
    shown = play(
        [turn("streaming", "wrong", attempt=1)],
        [turn("completed", "wrong", attempt=1, path="inline", verified=False)],
        [turn("completed", "right", attempt=1, path="inline", verified=True)],
    )
    assert shown.startswith("wrong\n[inline · differs from the stored answer, fetching it]\n")
    assert shown.endswith("[the stored answer differs from what was shown]\nright\n\n")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"code": "internal", "message": "Sorry.", "partial": True}, "Sorry. The answer above"),
        ({"code": "blocked", "message": "No."}, "No. (The answer was withdrawn.)"),
        ({}, "No answer came."),
    ],
)
def test_transcript_explains_a_failure(fields: dict[str, object], words: str) -> None:
    assert words in play([turn("sent")], [turn("failed", **fields)])


def test_transcript_explains_an_expired_turn() -> None:
    assert "waited too long" in play([turn("sent")], [turn("expired", retryable=True)])


def test_text_cannot_control_the_terminal() -> None:
    assert sanitize("a\x1b[2Jb\x07\r\n\tc\x9bd") == "a[2Jb\n\tcd"
    assert play([turn("streaming", "a\x1b[2J", attempt=1)]) == "a[2J"


def test_history_lists_ended_turns() -> None:
    turns = (
        turn("completed", "A", user_text="q1"),
        turn("streaming", "B", "m2", user_text="q2"),
    )
    shown = format_history(Conversation(turns=turns, more=True), PLAIN)
    assert shown == "[older messages are not shown]\n› q1\nA\n\n"
    told = turn(
        "completed",
        "A",
        user_text="q1",
        path="burst",
        timings=Timings(queued_ms=1, first_token_ms=320, total_ms=900),
        sources=(SourceLink(title="Guide", id="g"),),
    )
    stopped = turn("cancelled", "B", "m2", user_text="q2", path="inline")
    assert format_history(Conversation(turns=(told, stopped)), PLAIN) == (
        "› q1\nA\n[burst · first words after 0.32 s · sources: Guide]\n\n› q2\nB\n[stopped]\n\n"
    )
    assert "no earlier" in format_history(Conversation(), PLAIN)


def test_style_marks_up_only_a_terminal() -> None:
    assert Style(is_terminal=True).bold("x") == "\x1b[1mx\x1b[0m"
    assert PLAIN.bold("x") == "x"
