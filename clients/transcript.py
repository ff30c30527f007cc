"""What the terminal prints of a conversation as it changes. Pure: states in, text out.

Turns are shown one after another in their order; the text of a later one waits until the earlier one
has ended, so that two answers never mix.
"""

from __future__ import annotations

import re

from clients.conversation import Conversation
from clients.reducer import Turn

# A reply is untrusted: escape sequences could rewrite what the terminal shows.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
    """Remembers what was printed; `update` answers what is new."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._done: set[str] = set()
        self._seen: set[str] = set()
        self._unchecked: set[str] = set()
        self._attempt = 0
        self._printed = 0
        self._told = ""

    def update(self, state: Conversation) -> str:
        """The text to print after `state` became current; empty when nothing shows."""
        out = []
        for turn in state.turns:
            key = turn.message_id or turn.turn_id or ""
            if key not in self._seen:
                self._seen.add(key)
                if turn.is_ended:  # earlier turns come through `format_history` when asked for
                    self._done.add(key)
            if key in self._done and turn.is_ended:
                out.append(self._correction(key, turn))
                continue
            self._done.discard(key)  # a rejected message was sent again
            out.append(self._progress(turn))
            if not turn.is_ended:
                break
            out.append(self._end(key, turn))
        return "".join(out)

    def _progress(self, turn: Turn) -> str:
        out = ""
        if turn.attempt != self._attempt:
            if self._printed:
                out += "\n" + self._style.dim("[starting again]") + "\n"
            self._attempt, self._printed = turn.attempt, 0
        note = self._waiting_words(turn)
        if note and note != self._told:
            self._told = note
            out += self._style.dim(note) + "\n"
        out += sanitize(turn.text[self._printed :])
        self._printed = len(turn.text)
        return out

    @staticmethod
    def _waiting_words(turn: Turn) -> str:
        if turn.status == "queued":
            return "[busy just now, your turn comes shortly]"
        return ""

    def _end(self, key: str, turn: Turn) -> str:
        shown = self._printed > 0
        self._done.add(key)
        self._attempt, self._printed, self._told = 0, 0, ""
        if turn.verified is False:
            self._unchecked.add(key)
        words = self._end_words(turn)
        return ("\n" if shown else "") + words + "\n\n"

    def _end_words(self, turn: Turn) -> str:
        match turn.status:
            case "completed":
                return self._style.dim(_facts(turn))
            case "cancelled":
                return self._style.dim("[stopped]")
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

    def _correction(self, key: str, turn: Turn) -> str:
        if key not in self._unchecked or not turn.verified:
            return ""
        self._unchecked.discard(key)
        return self._style.dim("[the stored answer differs from what was shown]") + (
            f"\n{sanitize(turn.text)}\n\n"
        )


def format_history(state: Conversation, style: Style) -> str:
    """Every ended turn of the conversation, oldest first."""
    ended = [turn for turn in state.turns if turn.is_ended and turn.user_text]
    if not ended:
        return style.dim("[no earlier messages]") + "\n\n"
    more = style.dim("[older messages are not shown]") + "\n" if state.more else ""
    return more + "".join(
        f"{style.bold('› ' + sanitize(turn.user_text))}\n{sanitize(turn.text)}\n\n"
        for turn in ended
    )


def sanitize(text: str) -> str:
    """`text` without control characters other than line feed and tab."""
    return _CONTROL.sub("", text)


def _facts(turn: Turn) -> str:
    facts = [turn.path or ""]
    if turn.timings is not None:
        facts.append(f"first words after {turn.timings.first_token_ms / 1000:.2f} s")
    if turn.sources:
        facts.append("sources: " + ", ".join(sanitize(each.title) for each in turn.sources))
    if turn.verified is False:
        facts.append("differs from the stored answer, fetching it")
    return "[" + " · ".join(fact for fact in facts if fact) + "]"
