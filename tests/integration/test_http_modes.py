"""`POST /v1/chat` and the events of a turn on a running gateway: every form, every end, leaving and coming back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from shared.contracts.identifiers import MessageId, TurnId, TurnRef
from shared.contracts.ledger import Append, Finished
from shared.contracts.server_frames import ResponseFailed, encode_frame
from shared.contracts.turns import TurnRequest
from tests.fakes.gateway_world import GatewayWorld, gateway_world

BODY = {"text": "hello", "session_id": "s1", "message_id": "m1"}
EVENTS = {"Accept": "text/event-stream"}
ASYNC = {"Prefer": "respond-async"}


@pytest.fixture
async def world() -> AsyncIterator[GatewayWorld]:
    async with gateway_world() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


def ask(
    http: aiohttp.ClientSession, world: GatewayWorld, body: object = BODY, **headers: str
) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.post(world.http_url + "/v1/chat", json=body, headers=given)


async def submitted(world: GatewayWorld, count: int = 1) -> TurnRequest:
    """The newest turn at the intake, once so many have come."""
    async with asyncio.timeout(5):
        while len(world.intake.submitted) < count:
            await asyncio.sleep(0.005)
    return world.intake.submitted[-1]


async def followed(world: GatewayWorld, ref: TurnRef, count: int) -> None:
    """Wait until the turn has so many followers."""
    async with asyncio.timeout(5):
        while len(world.ledger._find(ref).followers) != count:  # type: ignore[union-attr]
            await asyncio.sleep(0.005)


class Events:
    """The events of one answer."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.ids: list[str] = []

    async def next(self) -> dict[str, Any] | None:
        """The next frame, None at the end of the stream."""
        kind = ""
        async for raw in self.answer.content:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("id: "):
                self.ids.append(line.removeprefix("id: "))
            elif line.startswith("data: "):
                frame: dict[str, Any] = json.loads(line.removeprefix("data: "))
                assert frame["type"] == kind
                return frame
        return None

    async def rest(self) -> list[dict[str, Any]]:
        """Every frame up to the end of the stream."""
        frames = []
        while (frame := await self.next()) is not None:
            frames.append(frame)
        return frames


@asynccontextmanager
async def events_of(
    http: aiohttp.ClientSession, world: GatewayWorld, turn_id: str, last_event_id: str | None = None
) -> AsyncIterator[Events]:
    headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
    url = f"{world.http_url}/v1/turns/{turn_id}/events"
    async with http.get(url, headers=headers) as answer:
        yield Events(answer)


@asynccontextmanager
async def connected(
    world: GatewayWorld,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection whose reader takes little at a time."""
    port = world.gateway.public.port
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def poll(http: aiohttp.ClientSession, world: GatewayWorld, turn_id: str) -> dict[str, Any]:
    async with http.get(f"{world.http_url}/v1/turns/{turn_id}") as answer:
        turn: dict[str, Any] = await answer.json()
    return turn


# synchronous -------------------------------------------------------------------------------------


async def test_a_call_waits_for_the_whole_reply(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    waiting = asyncio.ensure_future(ask(http, world))
    request = await submitted(world)
    turn = await world.play()
    await turn.started()
    await turn.delta("Hé")
    await turn.delta("llo")
    await turn.complete()
    answer = await waiting
    assert (answer.status, answer.headers["x-session-id"]) == (200, "s1")
    shown = await answer.json()
    assert shown == {
        "turn_id": request.turn_id,
        "session_id": "s1",
        "message_id": "m1",
        "status": "completed",
        "attempt": 1,
        "path": "inline",
        "text": "Héllo",
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "timings": {"queued_ms": 0, "first_token_ms": 1, "total_ms": 2},
        "sources": [],
        "accepted_at_ms": request.accepted_at_ms,
        "completed_at_ms": request.accepted_at_ms + 2,
    }
    assert (await poll(http, world, request.turn_id))["text"] == "Héllo"
    assert len(world.gateway.connections) == 0
    assert world.registry._entries == {}


async def test_lost_pushes_cost_a_question_and_no_text(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    waiting = asyncio.ensure_future(ask(http, world))
    await submitted(world)
    turn = await world.play()
    await turn.started(push=False)
    await turn.delta("one ", push=False)
    await turn.delta("two ")
    await turn.delta("three", push=False)
    await turn.complete()
    answer = await waiting
    assert (await answer.json())["text"] == "one two three"


async def test_a_repeated_message_gets_the_same_reply_and_no_second_turn(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    first = asyncio.ensure_future(ask(http, world))
    await submitted(world)
    second = asyncio.ensure_future(ask(http, world))
    turn = await world.play()
    await followed(world, turn.ref.turn, 2)
    await turn.started()
    await turn.delta("once")
    await turn.complete()
    third = await ask(http, world)
    shown = [await answer.json() for answer in (await first, await second, third)]
    assert shown[0] == shown[1] == shown[2]
    assert len(world.intake.submitted) == 1


async def test_a_reply_that_takes_too_long_goes_on_and_can_be_polled() -> None:
    async with gateway_world(reply_wait_limit_ms=200) as world, aiohttp.ClientSession() as http:
        waiting = asyncio.ensure_future(ask(http, world))
        request = await submitted(world)
        turn = await world.play()
        await turn.started()
        answer = await waiting
        fault = await answer.json()
        assert (answer.status, fault["code"]) == (504, "still_running")
        assert (fault["turn_id"], fault["message_id"]) == (request.turn_id, "m1")
        assert answer.headers["location"] == f"/v1/turns/{request.turn_id}"
        # Detached: nobody reads it, and no grace runs.
        (held,) = await world.ledger.renew_many([turn.ref], world.clock.now_ms())
        assert (held.followers, held.readerless_since_ms) == ((), 0)  # type: ignore[union-attr]
        await turn.delta("late", push=False)
        await turn.complete(push=False)
        assert (await poll(http, world, request.turn_id))["text"] == "late"


async def test_a_caller_who_leaves_is_a_reader_who_left(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    for headers in ({}, EVENTS):
        count = len(world.intake.submitted)
        body = {**BODY, "session_id": f"s{count}"}
        waiting = asyncio.ensure_future(ask(http, world, body, **headers))
        await submitted(world, count + 1)
        turn = await world.play()
        await turn.started()
        if headers:
            (await waiting).close()
        waiting.cancel()
        await followed(world, turn.ref.turn, 0)
        (held,) = await world.ledger.renew_many([turn.ref], world.clock.now_ms())
        assert held.readerless_since_ms > 0  # type: ignore[union-attr]
        assert len(world.gateway.connections) == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [("blocked", 422), ("model_overloaded", 503), ("model_timeout", 504), ("internal", 500)],
)
async def test_a_failed_turn_answers_with_the_status_of_its_code(
    http: aiohttp.ClientSession, world: GatewayWorld, code: str, status: int
) -> None:
    waiting = asyncio.ensure_future(ask(http, world))
    request = await submitted(world)
    turn = await world.play()
    failed = encode_frame(
        ResponseFailed(
            turn_id=turn.turn_id,
            attempt=1,
            seq=0,
            code=code,
            message="A sentence.",
            retryable=True,
            partial=False,
        )
    )
    now_ms = world.clock.now_ms()
    finished = await world.ledger.finish(
        Append(turn.ref, 0, (failed,)), status="failed", history=None, now_ms=now_ms
    )
    assert isinstance(finished, Finished)
    turn.followers = finished.followers
    await turn.push(failed)
    answer = await waiting
    fault = await answer.json()
    assert (answer.status, fault["code"], fault["message"]) == (status, code, "A sentence.")
    assert fault["turn_id"] == request.turn_id
    assert ("retry-after" in answer.headers) == (status == 503)


async def test_a_stopped_turn_answers_409(http: aiohttp.ClientSession, world: GatewayWorld) -> None:
    waiting = asyncio.ensure_future(ask(http, world))
    request = await submitted(world)
    async with http.delete(f"{world.http_url}/v1/turns/{request.turn_id}") as stopped:
        assert stopped.status == 202
    answer = await waiting
    assert (answer.status, (await answer.json())["code"]) == (409, "cancelled")


async def test_a_session_of_too_many_turns_is_busy_with_a_hint(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    for number in range(4):
        await world.ledger.accept(_request(world, f"w{number}"), None)
    for headers in ({}, EVENTS, ASYNC):
        async with ask(http, world, **headers) as answer:
            fault = await answer.json()
            assert (answer.status, fault["code"]) == (409, "busy")
            assert fault["message_id"] == "m1"
            assert int(answer.headers["retry-after"]) >= 5


# bad input ---------------------------------------------------------------------------------------


async def test_what_is_no_message_costs_nothing(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    for headers in ({}, EVENTS, ASYNC):
        for body, status, code in (
            (b"", 400, "invalid_json"),
            (b'{"text":"\\ud800"}', 400, "invalid_json"),
            (b'{"text":7}', 400, "bad_request"),
            (b'{"text":" "}', 400, "message_empty"),
            (b'{"text":"' + b"a" * 16_385 + b'"}', 413, "message_too_large"),
            (b'{"text":"' + b"a" * 65_536 + b'"}', 413, "message_too_large"),
        ):
            async with http.post(world.http_url + "/v1/chat", data=body, headers=headers) as answer:
                assert (answer.status, (await answer.json())["code"]) == (status, code)
    assert not {"accept", "find_message", "follow"} & set(world.ledger.calls)
    assert world.registry._entries == {}


async def test_a_lower_priority_needs_an_asynchronous_call(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    for headers in ({}, EVENTS):
        async with ask(http, world, {**BODY, "priority": "low"}, **headers) as answer:
            assert answer.status == 400
            assert "respond-async" in (await answer.json())["message"]


async def test_ids_are_made_when_absent(http: aiohttp.ClientSession, world: GatewayWorld) -> None:
    async with ask(http, world, {"text": "hi"}, **ASYNC) as answer:
        accepted = await answer.json()
    assert len(accepted["session_id"]) == len(accepted["message_id"]) == 20
    assert answer.headers["x-session-id"] == accepted["session_id"]


async def test_nobody_asks_without_a_token() -> None:
    async with gateway_world(auth_mode="jwt") as world, aiohttp.ClientSession() as http:
        async with ask(http, world) as answer:
            assert answer.status == 401
        async with http.get(world.http_url + "/v1/turns/s1.x/events") as answer:
            assert answer.status == 401


# events ------------------------------------------------------------------------------------------


async def test_each_frame_is_one_event_and_the_stream_ends_with_the_turn(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    async with ask(http, world, **EVENTS) as answer:
        assert (answer.status, answer.headers["x-session-id"]) == (200, "s1")
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        events = Events(answer)
        accepted = await events.next()
        assert accepted is not None
        assert accepted["type"] == "chat.accepted"
        assert answer.headers["location"] == f"/v1/turns/{accepted['turn_id']}"
        assert events.ids == []
        turn = await world.play()
        await turn.started()
        await turn.delta("a\nb\u2028c")
        await turn.complete()
        frames = await events.rest()
    assert [frame["seq"] for frame in frames] == [0, 1, 2]
    assert frames[1]["delta"] == "a\nb\u2028c"
    assert events.ids == ["1.0", "1.1", "1.2"]
    assert len(world.gateway.connections) == 0


async def test_a_reader_goes_on_behind_its_last_event_on_any_gateway(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    async with world.client() as client:
        turn_id = (await client.ask())["turn_id"]
    turn = await world.play()
    await turn.started(push=False)
    await turn.delta("one", push=False)
    await turn.delta("two", push=False)
    async with events_of(http, world, turn_id, "1.1") as events:
        resumed = await events.next()
        assert resumed == {
            "type": "chat.resumed",
            "turn_id": turn_id,
            "attempt": 1,
            "from_seq": 2,
            "complete": False,
        }
        assert (await events.next())["delta"] == "two"  # type: ignore[index]
        await turn.delta("three")
        await turn.complete()
        assert [frame["seq"] for frame in await events.rest()] == [3, 4]
    async with events_of(http, world, turn_id) as events:
        frames = await events.rest()
        assert [frame.get("seq") for frame in frames] == [None, 0, 1, 2, 3, 4]
    for had in ("1.4", "9.9"):
        async with events_of(http, world, turn_id, had) as events:
            assert events.answer.status == 204
    assert len(world.gateway.connections) == 0


async def test_events_of_nobodys_turn_are_refused(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    for turn_id in ("s1.01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        async with events_of(http, world, turn_id) as events:
            fault = await events.answer.json()
            assert (events.answer.status, fault["code"]) == (404, "unknown_turn")
    world.ledger.unavailable = True
    async with events_of(http, world, "s1.01ARZ3NDEKTSV4RRFFQ69G5FAV") as events:
        assert events.answer.status == 503
        assert events.answer.headers["retry-after"] == "1"


async def test_a_silent_stream_says_that_it_lives() -> None:
    async with (
        gateway_world(event_comment_ms=50) as world,
        aiohttp.ClientSession() as http,
        ask(http, world, **EVENTS) as answer,
    ):
        async for line in answer.content:
            if line.startswith(b":"):
                break


async def test_a_draining_gateway_sends_readers_on_and_takes_no_new_ones(
    http: aiohttp.ClientSession,
) -> None:
    async with gateway_world(gateway_drain_ms=300, user_turns_per_min=0) as world:
        waiting = asyncio.ensure_future(ask(http, world, {**BODY, "session_id": "s2"}))
        await submitted(world)
        waited_for = await world.play()
        async with ask(http, world, **EVENTS) as answer:
            events = Events(answer)
            await submitted(world, 2)
            turn = await world.play()
            await turn.started()
            world.signals.receive()
            kinds = [frame["type"] for _ in range(3) if (frame := await events.next())]
            assert kinds == ["chat.accepted", "chat.response.started", "session.goaway"]
            async with ask(http, world, {**BODY, "session_id": "s3"}) as refused:
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert len(world.intake.submitted) == 2
            assert await events.rest() == []
        left = await waiting
        fault = await left.json()
        assert (left.status, fault["code"]) == (503, "unavailable")
        assert fault["turn_id"] == waited_for.turn_id
        (held,) = await world.ledger.renew_many([waited_for.ref], world.clock.now_ms())
        assert held.readerless_since_ms == 0  # type: ignore[union-attr]
        assert world.running is not None
        await asyncio.wait([world.running])


async def test_calls_that_wait_are_bounded_by_process_and_by_user() -> None:
    for limits, status in (({"virtual_connections": 1}, 503), ({"user_connections": 1}, 429)):
        async with (
            gateway_world(**limits) as world,
            aiohttp.ClientSession() as http,
            ask(http, world, **EVENTS),
        ):
            async with ask(http, world, {"text": "b"}) as answer:
                assert answer.status == status
                assert answer.headers["retry-after"] == "1"
            async with ask(http, world, {"text": "c"}, **ASYNC) as answer:
                assert answer.status == 202


@pytest.mark.case("B-32")
async def test_a_reader_who_stands_still_is_cut_off_and_others_are_served() -> None:
    async with (
        gateway_world(outbox_stuck_ms=200, outbox_bytes=400_000) as world,
        connected(world) as (reader, writer),
    ):
        body = json.dumps(BODY).encode()
        writer.write(
            b"POST /v1/chat HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        await submitted(world)
        turn = await world.play()
        await turn.started()
        async with asyncio.timeout(10):
            while len(world.gateway.connections):
                await turn.delta("x" * 30_000)
                await asyncio.sleep(0.01)
        (held,) = await world.ledger.renew_many([turn.ref], world.clock.now_ms())
        assert held.followers == ()  # type: ignore[union-attr]
        tail = b""
        with suppress(ConnectionResetError):
            while piece := await reader.read(65_536):
                tail = piece
        assert not tail.endswith(b"0\r\n\r\n"), "its answer has no end, so that it resumes"


# asynchronous ------------------------------------------------------------------------------------


async def test_an_asynchronous_turn_is_polled_until_it_has_ended(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    async with ask(http, world, **ASYNC) as answer:
        accepted = await answer.json()
        assert answer.status == 202
        assert answer.headers["location"] == f"/v1/turns/{accepted['turn_id']}"
        assert answer.headers["preference-applied"] == "respond-async"
    request = await submitted(world)
    assert (request.detached, request.priority, request.limit_at_ms) == (True, "high", 0)
    assert accepted == {
        "turn_id": request.turn_id,
        "session_id": "s1",
        "message_id": "m1",
        "status": "waiting",
    }
    assert (await poll(http, world, request.turn_id))["status"] == "waiting"
    turn = await world.play()
    await turn.started()
    async with ask(http, world, **ASYNC) as again:
        assert (again.status, (await again.json())["status"]) == (202, "running")
    await turn.delta("done")
    await turn.complete()
    shown = await poll(http, world, request.turn_id)
    assert (shown["status"], shown["text"]) == ("completed", "done")


@pytest.mark.parametrize(
    ("priority", "queue", "limit_ms"),
    [("normal", "deferred", 3_600_000), ("low", "background", 86_400_000)],
)
async def test_lower_priorities_go_to_their_own_queue_with_a_limit_of_their_own(
    http: aiohttp.ClientSession, world: GatewayWorld, priority: str, queue: str, limit_ms: int
) -> None:
    async with ask(http, world, {**BODY, "priority": priority}, **ASYNC) as answer:
        assert answer.status == 202
    [(name, request, _)] = world.turn_queue.sent
    assert (name, request.priority, request.detached) == (queue, priority, True)
    assert request.limit_at_ms == request.accepted_at_ms + limit_ms
    assert world.intake.submitted == []
    state = await world.ledger.state(request.ref)
    assert state is not None
    assert state.placed == "queue"


async def test_a_queue_that_is_away_costs_time_and_not_the_turn(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    world.turn_queue.unavailable = True
    async with ask(http, world, {**BODY, "priority": "normal"}, **ASYNC) as answer:
        turn_id = TurnId((await answer.json())["turn_id"])
        assert answer.status == 202
    state = await world.ledger.state(TurnRef(world.session(), turn_id))
    assert state is not None  # for the sweeper, which sends what nobody queued
    assert (state.status, state.placed) == ("waiting", "inline")


async def test_a_message_sent_again_without_waiting_goes_on_without_a_reader(
    http: aiohttp.ClientSession, world: GatewayWorld
) -> None:
    async with ask(http, world, **EVENTS):
        await submitted(world)
        turn = await world.play()
        async with ask(http, world, **ASYNC) as answer:
            assert answer.status == 202
    await followed(world, turn.ref.turn, 0)
    (held,) = await world.ledger.renew_many([turn.ref], world.clock.now_ms())
    assert held.readerless_since_ms == 0  # type: ignore[union-attr]


def _request(world: GatewayWorld, message_id: str) -> TurnRequest:
    session = world.session()
    now_ms = world.clock.now_ms()
    return TurnRequest(
        turn_id=TurnId(f"s1.{message_id:0<26}"),
        session_id=session.session_id,
        message_id=MessageId(message_id),
        tenant=session.tenant,
        user=session.user,
        text="hi",
        accepted_at_ms=now_ms,
    )
