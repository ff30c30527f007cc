"""A run as people can read it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.simulation.world import Outcome

_TURN_ID = re.compile(r"\b(\w+)\.[0-9A-Z]{22}([0-9A-Z]{4})\b")


def tell(outcome: Outcome) -> Iterator[str]:
    """The plan, then who did what and when, then what was broken."""
    plan = outcome.plan
    yield f"seed {plan.seed}: {plan.sizes}"
    yield f"  visibility {plan.visibility_s:.0f} s, {plan.environments} environments"
    for fault in plan.faults:
        yield f"  fault {fault}"
    for event in outcome.history.events:
        detail = _TURN_ID.sub(r"\1~\2", event.detail)
        yield f"{event.at_s:9.3f}  {event.who:<17} {event.what:<26} {detail}".rstrip()
    for violation in outcome.history.violations:
        words = _TURN_ID.sub(r"\1~\2", violation.words)
        yield f"BROKEN {violation.rule} at {violation.at_s:.3f} s: {words}"
