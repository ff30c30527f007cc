"""What the sources brought for one question."""

from __future__ import annotations

from dataclasses import dataclass

from shared.contracts.knowledge import Passage, SimilarTitle
from shared.contracts.orders import Order


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the sources brought, best first; `has_orders` tells "none" from "not asked"."""

    passages: tuple[Passage, ...] = ()
    similar: tuple[SimilarTitle, ...] = ()
    orders: tuple[Order, ...] = ()
    has_orders: bool = False
