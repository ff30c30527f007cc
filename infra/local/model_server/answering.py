"""The offline answer: put together from the prompt's own rules, findings, history and question.

Pure and simple on purpose: words in common pick sentences, so what an answer says shows whether retrieval, fan-out,
memory and prompt did their work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from infra.local.model_server.found_elements import Element, Found, own_words, read_found
from infra.local.model_server.messages import MessagesRequest
from infra.local.model_server.order_talk import talk_about_orders
from infra.local.model_server.wording import (
    asked_author,
    asked_facts,
    asks_price,
    best_sentences,
    is_fact,
    sentences,
    shortened,
    words,
)

SIGNATURE = "*Written by the offline model.*"
_RECALL = re.compile(
    r"\bwhat (did|have|had) i\b.*\b(ask|say|said|tell|told|write|mention)"
    r"|\b(my|the) (last|previous|earlier|first) (question|message)"
    r"|\b(did|do) you remember\b|\bwhat were we (talking|speaking)\b",
    re.IGNORECASE,
)
_SMALL_TALK = (
    (
        r"^\W*(thanks?|thank you|thx|ty|cheers|danke|merci|gracias|great|perfect|cool|nice|awesome)\b",
        "You are welcome!",
    ),
    (r"^\W*(bye|goodbye|see you|good night|ciao|tschüss)\b", "Goodbye, and happy reading!"),
    (r"\bhow are (you|u)\b|\bhow('s| is) it going\b", "All is well here, thank you."),
    (r"\b(who|what) are you\b|\bare you (a )?(bot|human|real|robot|ai)\b", "I am a program."),
    (
        r"\b(joke|witz)\b",
        "Why did the manga fan go broke? Every ending was only the end of a volume.",
    ),
    (r"\bwhat (can|do) (you|u) do\b|\bhelp me\b|\bwas kannst du\b", "Gladly:"),
    (r"^\W*(hi|hello|hey|hallo|good (morning|evening|afternoon)|bonjour|hola|moin)\b", "Hello!"),
)
# With an order at hand the store's pages are quoted only to a question about what may be done.
_RULE_ASKED = re.compile(
    r"\b(can|could|may|how|refund|return|cancel|change|exchange|late|lost|missing|damaged)\b", re.I
)
_DUTY = re.compile(r"\bYou (help [^.]+)\.")
_MAX_PAGES = 2
_MAX_SUGGESTIONS = 4
_MAX_RECALLED = 3
_MAX_SENTENCES = 3


def compose_answer(request: MessagesRequest) -> str:
    """A short Markdown answer to the newest user message."""
    texts = request.last_user_texts()
    question = own_words(texts[-1]) if texts else ""
    return f"{_answer(request, question, read_found(texts))}\n\n{SIGNATURE}"


def _answer(request: MessagesRequest, question: str, found: Found) -> str:
    earlier = _earlier_questions(request)
    if _RECALL.search(question):
        return _recall(question, earlier)
    wanted = words(question)
    meant = question
    if len(wanted) < 2 and earlier:
        wanted |= words(earlier[-1])
        meant = f"{earlier[-1]} {question}" if not wanted.isdisjoint(words("return")) else meant
    parts: list[str] = []
    if found.has_orders:
        parts.append(talk_about_orders(meant, found.orders))
    if found.similar:
        parts.append(_suggest(found.similar))
    elif found.passages and (not parts or _RULE_ASKED.search(meant)):
        parts.append(_tell(question, found.passages, wanted, most=1 if parts else _MAX_PAGES))
    return "\n\n".join(parts) or _without_findings(request, question)


def _earlier_questions(request: MessagesRequest) -> list[str]:
    asked = [
        own_words(message.texts()[-1])
        for message in request.messages
        if message.role == "user" and message.texts()
    ]
    return asked[:-1] if request.messages[-1].role == "user" else asked


def _recall(question: str, earlier: Sequence[str]) -> str:
    if not earlier:
        return "This is the first message I see in this conversation."
    if "first" in question.casefold():
        return f"The first message I see is: “{shortened(earlier[0])}”"
    lines = "\n".join(f"- “{shortened(text)}”" for text in earlier[-_MAX_RECALLED:])
    count = len(earlier)
    noun = "message" if count == 1 else "messages"
    return f"Before this you wrote {count} {noun}; the newest:\n\n{lines}"


def _suggest(similar: Sequence[Element]) -> str:
    like = similar[0].attributes.get("like", "")
    opening = f"If you like {like}, try these:" if like else "These have what you are looking for:"
    lines = []
    for element in similar[:_MAX_SUGGESTIONS]:
        shares = element.attributes.get("shares", "")
        age = next((each for each in asked_facts("age", element.body)), "")
        warning = " (mature)" if "mature" in age else ""
        (told,) = best_sentences(_without_lead(element), frozenset(), 1) or ("",)
        lines.append(f"- **{element.title}**{warning}: {shares}. {told}".rstrip())
    return "\n".join((opening, "", *lines))


def _tell(question: str, passages: Sequence[Element], wanted: frozenset[str], *, most: int) -> str:
    """What the pages say that share most words with the question; the nearest page when none shares any."""
    scores = [
        2 * len(wanted & words(each.title)) + len(wanted & words(each.body)) for each in passages
    ]
    best = max(scores)
    # A page that fits far worse than the best one only mentions the subject in passing.
    chosen = [each for each, score in zip(passages, scores, strict=True) if 2 * score >= best]
    chosen.sort(key=lambda each: -scores[passages.index(each)])
    pages = _pages(chosen)
    return "\n\n".join(_told_of(question, each, wanted) for each in pages[: most if best else 1])


def _pages(passages: Sequence[Element]) -> list[Element]:
    """Passages of one page as one, in the order of the page, nothing twice."""
    pages: dict[str, list[Element]] = {}
    for passage in passages:
        pages.setdefault(passage.title, []).append(passage)
    return [_page(of_page) for of_page in pages.values()]


def _page(passages: list[Element]) -> Element:
    passages.sort(key=lambda each: _place(each.attributes.get("id", "")))
    first = passages[0]
    lines = (line for each in passages for line in sentences(each.body))
    return replace(first, body="\n".join(dict.fromkeys(lines)))


def _place(passage_id: str) -> int:
    number = passage_id.rpartition("#")[2]
    return int(number) if number.isdecimal() else 0


def _told_of(question: str, page: Element, wanted: frozenset[str]) -> str:
    name = f"**{page.title}**"
    by = f"{page.title} by "
    author = asked_author(question, page.body)
    facts = "; ".join(asked_facts(question, page.body))
    if author.startswith(by):
        return f"{name} is by {author.removeprefix(by).rstrip('.')}{facts and f'; {facts}'}."
    if facts:
        return f"{name} – {facts}."
    if asks_price(question) and any(map(is_fact, sentences(page.body))):
        return f"{name}: I do not know prices; the product page shows its price."
    body = page.body.removeprefix(f"{page.title}.")
    # The title is what every sentence of the page is about.
    told = best_sentences(body, wanted - words(page.title), _MAX_SENTENCES) if body else []
    if told and told[0].startswith(by):
        name = f"{name} by {told.pop(0).removeprefix(by).rstrip('.')}"
    return f"{name}: {' '.join(told)}" if told else f"{name}."


def _without_lead(element: Element) -> str:
    """The body without its facts and the line that names the author."""
    told = [each for each in sentences(element.body) if not is_fact(each)]
    return " ".join(told[1:] or told)


def _without_findings(request: MessagesRequest, question: str) -> str:
    duty = _DUTY.search(request.system_text())
    offer = f"I {duty[1]}." if duty else "Ask me about what this assistant knows."
    for pattern, reply in _SMALL_TALK:
        if re.search(pattern, question, re.IGNORECASE):
            return f"{reply} {offer}"
    return f"I found nothing about that, and I do not guess. {offer}"
