"""A batch of the burst worker's triggers as queue messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functions.sqs_batch import read_records
from shared.ports import InboxMessage


def read_messages(event: dict[str, Any], retry_queue_name: str) -> Sequence[InboxMessage]:
    """The batch in its order; whatever does not come from the retry queue comes from burst."""
    return tuple(
        InboxMessage(
            queue="retry" if record.queue_name == retry_queue_name else "burst",
            message_id=record.message_id,
            receipt=record.receipt,
            body=record.body,
            sent_at_ms=record.sent_at_ms,
        )
        for record in read_records(event)
    )
