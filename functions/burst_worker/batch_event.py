"""The trigger's event and answer. An answer of another shape makes SQS delete or return the whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.data_classes import SQSEvent

from shared.contracts.turns import QueueName


class QueueMessage(msgspec.Struct, frozen=True):
    """One record: SQS's id of it, the body as received, and the queue that it came from."""

    message_id: str
    body: str
    queue: QueueName


class UnnamedMessage(Exception):
    """A record that must come back has no id. An empty id in the answer is undefined, so the whole batch returns."""


def read_messages(event: dict[str, Any], retry_queue_name: str) -> Sequence[QueueMessage]:
    """The batch in its order; empty for an event without records. A repeated id is one message."""
    if not event.get("Records"):
        return ()
    messages: dict[str, QueueMessage] = {}
    for position, record in enumerate(SQSEvent(event).records):
        message_id = record.get("messageId") or ""
        queue_name = (record.get("eventSourceARN") or "").rpartition(":")[2]
        is_retry = queue_name == retry_queue_name
        messages[message_id or f"#{position}"] = QueueMessage(
            message_id, record.get("body") or "", "retry" if is_retry else "burst"
        )
    return tuple(messages.values())


def batch_answer(returned: Iterable[QueueMessage]) -> dict[str, Any]:
    """What the trigger expects: the messages to keep. Raises UnnamedMessage."""
    failures = []
    for message in returned:
        if not message.message_id:
            raise UnnamedMessage
        failures.append({"itemIdentifier": message.message_id})
    return {"batchItemFailures": failures}
