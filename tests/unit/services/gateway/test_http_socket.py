"""The socket of a virtual connection: frames in order until they are taken, and what counts as unsent."""

from __future__ import annotations

import asyncio
import json

from services.gateway.http_socket import HttpSocket
from services.gateway.lifetime import CLOSE_LEAVING, CLOSE_SLOW
from services.gateway.ordered_reply import OrderedReply
from services.gateway.socket_protocol import WRITE_HIGH_BYTES
from tests.fakes.clock import settle

TURN = "s.1"


class FakeTransport:
    """A TCP connection whose unsent bytes a test sets."""

    def __init__(self) -> None:
        self.unsent_bytes = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def abort(self) -> None:
        self.aborted = True


class World:
    """A socket and who it tells what."""

    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.gaps: list[bool] = []
        self.wakes = 0
        self.socket = HttpSocket(OrderedReply(TURN), self.transport, self.gaps.append)
        self.socket.on_writable(self._wake)

    def _wake(self) -> None:
        self.wakes += 1


def frame(seq: int, kind: str = "delta", text: str = "") -> bytes:
    head = {"type": f"chat.response.{kind}", "turn_id": TURN, "attempt": 1, "seq": seq}
    return json.dumps({**head, "delta": text}).encode()


async def test_frames_wait_in_order_and_are_taken_together() -> None:
    world = World()
    for seq in (0, 1, 1, 0):
        world.socket.send_frame(frame(seq))
    assert await world.socket.take() == [frame(0), frame(1)]


async def test_a_frame_behind_a_gap_is_not_given_out_and_each_gap_is_told_as_new_once() -> None:
    world = World()
    for seq in (0, 2, 3, 1, 2, 4):
        world.socket.send_frame(frame(seq))
    assert world.gaps == [True, False, True]
    assert await world.socket.take() == [frame(0), frame(1), frame(2)]


async def test_bytes_count_as_unsent_until_the_next_take_and_with_those_below() -> None:
    world = World()
    big = frame(0, text="x" * WRITE_HIGH_BYTES)
    assert world.socket.is_writable()
    world.socket.send_frame(big)
    assert not world.socket.is_writable()
    await world.socket.take()
    assert world.socket.unsent_bytes() == len(big)
    world.transport.unsent_bytes = 7
    taking = asyncio.ensure_future(world.socket.take())
    await settle()
    assert (world.socket.unsent_bytes(), world.wakes) == (7, 2)
    taking.cancel()


async def test_a_cancelled_take_loses_nothing() -> None:
    world = World()
    taking = asyncio.ensure_future(world.socket.take())
    await settle()
    taking.cancel()
    world.socket.send_frame(frame(0))
    assert await world.socket.take() == [frame(0)]


async def test_nothing_follows_the_end_of_the_turn_or_of_the_connection() -> None:
    ended = World()
    ended.socket.send_frame(frame(0, "completed"))
    assert await ended.socket.take() == [frame(0, "completed")]
    assert await ended.socket.take() == []

    closed = World()
    closed.socket.send_frame(frame(0))
    closed.socket.close_now(CLOSE_LEAVING, "drain")
    closed.socket.close_now(CLOSE_SLOW, "too late to matter")
    closed.socket.send_frame(frame(1))
    assert await closed.socket.take() == [frame(0)]
    assert await closed.socket.take() == []
    assert closed.socket.close_code == CLOSE_LEAVING


async def test_only_a_reader_who_is_too_slow_is_cut_off() -> None:
    for code, is_cut in ((CLOSE_LEAVING, False), (CLOSE_SLOW, True)):
        world = World()
        cut = asyncio.ensure_future(world.socket.cut_off())
        world.socket.close_now(code, "")
        await settle()
        assert cut.done() == is_cut
        cut.cancel()
    world.socket.abort()
    assert world.transport.aborted
