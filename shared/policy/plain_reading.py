"""What to search English pages for when a message is German, French or Spanish."""

from __future__ import annotations

from shared.policy.lexicon import TITLE_MEANING, TRAIT_MEANING, Lexicon
from shared.policy.names import plain_name

# Words that neither English nor the name of a title says; "die" and "was" are English, too.
_FOREIGN_WORD_LIST = (
    "der das dem den ein eine einen und wie wer wo wann ist sind kostet kann ich mein meine nach dauert gibt "
    "le les une est combien quand quel quelle puis je mon ma votre "
    "el los las cuanto cuando donde cual puedo mi hay cuesta"
)
_FOREIGN_WORDS = frozenset(_FOREIGN_WORD_LIST.split())


def search_reading(text: str, lexicon: Lexicon) -> str:
    """The message as the dictionary reads it; unchanged when it is English or names a title or a trait."""
    if _FOREIGN_WORDS.isdisjoint(plain_name(text).split()):
        return text
    read = lexicon.read(text)
    if TITLE_MEANING in read or TRAIT_MEANING in read:
        return text
    return " ".join(read)
