"""Between the model and the reader: holds back only what may still become something that must not be shown.

Blocked phrases end the reply. Card numbers and bank accounts are masked, unless the prompt itself holds them. What is
released does not depend on how the model cut its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from shared.contracts.model import Prompt
from shared.errors import GuardrailBlocked
from shared.policy.blocked_phrases import PhraseBook, PhraseMatcher
from shared.policy.card_numbers import Span, scan_cards
from shared.policy.ibans import scan_ibans
from shared.policy.likeness import likeness
from shared.policy.pii import MASKS, PiiKind, blanked

_DIGIT = re.compile("[0-9]")
_CONTEXT = 80
"""Characters kept of what was released: more than any detector looks back."""
_COUNTRY = 2
"""The letters that an IBAN begins with are never held back, so they are not masked."""


class ReplyFilter:
    """One reply, from its first text to its last. `known` tells the account numbers that may be shown."""

    def __init__(self, book: PhraseBook, known: Callable[[], frozenset[str]]) -> None:
        self._phrases = PhraseMatcher(book)
        self._known = known
        self._text = ""  # what is held back, with a little of what was released before it
        self._plain = ""
        self._without_ibans = ""  # the same with IBANs blanked, where cards are looked for
        self._held = 0  # where in `_text` the held part begins
        self._dropped = 0  # characters of the reply before `_text`
        self._blank = ""  # white space that stood before all visible text
        self._is_visible = False

    def feed(self, text: str) -> str:
        """Take the next text of the model and give what may be shown now. Raises GuardrailBlocked."""
        if self._phrases.read(text):
            raise GuardrailBlocked("the reply holds a blocked phrase")
        self._text += text
        plain = likeness(text)
        self._plain += plain
        self._without_ibans += plain
        return self._release(is_whole=False)

    def finish(self) -> str:
        """What was held back when the reply ends. Raises GuardrailBlocked."""
        if self._phrases.finish():
            raise GuardrailBlocked("the reply ends with a blocked phrase")
        return self._release(is_whole=True)

    def _release(self, *, is_whole: bool) -> str:
        hidden, decided = self._find_accounts(is_whole=is_whole)
        if not is_whole:
            decided = min(decided, self._phrases.held_from - self._dropped)
        for span, _ in hidden:
            if span.start < decided < span.end:
                decided = span.start
        hidden = sorted(one for one in hidden if one[0].end <= decided)
        shown = (
            "".join(self._shown(hidden, decided)) if hidden else self._text[self._held : decided]
        )
        released = [span for span, kind in hidden if kind == "iban"]
        self._without_ibans = blanked(self._without_ibans, released)
        self._held = decided
        self._forget()
        return self._without_leading_blanks(shown)

    def _find_accounts(self, *, is_whole: bool) -> tuple[list[tuple[Span, PiiKind]], int]:
        """What is to be masked, and where certainty ends."""
        if _DIGIT.search(self._plain, self._held) is None:
            return [], len(self._plain)
        ibans, decided = scan_ibans(self._plain, self._held, is_whole=is_whole)
        cards = scan_cards(blanked(self._without_ibans, ibans), self._held, is_whole=is_whole)
        hidden: list[tuple[Span, PiiKind]] = [
            *((Span(start + _COUNTRY, end), "iban") for start, end in ibans),
            *((span, "card") for span in cards.spans),
        ]
        return hidden, min(decided, cards.decided)

    def _shown(self, hidden: list[tuple[Span, PiiKind]], end: int) -> Iterator[str]:
        """The text from the held part's begin to `end`, with masks."""
        done = self._held
        for span, kind in hidden:
            start = span.start - _COUNTRY if kind == "iban" else span.start
            yield self._text[done : span.start]
            is_known = account_of(self._plain[start : span.end]) in self._known()
            yield self._text[slice(*span)] if is_known else MASKS[kind]
            done = span.end
        yield self._text[done:end]

    def _forget(self) -> None:
        """Keep the buffers as short as what is held and looked back at."""
        excess = self._held - _CONTEXT
        if excess > _CONTEXT:
            self._text = self._text[excess:]
            self._plain = self._plain[excess:]
            self._without_ibans = self._without_ibans[excess:]
            self._held -= excess
            self._dropped += excess

    def _without_leading_blanks(self, shown: str) -> str:
        """White space is no visible text: it waits for the first character that is."""
        if self._is_visible:
            return shown
        shown = self._blank + shown
        self._is_visible = bool(shown.strip())
        self._blank = "" if self._is_visible else shown
        return shown if self._is_visible else ""


def account_of(plain: str) -> str:
    """A card number or IBAN without its separators."""
    return "".join(filter(str.isalnum, plain))


def known_accounts(prompt: Prompt) -> frozenset[str]:
    """The account numbers in a prompt: the shop's own bank account in a document, say."""
    found: set[str] = set()
    for text in _texts(prompt):
        plain = likeness(text)
        ibans, _ = scan_ibans(plain)
        for span in (*ibans, *scan_cards(plain).spans):
            found.add(account_of(plain[slice(*span)]))
    return frozenset(found)


def _texts(prompt: Prompt) -> Iterator[str]:
    yield prompt.system
    for message in prompt.messages:
        if isinstance(message.content, str):
            yield message.content
        else:
            yield from (block["text"] for block in message.content if "text" in block)
