"""How a knowledge document is written: front matter, then Markdown; and how it is cut into passages.

Front matter is a small part of YAML: one `key: value` a line between two lines `---`; `[a, b]` is a list. Required
are `id`, `title` and `kind`, and what the rule of the kind asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from shared.contracts.knowledge import Document, KindRule, PassageEntry
from shared.errors import MalformedDocument

DOCUMENT_LIMIT_CHARACTERS = 200_000
PASSAGE_LIMIT_CHARACTERS = 1_200
_LEAD_LIMIT_CHARACTERS = PASSAGE_LIMIT_CHARACTERS // 2
KindRules = Mapping[str, KindRule]
"""The rule of each kind that documents may have; empty = any kind, without a rule."""
_NO_RULES: KindRules = MappingProxyType({})
_NO_RULE = KindRule()
_FENCE = "---"
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,79}")
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}")
# The full stop of an abbreviation ends no sentence; "No." is one before a number only.
_SENTENCE_END = re.compile(
    r"(?<=[.!?。！？])(?<!\b[DMS][rt]\.)(?<!\bMrs\.)(?<!\b[Vv]ol\.)(?!(?<=\bNo\.)\s+\d)\s+"
)


def is_kind(word: str) -> bool:
    """True for a word that may name a kind."""
    return _KIND.fullmatch(word) is not None


def parse_document(name: str, text: str, rules: KindRules = _NO_RULES) -> Document:
    """Read one document; `name` is its place in the corpus and is named by errors.

    Raises MalformedDocument with the line at fault.
    """
    if len(text) > DOCUMENT_LIMIT_CHARACTERS:
        raise MalformedDocument(name, 0, f"longer than {DOCUMENT_LIMIT_CHARACTERS} characters")
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].strip() != _FENCE:
        raise MalformedDocument(name, 1, "does not begin with front matter (a line `---`)")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), None)
    if end is None:
        raise MalformedDocument(name, len(lines), "the front matter is not closed by a line `---`")
    values, places = _front_matter(name, lines[1:end])
    kind = _kind(name, values, places, end, rules)
    body = "\n".join(lines[end + 1 :]).strip()
    if not body:
        raise MalformedDocument(name, end + 1, "has no text below the front matter")
    document_id = _single(name, values, places, "id", end)
    if not _ID.fullmatch(document_id):
        reason = "`id` may hold lower-case letters, digits and hyphens only"
        raise MalformedDocument(name, places["id"], reason)
    missing = [fact for fact in rules.get(kind, _NO_RULE).required if not values.get(fact)]
    if missing:
        raise MalformedDocument(name, end + 1, f"kind `{kind}` needs {', '.join(missing)}")
    return Document(
        id=document_id,
        title=_single(name, values, places, "title", end),
        kind=kind,
        facts={key: values[key] for key in values if key not in ("id", "title", "kind")},
        body=body,
    )


def _front_matter(name: str, lines: list[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """The values and the line of each key."""
    values: dict[str, tuple[str, ...]] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 2):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, colon, raw = line.partition(":")
        key, raw = key.strip(), raw.strip()
        if not colon or not _KEY.fullmatch(key):
            raise MalformedDocument(name, number, "is not `key: value`")
        if key in values:
            raise MalformedDocument(name, number, f"`{key}` is given twice")
        if raw.startswith("[") != raw.endswith("]"):
            raise MalformedDocument(name, number, f"the list of `{key}` has only one bracket")
        parts = raw[1:-1].split(",") if raw.startswith("[") else [raw]
        values[key] = tuple(part for part in (_unquoted(part.strip()) for part in parts) if part)
        places[key] = number
    return values, places


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _single(
    name: str, values: Mapping[str, tuple[str, ...]], places: Mapping[str, int], key: str, end: int
) -> str:
    """The only value of a required key; `end` is the index of the closing fence."""
    given = values.get(key, ())
    if len(given) != 1:
        reason = f"`{key}` must have one value" if key in values else f"`{key}` is missing"
        raise MalformedDocument(name, places.get(key, end + 1), reason)
    return given[0]


def _kind(
    name: str,
    values: Mapping[str, tuple[str, ...]],
    places: Mapping[str, int],
    end: int,
    rules: KindRules,
) -> str:
    given = _single(name, values, places, "kind", end)
    if not is_kind(given):
        reason = "`kind` may be one word of lower-case letters, digits, `-` and `_`"
        raise MalformedDocument(name, places["kind"], reason)
    if rules and given not in rules:
        raise MalformedDocument(name, places["kind"], f"`kind` must be {' or '.join(rules)}")
    return given


def cut_passages(document: Document, rules: KindRules = _NO_RULES) -> tuple[PassageEntry, ...]:
    """The passages of a document, in order, each at most PASSAGE_LIMIT_CHARACTERS long.

    It is cut at its headings. Every passage of a catalogue document begins with its facts, as no passage may depend
    on another one being found too. Ids are `<document>#<number>` from 1.
    """
    is_listed = rules.get(document.kind, _NO_RULE).catalogue
    lead = _facts_line(document)[:_LEAD_LIMIT_CHARACTERS] if is_listed else ""
    room = PASSAGE_LIMIT_CHARACTERS - len(lead) - 1
    names = (document.title, *document.facts.get("aliases", ()), *document.facts.get("author", ()))
    facts = {key: document.facts[key] for key in document.facts if lead and key != "aliases"}
    return tuple(
        PassageEntry(
            id=f"{document.id}#{number}",
            source_id=document.id,
            title=document.title,
            text=f"{lead}\n{piece}" if lead else piece,
            kind=document.kind,
            names=names,
            facts=facts if number == 1 else {},
        )
        for number, piece in enumerate(_pieces(document.body, room), 1)
    )


def _facts_line(document: Document) -> str:
    facts = document.facts
    authors = facts.get("author", ())
    parts = [f"{document.title} by {' and '.join(authors)}." if authors else f"{document.title}."]
    for key, values in facts.items():
        if key not in ("author", "aliases"):
            parts.append(f"{key.replace('_', ' ').capitalize()}: {', '.join(values)}.")
    if "aliases" in facts:
        parts.append(f"Also known as {', '.join(facts['aliases'])}.")
    return " ".join(parts)


def _pieces(body: str, room: int) -> Iterator[str]:
    """Sections of the body, long ones cut between paragraphs or sentences, each at most `room` characters."""
    for section in re.split(r"(?m)^(?=#{1,6} )", body):
        heading = ""
        text = section.strip()
        if text.startswith("#"):
            first, _, rest = text.partition("\n")
            heading, text = f"{first.lstrip('#').strip()}: ", rest.strip()
        if text:
            for piece in _filled(text, max(room - len(heading), 1)):
                yield heading + piece


def _filled(text: str, room: int) -> Iterator[str]:
    """Whole sentences of a text that is not blank, gathered while they fit; a single longer one is cut hard."""
    gathered = ""
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        rest = sentence
        if gathered and len(gathered) + 1 + len(rest) > room:
            yield gathered
            gathered = ""
        while len(rest) > room:
            yield rest[:room]
            rest = rest[room:]
        gathered = f"{gathered} {rest}" if gathered else rest
    yield gathered
