"""The knowledge index as one file: everything that a worker needs to know, ready to be mapped into memory.

Layout: 8 bytes magic, header length and CRC-32 (both unsigned 32-bit little-endian), header as JSON, blanks up to a
multiple of 64, then the arrays as little-endian float32, each beginning at a multiple of 64. The checksum covers the
header length and all that follows.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from shared.adapters.embedding import Vectors
from shared.adapters.intent_training import IntentWeights
from shared.adapters.passage_search import PassageSearch
from shared.adapters.title_shelf import TitleShelf
from shared.contracts.knowledge import INDEX_PREFIX, AssistantProfile, PassageEntry
from shared.errors import IncompatibleIndex
from shared.policy.lexicon import Lexicon, lexicon_of

# Raise it whenever the layout, the cutting or embedding of passages or the intent features change: older artefacts
# are then refused by new readers and rebuilt by the next refresh, though no document has changed.
SCHEMA = 6
_MAGIC = b"BCINDEX\n"
_PREAMBLE = struct.Struct("<8sII")
_LENGTH = struct.Struct("<I")
_ALIGNMENT = 64


def index_key(embedding: str) -> str:
    """Where in the bucket readers of this format and embedding look for their index."""
    return f"{INDEX_PREFIX}{embedding}.v{SCHEMA}"


@dataclass(frozen=True)
class KnowledgeIndex:
    """A corpus made searchable. `fingerprints` tells the state of each file that it was built from."""

    embedding: str
    fingerprints: Mapping[str, str]
    passages: tuple[PassageEntry, ...]
    vectors: Vectors
    intents: IntentWeights
    prompt: str
    assistant: AssistantProfile
    blocked: tuple[str, ...] = ()
    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The corpus's own dictionary, see policy/lexicon.py."""

    @cached_property
    def lexicon(self) -> Lexicon:
        """The dictionary with the names of the titles in it. Built in about 60 ms."""
        return lexicon_of(self.forms, self.passages)

    @cached_property
    def search(self) -> PassageSearch:
        """The passages by a question."""
        return PassageSearch(self.passages, self.vectors)

    @cached_property
    def shelf(self) -> TitleShelf:
        """The documents with facts."""
        return TitleShelf(self.passages, self.vectors, self.forms)


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    schema: int
    embedding: str
    fingerprints: dict[str, str]
    passages: tuple[PassageEntry, ...]
    labels: tuple[str, ...]
    floor: float
    forms: dict[str, tuple[str, ...]]
    prompt: str
    assistant: AssistantProfile
    blocked: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...]


class _Identity(msgspec.Struct, frozen=True):
    """The part of the header that every schema has, read first."""

    schema: int
    embedding: str


def encode_index(index: KnowledgeIndex) -> bytes:
    """The artefact's bytes; the same index gives the same bytes."""
    arrays = (index.vectors, index.intents.weights, index.intents.bias)
    header = msgspec.json.encode(
        _Header(
            schema=SCHEMA,
            embedding=index.embedding,
            fingerprints=dict(sorted(index.fingerprints.items())),
            passages=index.passages,
            labels=index.intents.labels,
            floor=index.intents.floor,
            forms=dict(sorted(index.forms.items())),
            prompt=index.prompt,
            blocked=index.blocked,
            assistant=index.assistant,
            shapes=tuple(array.shape for array in arrays),
        )
    )
    parts = [header, b" " * _padding(_PREAMBLE.size + len(header))]
    for array in arrays:
        raw = np.ascontiguousarray(array, "<f4").tobytes()
        parts += [raw, b"\0" * _padding(len(raw))]
    body = b"".join(parts)
    return _PREAMBLE.pack(_MAGIC, len(header), _checksum(len(header), body)) + body


def decode_index(raw: bytes | mmap.mmap, embedding: str) -> KnowledgeIndex:
    """Read an artefact; the arrays are read-only views of `raw`, not copies.

    Raises IncompatibleIndex for another schema, another embedding than `embedding`, or damage.
    """
    view = memoryview(raw)
    if len(view) < _PREAMBLE.size:
        raise IncompatibleIndex("the index artefact is shorter than its preamble")
    magic, header_bytes, checksum = _PREAMBLE.unpack_from(view)
    if magic != _MAGIC:
        raise IncompatibleIndex("the file is not an index artefact")
    body = view[_PREAMBLE.size :]
    if _checksum(header_bytes, body) != checksum:
        raise IncompatibleIndex("the index artefact is damaged (checksum)")
    header = _read_header(body[:header_bytes], embedding)
    start = _PREAMBLE.size + header_bytes
    try:
        vectors, weights, bias = _arrays(view, start + _padding(start), header.shapes)
    except ValueError as error:
        raise IncompatibleIndex("the index artefact's arrays do not fit its header") from error
    if len(vectors) != len(header.passages) or weights.shape[1] != len(header.labels):
        raise IncompatibleIndex("the index artefact's arrays do not fit its passages and labels")
    return KnowledgeIndex(
        embedding=header.embedding,
        fingerprints=header.fingerprints,
        passages=header.passages,
        vectors=vectors,
        intents=IntentWeights(header.labels, weights, bias, header.floor),
        prompt=header.prompt,
        blocked=header.blocked,
        assistant=header.assistant,
        forms=header.forms,
    )


def _checksum(header_bytes: int, body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(header_bytes)))


def _read_header(raw: memoryview, embedding: str) -> _Header:
    try:
        identity = msgspec.json.decode(raw, type=_Identity)
        if identity.schema != SCHEMA:
            raise IncompatibleIndex(f"the index has schema {identity.schema}, not {SCHEMA}")
        if identity.embedding != embedding:
            raise IncompatibleIndex(
                f"the index is embedded by {identity.embedding}, not {embedding}"
            )
        return msgspec.json.decode(raw, type=_Header)
    except msgspec.DecodeError as error:
        raise IncompatibleIndex("the index artefact's header cannot be read") from error


def _arrays(view: memoryview, start: int, shapes: tuple[tuple[int, ...], ...]) -> Iterator[Vectors]:
    for shape in shapes:
        size_bytes = 4 * int(np.prod(shape))
        array = np.frombuffer(view[start : start + size_bytes], "<f4").reshape(shape)
        array.flags.writeable = False
        yield array
        start += size_bytes + _padding(size_bytes)


def _padding(size_bytes: int) -> int:
    return -size_bytes % _ALIGNMENT
