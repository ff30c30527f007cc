"""The offline answer: put together from the prompt's own passages, history and question.

Pure and simple on purpose: word overlap picks sentences, so what the answer quotes shows whether
retrieval, memory and prompt did their work.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra.local.model_server.messages import MessagesRequest

_PASSAGE = re.compile(
    r'<passage\b[^>]*?\bid="(?P<id>[^"]*)"(?:[^>]*?\btitle="(?P<title>[^"]*)")?[^>]*>(?P<body>.*?)'
    r"</passage>",
    re.DOTALL,
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_WORD = re.compile(r"\w+")
_RECALL = re.compile(
    r"\bwhat (did|have|had) i\b.*\b(ask|say|said|tell|told|write|mention)"
    r"|\b(my|the) (last|previous|earlier|first) (question|message)"
    r"|\b(did|do) you remember\b|\bwhat were we (talking|speaking)\b",
    re.IGNORECASE,
)
_STOP_WORD_LIST = (
    "a about all an and any are as at be been but by can could did do does for from had has have how "
    "i if in into is it its like me my no not of on one or please some so tell than that the their "
    "them then there these they this to up was we were what when where which who why will with would "
    "you your recommend suggest want need looking know"
)
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_MAX_SENTENCES = 3
_MAX_PASSAGES = 2
_MAX_RECALLED = 3
_MAX_QUOTE_CHARS = 200

SIGNATURE = "*Written by the offline model of the local stack.*"


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage of the prompt."""

    id: str
    title: str
    body: str


def find_passages(texts: Sequence[str]) -> tuple[Passage, ...]:
    """Passages of the prompt in the order given (best first, as retrieval ranks them)."""
    return tuple(
        Passage(
            id=html.unescape(match["id"]),
            title=html.unescape(match["title"] or match["id"]),
            body=html.unescape(match["body"]).strip(),
        )
        for text in texts
        for match in _PASSAGE.finditer(text)
    )


def compose_answer(request: MessagesRequest) -> str:
    """A short Markdown answer to the newest user message."""
    texts = request.last_user_texts()
    question = _own_words(texts[-1]) if texts else ""
    earlier = _earlier_questions(request)
    if _RECALL.search(question):
        return _recall(earlier)
    passages = find_passages(texts)
    wanted = _words(question)
    if len(wanted) < 2 and earlier:
        wanted |= _words(earlier[-1])
    quotes = _best_quotes(passages, wanted)
    if quotes:
        return _quote(quotes, len(passages))
    return _nothing_found(question, len(earlier))


def _own_words(text: str) -> str:
    """The last block without retrieved passages, should a prompt put both into one block."""
    return re.sub(r"<passages>.*?</passages>", "", text, flags=re.DOTALL).strip()


def _earlier_questions(request: MessagesRequest) -> list[str]:
    asked = [
        _own_words(message.texts()[-1])
        for message in request.messages
        if message.role == "user" and message.texts()
    ]
    return asked[:-1] if request.messages[-1].role == "user" else asked


def _recall(earlier: Sequence[str]) -> str:
    if not earlier:
        return f"This is the first message I see in this conversation.\n\n{SIGNATURE}"
    lines = "\n".join(f"- “{_shortened(text)}”" for text in earlier[-_MAX_RECALLED:])
    count = len(earlier)
    noun = "message" if count == 1 else "messages"
    return f"Before this you wrote {count} {noun}; the newest:\n\n{lines}\n\n{SIGNATURE}"


def _quote(quotes: Sequence[tuple[Passage, list[str]]], seen: int) -> str:
    parts = [f"**{passage.title}**: {' '.join(sentences)}" for passage, sentences in quotes]
    body = "\n\n".join(parts)
    noun = "passage" if seen == 1 else "passages"
    return f"Here is what I found ({seen} {noun} read):\n\n{body}\n\n{SIGNATURE}"


def _nothing_found(question: str, earlier: int) -> str:
    said = f"You wrote “{_shortened(question)}”. " if question else ""
    memory = f" I have {earlier} earlier message(s) of yours in view." if earlier else ""
    return (
        f"{said}I have no passage at hand that answers this, and an offline model does not invent "
        f"one.{memory}\n\n{SIGNATURE}"
    )


def _best_quotes(
    passages: Sequence[Passage], wanted: frozenset[str]
) -> list[tuple[Passage, list[str]]]:
    """The passages that share most words with the question, each with its best sentences."""
    scored = [(_score(passage, wanted), -rank) for rank, passage in enumerate(passages)]
    best = sorted((pair for pair in scored if pair[0] > 0), reverse=True)[:_MAX_PASSAGES]
    # A passage that fits far worse than the best one only mentions the subject in passing.
    best = [pair for pair in best if 2 * pair[0] >= best[0][0]]
    return [(passages[-rank], _best_sentences(passages[-rank], wanted)) for _, rank in best]


def _score(passage: Passage, wanted: frozenset[str]) -> int:
    return 2 * len(wanted & _words(passage.title)) + len(wanted & _words(passage.body))


def _best_sentences(passage: Passage, wanted: frozenset[str]) -> list[str]:
    sentences = [s.strip(" \t#*-") for s in _SENTENCE_END.split(passage.body)]
    sentences = [sentence for sentence in sentences if sentence]
    ranked = sorted(range(len(sentences)), key=lambda i: (-len(wanted & _words(sentences[i])), i))[
        :_MAX_SENTENCES
    ]
    return [_shortened(sentences[index]) for index in sorted(ranked)]


def _words(text: str) -> frozenset[str]:
    """Content words, lower case, a plural `s` removed."""
    words = (word.lower() for word in _WORD.findall(text))
    return frozenset(
        word.removesuffix("s") if len(word) > 3 else word
        for word in words
        if word not in _STOP_WORDS and len(word) > 1
    )


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_QUOTE_CHARS else text[: _MAX_QUOTE_CHARS - 1] + "…"
