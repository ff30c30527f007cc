"""What every TurnInbox does, in memory and on SQS."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.http_session import HttpSession
from shared.adapters.sqs_turn_inbox import SqsTurnInbox
from shared.clock import SystemClock
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.ports import TurnInbox
from tests.fakes.clock import FakeClock
from tests.fakes.emulator import Emulator
from tests.fakes.inbox import FakeTurnInbox

SHORT_S = 1


@dataclass
class World:
    """An inbox, a way to fill it, and a way to let time pass."""

    inbox: TurnInbox
    put: Callable[[str], None]
    wait: Callable[[float], Awaitable[None]]
    now_ms: Callable[[], int]

    async def receive(self, *, limit: int = 10, wait_s: int = 0, hidden_s: int = 60) -> list[Any]:
        return list(
            await self.inbox.receive("deferred", limit=limit, wait_s=wait_s, hidden_s=hidden_s)
        )


def in_memory(request: pytest.FixtureRequest) -> World:
    clock = FakeClock(auto=True)
    inbox = FakeTurnInbox(clock)
    return World(inbox, lambda body: inbox.put("deferred", body), clock.sleep, clock.now_ms)


def sqs(request: pytest.FixtureRequest) -> World:
    emulator: Emulator = request.getfixturevalue("emulator")
    url = emulator.make_queue(f"q{uuid.uuid4().hex}")
    client = emulator.client("sqs")
    return World(
        sqs_inbox(request, emulator.url, url),
        lambda body: client.send_message(QueueUrl=url, MessageBody=body),
        SystemClock().sleep,
        SystemClock().now_ms,
    )


def sqs_inbox(request: pytest.FixtureRequest, endpoint: str, queue_url: str) -> SqsTurnInbox:
    http: HttpSession = request.getfixturevalue("http")
    credentials: AwsCredentials = request.getfixturevalue("emulator_credentials")
    api = AwsJsonApi(
        "sqs",
        http=http,
        credentials=credentials,
        clock=FakeClock(),
        endpoint_url=endpoint,
        timeout_ms=500,
    )
    return SqsTurnInbox(api, {"deferred": queue_url})


@pytest.fixture(params=[in_memory, sqs], ids=["fake", "sqs"])
def world(request: pytest.FixtureRequest, http: HttpSession) -> World:
    make: Callable[[pytest.FixtureRequest], World] = request.param
    return make(request)


async def test_receive_brings_what_was_sent_with_its_queue_and_age(world: World) -> None:
    before_ms = world.now_ms()
    world.put('{"a": "Größe 🦊"}')

    (message,) = await world.receive()

    assert (message.queue, message.body) == ("deferred", '{"a": "Größe 🦊"}')
    assert message.message_id
    assert before_ms - 1_000 <= message.sent_at_ms <= world.now_ms() + 1_000


async def test_receive_brings_no_more_than_the_limit(world: World) -> None:
    for number in range(5):
        world.put(str(number))

    first = await world.receive(limit=3)
    rest = await world.receive(limit=10)

    assert len(first) == 3
    assert {message.body for message in (*first, *rest)} == {"0", "1", "2", "3", "4"}


async def test_an_empty_queue_answers_after_the_wait_beyond_the_time_out_of_other_calls(
    world: World,
) -> None:
    started_ms = world.now_ms()

    assert await world.receive(wait_s=SHORT_S) == []

    assert world.now_ms() - started_ms >= 900


async def test_a_received_message_is_hidden_until_its_time_is_over(world: World) -> None:
    world.put("x")

    (first,) = await world.receive(hidden_s=SHORT_S)
    assert await world.receive() == []
    await world.wait(SHORT_S + 0.2)
    (again,) = await world.receive()

    assert again.message_id == first.message_id
    assert again.receipt != first.receipt


async def test_hide_keeps_a_message_away_for_longer(world: World) -> None:
    world.put("x")
    (message,) = await world.receive(hidden_s=SHORT_S)

    assert await world.inbox.hide(message, hidden_s=60) is True
    await world.wait(SHORT_S + 0.2)

    assert await world.receive() == []


async def test_hide_for_zero_gives_a_message_back_at_once(world: World) -> None:
    world.put("x")
    (message,) = await world.receive()

    assert await world.inbox.hide(message, hidden_s=0) is True

    assert [again.body for again in await world.receive()] == ["x"]


async def test_a_deleted_message_never_comes_back_and_a_repeat_is_no_error(world: World) -> None:
    world.put("x")
    (message,) = await world.receive(hidden_s=SHORT_S)

    await world.inbox.delete(message)
    await world.inbox.delete(message)
    await world.wait(SHORT_S + 0.2)

    assert await world.receive() == []
    assert await world.inbox.hide(message, hidden_s=60) is False


async def test_an_older_delivery_can_neither_hide_nor_delete_a_newer_one(world: World) -> None:
    world.put("x")
    (old,) = await world.receive(hidden_s=0)
    (new,) = await world.receive(hidden_s=60)

    assert await world.inbox.hide(old, hidden_s=0) is False
    await world.inbox.delete(old)

    assert await world.receive() == []
    assert await world.inbox.hide(new, hidden_s=0) is True
    assert len(await world.receive()) == 1


async def test_sqs_names_the_setting_of_a_queue_without_address(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator
) -> None:
    inbox = sqs_inbox(request, emulator.url, "")

    with pytest.raises(ConfigurationError, match="BURSTCHAT_DEFERRED_QUEUE_URL"):
        await inbox.receive("deferred", limit=1, wait_s=0, hidden_s=1)


async def test_sqs_says_that_a_queue_does_not_exist(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator
) -> None:
    inbox = sqs_inbox(request, emulator.url, emulator.make_queue("made") + "-not")

    with pytest.raises(ConfigurationError):
        await inbox.receive("deferred", limit=1, wait_s=0, hidden_s=1)


async def test_sqs_is_unavailable_when_nobody_listens(
    request: pytest.FixtureRequest, http: HttpSession, unused_tcp_port: int
) -> None:
    inbox = sqs_inbox(request, f"http://127.0.0.1:{unused_tcp_port}", "http://x/q")
    started_s = time.monotonic()

    with pytest.raises(DependencyUnavailable):
        await inbox.receive("deferred", limit=1, wait_s=20, hidden_s=1)
    assert time.monotonic() - started_s < 5
