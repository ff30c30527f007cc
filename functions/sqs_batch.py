"""An SQS trigger's event and answer. An answer of another shape makes SQS delete or return the whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from aws_lambda_powertools.utilities.data_classes import SQSEvent


class SqsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record as the platform gives it; what it leaves out is empty or nought. `sent_at_ms` by the queue's clock."""

    message_id: str
    receipt: str
    body: str
    queue_name: str
    receives: int
    sent_at_ms: int


class Named(Protocol):
    """Whatever a consumer makes of a record."""

    @property
    def message_id(self) -> str:
        """SQS's id of the message, empty when the record had none."""
        ...


class UnnamedMessage(Exception):
    """A record that must come back has no id. An empty id in the answer is undefined, so the whole batch returns."""


def read_records(event: dict[str, Any]) -> Sequence[SqsRecord]:
    """The batch in its order; empty for an event without records. A repeated id is one message."""
    if not event.get("Records"):
        return ()
    records: dict[str, SqsRecord] = {}
    for position, record in enumerate(SQSEvent(event).records):
        message_id = record.get("messageId") or ""
        attributes = record.get("attributes") or {}
        records[message_id or f"#{position}"] = SqsRecord(
            message_id=message_id,
            receipt=record.get("receiptHandle") or "",
            body=record.get("body") or "",
            queue_name=(record.get("eventSourceARN") or "").rpartition(":")[2],
            receives=_number(attributes.get("ApproximateReceiveCount")),
            sent_at_ms=_number(attributes.get("SentTimestamp")),
        )
    return tuple(records.values())


def batch_answer(returned: Iterable[Named]) -> dict[str, Any]:
    """What the trigger expects: the messages to keep. Raises UnnamedMessage."""
    failures = []
    for message in returned:
        if not message.message_id:
            raise UnnamedMessage
        failures.append({"itemIdentifier": message.message_id})
    return {"batchItemFailures": failures}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
