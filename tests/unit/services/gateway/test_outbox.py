from __future__ import annotations

import pytest

from services.gateway.outbox import Outbox


def test_frames_leave_in_order_and_unaltered() -> None:
    outbox = Outbox(limit_bytes=100, stuck_ms=10)
    assert outbox.is_empty
    for frame in (b"one", b"two"):
        outbox.put(frame)
    assert outbox.size_bytes == 6
    assert [outbox.pop(), outbox.pop()] == [b"one", b"two"]
    assert outbox.is_empty
    assert outbox.size_bytes == 0
    with pytest.raises(IndexError):
        outbox.pop()


def test_half_full_has_no_room_and_above_the_limit_is_full() -> None:
    outbox = Outbox(limit_bytes=100, stuck_ms=10)
    outbox.put(b"x" * 49)
    assert outbox.has_room()
    assert not outbox.has_room(held_bytes=1)
    outbox.observe(socket_bytes=1, now_ms=0)
    assert not outbox.has_room()
    assert not outbox.is_full
    outbox.put(b"x" * 51)
    assert outbox.is_full
    outbox.clear()
    assert outbox.is_empty
    assert outbox.size_bytes == 1


@pytest.mark.case("B-19")
def test_a_reader_that_takes_nothing_is_stuck_after_the_limit() -> None:
    outbox = Outbox(limit_bytes=100, stuck_ms=10)
    outbox.observe(0, now_ms=1_000)
    outbox.sent(b"x" * 50)
    outbox.observe(50, now_ms=1_001)
    assert not outbox.is_stuck(1_009)
    assert outbox.is_stuck(1_011)


def test_a_reader_that_takes_something_is_not_stuck() -> None:
    outbox = Outbox(limit_bytes=100, stuck_ms=10)
    outbox.observe(0, now_ms=0)
    outbox.sent(b"x" * 50)
    outbox.observe(40, now_ms=5)
    outbox.sent(b"x" * 20)
    outbox.observe(59, now_ms=14)  # more unsent than before, yet one byte was read
    assert not outbox.is_stuck(20)
    assert outbox.is_stuck(24)


def test_a_reader_without_anything_to_read_is_never_stuck() -> None:
    outbox = Outbox(limit_bytes=100, stuck_ms=10)
    outbox.observe(0, now_ms=0)
    assert not outbox.is_stuck(99_999)
