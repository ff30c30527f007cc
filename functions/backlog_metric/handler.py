"""The function's entry point: a schedule calls it every minute."""

from __future__ import annotations

import asyncio
from typing import Any

from functions.backlog_metric.composition import publish_once


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Publish the scaling signals once; answers what was published. The event's content does not matter."""
    del event, context
    return asyncio.run(publish_once())
