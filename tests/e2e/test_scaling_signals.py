"""The deployed backlog_metric sees the queues and slots of the running stack."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.stack import Stack

QUEUES = {"burst", "retry", "deferred", "background"}


def test_the_signals_of_the_stack_are_published_as_metrics(stack: Stack) -> None:
    signals = _invoke(stack, "backlog-metric")

    assert signals["depths"].keys() == QUEUES
    assert signals["tasks"] == 1
    assert signals["backlog_per_task"] == (
        signals["depths"]["deferred"] + signals["depths"]["background"]
    )
    assert 0 <= signals["running_per_slot"] <= 1
    published = stack.function_log("backlog-metric")
    for metric in ("BacklogPerTask", "BacklogWithoutTasks", "RunningPerSlot", "QueueDepth"):
        assert f'"Name":"{metric}"' in published


def _invoke(stack: Stack, function: str) -> dict[str, Any]:
    client = stack.aws("lambda")
    [name] = [
        found["FunctionName"]
        for found in client.list_functions()["Functions"]
        if found["FunctionName"].endswith(function)
    ]
    answer = client.invoke(FunctionName=name)
    body: dict[str, Any] = json.load(answer["Payload"])
    assert "FunctionError" not in answer, body
    return body
