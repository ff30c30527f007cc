"""What words mean, whatever their language and spelling: the knowledge's own dictionary, applied to a message.

The dictionary is `lexicon.txt`: a meaning, a colon and the forms that say it, parted by commas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from shared.contracts.knowledge import PassageEntry
from shared.errors import MalformedDocument
from shared.policy.names import is_telling, plain_name

TITLE_MEANING = "title"
"""What every name of a title of the corpus means."""
TRAIT_MEANING = "trait"
"""What every theme and genre of one means."""
_TRAIT_FACTS = ("themes", "genres")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_ANY_ENDING = "*"
_MIN_STEM_CHARACTERS = 3
_MIN_MISSPELT_CHARACTERS = 6
_MIN_MISSPELT_NAME_CHARACTERS = 7
_MIN_TRAIT_CHARACTERS = 5
_MAX_WORDS = 200
_MAX_WORDS_OF_FORM = 6
_MAX_CHARACTERS_OF_RUN = 12


def parse_lexicon(name: str, text: str) -> dict[str, tuple[str, ...]]:
    """Plain form → its meanings; a form of a stem ends in `*`. Raises MalformedDocument naming the line."""
    meanings: dict[str, dict[str, None]] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        meaning, colon, forms = line.partition(":")
        plain_meaning = plain_name(meaning)
        if not colon or not plain_meaning:
            raise MalformedDocument(name, number, "is not `meaning: form, form`")
        for form in (meaning, *forms.split(",")):
            plain = plain_name(form)
            if plain:
                key = plain + _ANY_ENDING if form.strip().endswith(_ANY_ENDING) else plain
                meanings.setdefault(key, {})[plain_meaning] = None
    return {form: tuple(found) for form, found in meanings.items()}


def lexicon_of(forms: Mapping[str, tuple[str, ...]], passages: Iterable[PassageEntry]) -> Lexicon:
    """The dictionary of a corpus: its forms, and the names and traits of the titles that its passages tell facts of."""
    known: dict[str, str] = {}
    for entry in passages:
        for value in (value for key in _TRAIT_FACTS for value in entry.facts.get(key, ())):
            if len(value) >= _MIN_TRAIT_CHARACTERS:
                known[plain_name(value)] = TRAIT_MEANING
    for entry in passages:
        if entry.facts:
            titles = filter(is_telling, map(plain_name, entry.names))
            known.update(dict.fromkeys(titles, TITLE_MEANING))
    return Lexicon(forms, known)


class Lexicon:
    """A dictionary with the names of the corpus in it. Reading costs about 50 µs for a question."""

    def __init__(
        self, forms: Mapping[str, tuple[str, ...]], known: Mapping[str, str] = _NOTHING
    ) -> None:
        """`known` are plain names with their one meaning; a single word that is a form as well stays what it was."""
        phrases = dict(forms)
        for name, meaning in known.items():
            if " " in name or name not in forms:
                phrases[name] = (meaning,)
        self._stems = {form[:-1]: m for form, m in phrases.items() if form.endswith(_ANY_ENDING)}
        self._phrases = {f: m for f, m in phrases.items() if not f.endswith(_ANY_ENDING)}
        self._longest = min(
            max((form.count(" ") + 1 for form in self._phrases), default=1), _MAX_WORDS_OF_FORM
        )
        self._meanings = {meaning for found in phrases.values() for meaning in found}
        self._misspelt: dict[str, list[str]] = {}
        for form in self._phrases:
            least = _MIN_MISSPELT_NAME_CHARACTERS if form in known else _MIN_MISSPELT_CHARACTERS
            if len(form) >= least and " " not in form and form.isascii():
                for shorter in (form, *_shorter(form)):
                    self._misspelt.setdefault(shorter, []).append(form)

    def read(self, text: str) -> list[str]:
        """The message as meanings, in its order; words that mean nothing here stay, their digits as zeros."""
        words = plain_name(text).split()[:_MAX_WORDS]
        read: list[str] = []
        at = 0
        while at < len(words):
            for length in range(min(self._longest, len(words) - at), 0, -1):
                meanings = self._phrases.get(" ".join(words[at : at + length]))
                if meanings:
                    read.extend(meanings)
                    at += length
                    break
            else:
                read.extend(self._read_word(words[at]))
                at += 1
        return read

    def known_share(self, words: Sequence[str]) -> float:
        """The share of read words that mean something here, 0 for none."""
        return sum(word in self._meanings for word in words) / len(words) if words else 0.0

    def _read_word(self, word: str) -> Iterable[str]:
        if _has_no_blanks(word):
            return self._read_run(word)
        for end in range(len(word), _MIN_STEM_CHARACTERS - 1, -1):
            if meanings := self._stems.get(word[:end]):
                return meanings
        return self._read_misspelt(word) or (_without_digits(word),)

    def _read_misspelt(self, word: str) -> Iterable[str]:
        if len(word) < _MIN_MISSPELT_CHARACTERS - 1 or not word.isalpha():
            return ()
        for shorter in (word, *_shorter(word)):
            for form in self._misspelt.get(shorter, ()):
                # A slip in the first letter is rare, a real word beside another common: would, mould.
                if form[0] == word[0] and _is_one_slip(word, form):
                    return self._phrases[form]
        return ()

    def _read_run(self, run: str) -> Iterator[str]:
        """Scripts without blanks: the longest form at each place; what lies between is kept in one piece."""
        rest = start = 0
        while start < len(run):
            for end in range(min(len(run), start + _MAX_CHARACTERS_OF_RUN), start, -1):
                meanings = self._phrases.get(run[start:end]) or self._stems.get(run[start:end])
                if meanings:
                    if rest < start:
                        yield run[rest:start]
                    yield from meanings
                    rest = start = end
                    break
            else:
                start += 1
        if rest < len(run):
            yield run[rest:]


def _shorter(word: str) -> list[str]:
    """The word less one character, each once."""
    return list(dict.fromkeys(word[:at] + word[at + 1 :] for at in range(len(word))))


def _is_one_slip(word: str, form: str) -> bool:
    """True when one character is missing, superfluous or another, or two neighbours have changed places."""
    start = 0
    while start < min(len(word), len(form)) and word[start] == form[start]:
        start += 1
    left, right = word[start:], form[start:]
    return (
        left[1:] == right[1:]
        or left[1:] == right
        or left == right[1:]
        or (left[:2] == right[1::-1] and left[2:] == right[2:])
    )


def _without_digits(word: str) -> str:
    return "".join("0" if mark.isdigit() else mark for mark in word)


def _has_no_blanks(word: str) -> bool:
    return any("぀" <= mark <= "ヿ" or "㐀" <= mark <= "鿿" or "ᄀ" <= mark <= "ᇿ" for mark in word)
