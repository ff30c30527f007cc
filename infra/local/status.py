"""What `burstchat status` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.aws import connect
from infra.local.credentials import Credentials
from infra.local.environment import AWS_REGION
from infra.local.readiness import is_healthy
from infra.local.state import ProcessRecord, StackState

_DEPTHS = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
}


def describe(state: StackState, credentials: Credentials) -> dict[str, Any]:
    """The documented JSON: processes, queues, tables, urls, and the push credential."""
    return {
        "processes": [_process(record) for record in state.processes],
        "queues": _queues(state),
        "tables": state.tables,
        "buckets": state.buckets,
        "urls": state.urls,
        "push_credential": {
            "BURSTCHAT_PUSH_ACCESS_KEY_ID": credentials.push_access_key_id,
            "BURSTCHAT_PUSH_SECRET_ACCESS_KEY": credentials.push_secret_access_key,
            "region": AWS_REGION,
        },
    }


def as_text(description: Mapping[str, Any]) -> str:
    """The same for a person, without the credential."""
    lines = [
        f"{p['role']:<14}{p['index']:<3}pid {p['pid']:<8}port {p['port']:<7}{p['health']}"
        for p in description["processes"]
    ]
    lines.append("")
    lines += [f"{name:<17}{_words(depth)}" for name, depth in description["queues"].items()]
    lines.append("")
    for part in ("tables", "buckets"):
        lines += [f"{name:<17}{value}" for name, value in description[part].items()]
    lines += [f"{name:<17}{value}" for name, value in description["urls"].items()]
    if all(process["health"] == "dead" for process in description["processes"]):
        lines += ["", "Nothing of it runs any more: `burstchat down` clears what is left."]
    return "\n".join(lines)


def _words(depth: Mapping[str, Any]) -> str:
    if depth["visible"] is None or depth["in_flight"] is None:
        return "unknown: the AWS emulator does not answer"
    return f"{depth['visible']} visible, {depth['in_flight']} in flight"


def _process(record: ProcessRecord) -> dict[str, Any]:
    if not record.identity.is_alive():
        health = "dead"
    else:
        health = "ok" if is_healthy(record.port, record.health_path) else "failing"
    return {
        "role": record.role,
        "index": record.index,
        "pid": record.pid,
        "port": record.port,
        "health": health,
    }


def _queues(state: StackState) -> dict[str, dict[str, Any]]:
    """Depths; None when the emulator does not answer."""
    if not state.queues:
        return {}
    client = connect("sqs", state.urls["aws"])
    depths: dict[str, dict[str, Any]] = {}
    for name, url in state.queues.items():
        try:
            answer = client.get_queue_attributes(
                QueueUrl=url, AttributeNames=list(_DEPTHS.values())
            )["Attributes"]
        except (BotoCoreError, ClientError):
            answer = {}
        depths[name] = {
            key: int(answer[attribute]) if attribute in answer else None
            for key, attribute in _DEPTHS.items()
        }
        depths[name]["url"] = url
    return depths
