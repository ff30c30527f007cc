"""Words in common: how the offline model tells which sentence a question asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?:ing|ed|es|s)$")
# The full stop of an abbreviation ends no sentence; "No." is one before a number only.
_SENTENCE_END = re.compile(
    r"(?<=[.!?。！？])(?<!\b[DMS][rt]\.)(?<!\bMrs\.)(?<!\b[Vv]ol\.)(?!(?<=\bNo\.)\s+\d)\s+|\n+"
)
_STOP_WORD_LIST = (
    "a about all an and any are as at be been but by can could did do does for from had has have how i if in into is "
    "it its like me my no not of on one or please some so tell than that the their them then there these they this to "
    "up was we were what when where which who why will with would you your recommend suggest want need looking know "
    "more give show second first third last series manga book title good long take"
)
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
# A fact is asked for by other words than its name.
_FACTS_ASKED = {
    "volumes": r"\b(how many|how long|volumes?|books|long|number of|wie viele|bände|wie lang)\b",
    "status": r"\b(finished|complete[d]?|fertig|abgeschlossen|ended|over|ongoing|running|still|status)\b",
    "age": r"\b(age|old|kids?|child(ren)?|suitable|mature|teen(ager)?s?)\b",
    "year": r"(?<!\d )(?<!\d-)\byear\b(?![ -]olds?\b)|\b(when did|started)\b|\bhow old is\b",
    "genres": r"\b(genres?|kind of)\b",
    "price": r"\b(price[sd]?|costs?|how much|expensive|cheap|kostet|preis|teuer)\b",
    "themes": r"\bthemes?\b",
    "demographic": r"\b(demographic|shonen|seinen|shojo|josei)\b",
}
_AUTHOR_ASKED = re.compile(
    r"\b(who (wrote|writes|made|draws|drew|is the (author|artist))|authors?|artist|written by|mangaka"
    r"|wer hat .*(geschrieben|gezeichnet)|autor(in)?)\b",
    re.I,
)
_READER_AGE = re.compile(r"\b(\d{1,2})[ -]?(?:years?[ -]?olds?|yo|y/o|jährige\w*|jahre)\b", re.I)
_CHILD = re.compile(r"\b(kids?|child(?:ren)?|son|daughter|kind(?:er)?)\b", re.I)
_AGES = {"all ages": 0, "teen": 13, "older teen": 16, "mature": 18}
_CHILD_YEARS = 10
"""Of a child whose age is not told."""
# What begins with a capital and goes on for some words is a sentence below a heading, no value.
_FACT = re.compile(r"([A-Z][a-z ]{1,30}): (?![A-Z][a-z]* (?:\S+ ){3})(.+?)\.?$")
_OTHER_NAMES = "Also known as"
MAX_QUOTE_CHARACTERS = 260


def words(text: str) -> frozenset[str]:
    """Content words in lower case, common endings removed."""
    return frozenset(
        _ENDING.sub("", word) if len(word) > 4 else word
        for word in (found.casefold() for found in _WORD.findall(text))
        if word not in _STOP_WORDS and len(word) > 1
    )


def sentences(text: str) -> list[str]:
    """The sentences of a text, marks of Markdown removed."""
    found = (sentence.strip(" \t#*-") for sentence in _SENTENCE_END.split(text))
    return [sentence for sentence in found if sentence]


def is_fact(sentence: str) -> bool:
    """True for a sentence such as "Volumes: 6."."""
    return _FACT.match(sentence) is not None or sentence.startswith(_OTHER_NAMES)


def asked_facts(question: str, text: str) -> list[str]:
    """The facts in `text` that the question asks for, worded: "volumes: 6"."""
    lowered = question.casefold()
    told: list[str] = []
    for sentence in sentences(text):
        match = _FACT.match(sentence)
        key = match[1].casefold() if match else ""
        asked = _FACTS_ASKED.get(key)
        if match and (re.search(asked, lowered) if asked else words(key) == words(question)):
            fit = fit_for_reader(question, match[2]) if key == "age" else ""
            if fit:
                return [fit]
            told.append(f"{key}: {match[2]}")
    return told


def fit_for_reader(question: str, rating: str) -> str:
    """Whether a rated title fits the reader that the question tells the age of, else "": "no, it is rated mature"."""
    told = _READER_AGE.search(question)
    if told is None and _CHILD.search(question) is None:
        return ""
    least = _AGES.get(rating.casefold())
    if least is None:
        return ""
    years = int(told[1]) if told else _CHILD_YEARS
    return f"{'yes' if years >= least else 'no'}, it is rated {rating}"


def asks_price(question: str) -> bool:
    """True when the question is for a price."""
    return re.search(_FACTS_ASKED["price"], question, re.I) is not None


def asked_author(question: str, text: str) -> str:
    """The sentence that names the author, when that is what the question asks for."""
    first = sentences(text)[:1]
    return first[0] if first and " by " in first[0] and _AUTHOR_ASKED.search(question) else ""


def best_sentences(text: str, wanted: frozenset[str], most: int) -> list[str]:
    """The sentences that share most words with the question, in their order; facts only where nothing else is."""
    told = [sentence for sentence in sentences(text) if not is_fact(sentence)] or sentences(text)
    ranked = sorted(range(len(told)), key=lambda at: (-len(wanted & words(told[at])), at))[:most]
    return [shortened(told[at]) for at in sorted(ranked)]


def shortened(text: str) -> str:
    """One line of at most MAX_QUOTE_CHARACTERS."""
    text = " ".join(text.split())
    if len(text) <= MAX_QUOTE_CHARACTERS:
        return text
    return text[: MAX_QUOTE_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"


def listed(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
