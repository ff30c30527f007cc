"""The gateway over real sockets: its protocol, its isolation and its end."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
import websockets

from services.gateway.connection import Connection
from services.gateway.socket_protocol import GatewaySocketProtocol
from shared.contracts.identifiers import SessionRef
from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushStatus
from shared.contracts.turns import IntakeDecision
from tests.fakes.gateway_world import GatewayWorld, gateway_world


@pytest.fixture
async def world() -> AsyncIterator[GatewayWorld]:
    async with gateway_world() as running:
        yield running


async def test_a_message_is_accepted_streamed_and_completed(world: GatewayWorld) -> None:
    async with world.client() as client:
        assert client.ready["type"] == "session.ready"
        assert client.ready["session_id"] == "s1"
        assert client.ready["running"] == []
        accepted = await client.ask("hello")
        assert accepted["type"] == "chat.accepted"
        assert (accepted["path"], accepted["duplicate"]) == ("inline", False)
        turn = await world.play()
        await turn.started()
        await turn.delta("Hé")
        await turn.delta("llo")
        await turn.complete()
        frames = await client.until("chat.response.completed")
        assert [frame["seq"] for frame in frames] == [0, 1, 2, 3]
        assert "".join(frame.get("delta", "") for frame in frames) == "Héllo"


async def test_a_repeated_message_joins_its_turn_and_gets_the_replay(world: GatewayWorld) -> None:
    async with world.client() as first, world.client() as second:
        accepted = await first.ask()
        turn = await world.play()
        await turn.started()
        await turn.delta("abc")
        again = await second.ask()
        assert again["duplicate"] is True
        assert again["turn_id"] == accepted["turn_id"]
        resumed = await second.frame()
        assert (resumed["type"], resumed["from_seq"]) == ("chat.resumed", 0)
        assert [(await second.frame())["seq"] for _ in range(2)] == [0, 1]
        await turn.complete()
        for client in (first, second):
            await client.until("chat.response.completed")
    assert len(world.intake.submitted) == 1


@pytest.mark.case("B-35")
async def test_a_resume_replays_what_was_missed_and_then_goes_live(world: GatewayWorld) -> None:
    async with world.client() as client:
        accepted = await client.ask()
        turn = await world.play()
        await turn.started()
        await turn.delta("a")
    await turn.delta("b", push=False)
    async with world.client() as client:
        (running,) = client.ready["running"]
        assert (running["turn_id"], running["last_seq"]) == (accepted["turn_id"], 2)
        await client.send("chat.resume", turn_id=running["turn_id"], after_seq=1, attempt=1)
        resumed = await client.frame()
        assert (resumed["from_seq"], resumed["complete"]) == (2, False)
        assert (await client.frame())["delta"] == "b"
        await turn.delta("c")
        assert (await client.frame())["delta"] == "c"


async def test_a_cancel_of_a_running_turn_sets_the_flag(world: GatewayWorld) -> None:
    async with world.client() as client:
        accepted = await client.ask()
        turn = await world.play()
        await turn.started()
        await client.send("chat.cancel", turn_id=accepted["turn_id"])
        await client.send("ping", nonce="x")
        await client.until("pong")
        state = await world.ledger.state(turn.ref.turn)
        assert state is not None
        assert state.cancel_requested


async def test_a_cancel_of_an_unclaimed_turn_ends_it_for_all_and_dispatches_the_next(
    world: GatewayWorld,
) -> None:
    async with world.client() as first, world.client() as second:
        accepted = await first.ask(message_id="m1")
        await first.ask(message_id="m2")
        await second.ask(message_id="m1")
        await second.frame()
        await second.send("chat.cancel", turn_id=accepted["turn_id"])
        for client in (first, second):
            frame = await client.frame()
            assert frame["type"] == "chat.response.cancelled"
            assert (frame["attempt"], frame["seq"], frame["by"]) == (0, 0, "user")
        assert [request.message_id for request in world.intake.submitted] == ["m1", "m2"]


async def test_an_absent_orchestrator_sends_the_turn_to_burst(world: GatewayWorld) -> None:
    world.intake.unavailable = True
    async with world.client() as client:
        accepted = await client.ask()
        assert accepted["path"] == "burst"
        ((queue, request, _),) = world.turn_queue.sent
        assert queue == "burst"
        assert request.reason == "intake_unavailable"
        assert request.enqueued_at_ms > 0
        queued = await client.frame(within_s=1.2)
        assert queued["type"] == "chat.queued"
        state = await world.ledger.state(request.ref)
        assert state is not None
        assert state.placed == "burst"


@pytest.mark.case("B-30")
async def test_nobody_who_takes_the_turn_means_rejected_at_once_and_repeatable(
    world: GatewayWorld,
) -> None:
    world.intake.unavailable = world.turn_queue.unavailable = True
    async with world.client() as client:
        rejected = await client.ask()
        assert (rejected["type"], rejected["code"]) == ("chat.rejected", "unavailable")
        world.intake.unavailable = False
        assert (await client.ask())["type"] == "chat.accepted"


async def test_a_shed_turn_is_rejected_with_a_hint(world: GatewayWorld) -> None:
    world.intake.decision = IntakeDecision(path=None, reason="burst_full", retry_after_ms=4_000)
    async with world.client() as client:
        rejected = await client.ask()
        assert (rejected["code"], rejected["reason"]) == ("overloaded", "burst_full")
        assert 4_000 <= rejected["retry_after_ms"] <= 8_000
        world.intake.decision = IntakeDecision(path="burst", reason="no_slots")
        assert (await client.ask())["path"] == "burst"


async def test_a_ledger_that_is_away_refuses_new_messages_as_unavailable(
    world: GatewayWorld,
) -> None:
    async with world.client() as client:
        world.ledger.unavailable = True
        rejected = await client.ask()
        assert (rejected["type"], rejected["code"]) == ("chat.rejected", "unavailable")
        world.ledger.unavailable = False
        assert (await client.ask())["type"] == "chat.accepted"


async def test_an_unknown_or_foreign_turn_is_unknown(world: GatewayWorld) -> None:
    async with world.client() as client:
        accepted = await client.ask()
    token = await _token(world, "mallory")
    headers = {"Authorization": f"Bearer {token}"}
    async with world.client(additional_headers=headers) as client:
        assert client.ready["running"] == []
        for kind in ("chat.resume", "chat.cancel"):
            await client.send(kind, turn_id=accepted["turn_id"])
            error = await client.frame()
            assert (error["code"], error["turn_id"]) == ("unknown_turn", accepted["turn_id"])


BAD_INPUTS = [
    (b"\x00\x01", "binary_not_supported"),
    ("", "invalid_json"),
    ("{", "invalid_json"),
    ('"\\ud800"', "invalid_json"),
    ("[" * 5_000, "invalid_json"),
    ("[" * 5_000 + "]" * 5_000, "invalid_json"),
    ("[1]", "invalid_frame"),
    ('{"type":"no.such"}', "unknown_type"),
    ('{"type":"chat.send","message_id":7,"text":"x"}', "invalid_frame"),
    ('{"type":"chat.resume","turn_id":7}', "invalid_frame"),
]


@pytest.mark.case("B-32")
async def test_bad_input_leaves_the_connection_and_a_running_turn_unharmed(
    world: GatewayWorld,
) -> None:
    async with world.client() as client:
        await client.ask()
        turn = await world.play()
        await turn.started()
        await client.frame()
        for number, (message, code) in enumerate(BAD_INPUTS):
            await client.socket.send(message)
            error = await client.frame()
            assert (error["type"], error["code"]) == ("error", code)
            await turn.delta(f"{number} ")
            assert (await client.frame())["delta"] == f"{number} "
        await turn.complete()
        await client.until("chat.response.completed")


@pytest.mark.parametrize("size", [33_000, 17_000_000])
@pytest.mark.case("B-32")
async def test_an_oversized_frame_closes_1009_and_the_turn_can_be_resumed(
    world: GatewayWorld, size: int
) -> None:
    async with world.client() as client:
        await client.ask()
        turn = await world.play()
        await turn.started()
        with suppress(websockets.ConnectionClosed):
            await client.socket.send("x" * size)
        assert await client.closed() == 1009
    async with world.client() as client:
        await client.send("chat.resume", turn_id=turn.turn_id)
        assert [(await client.frame())["type"] for _ in range(2)] == [
            "chat.resumed",
            "chat.response.started",
        ]


@pytest.mark.case("B-32")
async def test_repeated_errors_close_4400(world: GatewayWorld) -> None:
    async with world.client() as client:
        for _ in range(20):
            await client.socket.send("{")
        frames = await client.until("error")
        while frames[-1]["code"] != "too_many_errors":
            frames.append(await client.frame())
        assert len(frames) == 21
        assert await client.closed() == 4400


async def test_a_frame_of_32_kib_is_still_read(world: GatewayWorld) -> None:
    async with world.client() as client:
        frame = json.dumps({"type": "ping", "nonce": 1, "padding": ""})
        padding = "x" * (32_768 - len(frame))
        await client.socket.send(json.dumps({"type": "ping", "nonce": 1, "padding": padding}))
        assert (await client.frame())["type"] == "pong"


@pytest.mark.case("B-19")
async def test_a_slow_reader_is_closed_4409_while_others_are_unaffected() -> None:
    async with gateway_world(outbox_stuck_ms=500) as world:
        # A small receive window, and a client library that reads no further than it must.
        slow_connection = websockets.connect(
            world.ws_url + "?session_id=slow", compression=None, max_queue=1
        )
        async with slow_connection as slow, world.client("?session_id=fast") as fast:
            await slow.recv()
            slow.transport.pause_reading()
            await slow.send(json.dumps({"type": "chat.send", "message_id": "m1", "text": "x"}))
            await _until(lambda: bool(world.intake.submitted))
            slow_turn = await world.play()
            await fast.ask()
            fast_turn = await world.play()
            await fast_turn.started()
            await fast.frame()
            await slow_turn.started()
            statuses: list[PushStatus] = []
            for number in range(1_000):
                statuses = await slow_turn.delta("x" * 32_000)
                if number % 20 == 0:
                    await fast_turn.delta("y")
                    assert (await fast.frame(within_s=1))["delta"] == "y"
                if statuses and statuses[0] != PushStatus.SENT:
                    break
            assert statuses == [PushStatus.THROTTLED]
            (slow_socket,) = (
                socket
                for socket in world.gateway.connections.sockets()
                if socket.session_ref.session_id == "slow"
            )
            await _until(lambda: slow_socket.session.is_closed)
            assert await slow_turn.delta("z") in ([], [PushStatus.GONE])
            slow.transport.resume_reading()
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    frame = json.loads(await slow.recv())
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4409
            assert (frame["type"], frame["reason"]) == ("session.goaway", "slow")
            await fast_turn.complete()
            await fast.until("chat.response.completed")


@pytest.mark.case("B-05", "B-17")
async def test_closing_takes_the_connection_out_of_registry_and_followers(
    world: GatewayWorld,
) -> None:
    async with world.client() as client:
        await client.ask()
        turn = await world.play()
        (follower,) = turn.followers
        assert await world.registry.lookup(follower.connection_id) == follower
    await _until(lambda: len(world.gateway.connections) == 0)
    await _until(lambda: world.ledger.calls[-1] == "unfollow")
    await turn.started(push=False)
    assert turn.followers == ()
    assert await world.registry.lookup(follower.connection_id) is None


@pytest.mark.case("B-05")
async def test_an_aborted_client_is_noticed_and_unfollowed(world: GatewayWorld) -> None:
    async with world.client() as client:
        await client.ask()
        turn = await world.play()
        client.socket.transport.abort()
        await _until(lambda: world.ledger.calls[-1] == "unfollow")
    await turn.started(push=False)
    assert turn.followers == ()


@pytest.mark.case("B-39")
async def test_nothing_of_broken_connections_is_kept(world: GatewayWorld) -> None:
    for number in range(60):
        async with world.client(f"?session_id=s{number}") as client:
            if number % 2:
                client.socket.transport.abort()
    await _until(lambda: len(world.gateway.connections) == 0)
    await asyncio.sleep(0.1)
    gc.collect()
    kept = [one for one in gc.get_objects() if isinstance(one, Connection | GatewaySocketProtocol)]
    assert len(kept) <= 2  # the loop's last callbacks
    assert len(world.registry._entries) == 0


@pytest.mark.case("B-05")
async def test_a_client_that_leaves_in_the_handshake_leaves_nothing_behind(
    world: GatewayWorld, caplog: pytest.LogCaptureFixture
) -> None:
    register, proceed, called = world.registry.register, asyncio.Event(), asyncio.Event()

    async def slow_register(session: SessionRef, follower: Follower) -> bool:
        called.set()
        await proceed.wait()
        return await register(session, follower)

    world.registry.register = slow_register  # type: ignore[method-assign]
    connecting = asyncio.create_task(websockets.connect(world.ws_url).__aenter__())
    await called.wait()
    connecting.cancel()
    await asyncio.wait([connecting])
    await asyncio.sleep(0.1)
    proceed.set()
    await _until(lambda: len(world.registry._entries) == 0 and world.registry._leases != {})
    await asyncio.sleep(0.1)
    assert len(world.gateway.connections) == 0
    assert world.registry._entries == {}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.case("B-08", "B-15")
async def test_a_silent_turn_is_caught_up_from_the_log() -> None:
    async with gateway_world(silent_turn_check_ms=300) as world, world.client() as client:
        await client.ask()
        turn = await world.play()
        await turn.started()
        await turn.delta("lost", push=False)
        await turn.complete(push=False)
        frames = await client.until("chat.response.completed")
        assert [frame["seq"] for frame in frames] == [0, 1, 2]


@pytest.mark.case("B-17")
async def test_a_lost_turn_ends_failed() -> None:
    limits = {"silent_turn_check_ms": 200, "lost_turn_after_ms": 400}
    async with gateway_world(**limits) as world, world.client() as client:
        await client.ask()
        world.ledger.forget(world.intake.submitted[-1].ref)
        failed = await client.frame()
        assert (failed["type"], failed["code"]) == ("chat.response.failed", "internal")
        assert (failed["attempt"], failed["seq"]) == (0, 0)


@pytest.mark.case("B-25")
async def test_an_idle_socket_closes_4408_in_spite_of_pings() -> None:
    async with gateway_world(idle_close_ms=700) as world, world.client() as client:
        for _ in range(4):
            await client.send("ping")
            await asyncio.sleep(0.1)
        assert await client.closed() == 4408


@pytest.mark.case("B-35")
async def test_an_aged_connection_is_asked_to_renew_but_not_in_mid_answer() -> None:
    async with gateway_world(max_age_ms=500) as world, world.client() as client:
        await client.ask()
        turn = await world.play()
        await turn.started()
        await client.frame()
        await asyncio.sleep(0.9)
        await turn.delta("still here")
        assert (await client.frame())["delta"] == "still here"
        await turn.complete()
        await client.until("chat.response.completed")
        goaway = await client.frame()
        assert (goaway["type"], goaway["reason"]) == ("session.goaway", "max_age")


@pytest.mark.case("B-07")
async def test_a_drain_lets_turns_end_and_then_closes_1001() -> None:
    async with gateway_world(gateway_drain_ms=800) as world, world.client() as client:
        await client.ask()
        turn = await world.play()
        await turn.started()
        await client.frame()
        world.signals.receive()
        goaway = await client.frame()
        assert (goaway["type"], goaway["reason"]) == ("session.goaway", "drain")
        assert 0 <= goaway["reconnect_after_ms"] <= 800
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with world.client("?session_id=late"):
                pass
        assert refused.value.response.status_code == 503
        assert refused.value.response.headers["retry-after"] == "1"
        await turn.delta("x")
        await turn.complete()
        frames = await client.until("chat.response.completed")
        assert len(frames) == 2
        assert await client.closed() == 1001
        assert world.running is not None
        await asyncio.wait_for(world.running, 5)


async def test_a_refused_handshake_is_an_answer_and_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with gateway_world() as world:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with world.client("?session_id=not+allowed"):
                pass
        assert 400 <= refused.value.response.status_code < 500
        assert refused.value.response.body
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.case("B-07")
async def test_a_drain_ends_in_time_with_a_turn_that_does_not() -> None:
    async with gateway_world(gateway_drain_ms=300) as world, world.client() as client:
        await client.ask()
        await world.play()
        world.signals.receive()
        assert await client.closed() == 1001
        assert world.running is not None
        await asyncio.wait_for(world.running, 5)


async def test_more_sockets_than_a_user_may_have_close_4429() -> None:
    async with gateway_world(user_connections=1) as world, world.client():
        async with websockets.connect(world.ws_url) as surplus:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await surplus.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4429


async def test_history_answers_an_empty_page(world: GatewayWorld) -> None:
    async with world.client() as client:
        await client.send("chat.history", limit=5)
        assert await client.frame() == {"type": "chat.history", "turns": [], "more": False}


async def _token(world: GatewayWorld, user: str) -> str:
    import aiohttp

    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{world.http_url}/v1/tokens", json={"user": user}) as answer,
    ):
        token: str = (await answer.json())["token"]
        return token


async def _until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)
