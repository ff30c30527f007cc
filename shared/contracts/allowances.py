"""How often something may happen, as all processes count it together."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.contracts.ledger import TurnState

AllowanceKind = Literal["user_turns", "tenant_low_turns"]


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """`per_min` a minute on average, `burst` at once."""

    per_min: int
    burst: int


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question: how many were granted, or in how many ms there is one again."""

    granted: int
    wait_ms: int = 0
    known: TurnState | None = None
    """The turn of the message that was asked about, if it is one already; then it needs no grant."""
