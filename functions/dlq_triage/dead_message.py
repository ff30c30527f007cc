"""A batch of the dead-letter queues' trigger as dead messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from functions.sqs_batch import read_records
from shared.contracts.turns import QueueName


class DeadMessage(msgspec.Struct, frozen=True):
    """One record: SQS's id, the body, the queue whose dead letters it is one of, and how often SQS delivered it."""

    message_id: str
    body: str
    queue: QueueName
    receives: int


def read_messages(event: dict[str, Any], queues: Mapping[str, QueueName]) -> Sequence[DeadMessage]:
    """The batch in its order. `queues`: dead-letter queue's name → its queue."""
    return tuple(
        DeadMessage(
            record.message_id,
            record.body,
            queues.get(record.queue_name, "burst"),
            record.receives,
        )
        for record in read_records(event)
    )
