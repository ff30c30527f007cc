"""DeadLetterQueue over SQS: the same queues that SQS's own redrive policy moves messages to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.sqs_turn_queue import queue_url, send_message
from shared.contracts.dead_letters import DeadLetter
from shared.contracts.turns import QueueName

#: Even when every character is escaped the letter stays within SQS's 1 MiB.
RAW_LIMIT_CHARACTERS = 131_072


class SqsDeadLetters:
    """Sends dead letters; triage recognises repeats by turn id."""

    def __init__(self, api: AwsJsonApi, urls: Mapping[QueueName, str]) -> None:
        self._api = api
        self._urls = {name: url for name, url in urls.items() if url}

    async def send(self, queue: QueueName, letter: DeadLetter) -> None:
        """Keep the letter in the dead-letter queue of `queue`; an overlong `raw` loses its end."""
        if letter.raw is not None and len(letter.raw) > RAW_LIMIT_CHARACTERS:
            letter = msgspec.structs.replace(letter, raw=letter.raw[:RAW_LIMIT_CHARACTERS])
        group = letter.turn.tenant if letter.turn is not None else "unknown"
        url = queue_url(self._urls, queue, "DLQ")
        await send_message(self._api, url, msgspec.json.encode(letter), group=group)
