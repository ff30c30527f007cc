import pytest

from functions.dlq_triage.dead_message import (
    DeadMessage,
    UnnamedMessage,
    batch_answer,
    read_messages,
)

QUEUES = {"x-burst-dlq": "burst", "x-background-dlq": "background"}


def record(message_id: str = "a", queue: str = "x-background-dlq", receives: str = "7") -> dict:
    return {
        "messageId": message_id,
        "body": "{}",
        "attributes": {"ApproximateReceiveCount": receives},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
    }


def test_records_are_read_in_their_order_with_the_queue_behind_them() -> None:
    messages = read_messages({"Records": [record("a"), record("b", "x-burst-dlq", "?")]}, QUEUES)
    assert messages == (
        DeadMessage("a", "{}", "background", 7),
        DeadMessage("b", "{}", "burst", 0),
    )


def test_a_repeated_id_is_one_message() -> None:
    assert len(read_messages({"Records": [record(), record()]}, QUEUES)) == 1


@pytest.mark.parametrize("event", [{}, {"Records": []}])
def test_an_event_without_records_is_empty(event: dict) -> None:
    assert read_messages(event, QUEUES) == ()


def test_only_what_must_come_back_is_named() -> None:
    (message,) = read_messages({"Records": [record()]}, QUEUES)
    assert batch_answer([message]) == {"batchItemFailures": [{"itemIdentifier": "a"}]}
    assert batch_answer([]) == {"batchItemFailures": []}


def test_a_message_without_an_id_returns_the_whole_batch() -> None:
    messages = read_messages({"Records": [{**record(), "messageId": ""}]}, QUEUES)
    with pytest.raises(UnnamedMessage):
        batch_answer(messages)
