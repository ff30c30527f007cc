"""The shared model budget in Redis: one script, one round trip for all calls of a process."""

from __future__ import annotations

from typing import Final

from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_keys import BUDGET, BUDGET_LINES, BUDGET_SEEN
from shared.adapters.redis_scripts import Argument, load_script
from shared.contracts.model_budget import (
    BudgetExchange,
    BudgetGrant,
    BudgetLine,
    ProviderAllowance,
)

WINDOW_MS: Final = 60_000
CELL_MS: Final = 250
"""Charges lapse by cells, at most so much late."""
_UNTOLD: Final = -1
_NOTHING_SAID: Final = ProviderAllowance()


class RedisBudgetWindow:
    """BudgetWindow over lua/budget."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._budget = load_script("budget")

    async def exchange(self, exchange: BudgetExchange) -> BudgetGrant:
        """See BudgetWindow."""
        call = self._budget.call((BUDGET, BUDGET_SEEN, *BUDGET_LINES), *_arguments(exchange))
        # Not repeated: calls granted twice would be charged twice.
        return BudgetGrant(
            **dict(
                zip(BudgetGrant.__struct_fields__, await self._client.run_one(call), strict=True)
            )
        )


def _arguments(exchange: BudgetExchange) -> list[Argument]:
    told = exchange.allowance or _NOTHING_SAID
    lines: tuple[BudgetLine, BudgetLine] = (exchange.interactive, exchange.detached)
    return [
        exchange.now_ms,
        exchange.worker,
        WINDOW_MS,
        CELL_MS,
        exchange.requests_per_min,
        exchange.tokens_per_min,
        exchange.used_requests,
        exchange.used_tokens,
        exchange.advance_requests,
        exchange.advance_tokens,
        told.pause_ms,
        *(
            _UNTOLD if number is None else number
            for number in (
                told.requests_limit,
                told.requests_left,
                told.tokens_limit,
                told.tokens_left,
            )
        ),
        *(line.since_ms for line in lines),
        *(len(line.tokens) for line in lines),
        len(exchange.corrections),
        *(tokens for line in lines for tokens in line.tokens),
        *(
            argument
            for each in exchange.corrections
            for argument in (each.cell, each.kind[0], each.tokens)
        ),
    ]
