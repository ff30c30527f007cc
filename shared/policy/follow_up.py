"""Understanding a message that leans on what was said before it, without a model: which words say so, what they mean.

Knows English, German, French and Spanish. A message in another language is searched for as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LOOK_BACK_TURNS = 3
"""A title named longer ago is no longer what "it" means."""
SUBJECTS = 3
_MAX_WORDS = 14
_FEW_CONTENT_WORDS = 2

_POINTING = frozenset(
    [
        "it",
        "its",
        "it's",
        "they",
        "them",
        "their",
        "theirs",
        "that",
        "that's",
        "this",
        "those",
        "these",
        "one",
        "ones",
        "he",
        "she",
        "his",
        "her",
        "him",
        "same",
        "both",
        "either",
        "former",
        "latter",
        "other",
        "others",
        "another",
        "else",
        "es",
        "ihn",
        "ihm",
        "ihr",
        "ihre",
        "davon",
        "dazu",
        "daran",
        "das",
        "dieser",
        "diese",
        "dieses",
        "diesen",
        "jener",
        "beide",
        "andere",
        "anderen",
        "il",
        "elle",
        "ils",
        "elles",
        "celui",
        "celle",
        "ceux",
        "celles",
        "ça",
        "cela",
        "autre",
        "autres",
        "leur",
        "lo",
        "la",
        "los",
        "las",
        "él",
        "ella",
        "ellos",
        "ellas",
        "ese",
        "esa",
        "eso",
        "este",
        "esta",
        "esto",
        "otro",
        "otra",
        "otros",
        "cuál",
        "su",
        "sus",
    ]
)
_GOING_ON = re.compile(
    r"(and|also|what about|how about|more|any more|anything else|und|auch|was ist mit|wie ist es mit|"
    r"et|aussi|y|también|qué tal)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"[?？¿]|^\W*(who|what|when|where|which|why|how|is|are|does|do|did|can|could|will|tell|show|give|more|"
    r"wer|was|wann|wo|welche\w*|warum|wie|ist|sind|qui|que|quoi|quand|où|quel\w*|combien|est|"
    r"quién|qué|cuándo|dónde|cuál|cuánto\w*)\b",
    re.IGNORECASE,
)
# Memory answers these by itself.
_ABOUT_THE_TALK = re.compile(
    r"\b(?:did|have|had) (?:i|we|you)\b.*\b(?:ask|asked|say|said|tell|told|write|wrote|mention)"
    r"|\b(?:my|your|the) (?:last|previous|earlier|first) (?:question|message|answer)",
    re.IGNORECASE,
)
_EMPTY = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "of",
        "to",
        "in",
        "on",
        "for",
        "with",
        "at",
        "from",
        "by",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "have",
        "has",
        "had",
        "i",
        "i'd",
        "i'm",
        "you",
        "me",
        "my",
        "we",
        "us",
        "there",
        "here",
        "what",
        "which",
        "who",
        "whom",
        "when",
        "where",
        "why",
        "how",
        "many",
        "much",
        "long",
        "old",
        "good",
        "any",
        "some",
        "please",
        "tell",
        "about",
        "more",
        "so",
        "then",
        "ok",
        "okay",
        "yes",
        "no",
        "not",
        "also",
        "too",
        "just",
        "really",
        "very",
        "want",
        "like",
        "der",
        "die",
        "das",
        "ein",
        "eine",
        "einen",
        "und",
        "oder",
        "von",
        "zu",
        "in",
        "auf",
        "für",
        "mit",
        "ist",
        "sind",
        "war",
        "hat",
        "haben",
        "kann",
        "ich",
        "du",
        "wir",
        "was",
        "wie",
        "viele",
        "le",
        "la",
        "les",
        "un",
        "une",
        "de",
        "des",
        "du",
        "et",
        "ou",
        "à",
        "en",
        "pour",
        "avec",
        "est",
        "sont",
        "a",
        "ont",
        "je",
        "tu",
        "nous",
        "que",
        "qui",
        "combien",
        "el",
        "los",
        "las",
        "un",
        "una",
        "de",
        "y",
        "o",
        "en",
        "para",
        "con",
        "es",
        "son",
        "ha",
        "han",
        "yo",
        "tú",
        "qué",
        "cuántos",
        "cuántas",
    ]
) | frozenset(_POINTING)
_ORDINALS = (
    "first|1st|erste[nrs]?|premi(?:er|ère)|primer[oa]?",
    "second|2nd|zweite[nrs]?|deuxième|second[oe]?|segund[oa]",
    "third|3rd|dritte[nrs]?|troisième|tercer[oa]?",
    "fourth|4th|vierte[nrs]?|quatrième|cuart[oa]",
    "fifth|5th|fünfte[nrs]?|cinquième|quint[oa]",
)
_LAST = "last|letzte[nrs]?|derni(?:er|ère)|últim[oa]"
_ARTICLE = r"\b(?:the|number|and|der|die|das|den|dem|le|la|el|du|al)\s+"
# "The first volume" counts volumes, not titles.
_COUNTED = (
    r"(?!\s+(?:volumes?|vols?|books?|chapters?|seasons?|arcs?|parts?|editions?|orders?|time|day|week|month|year|"
    r"band|bände|kapitel|staffel|teil|bestellung|mal|tomes?|chapitres?|saisons?|commande|fois|"
    r"tomos?|capítulos?|temporadas?|pedido|vez)\b)"
)
_ORDINAL_PATTERNS = tuple(
    (place, re.compile(rf"{_ARTICLE}(?:{words})\b{_COUNTED}", re.IGNORECASE))
    for place, words in (*enumerate(_ORDINALS), (-1, _LAST))
)
_MARKED = re.compile(r"\*\*(.+?)\*\*|\[([^\]]+)\]|[“„«\"]([^“”„«»\"]+)[”“»\"]")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


def may_lean(text: str) -> bool:
    """True when the message may mean something said before: it points back, goes on, or says next to nothing."""
    words = _words(text)
    if not words or len(words) > _MAX_WORDS or _ABOUT_THE_TALK.search(text):
        return False
    return points_back(text) or says_little(text)


def points_back(text: str) -> bool:
    """True when a word of the message stands for something said before."""
    return (
        not _POINTING.isdisjoint(_words(text))
        or _GOING_ON.match(text.strip()) is not None
        or place_meant(text) is not None
    )


def says_little(text: str) -> bool:
    """True when hardly a word of the message tells what it is about."""
    return len(set(_words(text)) - _EMPTY) <= _FEW_CONTENT_WORDS


def asks(text: str) -> bool:
    """True when the message wants something to be said, and is no mere remark."""
    return bool(
        _ASKING.search(text) or _GOING_ON.match(text.strip()) or place_meant(text) is not None
    )


def place_meant(text: str) -> int | None:
    """Which of several things the message means ("the second one"): an index, -1 the last, None without such a word."""
    return next((place for place, words in _ORDINAL_PATTERNS if words.search(text)), None)


def marked_text(answer: str) -> str:
    """What an answer sets off by bold type, brackets or quotes, in order; the whole answer when nothing is."""
    spans = [next(filter(None, found.groups())) for found in _MARKED.finditer(answer)]
    return " | ".join(f'"{span}"' for span in spans) or answer


def choose_subjects(
    question: str, asked: Sequence[str], answered: Sequence[str]
) -> tuple[str, ...]:
    """Of the titles in an earlier question and in its answer, those that the new question means.

    An ordinal counts through the answer's. Where the answer brought several new titles, they are meant before those
    that the user had named.
    """
    new = [title for title in answered if title not in asked]
    place = place_meant(question)
    listed = new or list(answered)
    if place is not None and listed:
        return tuple(listed[place : place + 1] if place >= 0 else listed[-1:])
    ordered = (*new, *asked) if len(new) > 1 else (*asked, *answered)
    return tuple(dict.fromkeys(ordered))[:SUBJECTS]


def search_text(question: str, subjects: Iterable[str]) -> str:
    """What to search for: the question and the titles it means, in quotes, as they are names."""
    return " ".join((question, *(f'"{subject}"' for subject in subjects)))


def _words(text: str) -> list[str]:
    return [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
