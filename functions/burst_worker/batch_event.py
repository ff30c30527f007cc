"""The trigger's event and answer. An answer of another shape makes SQS delete or return the whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aws_lambda_powertools.utilities.data_classes import SQSEvent

from shared.ports import InboxMessage


class UnnamedMessage(Exception):
    """A record that must come back has no id. An empty id in the answer is undefined, so the whole batch returns."""


def read_messages(event: dict[str, Any], retry_queue_name: str) -> Sequence[InboxMessage]:
    """The batch in its order; empty for an event without records. A repeated id is one message."""
    if not event.get("Records"):
        return ()
    messages: dict[str, InboxMessage] = {}
    for position, record in enumerate(SQSEvent(event).records):
        message_id = record.get("messageId") or ""
        queue_name = (record.get("eventSourceARN") or "").rpartition(":")[2]
        is_retry = queue_name == retry_queue_name
        sent_at_ms = (record.get("attributes") or {}).get("SentTimestamp", "0")
        messages[message_id or f"#{position}"] = InboxMessage(
            queue="retry" if is_retry else "burst",
            message_id=message_id,
            receipt=record.get("receiptHandle") or "",
            body=record.get("body") or "",
            sent_at_ms=int(sent_at_ms) if sent_at_ms.isdigit() else 0,
        )
    return tuple(messages.values())


def batch_answer(returned: Iterable[InboxMessage]) -> dict[str, Any]:
    """What the trigger expects: the messages to keep. Raises UnnamedMessage."""
    failures = []
    for message in returned:
        if not message.message_id:
            raise UnnamedMessage
        failures.append({"itemIdentifier": message.message_id})
    return {"batchItemFailures": failures}
