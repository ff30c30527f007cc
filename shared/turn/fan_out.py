"""Asking the sources that an intent names, all at once, each with its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shared.clock import Clock
from shared.contracts.orders import Order
from shared.contracts.turns import TurnRequest
from shared.policy.fanout import (
    PASSAGES_BESIDE_OTHERS,
    RETRIEVED_FOR_EACH,
    Source,
    fitting,
    merged,
    sources_for,
)
from shared.policy.limits import TurnLimits
from shared.policy.order_numbers import orders_meant
from shared.ports import Catalogue, Orders, Recommender, Retriever
from shared.turn.findings import Findings
from shared.turn.left_out import LeftOut, ask_within
from shared.turn.understanding import Wish

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SourcePorts:
    """The sources."""

    retriever: Retriever
    catalogue: Catalogue
    recommender: Recommender
    orders: Orders


class FanOut:
    """A dead or slow source costs its part of the answer and, at most, the deadline that all of them share."""

    def __init__(
        self, ports: SourcePorts, clock: Clock, limits: TurnLimits, left_out: LeftOut
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._limits = limits
        self._left_out = left_out

    async def gather(self, wish: Wish, request: TurnRequest) -> Findings:
        """What the sources of the wish's intent find; raises nothing but CancelledError.

        Orders are those of the request's own tenant and user, whatever its text says.
        """
        sources = sources_for(wish.intent.label, leans=wish.leans)
        if not sources:
            return Findings()
        ports, limits, text = self._ports, self._limits, wish.search_text
        most = limits.passages_per_prompt
        retrieved, facts, similar, orders = await asyncio.gather(
            self._ask(
                "retrieval", sources, ports.retriever.search, text, most * RETRIEVED_FOR_EACH
            ),
            self._ask("catalogue", sources, ports.catalogue.named, text, most),
            self._ask(
                "recommendations",
                sources,
                ports.recommender.similar,
                text,
                limits.similar_per_prompt,
            ),
            self._own_orders(sources, request),
        )
        return Findings(
            passages=merged(
                facts or (),
                fitting(retrieved or (), limits.passage_score_floor, is_named=bool(facts)),
                similar or (),
                min(most, PASSAGES_BESIDE_OTHERS) if orders or similar else most,
            ),
            similar=tuple(similar or ()),
            orders=orders_meant(request.text, orders or ()),
            has_orders=orders is not None,
        )

    async def _ask(
        self,
        source: Source,
        sources: Sequence[Source],
        ask: Callable[[str, int], Coroutine[object, object, Sequence[T]]],
        text: str,
        limit: int,
    ) -> Sequence[T] | None:
        if source not in sources:
            return None
        return await self._in_time(source, ask(text, limit))

    async def _own_orders(
        self, sources: Sequence[Source], request: TurnRequest
    ) -> Sequence[Order] | None:
        if "orders" not in sources:
            return None
        question = self._ports.orders.of_user(
            request.tenant, request.user, self._limits.orders_per_prompt
        )
        return await self._in_time("orders", question)

    async def _in_time(
        self, source: Source, question: Coroutine[object, object, Sequence[T]]
    ) -> Sequence[T] | None:
        return await ask_within(
            self._clock,
            self._limits.source_timeout_ms,
            question,
            source=source,
            left_out=self._left_out,
            otherwise=None,
        )
