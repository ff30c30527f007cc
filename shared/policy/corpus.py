"""The corpus as a whole: which files count, how they belong together, and how two states of it differ.

`*.md` in any folder is a document, `intents/<label>.txt` holds one example message a line, `prompt.md` is the system
prompt, `assistant.json` the profile and `kinds.json`, if there is one, tells what kinds of documents there are. Two
more files are optional: `lexicon.txt` says what words mean, `intents/validation.jsonl` holds labelled messages by which
the confidence floor is chosen. Other files (labelled questions for measuring, notes) are left alone.
`guardrails/blocked.txt`, if there is one, lists phrases that no reply may hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from shared.contracts.knowledge import (
    GENERAL_INTENT,
    AssistantProfile,
    Document,
    KindRule,
    LabelledText,
    PassageEntry,
)
from shared.errors import MalformedDocument
from shared.policy.blocked_phrases import parse_phrases
from shared.policy.documents import cut_passages, is_kind, parse_document
from shared.policy.lexicon import parse_lexicon

PROMPT_NAME = "prompt.md"
ASSISTANT_NAME = "assistant.json"
KINDS_NAME = "kinds.json"
BLOCKED_NAME = "guardrails/blocked.txt"
"""Phrases that no reply may hold; a corpus may do without."""
LEXICON_NAME = "lexicon.txt"
VALIDATION_NAME = "intents/validation.jsonl"
PASSAGES_LIMIT = 20_000
"""Of this many a search takes some milliseconds, and the index some dozens of megabytes."""
EXAMPLES_LIMIT = 3_000
"""Learning from this many takes some ten seconds and half a gigabyte, and both grow with their square."""
_INTENTS_FOLDER = "intents/"
_MIN_EXAMPLES = 5
_MIN_LABELS = 2
_LABEL = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an index is built from."""

    documents: tuple[Document, ...]
    passages: tuple[PassageEntry, ...]
    examples: tuple[LabelledText, ...]
    validation: tuple[LabelledText, ...] = ()
    lexicon: Mapping[str, tuple[str, ...]] = {}
    blocked: tuple[str, ...] = ()
    prompt: str
    assistant: AssistantProfile


class CorpusChange(msgspec.Struct, frozen=True):
    """Names of files that came, changed and went, each sorted."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """True when both states are the same."""
        return not (self.added or self.changed or self.removed)


class CorpusRefused(MalformedDocument):
    """The corpus cannot be used; `faults` holds every fault found, this error says the first."""

    def __init__(self, faults: tuple[MalformedDocument, ...]) -> None:
        first = faults[0]
        super().__init__(first.document, first.line, first.reason)
        self.faults = faults


def is_corpus_file(name: str) -> bool:
    """True for a file (its path below the corpus folder) that an index is built from."""
    if name == BLOCKED_NAME:
        return True
    if name.startswith(_INTENTS_FOLDER):
        return name.endswith(".txt") or name == VALIDATION_NAME
    if name in (ASSISTANT_NAME, KINDS_NAME, LEXICON_NAME):
        return True
    return name.endswith(".md") and not name.endswith("README.md")


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> CorpusChange:
    """What changed between two states, each a fingerprint by file name."""
    return CorpusChange(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(
            sorted(name for name in after.keys() & before.keys() if after[name] != before[name])
        ),
        removed=tuple(sorted(before.keys() - after.keys())),
    )


def read_corpus(files: Mapping[str, bytes]) -> Corpus:
    """Read all files (path below the corpus folder → content), in the order of their names.

    Raises CorpusRefused naming every fault: broken or repeated documents, an empty corpus or one without bounds, a
    missing prompt.
    """
    reader = _CorpusReader()
    # The kinds first, as documents are read by them.
    for name in sorted(filter(is_corpus_file, files), key=lambda name: (name != KINDS_NAME, name)):
        try:
            reader.read(name, files[name])
        except MalformedDocument as fault:
            reader.faults.append(fault)
    return reader.corpus()


class _CorpusReader:
    """Gathers files and faults; `corpus` judges the whole."""

    def __init__(self) -> None:
        self.faults: list[MalformedDocument] = []
        self._documents: dict[str, Document] = {}
        self._places: dict[str, str] = {}
        self._rules: dict[str, KindRule] = {}
        self._examples: list[LabelledText] = []
        self._validation: list[LabelledText] = []
        self._lexicon: dict[str, tuple[str, ...]] = {}
        self._blocked: tuple[str, ...] = ()
        self._prompt = ""
        self._assistant: AssistantProfile | None = None

    def read(self, name: str, content: bytes) -> None:
        """Take one file in. Raises MalformedDocument."""
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise MalformedDocument(name, line, "is not UTF-8") from error
        if name == PROMPT_NAME:
            self._prompt = text.strip()
        elif name == ASSISTANT_NAME:
            self._assistant = _profile(name, content)
        elif name == BLOCKED_NAME:
            self._blocked = parse_phrases(name, text)
        elif name == KINDS_NAME:
            self._rules = _rules(name, content)
        elif name == LEXICON_NAME:
            self._lexicon = parse_lexicon(name, text)
        elif name == VALIDATION_NAME:
            self._validation = _labelled(name, text)
        elif name.startswith(_INTENTS_FOLDER):
            self._examples.extend(_examples(name, text))
        else:
            self._add(name, parse_document(name, text, self._rules))

    def _add(self, name: str, document: Document) -> None:
        if document.id in self._documents:
            reason = f"the id `{document.id}` is taken by {self._places[document.id]}"
            raise MalformedDocument(name, 0, reason)
        self._documents[document.id] = document
        self._places[document.id] = name

    def corpus(self) -> Corpus:
        """The whole. Raises CorpusRefused."""
        faults = list(self.faults)
        broken = {fault.document for fault in faults}
        if not self._documents and not broken:
            faults.append(MalformedDocument("corpus", 0, "holds no documents"))
        if not self._prompt and PROMPT_NAME not in broken:
            faults.append(MalformedDocument(PROMPT_NAME, 0, "is missing or empty"))
        if self._assistant is None and ASSISTANT_NAME not in broken:
            faults.append(MalformedDocument(ASSISTANT_NAME, 0, "is missing"))
        if len({example.label for example in self._examples}) < _MIN_LABELS:
            faults.append(MalformedDocument(_INTENTS_FOLDER, 0, "holds fewer than two intents"))
        if len(self._examples) > EXAMPLES_LIMIT:
            reason = f"holds {len(self._examples)} examples, more than {EXAMPLES_LIMIT}"
            faults.append(MalformedDocument(_INTENTS_FOLDER, 0, reason))
        faults.extend(self._foreign_labels())
        documents = tuple(self._documents.values())
        passages = tuple(
            entry for document in documents for entry in cut_passages(document, self._rules)
        )
        if len(passages) > PASSAGES_LIMIT:
            reason = f"makes {len(passages)} passages, more than {PASSAGES_LIMIT}"
            faults.append(MalformedDocument("corpus", 0, reason))
        if faults or self._assistant is None:
            raise CorpusRefused(tuple(faults))
        return Corpus(
            documents=documents,
            passages=passages,
            examples=tuple(self._examples),
            validation=tuple(self._validation),
            lexicon=self._lexicon,
            blocked=self._blocked,
            prompt=self._prompt,
            assistant=self._assistant,
        )

    def _foreign_labels(self) -> Iterator[MalformedDocument]:
        """Labels of the validation part that have no examples: they could only be missed."""
        known = {example.label for example in self._examples}
        foreign = {text.label for text in self._validation} - known
        for label in sorted(foreign):
            yield MalformedDocument(VALIDATION_NAME, 0, f"the intent `{label}` has no examples")


def _labelled(name: str, text: str) -> list[LabelledText]:
    labelled: list[LabelledText] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                labelled.append(msgspec.json.decode(line, type=LabelledText))
            except msgspec.MsgspecError as error:
                raise MalformedDocument(name, number, str(error)) from error
    return labelled


def _profile(name: str, content: bytes) -> AssistantProfile:
    try:
        return msgspec.json.decode(content, type=AssistantProfile)
    except msgspec.DecodeError as error:
        raise MalformedDocument(name, 0, str(error)) from error


def _rules(name: str, content: bytes) -> dict[str, KindRule]:
    try:
        rules = msgspec.json.decode(content, type=dict[str, KindRule])
    except msgspec.DecodeError as error:
        raise MalformedDocument(name, 0, str(error)) from error
    for kind in rules:
        if not is_kind(kind):
            reason = f"the kind `{kind}` may hold lower-case letters, digits, `-` and `_` only"
            raise MalformedDocument(name, 0, reason)
    return rules


def _examples(name: str, text: str) -> list[LabelledText]:
    label = name.removeprefix(_INTENTS_FOLDER).removesuffix(".txt")
    if not _LABEL.fullmatch(label):
        reason = f"the intent `{label}` may hold lower-case letters, digits and `_` only"
        raise MalformedDocument(name, 0, reason)
    if label == GENERAL_INTENT:
        reason = f"`{GENERAL_INTENT}` is what messages of no intent get, it has no examples"
        raise MalformedDocument(name, 0, reason)
    lines = dict.fromkeys(line.strip() for line in text.splitlines())
    examples = [LabelledText(text=line, label=label) for line in lines if line]
    if len(examples) < _MIN_EXAMPLES:
        raise MalformedDocument(name, 0, f"holds fewer than {_MIN_EXAMPLES} examples")
    return examples
