import pytest

from functions.burst_worker.batch_event import UnnamedMessage, batch_answer, read_messages
from shared.ports import InboxMessage


def message(message_id: str) -> InboxMessage:
    return InboxMessage(queue="burst", message_id=message_id, receipt="r", body="{}", sent_at_ms=0)


def test_messages_are_read_in_the_order_of_the_event(event):
    messages = read_messages(event(), "burstchat-retry")
    assert [message.message_id for message in messages] == [
        "059f36b4-87a3-44ab-83d2-661975830a7d",
        "2e1424d4-f796-459a-8184-9c92662be6da",
        "8a3c2f3d-97ab-4f40-9a5e-0d7e6d8f9b11",
    ]
    assert {message.queue for message in messages} == {"burst"}


def test_the_queue_of_a_message_is_read_from_its_arn(event):
    (malformed,) = read_messages(event("sqs_malformed"), "burstchat-retry")
    assert malformed.queue == "retry"


def test_the_receipt_and_the_time_of_sending_name_the_delivery(event):
    first, *_ = read_messages(event(), "burstchat-retry")
    assert first.receipt == "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a"
    assert first.sent_at_ms == 1_700_000_000_012


def test_a_repeated_record_is_one_message(event):
    doubled = event()
    doubled["Records"] += doubled["Records"]
    assert len(read_messages(doubled, "burstchat-retry")) == 3


@pytest.mark.parametrize("nothing", [{}, {"Records": []}, {"Records": None}])
@pytest.mark.case("B-04")
def test_an_event_without_records_is_an_empty_batch(nothing):
    assert read_messages(nothing, "burstchat-retry") == ()


@pytest.mark.parametrize("damage", [{"messageId": ""}, {"messageId": None, "body": None}])
@pytest.mark.case("B-04")
def test_records_without_an_id_are_read_all_the_same(event, damage):
    damaged = event()
    damaged["Records"][0] |= damage
    damaged["Records"][1] |= damage
    del damaged["Records"][2]["messageId"], damaged["Records"][2]["eventSourceARN"]
    assert len(read_messages(damaged, "burstchat-retry")) == 3


@pytest.mark.case("B-04")
def test_the_answer_has_exactly_the_keys_that_the_trigger_reads():
    assert batch_answer([message("id-1")]) == {"batchItemFailures": [{"itemIdentifier": "id-1"}]}
    assert batch_answer([]) == {"batchItemFailures": []}


@pytest.mark.case("B-04")
def test_an_empty_id_is_never_answered():
    with pytest.raises(UnnamedMessage):
        batch_answer([message("id-1"), message("")])
