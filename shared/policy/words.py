"""Words of a text as they are counted when passages are searched."""

from __future__ import annotations

from shared.policy.names import plain_name

_STEM_CHARACTERS = 5
"""A word counts by its beginning: `gambling` and `gambler` are one, in most languages that part words by blanks."""
_STOP_WORD_LIST = (
    "a about after all also am an and any are as at be been before but by can could did do does for from "
    "get go got had has have he her his how i if in into is it its just like me more my no not of on one "
    "or our out please she so some something than that the their them then there these they this to up us "
    "want was we were what when where which who why will with would you your "
    "das dem den der die ein eine ist und wie de des du est et la le les un une el en los que una y"
)
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())


def stems(text: str) -> tuple[str, ...]:
    """The beginnings of the telling words of `text`, in order, repeats included."""
    return tuple(
        word[:_STEM_CHARACTERS]
        for word in plain_name(text).split()
        if len(word) > 1 and word not in _STOP_WORDS
    )


def body_of(passage_text: str) -> str:
    """The passage without the facts that a catalogue document's passages begin with."""
    return passage_text.partition("\n")[2] or passage_text
