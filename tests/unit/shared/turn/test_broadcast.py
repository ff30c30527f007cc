"""One frame to a turn's followers."""

from __future__ import annotations

from shared.errors import ConfigurationError, DependencyUnavailable
from shared.turn.broadcast import broadcast
from tests.fakes.clock import FakeClock
from tests.fakes.push import FakePush
from tests.fakes.turn_world import follower


async def test_broadcast_sends_one_request_per_endpoint() -> None:
    push = FakePush(FakeClock())

    await broadcast(push, [follower("a"), follower("b"), follower("c", "http://g2")], b'{"x":1}')

    assert sorted(ids for _, ids in push.requests) == [["a", "b"], ["c"]]
    assert push.received == {"a": [b'{"x":1}'], "b": [b'{"x":1}'], "c": [b'{"x":1}']}


async def test_broadcast_sends_a_failed_request_once_more_and_harms_no_other_endpoint() -> None:
    push = FakePush(FakeClock())
    push.failing.add("http://g1")

    await broadcast(push, [follower("a", "http://g1"), follower("b", "http://g2")], b"{}")

    assert len([endpoint for endpoint, _ in push.requests if endpoint == "http://g1"]) == 2
    assert push.received == {"b": [b"{}"]}


async def test_broadcast_that_is_forbidden_is_not_repeated() -> None:
    push = FakePush(FakeClock())
    push.failing.add("http://g1")
    push.error = lambda: ConfigurationError("403")

    await broadcast(push, [follower("a", "http://g1")], b"{}")

    assert len(push.requests) == 1


async def test_broadcast_to_nobody_asks_nobody() -> None:
    push = FakePush(FakeClock())

    await broadcast(push, [], b"{}")

    assert not push.requests
    assert isinstance(push.error(), DependencyUnavailable)
