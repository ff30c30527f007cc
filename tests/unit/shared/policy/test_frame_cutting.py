"""Text is cut into frames that every transport takes."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.identifiers import TurnId
from shared.contracts.server_frames import (
    DELTA_FRAME_LIMIT_BYTES,
    ResponseDelta,
    encode_frame,
)
from shared.policy.frame_cutting import TEXT_LIMIT_BYTES, cut_text

LONGEST_ID = TurnId("s" * 64 + "." + "0" * 26)


def json_bytes(text: str) -> int:
    return len(msgspec.json.encode(text)) - 2


def frame_bytes(piece: str) -> int:
    frame = ResponseDelta(turn_id=LONGEST_ID, attempt=2**31, seq=2**31, delta=piece)
    return len(encode_frame(frame))


@given(st.text(max_size=300), st.integers(6, 60))
@pytest.mark.case("B-10")
def test_pieces_join_to_the_text_and_fit_after_encoding(text: str, limit_bytes: int) -> None:
    pieces = list(cut_text(text, limit_bytes))

    assert "".join(pieces) == text
    assert all(pieces)
    assert all(json_bytes(piece) <= limit_bytes for piece in pieces)


@given(st.text(min_size=20, max_size=300), st.integers(6, 40))
def test_every_piece_but_the_last_is_as_long_as_it_can_be(text: str, limit_bytes: int) -> None:
    pieces = list(cut_text(text, limit_bytes))

    for piece, following in itertools.pairwise(pieces):
        assert json_bytes(piece + following[0]) > limit_bytes


@pytest.mark.parametrize("character", ["a", "é", "漢", "🦊", '"', "\\", "\n", "\x01"])
@pytest.mark.parametrize("short_of_limit_bytes", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.case("B-10")
def test_a_cut_near_the_limit_never_exceeds_a_frame(
    character: str, short_of_limit_bytes: int
) -> None:
    text = "x" * (TEXT_LIMIT_BYTES - short_of_limit_bytes) + character * 20

    pieces = list(cut_text(text))

    assert "".join(pieces) == text
    assert max(map(frame_bytes, pieces)) <= DELTA_FRAME_LIMIT_BYTES


@pytest.mark.case("B-10")
def test_text_that_grows_past_the_limit_only_by_escaping_is_cut() -> None:
    pieces = list(cut_text("\x02" * (TEXT_LIMIT_BYTES // 2)))

    assert len(pieces) == 4
    assert max(map(frame_bytes, pieces)) <= DELTA_FRAME_LIMIT_BYTES


def test_an_empty_text_has_no_pieces() -> None:
    assert list(cut_text("")) == []
