"""What one invocation of dlq_triage is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from functions.dlq_triage.dead_message import read_messages
from functions.dlq_triage.triage import Triage
from functions.sqs_batch import batch_answer
from shared.bootstrap.triage import open_triage_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.turns import QueueName
from shared.settings import AwsSettings, load_settings
from shared.telemetry import Log, Metrics, configure_logging
from shared.turn.queue_dispatcher import QueueDispatcher

ROLE: Final = "dlq_triage"
_log = Log(ROLE)


async def triage(event: dict[str, Any]) -> dict[str, Any]:
    """Triage one batch. Clients live as long as the batch: deaths are rare, and nothing is left to freeze."""
    clock, randomness = SystemClock(), SystemRandomness()
    settings = load_settings(ROLE)
    configure_logging(ROLE, settings.telemetry.log_level, clock)
    messages = read_messages(event, _queues(settings.aws))
    async with open_triage_ports(settings, clock, randomness) as ports:
        worker = Triage(
            sessions=ports.sessions,
            claims=ports.claims,
            store=ports.store,
            push=ports.push,
            dispatcher=QueueDispatcher(ports.turn_queue, ports.sessions, clock),
            dead_turns=ports.dead_turns,
            ended=ports.ended,
            clock=clock,
            metrics=Metrics(settings.telemetry.metrics_namespace, ROLE, clock),
        )
        returned = await worker.run(messages)
    _log.info("batch.triaged", messages=len(messages), returned=len(returned))
    return batch_answer(returned)


def _queues(aws: AwsSettings) -> Mapping[str, QueueName]:
    """The queue behind each dead-letter queue, by the latter's name."""
    urls: dict[QueueName, str] = {
        "burst": aws.burst_dlq_url,
        "retry": aws.retry_dlq_url,
        "deferred": aws.deferred_dlq_url,
        "background": aws.background_dlq_url,
    }
    return {urlsplit(url).path.rpartition("/")[2]: name for name, url in urls.items() if url}
