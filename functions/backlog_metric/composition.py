"""What one invocation of backlog_metric is made of."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from functions.backlog_metric.backlog import BacklogMetric
from shared.bootstrap.signals import open_signal_ports
from shared.clock import SystemClock, SystemRandomness
from shared.policy.receiving import served_queues
from shared.settings import load_settings
from shared.telemetry import Log, Metrics, configure_logging

ROLE: Final = "backlog_metric"
_log = Log(ROLE)


async def publish_once() -> dict[str, Any]:
    """Publish every signal once. Raises ConfigurationError when a setting is missing."""
    clock, randomness = SystemClock(), SystemRandomness()
    settings = load_settings(ROLE)
    configure_logging(ROLE, settings.telemetry.log_level, clock)
    metrics = Metrics(settings.telemetry.metrics_namespace, ROLE, clock)
    async with open_signal_ports(settings, clock, randomness) as ports:
        signals = await BacklogMetric(
            queues=ports.queues,
            tasks=ports.tasks,
            board=ports.board,
            drained=served_queues(settings.queue_runner.burst_consumer),
            metrics=metrics,
        ).publish()
    _log.info("signals.published", tasks=signals.tasks, backlog_per_task=signals.backlog_per_task)
    answer: dict[str, Any] = msgspec.to_builtins(signals)
    return answer
