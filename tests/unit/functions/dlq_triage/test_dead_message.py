from __future__ import annotations

from functions.dlq_triage.dead_message import DeadMessage, read_messages

QUEUES = {"x-burst-dlq": "burst", "x-background-dlq": "background"}


def record(message_id: str, queue: str, receives: str) -> dict[str, object]:
    return {
        "messageId": message_id,
        "body": "{}",
        "attributes": {"ApproximateReceiveCount": receives},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
    }


def test_messages_name_the_queue_behind_the_one_that_they_come_from() -> None:
    event = {"Records": [record("a", "x-background-dlq", "7"), record("b", "unknown", "?")]}
    assert read_messages(event, QUEUES) == (
        DeadMessage("a", "{}", "background", 7),
        DeadMessage("b", "{}", "burst", 0),
    )
