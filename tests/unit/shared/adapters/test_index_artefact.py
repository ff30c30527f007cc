from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.adapters import index_artefact
from shared.adapters.index_artefact import decode_index, encode_index
from shared.errors import IncompatibleIndex
from tests.fakes.knowledge import small_index

INDEX = small_index()
RAW = encode_index(INDEX)


def test_decode_gives_back_what_was_encoded() -> None:
    read = decode_index(RAW, "fake-64")
    assert read.passages == INDEX.passages
    assert read.fingerprints == INDEX.fingerprints
    assert (read.prompt, read.assistant) == (INDEX.prompt, INDEX.assistant)
    assert decode_index(encode_index(replace(INDEX, blocked=("secret plan",))), "fake-64").blocked
    assert (read.intents.labels, read.intents.floor) == (INDEX.intents.labels, 0)
    assert np.array_equal(read.vectors, INDEX.vectors)
    assert np.array_equal(read.intents.weights, INDEX.intents.weights)
    assert np.array_equal(read.intents.bias, INDEX.intents.bias)


def test_decode_gives_back_the_dictionary_and_the_floor() -> None:
    forms = {"colis": ("parcel",)}
    index = replace(INDEX, forms=forms, intents=replace(INDEX.intents, floor=0.4))
    read = decode_index(encode_index(index), "fake-64")
    assert read.intents.floor == 0.4
    assert read.lexicon.read("colis: Sea Song") == ["parcel", "title"]


def test_encode_is_the_same_for_the_same_index() -> None:
    assert encode_index(small_index()) == RAW


def test_decode_does_not_copy_the_arrays_and_they_cannot_be_written() -> None:
    read = decode_index(RAW, "fake-64")
    assert not read.vectors.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        read.vectors[0, 0] = 1


def test_decode_refuses_another_embedding() -> None:
    with pytest.raises(IncompatibleIndex, match="fake-64, not other-64"):
        decode_index(RAW, "other-64")


def test_decode_refuses_another_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    known = index_artefact.SCHEMA
    monkeypatch.setattr(index_artefact, "SCHEMA", known + 1)
    newer = encode_index(INDEX)
    monkeypatch.undo()
    with pytest.raises(IncompatibleIndex, match=f"schema {known + 1}, not {known}"):
        decode_index(newer, "fake-64")


@pytest.mark.parametrize("raw", [b"", b"BCINDEX", b"PK\3\4" * 99])
def test_decode_refuses_other_files(raw: bytes) -> None:
    with pytest.raises(IncompatibleIndex):
        decode_index(raw, "fake-64")


@example(at=8, difference=1)
@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_decode_refuses_any_changed_byte(at: int, difference: int) -> None:
    damaged = bytearray(RAW)
    damaged[at] ^= difference
    with pytest.raises(IncompatibleIndex):
        decode_index(bytes(damaged), "fake-64")


@given(st.integers(0, len(RAW) - 1))
def test_decode_refuses_a_cut_file(length: int) -> None:
    with pytest.raises(IncompatibleIndex):
        decode_index(RAW[:length], "fake-64")


def test_decode_refuses_arrays_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    header_bytes = struct.unpack_from("<I", RAW, 8)[0]
    monkeypatch.setattr(index_artefact, "_checksum", lambda header_bytes, body: 0)
    preamble = struct.pack("<8sII", b"BCINDEX\n", header_bytes, 0)
    with pytest.raises(IncompatibleIndex, match="do not fit"):
        decode_index(preamble + RAW[16:-4_000], "fake-64")


def test_decode_refuses_vectors_that_are_fewer_than_the_passages() -> None:
    short = encode_index(replace(INDEX, vectors=INDEX.vectors[:1]))
    with pytest.raises(IncompatibleIndex, match="its passages and labels"):
        decode_index(short, "fake-64")


def test_decode_refuses_a_header_that_is_not_json() -> None:
    body = b"{" + b" " * 63
    raw = struct.pack("<8sII", b"BCINDEX\n", 1, zlib.crc32(body, zlib.crc32(b"\1\0\0\0"))) + body
    with pytest.raises(IncompatibleIndex, match="header"):
        decode_index(raw, "fake-64")
