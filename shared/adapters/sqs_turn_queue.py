"""TurnQueue over SQS standard queues with `MessageGroupId` = tenant (fair queues)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi
from shared.contracts.turns import MESSAGE_LIMIT_BYTES, QueueName, TurnRequest, encode_turn
from shared.errors import ConfigurationError, ItemTooLarge

DELAY_LIMIT_S = 900
# What SQS takes as a group id: visible ASCII.
_GROUP_ID = re.compile(r"[!-~]{1,128}", re.ASCII)


class SqsTurnQueue:
    """Sends turns; SQS keeps what it acknowledged, so a repeated send is a second message."""

    def __init__(self, api: AwsJsonApi, urls: Mapping[QueueName, str]) -> None:
        self._api = api
        self._urls = {name: url for name, url in urls.items() if url}

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        """Enqueue; at-least-once. `delay_s` beyond SQS's 900 is cut to it.

        Raises ItemTooLarge above 64 KiB and ConfigurationError when the queue has no address here.
        """
        body = encode_turn(request)
        if len(body) > MESSAGE_LIMIT_BYTES:
            raise ItemTooLarge(f"queue message of turn {request.turn_id} has {len(body)} bytes")
        await send_message(
            self._api,
            queue_url(self._urls, queue),
            body,
            group=request.tenant,
            delay_s=max(0, min(delay_s, DELAY_LIMIT_S)),
        )


def queue_url(urls: Mapping[QueueName, str], queue: QueueName, kind: str = "QUEUE") -> str:
    """The address of a queue, or ConfigurationError naming its setting."""
    url = urls.get(queue)
    if not url:
        raise ConfigurationError(f"BURSTCHAT_{queue.upper()}_{kind}_URL is missing.")
    return url


async def send_message(
    api: AwsJsonApi, url: str, body: bytes, *, group: str, delay_s: int = 0
) -> None:
    """One SendMessage of JSON text, in the tenant's group."""
    # SQS refuses U+FFFE and U+FFFF; in JSON they occur inside strings only, where an escape means the same.
    text = body.decode().replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
    message: dict[str, str | int] = {
        "QueueUrl": url,
        "MessageBody": text,
        "MessageGroupId": _group_id(group),
    }
    if delay_s:
        message["DelaySeconds"] = delay_s
    await api.call("SendMessage", msgspec.json.encode(message))


def _group_id(tenant: str) -> str:
    if _GROUP_ID.fullmatch(tenant):
        return tenant
    return hashlib.sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()
