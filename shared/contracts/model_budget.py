"""What processes and the shared model budget tell each other."""

from __future__ import annotations

from typing import Literal

import msgspec

BudgetClass = Literal["interactive", "detached"]
"""Who waits for an answer goes first; detached turns keep a share all the same."""


class ProviderAllowance(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider said of its own limits with one answer; None = it did not say.

    `pause_ms` is its `retry-after`, told only by a refusal.
    """

    requests_limit: int | None = None
    requests_left: int | None = None
    tokens_limit: int | None = None
    tokens_left: int | None = None
    pause_ms: int = 0


class BudgetLine(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one class that wait in one process, first come first."""

    tokens: tuple[int, ...] = ()
    since_ms: int = 0
    """When the first of them began to wait, epoch ms."""


class BudgetCorrection(msgspec.Struct, frozen=True, kw_only=True):
    """More (or, negative, fewer) tokens than were charged to a cell."""

    cell: int
    kind: BudgetClass
    tokens: int


class BudgetExchange(msgspec.Struct, frozen=True, kw_only=True):
    """What a process reports and asks for, once in a while for all its calls.

    Whatever it held in advance is given back with each exchange: what was `used` of it is charged, and the answer
    grants a new advance.
    """

    worker: str
    now_ms: int
    requests_per_min: int
    tokens_per_min: int
    """The limits, 0 = none."""
    interactive: BudgetLine = BudgetLine()
    detached: BudgetLine = BudgetLine()
    used_requests: int = 0
    used_tokens: int = 0
    advance_requests: int = 0
    advance_tokens: int = 0
    """What the process would like to hold for interactive calls to come."""
    corrections: tuple[BudgetCorrection, ...] = ()
    allowance: ProviderAllowance | None = None


class BudgetGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: how many of the waiting calls may go now, and what is held in advance.

    Granted calls and reported use are charged to `cell`. `wait_ms`: until the first refused call may fit, as far as
    charges lapse; 0 = none was refused. `certain_wait_ms`: no sooner than that, since only tokens are ever given back
    early. `next_wait_ms`: `certain_wait_ms` for a call that would join the line now.
    """

    cell: int
    interactive: int
    detached: int
    advance_requests: int
    advance_tokens: int
    wait_ms: int
    certain_wait_ms: int
    next_wait_ms: int
    workers: int
    """Processes that shared the budget of late, this one included."""
