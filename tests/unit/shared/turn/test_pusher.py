"""Pushes: ordered per connection, batched per endpoint, one slow reader alone with itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from shared.contracts.ledger import Follower
from shared.errors import ConfigurationError
from shared.turn.pusher import Pusher
from tests.fakes.clock import FakeClock, FakeRandomness, settle
from tests.fakes.limits import push_limits
from tests.fakes.push import FakePush
from tests.fakes.turn_world import GATEWAY, follower


@dataclass
class Sink:
    gone: list[Follower] = field(default_factory=list)
    refused: int = 0

    def connection_gone(self, one: Follower) -> None:
        self.gone.append(one)

    def frame_refused(self) -> None:
        self.refused += 1


class Scene:
    def __init__(self, **limits: int) -> None:
        self.clock = FakeClock()
        self.push = FakePush(self.clock)
        self.sink = Sink()
        self.pusher = Pusher(self.push, self.clock, FakeRandomness(), push_limits(**limits))

    def say(self, *frames: bytes, to: str = "c1", endpoint: str = GATEWAY) -> None:
        self.pusher.offer([follower(to, endpoint)], frames, self.sink)
        self.pusher.pump()


async def test_frames_of_several_connections_travel_in_one_request() -> None:
    scene = Scene()
    scene.pusher.offer([follower("a"), follower("b")], [b"1", b"2"])
    scene.pusher.pump()
    await settle()

    assert scene.push.requests == [(GATEWAY, ["a", "a", "b", "b"])]


async def test_offering_nothing_asks_nobody() -> None:
    scene = Scene()
    scene.say()
    await settle()

    assert not scene.push.requests


async def test_what_comes_during_a_push_gathers_for_the_next() -> None:
    scene = Scene()
    assert scene.pusher.is_free(follower())
    scene.push.latency_s[GATEWAY] = 0.1
    scene.say(b"1")
    await settle()
    assert not scene.pusher.is_free(follower())
    scene.say(b"2")
    scene.say(b"3")
    await scene.clock.advance(0.2)

    assert [len(ids) for _, ids in scene.push.requests] == [1, 2]
    assert scene.push.received["c1"] == [b"1", b"2", b"3"]
    assert scene.push.overlaps == 0
    assert scene.pusher.is_free(follower())


@pytest.mark.case("B-19")
async def test_a_slow_endpoint_delays_only_its_own_connections() -> None:
    scene = Scene()
    scene.push.latency_s["http://slow"] = 2
    scene.say(b"1", to="s", endpoint="http://slow")
    scene.say(b"1", to="f")
    await settle()

    assert scene.push.received == {"f": [b"1"]}


async def test_at_most_eight_requests_are_in_flight_per_endpoint() -> None:
    scene = Scene()
    scene.push.latency_s[GATEWAY] = 1
    for number in range(20):
        scene.say(b"x", to=f"c{number}")
    await settle()
    assert scene.push.in_flight[GATEWAY] == 8
    await scene.clock.advance(2)

    assert scene.push.most_in_flight[GATEWAY] == 8
    assert len(scene.push.received) == 20
    assert [len(ids) for _, ids in scene.push.requests] == [1] * 8 + [12]


async def test_a_batch_has_a_bound() -> None:
    scene = Scene(batch_bytes=100)
    scene.pusher.offer([follower("a"), follower("b")], [b"x" * 60, b"y" * 60, b"z" * 60])
    scene.pusher.pump()
    await settle()

    assert [ids for _, ids in scene.push.requests][:2] == [["a", "a"], ["b", "b"]]
    assert scene.push.received["a"] == [b"x" * 60, b"y" * 60, b"z" * 60]
    assert scene.push.received["b"] == scene.push.received["a"]
    assert scene.push.overlaps == 0


@pytest.mark.case("B-09")
async def test_a_throttled_connection_is_held_alone_and_keeps_its_order() -> None:
    scene = Scene()
    scene.push.throttled.add("t")
    for number in range(5):
        scene.say(b"%d" % number, to="t")
        scene.say(b"%d" % number, to="f")
        await scene.clock.advance(0.05)
    assert len(scene.push.received["f"]) == 5
    assert not scene.pusher.is_free(follower("t"))
    assert sum("t" in ids for _, ids in scene.push.requests) <= 3
    scene.push.throttled.clear()
    await scene.clock.advance(2)

    assert scene.push.received["t"] == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_request_that_failed_is_sent_again_in_order() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.say(b"1", b"2")
    await scene.clock.advance(0.5)
    scene.say(b"3")
    scene.push.failing.clear()
    await scene.clock.advance(3)

    assert scene.push.received["c1"] == [b"1", b"2", b"3"]


async def test_what_came_during_a_failed_request_stays_behind_it() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.push.latency_s[GATEWAY] = 0.1
    scene.say(b"1", b"2")
    await settle()
    scene.say(b"3")
    await scene.clock.advance(0.1)
    scene.push.failing.clear()
    await scene.clock.advance(3)

    assert scene.push.received["c1"] == [b"1", b"2", b"3"]


@pytest.mark.case("B-06")
async def test_whatever_an_adapter_raises_the_frames_are_sent_again() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.push.error = lambda: ZeroDivisionError()
    scene.say(b"1")
    await scene.clock.advance(0.5)
    scene.push.failing.clear()
    await scene.clock.advance(3)

    assert scene.push.received["c1"] == [b"1"]


async def test_a_connection_that_takes_nothing_for_ten_seconds_loses_its_backlog() -> None:
    scene = Scene()
    scene.push.throttled.add("c1")
    scene.say(b"lost")
    await scene.clock.advance(13)
    asked = len(scene.push.requests)
    await scene.clock.advance(60)
    assert len(scene.push.requests) == asked
    scene.push.throttled.clear()
    scene.say(b"later")
    await settle()

    assert scene.push.received["c1"] == [b"later"]


async def test_a_backlog_beyond_its_bound_is_dropped() -> None:
    scene = Scene(backlog_bytes=100)
    scene.push.throttled.add("c1")
    scene.say(b"x" * 60)
    await settle()
    scene.say(b"y" * 60)
    scene.push.throttled.clear()
    await scene.clock.advance(2)

    assert scene.push.received["c1"] == [b"y" * 60]


@pytest.mark.case("B-08")
async def test_a_farewell_removes_the_follower_and_stops_posting() -> None:
    scene = Scene()
    scene.say(b"1")
    await settle()
    scene.push.gone.add("c1")
    scene.say(b"2", b"3")
    await scene.clock.advance(5)

    assert scene.sink.gone == [follower()]
    assert len(scene.push.requests) == 2


@pytest.mark.case("B-08")
async def test_a_very_young_connection_is_asked_again_for_a_short_time() -> None:
    scene = Scene()
    scene.push.gone.add("c1")
    scene.say(b"1")
    await settle()
    scene.push.gone.clear()
    await scene.clock.advance(0.2)
    assert scene.push.received["c1"] == [b"1"]

    other = Scene()
    other.push.gone.add("c1")
    other.pusher.offer([follower()], [b"1"])
    other.say(b"2")
    await other.clock.advance(1)
    assert other.sink.gone == [follower()]
    assert len(other.push.requests) == 3


@pytest.mark.case("B-10")
async def test_a_frame_too_large_is_dropped_and_told() -> None:
    scene = Scene()
    scene.push.too_large.add("c1")
    scene.pusher.offer([follower()], [b"nobody asks"])
    scene.say(b"1")
    await settle()

    assert scene.sink.refused == 1
    assert len(scene.push.requests) == 1


@pytest.mark.case("B-36")
async def test_a_refused_credential_stops_posting_and_removes_nobody() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.push.error = lambda: ConfigurationError("403")
    scene.say(b"1")
    await settle()
    scene.say(b"2")
    await scene.clock.advance(29)
    assert len(scene.push.requests) == 1
    assert not scene.sink.gone
    scene.push.failing.clear()
    await scene.clock.advance(1)
    scene.say(b"3")
    await settle()

    assert scene.push.received["c1"] == [b"3"]


async def test_close_waits_for_what_is_under_way() -> None:
    scene = Scene()
    scene.push.latency_s[GATEWAY] = 1
    scene.say(b"1")
    closing = asyncio.create_task(scene.pusher.close())
    await settle()
    assert not closing.done()
    await scene.clock.advance(1)

    await closing


@pytest.mark.parametrize("is_throttled", [False, True])
async def test_nothing_is_kept_of_a_connection_that_was_forgotten(is_throttled: bool) -> None:
    scene = Scene()
    if is_throttled:
        scene.push.throttled.add("c1")
    scene.say(b"1")
    scene.pusher.forget([follower(), follower("never seen"), follower("c2", "http://other")])
    await scene.clock.advance(0.05)
    scene.push.throttled.clear()
    await scene.clock.advance(3)

    assert scene.push.received["c1"] == [b"1"]
    assert not scene.pusher._endpoints


async def test_a_connection_id_held_by_a_new_owner_starts_afresh() -> None:
    scene = Scene()
    scene.push.throttled.add("c1")
    scene.say(b"old")
    await settle()
    moved = Follower(follower().connection_id, GATEWAY, follower(endpoint="http://x").owner)
    scene.push.throttled.clear()
    scene.pusher.offer([moved], [b"new"])
    scene.pusher.pump()
    await settle()

    assert scene.push.received["c1"] == [b"new"]
    scene.pusher.forget([moved])
    await scene.clock.advance(3)


async def test_a_forbidden_endpoint_is_remembered_even_without_connections() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.push.error = lambda: ConfigurationError("403")
    scene.say(b"1")
    scene.pusher.forget([follower()])
    await settle()
    scene.say(b"2")
    await settle()

    assert len(scene.push.requests) == 1


async def test_a_forbidden_endpoint_that_nobody_reads_through_is_forgotten_with_its_time() -> None:
    scene = Scene()
    scene.push.failing.add(GATEWAY)
    scene.push.error = lambda: ConfigurationError("403")
    scene.say(b"1")
    scene.pusher.forget([follower()])
    await scene.clock.advance(31)
    scene.pusher.pump()

    assert not scene.pusher._endpoints


async def test_a_replaced_connection_leaves_without_its_successor() -> None:
    scene = Scene()
    scene.push.latency_s[GATEWAY] = 1
    scene.say(b"old")
    await settle()
    scene.pusher.forget([follower()])
    moved = Follower(follower().connection_id, GATEWAY, follower(endpoint="http://x").owner)
    scene.pusher.offer([moved], [b"new"])
    await scene.clock.advance(1)
    scene.pusher.pump()
    await scene.clock.advance(1)

    assert scene.push.received["c1"] == [b"old", b"new"]
    scene.pusher.forget([moved])
    assert not scene.pusher._endpoints
