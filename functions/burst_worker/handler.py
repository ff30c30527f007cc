"""The function's entry point: the burst and retry queues trigger it."""

from __future__ import annotations

import atexit
from typing import Any

from functions.burst_worker.composition import burst_worker
from functions.burst_worker.environment import Environment, LambdaContext

# The imports above bring every adapter, so that a snapshot holds the modules; nothing is connected yet.
_environment = Environment(burst_worker)
atexit.register(_environment.shut_down)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run the turns of one batch; answers the ids of the messages that must come back."""
    return _environment.invoke(event, context)
