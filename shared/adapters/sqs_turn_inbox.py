"""TurnInbox over SQS: long polls, visibility and deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.adapters.sqs_turn_queue import queue_url
from shared.contracts.turns import QueueName
from shared.ports import InboxMessage

# The delivery was deleted, or the message is visible again and perhaps somebody else's.
_NOT_OURS = frozenset({"MessageNotInflight", "ReceiptHandleIsInvalid"})


class _Attributes(msgspec.Struct, frozen=True, rename="pascal"):
    sent_timestamp: str = "0"


class _Message(msgspec.Struct, rename="pascal"):
    message_id: str
    receipt_handle: str
    body: str = ""
    attributes: _Attributes = _Attributes()


class _Answer(msgspec.Struct, rename="pascal"):
    messages: list[_Message] = []


class SqsTurnInbox:
    """One request per verb: a turn lasts seconds, so batches of deletes would only keep messages longer."""

    def __init__(self, api: AwsJsonApi, urls: Mapping[QueueName, str]) -> None:
        self._api = api
        self._urls = {name: url for name, url in urls.items() if url}

    async def receive(
        self, queue: QueueName, *, limit: int, wait_s: int, hidden_s: int
    ) -> Sequence[InboxMessage]:
        """See TurnInbox."""
        request = {
            "QueueUrl": queue_url(self._urls, queue),
            "MaxNumberOfMessages": limit,
            "WaitTimeSeconds": wait_s,
            "VisibilityTimeout": hidden_s,
            "MessageSystemAttributeNames": ["SentTimestamp"],
        }
        body = await self._api.call("ReceiveMessage", msgspec.json.encode(request), held_s=wait_s)
        return tuple(
            InboxMessage(
                queue=queue,
                message_id=message.message_id,
                receipt=message.receipt_handle,
                body=message.body,
                sent_at_ms=int(message.attributes.sent_timestamp),
            )
            for message in msgspec.json.decode(body, type=_Answer).messages
        )

    async def hide(self, message: InboxMessage, *, hidden_s: int) -> bool:
        """See TurnInbox."""
        return await self._act("ChangeMessageVisibility", message, VisibilityTimeout=hidden_s)

    async def delete(self, message: InboxMessage) -> None:
        """See TurnInbox."""
        await self._act("DeleteMessage", message)

    async def _act(self, operation: str, message: InboxMessage, **fields: int) -> bool:
        request = {
            "QueueUrl": queue_url(self._urls, message.queue),
            "ReceiptHandle": message.receipt,
            **fields,
        }
        try:
            await self._api.call(operation, msgspec.json.encode(request))
        except AwsRefusal as refusal:
            if refusal.code not in _NOT_OURS:
                raise
            return False
        return True
