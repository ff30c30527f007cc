"""What the terminal prints of a conversation as it changes. Pure: states in, text out.

Turns are shown one after another in their order; the text of a later one waits until the earlier one
has ended, so that two answers never mix. That a later one waits or was refused is said between answers.
"""

from __future__ import annotations

import re

from clients.conversation import Conversation
from clients.reducer import Turn

# A reply is untrusted: escape sequences could rewrite what the terminal shows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
HEADING_LIMIT = 72
STOPPED = "[stopped]"


class Style:
    """ANSI styles, or nothing when the output is no terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def warn(self, text: str) -> str:
        return self._wrap("33", text)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_terminal else text


class Transcript:
    """Remembers what was printed; `update` answers what is new.

    A turn that had ended when it was first seen is history and stays silent. Every other one gets its
    words. While several are open, they come with the question that they answer.
    """

    def __init__(self, style: Style) -> None:
        self._style = style
        self._done: set[str] = set()
        self._seen: set[str] = set()
        self._unchecked: set[str] = set()
        self._crowded: set[str] = set()
        """Turns that were open beside others, so their words need a heading."""
        self._headed: str | None = None
        """The turn that the last printed heading names."""
        self._noted: dict[str, str] = {}
        self._attempt = 0
        self._printed = 0

    def update(self, state: Conversation) -> str:
        """The text to print after `state` became current; empty when nothing shows."""
        out = []
        is_held = False
        for turn in self._open_turns(state):
            if is_held:
                out.append(self._aside(turn))
                continue
            out.append(self._progress(turn))
            if turn.is_ended:
                out.append(self._end_current(turn))
            elif self._printed:
                break  # in the middle of an answer: whatever comes later waits
            else:
                is_held = True
        if not self._printed:
            out.extend(self._correction(turn) for turn in state.turns)
        return "".join(out)

    def _open_turns(self, state: Conversation) -> list[Turn]:
        """The turns whose last words are not printed yet, oldest first."""
        for turn in state.turns:
            key = _key(turn)
            if not turn.is_ended:
                self._done.discard(key)  # a rejected message was sent again
            elif key not in self._seen:  # earlier turns come through `format_history`
                self._done.add(key)
            self._seen.add(key)
        turns = [turn for turn in state.turns if _key(turn) not in self._done]
        if len(turns) > 1:
            self._crowded.update(map(_key, turns))
        return turns

    def _progress(self, turn: Turn) -> str:
        out = ""
        if turn.attempt != self._attempt:
            if self._printed:
                out += "\n" + self._style.dim("[starting again]") + "\n"
            self._attempt, self._printed = turn.attempt, 0
        if turn.status == "queued":
            out += self._note(turn, "[busy just now, your turn comes shortly]")
        if len(turn.text) > self._printed:
            if not self._printed:
                out += self._heading(turn)
            out += sanitize(turn.text[self._printed :])
        self._printed = len(turn.text)
        return out

    def _aside(self, turn: Turn) -> str:
        """What can be said of a turn while an earlier one is open that shows no text yet."""
        if turn.is_ended and not turn.text:
            return self._heading(turn) + self._end(turn)
        if turn.status == "waiting":
            return self._note(turn, "[waiting for the answer before it]")
        return ""

    def _note(self, turn: Turn, words: str) -> str:
        key = _key(turn)
        if self._noted.get(key) == words:
            return ""
        self._noted[key] = words
        return self._heading(turn) + self._style.dim(words) + "\n"

    def _heading(self, turn: Turn) -> str:
        key = _key(turn)
        if key not in self._crowded or key == self._headed or not turn.user_text:
            return ""
        self._headed = key
        question = " ".join(sanitize(turn.user_text).split())
        if len(question) > HEADING_LIMIT:
            question = question[: HEADING_LIMIT - 1] + "…"
        return self._style.bold(f"› {question}") + "\n"

    def _end_current(self, turn: Turn) -> str:
        before = "\n" if self._printed else self._heading(turn)
        self._attempt, self._printed = 0, 0
        return before + self._end(turn)

    def _end(self, turn: Turn) -> str:
        key = _key(turn)
        self._done.add(key)
        self._noted.pop(key, None)
        self._headed = None
        if turn.verified is False:
            self._unchecked.add(key)
        else:
            self._crowded.discard(key)
        return self._end_words(turn) + "\n\n"

    def _end_words(self, turn: Turn) -> str:
        match turn.status:
            case "completed":
                return self._style.dim(_facts(turn))
            case "cancelled":
                return self._style.dim(STOPPED)
            case "expired":
                words = "This waited too long and was let go."
            case "rejected":
                words = f"Not sent: {turn.message}"
            case _:
                words = turn.message or "No answer came."
                if turn.partial:
                    words += " The answer above is incomplete."
                elif turn.code == "blocked":
                    words += " (The answer was withdrawn.)"
        if turn.retry_after_ms:
            words += f" Try again in {max(1, round(turn.retry_after_ms / 1000))} s."
        hint = " /retry asks again." if turn.retryable else ""
        return self._style.warn(sanitize(words) + hint)

    def _correction(self, turn: Turn) -> str:
        key = _key(turn)
        if key not in self._unchecked or not turn.verified:
            return ""
        self._unchecked.discard(key)
        heading = self._heading(turn)
        self._crowded.discard(key)
        self._headed = None
        note = self._style.dim("[the stored answer differs from what was shown]")
        return f"{heading}{note}\n{sanitize(turn.text)}\n\n"


def format_history(state: Conversation, style: Style) -> str:
    """Every ended turn of the conversation, oldest first."""
    ended = [turn for turn in state.turns if turn.is_ended and turn.user_text]
    if not ended:
        return style.dim("[no earlier messages]") + "\n\n"
    more = style.dim("[older messages are not shown]") + "\n" if state.more else ""
    return more + "".join(
        f"{style.bold('› ' + sanitize(turn.user_text))}\n{sanitize(turn.text)}\n{_told(turn, style)}\n"
        for turn in ended
    )


def sanitize(text: str) -> str:
    """`text` without control characters other than line feed and tab."""
    return _CONTROL.sub("", text)


def _told(turn: Turn, style: Style) -> str:
    """The line below an earlier answer, as it stood there when it was new; empty when nothing is known."""
    if turn.status == "cancelled":
        return style.dim(STOPPED) + "\n"
    known = turn.path or turn.timings or turn.sources
    return style.dim(_facts(turn)) + "\n" if turn.status == "completed" and known else ""


def _key(turn: Turn) -> str:
    return turn.message_id or turn.turn_id or ""


def _facts(turn: Turn) -> str:
    facts = [turn.path or ""]
    if turn.timings is not None:
        facts.append(f"first words after {turn.timings.first_token_ms / 1000:.2f} s")
    if turn.sources:
        facts.append("sources: " + ", ".join(sanitize(each.title) for each in turn.sources))
    if turn.verified is False:
        facts.append("differs from the stored answer, fetching it")
    return "[" + " · ".join(fact for fact in facts if fact) + "]"
