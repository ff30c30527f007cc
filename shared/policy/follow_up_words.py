"""The words by which a message leans on what was said before it: English, German, French and Spanish."""

from __future__ import annotations

import re

_POINTING_WORDS = (
    "it its they them their theirs that this those these one ones he she his her him same both either former latter "
    "other others another else similar "
    "es ihn ihm ihr ihre davon dazu daran dieser diese dieses diesen jener beide andere anderen ähnliches "
    "il elle ils elles celui celle ceux celles ça cela autre autres leur similaire similaires "
    "él ella ellos ellas ese esa eso este esta esto otro otra otros cuál su sus parecido parecida"
)
POINTING = frozenset(_POINTING_WORDS.split())
"""Words that stand for something said before."""

_EMPTY_WORDS = (
    "a an the and or but of to in on for with at from by is are was were be been do does did can could will would "
    "should have has had i d m s ll ve re t you me my we us there here what which who whom when where why how many "
    "much long old good any some please tell about more so then ok okay yes no not also too just really very want "
    "like sounds great nice cool perfect "
    "der die das ein eine einen und oder von zu in auf für mit ist sind war hat haben kann ich du wir "
    "was wer wann wo wie viele "
    "le la les l un une de des d du et ou à en pour avec est sont a ont je tu nous que qui qu ce c combien "
    "el lo los las un una de y o en para con es son ha han yo tú qué quién cuándo dónde cuántos cuántas"
)
EMPTY = frozenset(_EMPTY_WORDS.split()) | POINTING
"""Words that tell nothing of a subject."""

GOING_ON = re.compile(
    r"\W*(?:and|also|what about|how about|more|any more|anything else|und|auch|was ist mit|wie ist es mit|"
    r"et|aussi|y|también|qué tal)\b",
    re.IGNORECASE,
)
"""How a message begins that goes on with what was said."""

ASKING = re.compile(
    r"[?？¿]|^\W*(?:who|what|when|where|which|why|how|is|are|does|do|did|can|could|will|tell|show|give|more|"
    r"wer|was|wann|wo|welche\w*|warum|wie|ist|sind|qui|que|quoi|quand|où|quel\w*|combien|est|"
    r"quién|qué|cuándo|dónde|cuál|cuánto\w*)\b",
    re.IGNORECASE,
)
"""A question or a request."""

ABOUT_THE_TALK = re.compile(
    r"\b(?:did|have|had) (?:i|we|you)\b.*\b(?:ask|asked|say|said|tell|told|write|wrote|mention)"
    r"|\b(?:my|your|the) (?:last|previous|earlier|first) (?:question|message|answer)",
    re.IGNORECASE,
)
"""A question about the conversation itself, which memory answers."""

OTHERS = re.compile(
    r"\b(?:others?|another|similar|something else|anything else|more like|like (?:it|this|that|these|those|them)|"
    r"andere|ähnliche\w*|noch (?:mehr|so)|d'autres?|similaires?|otr[oa]s?|parecid[oa]s?)\b",
    re.IGNORECASE,
)
"""What asks for others of a kind."""

MORE = re.compile(r"\b(?:more|mehr|weitere\w*|plus|encore|más)\b", re.IGNORECASE)
"""What asks for more of what was said."""

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
PLACES = tuple(
    (place, re.compile(rf"{_ARTICLE}(?:{words})\b{_COUNTED}", re.IGNORECASE))
    for place, words in (*enumerate(_ORDINALS), (-1, _LAST))
)
"""Which of several things is meant: its index, -1 the last, and the words for it."""
