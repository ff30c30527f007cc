from __future__ import annotations

from typing import Any

import pytest

from functions.sqs_batch import SqsRecord, UnnamedMessage, batch_answer, read_records

RECORD: dict[str, Any] = {
    "messageId": "a",
    "receiptHandle": "AQEB",
    "body": "{}",
    "attributes": {"ApproximateReceiveCount": "7", "SentTimestamp": "1700000000012"},
    "eventSource": "aws:sqs",
    "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:x-burst",
}


def record(message_id: str) -> SqsRecord:
    return SqsRecord(
        message_id=message_id, receipt="r", body="{}", queue_name="q", receives=1, sent_at_ms=0
    )


def test_records_are_read_in_the_order_of_the_event() -> None:
    records = read_records({"Records": [RECORD, {**RECORD, "messageId": "b", "body": "x"}]})
    assert [each.message_id for each in records] == ["a", "b"]
    assert records[0] == SqsRecord(
        message_id="a",
        receipt="AQEB",
        body="{}",
        queue_name="x-burst",
        receives=7,
        sent_at_ms=1_700_000_000_012,
    )


def test_a_repeated_record_is_one_message() -> None:
    assert len(read_records({"Records": [RECORD, RECORD]})) == 1


@pytest.mark.parametrize("nothing", [{}, {"Records": []}, {"Records": None}])
@pytest.mark.case("B-04")
def test_an_event_without_records_is_an_empty_batch(nothing: dict[str, Any]) -> None:
    assert read_records(nothing) == ()


@pytest.mark.parametrize(
    "damage",
    [
        {"messageId": ""},
        {"messageId": None, "body": None, "receiptHandle": None},
        {"attributes": None},
        {"attributes": {"ApproximateReceiveCount": "?", "SentTimestamp": None}},
    ],
)
@pytest.mark.case("B-04")
def test_damaged_records_are_read_all_the_same(damage: dict[str, Any]) -> None:
    bare = {"body": "{}", "eventSource": "aws:sqs"}
    records = read_records({"Records": [RECORD | damage, bare]})
    assert len(records) == 2
    assert records[1].queue_name == ""


@pytest.mark.case("B-04")
def test_the_answer_has_exactly_the_keys_that_the_trigger_reads() -> None:
    assert batch_answer([record("id-1")]) == {"batchItemFailures": [{"itemIdentifier": "id-1"}]}
    assert batch_answer([]) == {"batchItemFailures": []}


@pytest.mark.case("B-04")
def test_an_empty_id_is_never_answered() -> None:
    with pytest.raises(UnnamedMessage):
        batch_answer([record("id-1"), record("")])
