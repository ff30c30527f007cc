"""Every command of docs/runbooks/dead-letter-triage.md, executed with a planted fault."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness.aws_command import run_aws
from tests.harness.chat import Frame, chat
from tests.harness.runbook import Runbook, words_of
from tests.harness.stack import BURSTCHAT, ROOT, Stack, running_stack

PAGE = Runbook("dead-letter-triage.md")
WITHIN_S = 60


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose dead turns are this test's alone; the page's fault lies in the function."""
    with running_stack(
        tmp_path_factory.mktemp("dead"), inline_slots=1, burst_consumer="lambda"
    ) as running:
        yield running


class Reader:
    """Somebody on call, with the page in front of them."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.variables: dict[str, str] = {}
        self.done: list[str] = []

    def run(self, command: str) -> str:
        """Type one command of the page; answers what it printed."""
        self.done.append(command)
        words = words_of(command, self.variables)
        if words[0] == "aws":
            return json.dumps(run_aws(words, self._stack.aws), default=str)
        assert words[0] == "burstchat"
        done = subprocess.run(
            [str(BURSTCHAT), *words[1:]],
            env=self._stack.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def groups(self) -> list[dict[str, Any]]:
        return json.loads(self._stack.run("dlq", "list", "--json").stdout)


def until(wanted: Callable[[], Any], what: str) -> Any:
    give_up_at = time.monotonic() + WITHIN_S
    while time.monotonic() < give_up_at:
        found = wanted()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"never: {what}")


async def plant(stack: Stack, name: str, *, times: int | None = None) -> Frame:
    """A turn that dies: the model calls its request invalid, at first or for ever."""
    async with chat(stack.chat_url) as client:
        often = "" if times is None else f" times={times}"
        message_id = await client.send(f"/sim tokens=5 fault=invalid_request id={name}{often}")
        turn_id = (await client.accepted(message_id))["turn_id"]
        end = await client.end(turn_id)
        assert (end["type"], end["code"]) == ("chat.response.failed", "model_rejected")
        return end


@pytest.mark.timeout(300)
def test_every_command_of_the_page_works_on_a_planted_fault(stack: Stack) -> None:
    reader = Reader(stack)
    ends = [asyncio.run(plant(stack, f"dead-{number}", times=1)) for number in range(3)]
    ends.append(asyncio.run(plant(stack, "dead-for-ever")))
    until(lambda: sum(group["count"] for group in reader.groups()) == 4, "four dead turns")
    (group,) = reader.groups()
    status = stack.status()
    dlq_url = status["queues"]["burst_dlq"]["url"]
    reader.variables = {
        "FINGERPRINT": group["fingerprint"],
        "TURN": ends[0]["turn_id"],
        "DLQ_URL": dlq_url,
        "DLQ_ARN": f"arn:aws:sqs:us-east-1:000000000000:{dlq_url.rpartition('/')[2]}",
    }

    listed, of_fingerprint, one, depth, triggers, log = map(reader.run, PAGE.commands("Confirm"))

    assert group["fingerprint"] in listed
    assert all(end["turn_id"] in of_fingerprint for end in ends)
    assert "ModelRejected" in one
    assert "/sim" not in listed + of_fingerprint + one, "text is shown on request only"
    assert json.loads(depth)["Attributes"]["ApproximateNumberOfMessages"] == "0"
    ((uuid, state),) = json.loads(triggers)
    assert state == "Enabled"
    assert "fingerprint.new" in log

    alias = stack.aws("lambda").get_alias(FunctionName="burstchat-burst-worker", Name="live")
    reader.variables |= {"UUID": uuid, "VERSION": alias["FunctionVersion"]}
    for command in PAGE.commands("First mitigation"):
        if command.startswith("burstchat dlq redrive"):
            assert "4 redriven" in reader.run(command)
            until(lambda: reader.groups()[0]["count"] == 5, "one turn died again")
            again = reader.run(command.replace("$FINGERPRINT", "$TURN"))
            assert "0 redriven" in again
            reader.done.pop()
        elif command.startswith("burstchat dlq discard"):
            assert reader.run(command).startswith("1 discarded, 4 were not open")
        else:
            reader.run(command)

    groups, shown, alarms = map(reader.run, PAGE.commands("Verify"))

    assert [(each["open"], each["redriven"]) for each in json.loads(groups)] == [(0, 4)]
    (step,) = json.loads(shown)["trail"]
    assert (step["kind"], bool(step["by"]), bool(step["at_ms"])) == ("redriven", True, True)
    assert {name for name, _ in json.loads(alarms)} == {
        "burstchat-NewFingerprint",
        "burstchat-GrowingFingerprint",
    }
    assert reader.done == [line for section in PAGE.sections for line in PAGE.commands(section)]
    answered_by = (stack.state_dir / "logs/queue_runner-0.log").read_text()
    for end in ends[:3]:
        assert end["turn_id"] in answered_by
        (stored,) = stack.stored_turns(end["turn_id"])
        assert (stored["status"], stored["attempt"]) == ("completed", 2)
    turn = ends[0]["turn_id"]
    assert len(stack.model_calls("dead-0")) == 2, f"{turn} ran once more and no oftener"
