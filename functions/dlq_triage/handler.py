"""The function's entry point: every dead-letter queue triggers it."""

from __future__ import annotations

import asyncio
from typing import Any

from functions.dlq_triage.composition import triage


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Triage one batch; answers the ids of the messages that must come back."""
    del context
    return asyncio.run(triage(event))
