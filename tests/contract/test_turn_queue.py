"""What every TurnQueue and DeadLetterQueue does, in memory and on SQS."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.http_session import HttpSession
from shared.adapters.sqs_dead_letters import SqsDeadLetters
from shared.adapters.sqs_turn_queue import SqsTurnQueue
from shared.contracts.dead_letters import DeadLetter, DeadLetterError
from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import QueueName, TurnRequest, decode_turn
from shared.errors import ConfigurationError, DependencyUnavailable, ItemTooLarge
from shared.ports import DeadLetterQueue, TurnQueue
from tests.fakes.clock import FakeClock
from tests.fakes.emulator import Emulator


def turn(**changes: Any) -> TurnRequest:
    request = TurnRequest(
        turn_id=TurnId("s1.01JD0000000000000000000000"),
        session_id=SessionId("s1"),
        message_id=MessageId("m1"),
        tenant=TenantId("acme"),
        user=UserId("ana"),
        text='Größe? 🦊 "x" \x01\n \ufffe\uffff',
        metadata={"page": "/manga/1", "depth": 2},
        accepted_at_ms=1_700_000_000_000,
        ready_at_ms=1_700_000_000_001,
        attempt_hint=1,
    )
    return msgspec.structs.replace(request, **changes)


def letter(**changes: Any) -> DeadLetter:
    dead = DeadLetter(
        turn=turn(),
        klass="failed",
        error=DeadLetterError(type="KeyError", message="'x'", stack="a.py:1 f"),
        attempts=(),
        dead_at_ms=1_700_000_000_500,
        fingerprint="abc",
    )
    return msgspec.structs.replace(dead, **changes)


@dataclass
class Queues:
    """Both ports with a way to look at what was sent."""

    work: TurnQueue
    dead: DeadLetterQueue
    sent: Callable[[QueueName], list[TurnRequest]]
    buried: Callable[[QueueName], list[DeadLetter]]


def in_memory(request: pytest.FixtureRequest) -> Queues:
    from tests.fakes.queues import FakeDeadLetterQueue, FakeTurnQueue

    work, dead = FakeTurnQueue(), FakeDeadLetterQueue()
    return Queues(
        work,
        dead,
        lambda queue: [request for name, request, _ in work.sent if name == queue],
        lambda queue: [letter for name, letter in dead.letters if name == queue],
    )


def sqs(request: pytest.FixtureRequest) -> Queues:
    emulator: Emulator = request.getfixturevalue("emulator")
    api = sqs_api(request)
    work_url, dead_url = (emulator.make_queue(f"q{uuid.uuid4().hex}") for _ in range(2))

    def bodies(url: str) -> list[str]:
        return [message["Body"] for message in emulator.messages(url)]

    return Queues(
        SqsTurnQueue(api, {"burst": work_url}),
        SqsDeadLetters(api, {"burst": dead_url}),
        lambda _: [decode_turn(body) for body in bodies(work_url)],
        lambda _: [msgspec.json.decode(body, type=DeadLetter) for body in bodies(dead_url)],
    )


def sqs_api(request: pytest.FixtureRequest, endpoint_url: str = "", **options: Any) -> AwsJsonApi:
    emulator: Emulator = request.getfixturevalue("emulator")
    http: HttpSession = request.getfixturevalue("http")
    credentials: AwsCredentials = request.getfixturevalue("emulator_credentials")
    return AwsJsonApi(
        "sqs",
        http=http,
        credentials=credentials,
        clock=FakeClock(),
        endpoint_url=endpoint_url or emulator.url,
        **{"timeout_ms": 2_000, **options},
    )


@pytest.fixture(params=[in_memory, sqs], ids=["fake", "sqs"])
def queues(request: pytest.FixtureRequest, http: HttpSession) -> Queues:
    make: Callable[[pytest.FixtureRequest], Queues] = request.param
    return make(request)


async def test_send_delivers_the_turn_as_it_was(queues: Queues) -> None:
    await queues.work.send("burst", turn())

    assert queues.sent("burst") == [turn()]


async def test_send_twice_is_two_messages(queues: Queues) -> None:
    await queues.work.send("burst", turn())
    await queues.work.send("burst", turn())

    assert len(queues.sent("burst")) == 2


async def test_a_dead_letter_keeps_turn_and_error(queues: Queues) -> None:
    await queues.dead.send("burst", letter())

    assert queues.buried("burst") == [letter()]


async def test_a_dead_letter_without_a_turn_keeps_the_raw_body(queues: Queues) -> None:
    undecodable = letter(turn=None, raw="{not json", klass="malformed")

    await queues.dead.send("burst", undecodable)

    assert queues.buried("burst") == [undecodable]


@pytest.fixture
def queue_url(emulator: Emulator) -> str:
    return emulator.make_queue(f"q{uuid.uuid4().hex}")


async def test_sqs_send_names_the_tenant_as_group(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator, queue_url: str
) -> None:
    await SqsTurnQueue(sqs_api(request), {"burst": queue_url}).send("burst", turn())

    [message] = emulator.messages(queue_url)
    assert message["Attributes"]["MessageGroupId"] == "acme"


async def test_sqs_send_hashes_a_tenant_that_is_no_group_id(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator, queue_url: str
) -> None:
    tenant = TenantId("Süd & Söhne " * 20)

    await SqsTurnQueue(sqs_api(request), {"burst": queue_url}).send("burst", turn(tenant=tenant))

    [message] = emulator.messages(queue_url)
    assert len(message["Attributes"]["MessageGroupId"]) == 64
    assert decode_turn(message["Body"]).tenant == tenant


async def test_sqs_send_hides_a_delayed_message(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator, queue_url: str
) -> None:
    await SqsTurnQueue(sqs_api(request), {"retry": queue_url}).send("retry", turn(), delay_s=5_000)

    assert emulator.messages(queue_url) == []
    counts = emulator.client("sqs").get_queue_attributes(
        QueueUrl=queue_url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )
    assert counts["Attributes"]["ApproximateNumberOfMessagesDelayed"] == "1"


@pytest.mark.case("B-30")
async def test_sqs_send_refuses_a_turn_above_64_kib(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator, queue_url: str
) -> None:
    queue = SqsTurnQueue(sqs_api(request), {"burst": queue_url})

    with pytest.raises(ItemTooLarge):
        await queue.send("burst", turn(text="\x01" * 12_000))
    assert emulator.messages(queue_url) == []


async def test_sqs_send_names_the_setting_of_a_queue_without_address(
    request: pytest.FixtureRequest, http: HttpSession
) -> None:
    api = sqs_api(request)

    with pytest.raises(ConfigurationError, match="BURSTCHAT_DEFERRED_QUEUE_URL"):
        await SqsTurnQueue(api, {"deferred": ""}).send("deferred", turn())
    with pytest.raises(ConfigurationError, match="BURSTCHAT_BURST_DLQ_URL"):
        await SqsDeadLetters(api, {}).send("burst", letter())


async def test_sqs_send_is_a_configuration_error_when_the_queue_does_not_exist(
    request: pytest.FixtureRequest, http: HttpSession, queue_url: str
) -> None:
    queue = SqsTurnQueue(sqs_api(request), {"burst": queue_url + "-missing"})

    with pytest.raises(ConfigurationError):
        await queue.send("burst", turn())


async def test_sqs_send_is_unavailable_when_nobody_listens(
    request: pytest.FixtureRequest, http: HttpSession, unused_tcp_port: int
) -> None:
    api = sqs_api(request, f"http://127.0.0.1:{unused_tcp_port}")

    with pytest.raises(DependencyUnavailable):
        await SqsTurnQueue(api, {"burst": "http://x/q"}).send("burst", turn())


async def test_a_dead_letter_cuts_a_raw_body_that_sqs_would_refuse(
    request: pytest.FixtureRequest, http: HttpSession, emulator: Emulator, queue_url: str
) -> None:
    dead = SqsDeadLetters(sqs_api(request), {"burst": queue_url})

    await dead.send("burst", letter(turn=None, raw="\x01" * 600_000, klass="malformed"))

    [message] = emulator.messages(queue_url)
    assert len(message["Body"].encode()) < 1_048_576
    assert msgspec.json.decode(message["Body"], type=DeadLetter).klass == "malformed"
