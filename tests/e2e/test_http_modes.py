"""Every way to ask on every path: one text, one stored turn, whoever ran it and whichever gateway is polled."""

from __future__ import annotations

import pytest

from loadtest import asynchronous
from tests.harness.http_modes import INTERACTIVE, Caller, caller, occupied_slot
from tests.harness.stack import Stack, running_stack

_TEXT = "/sim tokens=12 ttft_ms=50 tokens_per_s=100 seed={seed}"
MANY = 60
TRIES = 3


@pytest.fixture(scope="module")
def ecs_stack(tmp_path_factory: pytest.TempPathFactory):
    """Without a burst worker, with a second gateway, and with a model budget that many turns have to wait for."""
    with running_stack(
        tmp_path_factory.mktemp("ecs"),
        burst_consumer="ecs",
        inline_slots=1,
        gateways=2,
        model_requests_per_min=1_200,
    ) as running:
        yield running


async def assert_every_way(asking: Caller, looking: Caller, path: str) -> None:
    """Ask in all ways, one after the other, so that an inline slot is free for each.

    A slot is free a moment after its turn's end was told, hence the further tries.
    """
    for seed, (way, ask) in enumerate(INTERACTIVE.items()):
        for _ in range(TRIES):
            asked = await ask(asking, _TEXT.format(seed=seed))
            turn = await looking.poll(asked.turn_id)
            if turn.get("path") == path:
                break
        assert (turn["status"], turn["path"]) == ("completed", path), way
        assert turn["text"], way
        assert asked.text in (None, turn["text"]), way


@pytest.mark.parametrize("path", ["inline", "burst"])
async def test_every_way_to_ask_beside_the_function(stack: Stack, path: str) -> None:
    async with caller(stack.http_url) as asking:
        if path == "inline":
            await assert_every_way(asking, asking, path)
            return
        async with occupied_slot(asking):
            await assert_every_way(asking, asking, stack.overflow_path)


async def test_every_way_to_ask_with_no_burst_worker_deployed(ecs_stack: Stack) -> None:
    functions = ecs_stack.aws("lambda").list_functions()["Functions"]
    assert not [
        name["FunctionName"] for name in functions if "burst-worker" in name["FunctionName"]
    ]
    second = ecs_stack.http_url.replace(str(ecs_stack.port_base), str(ecs_stack.port_base + 10))
    async with (
        caller(ecs_stack.http_url) as asking,
        caller(second) as looking,
        occupied_slot(asking),
    ):
        await assert_every_way(asking, looking, "queue")


@pytest.mark.parametrize("priority", ["normal", "low"])
async def test_lower_priorities_run_beside_and_are_polled_at_another_gateway(
    ecs_stack: Stack, priority: str
) -> None:
    second = ecs_stack.http_url.replace(str(ecs_stack.port_base), str(ecs_stack.port_base + 10))
    async with caller(ecs_stack.http_url) as asking, caller(second) as looking:
        asked = await asking.later(_TEXT.format(seed=1), priority)
        turn = await looking.poll(asked.turn_id)
        assert (turn["status"], turn["path"]) == ("completed", "queue")

        stopped = await asking.later("/sim tokens=2000 ttft_ms=10 tokens_per_s=20", priority)
        await looking.poll(stopped.turn_id, lambda status: status == "running")
        await looking.stop(stopped.turn_id)
        assert (await asking.poll(stopped.turn_id))["status"] == "cancelled"


def test_many_asynchronous_messages_wait_for_the_model_budget_and_none_is_refused(
    ecs_stack: Stack,
) -> None:
    outcome = asynchronous.run(
        ecs_stack.http_url,
        "/sim tokens=5 ttft_ms=10 tokens_per_s=200",
        count=MANY,
        priority="normal",
        patience_s=90,
    )
    assert outcome.is_whole, str(outcome)
    assert sum(outcome.answers.values()) == MANY
