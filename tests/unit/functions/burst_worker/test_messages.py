from functions.burst_worker.messages import read_messages


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
