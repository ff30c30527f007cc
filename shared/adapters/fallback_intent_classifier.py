"""Port IntentClassifier by two others: one that may fail, and one at hand that takes its place."""

from __future__ import annotations

from shared.clock import Clock
from shared.contracts.knowledge import Intent
from shared.errors import ChatError
from shared.ports import IntentClassifier
from shared.telemetry import Log, Metrics

_log = Log("intent")


class FallbackIntentClassifier:
    """Asks `remote`; when that fails, `local` answers, and goes on alone for `rest_ms` before `remote` is tried again.

    So an endpoint that hangs costs one time-out per rest, not one per turn. Each answer of `local` is counted.
    """

    def __init__(
        self,
        remote: IntentClassifier,
        local: IntentClassifier,
        *,
        clock: Clock,
        metrics: Metrics,
        rest_ms: int,
    ) -> None:
        self._remote = remote
        self._local = local
        self._clock = clock
        self._metrics = metrics
        self._rest_ms = rest_ms
        self._rests_until_s = 0.0

    async def classify(self, text: str) -> Intent:
        """What `remote` says, else what `local` says; raises what `local` raises."""
        if self._clock.monotonic_s() >= self._rests_until_s:
            try:
                return await self._remote.classify(text)
            except ChatError as error:
                self._rests_until_s = self._clock.monotonic_s() + self._rest_ms / 1000
                _log.warning(
                    "intent.fallback", error_type=type(error).__name__, rest_ms=self._rest_ms
                )
        self._metrics.count("IntentFallback")
        return await self._local.classify(text)
