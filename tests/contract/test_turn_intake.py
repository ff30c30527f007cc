"""What every TurnIntake does, in memory and over `POST /turns` on a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from services.http_server import HttpServer, listen
from services.orchestrator.intake import IntakeApp
from shared.adapters.http_session import HttpSession
from shared.adapters.http_turn_intake import HttpTurnIntake
from shared.clock import SystemClock
from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import IntakeDecision, TurnRequest, decode_turn
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential, verify
from shared.ports import TurnIntake
from shared.turn.load_watch import LoadWatch
from tests.fakes.http_server import Exchange, Handler, raw_server
from tests.fakes.intake import FakeIntake
from tests.fakes.load_board import FakeLoadBoard

CREDENTIAL = Credential("AKIDPUSH", "push-secret", "us-east-1")
TURN = TurnRequest(
    turn_id=TurnId("s1.01JD0000000000000000000000"),
    session_id=SessionId("s1"),
    message_id=MessageId("m1"),
    tenant=TenantId("acme"),
    user=UserId("ana"),
    text="Größe 🦊",
    accepted_at_ms=1_700_000_000_000,
)
INLINE = {"path": "inline", "reason": "free_slot"}


@asynccontextmanager
async def intake_to(*urls: str, timeout_ms: int = 2_000) -> AsyncIterator[HttpTurnIntake]:
    http = HttpSession()
    yield HttpTurnIntake(http, urls, CREDENTIAL, SystemClock(), timeout_ms=timeout_ms)
    await http.close()


def answering(value: object, status: int = 200) -> Handler:
    return lambda exchange: exchange.answer_json(value, status)


async def test_submit_posts_the_turn_signed() -> None:
    async with raw_server(answering(INLINE)) as server, intake_to(server.url + "/") as intake:
        decision = await intake.submit(TURN)

    [request] = server.requests
    now_ms = SystemClock().now_ms()
    assert decision == IntakeDecision(path="inline", reason="free_slot")
    assert (request.method, request.path) == ("POST", "/turns")
    assert decode_turn(request.body) == TURN
    assert verify(CREDENTIAL, "POST", "/turns", "", request.headers, request.body, now_ms) is None


async def test_submit_passes_a_shed_turn_through() -> None:
    shed = {"path": None, "reason": "severe", "retry_after_ms": 4_000}
    async with raw_server(answering(shed)) as server, intake_to(server.url) as intake:
        decision = await intake.submit(TURN)

    assert decision == IntakeDecision(path=None, reason="severe", retry_after_ms=4_000)


async def test_submit_takes_the_orchestrators_in_turn() -> None:
    async with (
        raw_server(answering(INLINE)) as one,
        raw_server(answering(INLINE)) as two,
        intake_to(one.url, two.url) as intake,
    ):
        for _ in range(4):
            await intake.submit(TURN)

    assert len(one.requests) == len(two.requests) == 2


async def test_submit_passes_over_an_orchestrator_that_refuses_the_connection(
    unused_tcp_port: int,
) -> None:
    async with (
        raw_server(answering(INLINE)) as server,
        intake_to(f"http://127.0.0.1:{unused_tcp_port}", server.url) as intake,
    ):
        for _ in range(3):
            assert (await intake.submit(TURN)).path == "inline"

    assert len(server.requests) == 3


async def test_submit_is_unavailable_when_all_refuse_the_connection(unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    async with intake_to(url, url) as both, intake_to(url) as one:
        for intake in (both, one):
            with pytest.raises(DependencyUnavailable):
                await intake.submit(TURN)


async def no_answer(exchange: Exchange) -> None:
    await exchange.until_client_left()


@pytest.mark.parametrize(
    "handler",
    [answering({"message": "full"}, 503), answering({}, 403), answering({"path": "moon"})],
)
async def test_submit_is_unavailable_when_nobody_took_the_turn(handler: Any) -> None:
    async with raw_server(handler) as server, intake_to(server.url, server.url) as intake:
        with pytest.raises(DependencyUnavailable):
            await intake.submit(TURN)

    assert len(server.requests) == 1


async def test_submit_gives_up_at_its_time_out() -> None:
    started_s = time.monotonic()
    async with (
        raw_server(no_answer) as server,
        intake_to(server.url, server.url, timeout_ms=50) as intake,
    ):
        with pytest.raises(DependencyUnavailable):
            await intake.submit(TURN)

    assert time.monotonic() - started_s < 5
    assert len(server.requests) == 1


@pytest.mark.parametrize("urls", [(), ("orchestrator:8082",), ("ftp://host",)])
def test_addresses_are_checked_at_the_start(urls: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_INTAKE_URLS"):
        HttpTurnIntake(HttpSession(), urls, CREDENTIAL, SystemClock(), timeout_ms=500)


class OrchestratorDoor:
    """The real client in front of the orchestrator's real application; only the placement is scripted."""

    def __init__(self) -> None:
        self.behind = FakeIntake()
        self.is_closed = False

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        return await self.behind.submit(request)


@pytest.fixture(params=["memory", "http"])
async def door(request: pytest.FixtureRequest) -> AsyncIterator[tuple[TurnIntake, FakeIntake]]:
    """A TurnIntake and the scripted placement behind it."""
    if request.param == "memory":
        fake = FakeIntake()
        yield fake, fake
        return
    placement = OrchestratorDoor()
    application = IntakeApp(
        placement=placement,  # type: ignore[arg-type]
        watch=LoadWatch(FakeLoadBoard(SystemClock()), SystemClock(), burst_capacity_turns=20),
        credential=CREDENTIAL,
        clock=SystemClock(),
    )
    server = HttpServer("intake", application, listen("127.0.0.1", 0, "intake_port"))
    running = asyncio.create_task(server.run())
    async with intake_to(f"http://127.0.0.1:{server.port}") as intake:
        yield intake, placement.behind
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.mark.parametrize(
    "decision",
    [
        IntakeDecision(path="inline", reason="free_slot"),
        IntakeDecision(path="burst", reason="no_slots"),
        IntakeDecision(path=None, reason="burst_full", retry_after_ms=4_000),
    ],
)
async def test_every_intake_answers_where_the_turn_went(
    door: tuple[TurnIntake, FakeIntake], decision: IntakeDecision
) -> None:
    intake, placement = door
    placement.decision = decision
    assert await intake.submit(TURN) == decision
    assert placement.submitted == [TURN]


async def test_every_intake_says_when_nobody_took_the_turn(
    door: tuple[TurnIntake, FakeIntake],
) -> None:
    intake, placement = door
    placement.unavailable = True
    with pytest.raises(DependencyUnavailable):
        await intake.submit(TURN)
