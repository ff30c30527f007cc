"""The trigger's event as dead messages, and the answer that it expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.data_classes import SQSEvent

from shared.contracts.turns import QueueName


class DeadMessage(msgspec.Struct, frozen=True):
    """One record: SQS's id, the body, the queue whose dead letters it is one of, and how often SQS delivered it."""

    message_id: str
    body: str
    queue: QueueName
    receives: int


class UnnamedMessage(Exception):
    """A record that must come back has no id. An empty id in the answer is undefined, so the whole batch returns."""


def read_messages(event: dict[str, Any], queues: Mapping[str, QueueName]) -> Sequence[DeadMessage]:
    """The batch in its order; a repeated id is one message. `queues`: dead-letter queue's name → its queue."""
    if not event.get("Records"):
        return ()
    messages: dict[str, DeadMessage] = {}
    for position, record in enumerate(SQSEvent(event).records):
        message_id = record.get("messageId") or ""
        name = (record.get("eventSourceARN") or "").rpartition(":")[2]
        receives = (record.get("attributes") or {}).get("ApproximateReceiveCount", "0")
        messages[message_id or f"#{position}"] = DeadMessage(
            message_id,
            record.get("body") or "",
            queues.get(name, "burst"),
            int(receives) if receives.isdigit() else 0,
        )
    return tuple(messages.values())


def batch_answer(returned: Iterable[DeadMessage]) -> dict[str, Any]:
    """What the trigger expects: the messages to keep. Raises UnnamedMessage."""
    failures = []
    for message in returned:
        if not message.message_id:
            raise UnnamedMessage
        failures.append({"itemIdentifier": message.message_id})
    return {"batchItemFailures": failures}
