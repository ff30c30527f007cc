"""The Python and the JavaScript client fold every case of `client_cases.json` to the same state."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clients import conversation
from clients.conversation import Conversation, Step
from shared.contracts.server_frames import decode_server_frame

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "client_cases.json").read_text())["cases"]
NODE = shutil.which("node")


def case_ids(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", CASES, ids=case_ids)
@pytest.mark.case("B-08")
def test_python_reducer_passes_the_case(case: dict[str, Any]) -> None:
    state = Conversation()
    results = []
    for step in case["steps"]:
        before = plain(state)
        result = run_step(state, step)
        assert plain(state) == before, "the fold changed its input"
        state = result.state
        results.append({"out": [wire(f) for f in result.out], "fetch": list(result.fetch)})
    compare(case, results, plain(state))


@pytest.mark.parametrize("case", CASES, ids=case_ids)
@pytest.mark.case("B-08")
def test_javascript_reducer_passes_the_case(case: dict[str, Any]) -> None:
    require_node()
    ran = javascript_results()[case["name"]]
    compare(case, ran["steps"], ran["state"])


def test_case_names_are_distinct() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES)


def run_step(state: Conversation, step: dict[str, Any]) -> Step:
    at_ms = step["at_ms"]
    match step["do"]:
        case "send":
            return conversation.send(state, step["message_id"], step["text"])
        case "cancel":
            return conversation.cancel(state, step["message_id"])
        case "lost":
            return conversation.lost(state)
        case "tick":
            return conversation.tick(state, at_ms)
        case "fetched":
            return conversation.fetched(state, step["turn_id"], step["text"])
        case "receive":
            return receive(state, step["frame"], at_ms)
        case "receive_deltas":
            whole = Step(state)
            for seq in range(step["from_seq"], step["to_seq"] + 1):
                frame = {"type": "chat.response.delta", "seq": seq}
                frame |= {name: step[name] for name in ("turn_id", "attempt", "delta")}
                result = receive(whole.state, frame, at_ms)
                whole = Step(result.state, whole.out + result.out, whole.fetch + result.fetch)
            return whole
        case other:
            raise AssertionError(f"unknown step {other}")


def receive(state: Conversation, frame: dict[str, Any], at_ms: int) -> Step:
    try:
        decoded = decode_server_frame(json.dumps(frame))
    except msgspec.ValidationError:
        return Step(state)
    return conversation.receive(state, decoded, at_ms)


def wire(frame: msgspec.Struct) -> dict[str, Any]:
    """What the frame looks like on the wire, without an absent metadata object."""
    fields: dict[str, Any] = msgspec.to_builtins(frame)
    if not fields.get("metadata", True):
        del fields["metadata"]
    return fields


def plain(state: Conversation) -> dict[str, Any]:
    """The state in JSON types, with counts of held frames."""
    turns = [
        {each.name: getattr(turn, each.name) for each in dataclasses.fields(turn)}
        | {"held": len(turn.held)}
        for turn in state.turns
    ]
    fields = {name: getattr(state, name) for name in ("connected", "session_id", "more")}
    whole: dict[str, Any] = json.loads(msgspec.json.encode(fields | {"turns": turns}))
    return whole


def compare(case: dict[str, Any], results: list[dict[str, Any]], state: dict[str, Any]) -> None:
    for number, (step, result) in enumerate(zip(case["steps"], results, strict=True)):
        assert result["out"] == step.get("out", []), f"sent at step {number}"
        assert result["fetch"] == step.get("fetch", []), f"fetched at step {number}"
    expected = case["expect"]
    assert len(state["turns"]) == len(expected["turns"])
    for name in expected.keys() - {"turns"}:
        assert state[name] == expected[name]
    for turn, wanted in zip(state["turns"], expected["turns"], strict=True):
        assert {name: turn[name] for name in wanted} == wanted


def require_node() -> None:
    if NODE is None:
        if os.environ.get("CI") == "true":
            pytest.fail("node is missing: the JavaScript client is NOT tested")
        pytest.skip(
            "node is missing: the JavaScript client is NOT tested (install Node 20 or later)"
        )


@cache
def javascript_results() -> dict[str, dict[str, Any]]:
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(HERE / "client_cases_runner.mjs")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {each["name"]: each for each in map(json.loads, done.stdout.splitlines())}
