"""The model budget as one process sees it: it takes slices of what all share, and hands them out to its calls.

The process holds a small advance, so that a call usually goes at once; use is reported and the advance renewed about
once a second, whatever the number of calls. When the budget is short nobody holds an advance: calls wait in line, and
each exchange asks for all of them. While the ledger is away the process goes on with a careful share of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from shared.clock import Clock
from shared.contracts.model_budget import (
    BudgetClass,
    BudgetCorrection,
    BudgetExchange,
    BudgetGrant,
    BudgetLine,
    ProviderAllowance,
)
from shared.errors import DependencyUnavailable
from shared.policy.budget_share import LocalShare, grown, open_share, spend
from shared.ports import BudgetWindow
from shared.telemetry import Log

TICK_MS = 1_000
POLL_MS = 500
"""Those who wait ask at least this often: what others give back is not foretold."""
ADVANCE_KEPT_MS = 5_000
"""The ledger keeps an advance twice as long for a process that says nothing."""
ASKED_AT_ONCE = 32
FIRST_CALL_TOKENS = 4_000
"""Taken for the size of a call before there was one."""
LEAST_ADVANCE = 2
UNCERTAIN_WAIT_MS = 10_000
"""While tokens are short, the longest wait worth telling: most of what is set aside for answers comes back."""
_PAUSE_LIMIT_MS = 60_000
_NOTHING_SAID = ProviderAllowance()

_log = Log("model_budget")


class BudgetShort(Exception):
    """The call may not go within its caller's patience; `wait_ms` is when it might, as far as is known."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"the model budget is spent for {wait_ms} ms")
        self.wait_ms = wait_ms


@dataclass(eq=False)
class _Charge:
    """Where calls were charged; the cell is known once the ledger has been told."""

    cell: int | None = None
    requests: int = 0
    tokens: int = 0
    corrected: dict[BudgetClass, int] = field(default_factory=dict)


@dataclass(eq=False)
class Ticket:
    """One call that may go. To be settled once, when what it used is known."""

    charge: _Charge | None
    kind: BudgetClass
    tokens: int


@dataclass(eq=False)
class _Waiter:
    tokens: int
    since_ms: int
    give_up_at_ms: float | None
    answer: asyncio.Future[Ticket | BudgetShort]


class ModelBudget:
    """One per process; `run` must be running. Limits of 0 mean none, and without any nobody is asked anything.

    `holds_advance`: False for a process that is frozen between its calls.
    """

    def __init__(
        self,
        window: BudgetWindow,
        clock: Clock,
        *,
        worker: str,
        requests_per_min: int,
        tokens_per_min: int,
        holds_advance: bool,
    ) -> None:
        self._window = window
        self._clock = clock
        self._worker = worker
        self._requests_per_min = requests_per_min
        self._tokens_per_min = tokens_per_min
        self._holds_advance = holds_advance
        self._is_off = not requests_per_min and not tokens_per_min
        self._wake = asyncio.Event()
        self._exchanging = asyncio.Lock()
        self._lines: dict[BudgetClass, deque[_Waiter]] = {
            "interactive": deque(),
            "detached": deque(),
        }
        self._advance_requests = 0
        self._advance_tokens = 0
        self._advance_size = 0
        self._advance_until_ms = 0
        self._open = _Charge()  # what was used of the advance and not told yet
        self._untold: list[_Charge] = []  # told, but perhaps not heard
        self._corrected: list[_Charge] = []
        self._allowance: ProviderAllowance | None = None
        self._paused_until_ms = 0.0
        self._call_tokens = float(FIRST_CALL_TOKENS)
        self._recent_calls = 0.0  # of the last second or two, older ones counting less
        self._called_at_ms = 0.0
        self._workers = 0
        self._next_wait_ms = 0
        self._told_at_ms = 0.0
        self._poll_ms: int | None = None  # when those who wait ask again; None = now
        self._hint_ms = TICK_MS  # for those who are sent away
        self._share: LocalShare | None = None  # while the ledger is away

    def expected_wait_ms(self) -> float:
        """How long an interactive call that came now would wait: what is certain of it, or what others wait already.

        0 = not at all, or not known: tokens that were set aside may come back at any moment.
        """
        now_ms = self._clock.now_ms()
        line = self._lines["interactive"]
        waited_ms = now_ms - line[0].since_ms if line else 0
        return max(0.0, waited_ms, self._next_wait_ms - (now_ms - self._told_at_ms))

    async def reserve(
        self, tokens: int, *, is_detached: bool = False, patience_ms: float | None = None
    ) -> Ticket:
        """Wait until a call of `tokens` may go, `patience_ms` at most (None = for ever).

        Raises BudgetShort as soon as it is known that it will not go in time. Cancelling is safe: what was granted
        meanwhile is given back.
        """
        if self._is_off:
            return Ticket(None, "interactive", tokens)
        kind: BudgetClass = "detached" if is_detached else "interactive"
        self._count_call(tokens)
        if kind == "interactive" and not self._lines[kind] and self._takes_from_advance(tokens):
            return Ticket(self._open, kind, tokens)
        now_ms = self._clock.now_ms()
        waiter = _Waiter(
            tokens,
            now_ms,
            None if patience_ms is None else now_ms + patience_ms,
            asyncio.get_running_loop().create_future(),
        )
        if not self._lines[kind]:
            self._ask_now()
        self._lines[kind].append(waiter)
        try:
            answer = await waiter.answer
        except asyncio.CancelledError:
            self._leave(kind, waiter)
            raise
        if isinstance(answer, BudgetShort):
            raise answer
        return answer

    def settle(self, ticket: Ticket, used_tokens: int) -> None:
        """Correct what the call was charged with by what it used. Never waits, never raises."""
        charge = ticket.charge
        if charge is None or used_tokens == ticket.tokens:
            return
        if not charge.corrected:
            self._corrected.append(charge)
        charge.corrected[ticket.kind] = (
            charge.corrected.get(ticket.kind, 0) + used_tokens - ticket.tokens
        )

    def note(self, allowance: ProviderAllowance) -> None:
        """Take in what the provider said of its limits; all processes learn it with the next exchange."""
        if self._is_off or allowance == _NOTHING_SAID:
            return
        pause_ms = min(allowance.pause_ms, _PAUSE_LIMIT_MS)
        if self._allowance is not None:
            pause_ms = max(pause_ms, self._allowance.pause_ms)
        self._allowance = ProviderAllowance(
            requests_limit=allowance.requests_limit,
            requests_left=allowance.requests_left,
            tokens_limit=allowance.tokens_limit,
            tokens_left=allowance.tokens_left,
            pause_ms=pause_ms,
        )
        if allowance.pause_ms:
            self._paused_until_ms = self._clock.now_ms() + pause_ms
            _log.warning("budget.paused", pause_ms=pause_ms)
            self._ask_now()

    async def run(self) -> None:
        """Exchange with the ledger until cancelled; returns at once when there is nothing to limit."""
        while not self._is_off:
            self._wake.clear()
            if self._has_business():
                await self.tick()
            await self._rest()

    async def tick(self) -> None:
        """One exchange with everything that follows from it. Raises nothing that the ledger may answer."""
        async with self._exchanging:
            asked = self._ask()
            lines = {kind: list(self._lines[kind])[:ASKED_AT_ONCE] for kind in self._lines}
            try:
                grant = await self._window.exchange(asked)
            except DependencyUnavailable as error:
                self._serve_alone(asked, error)
            else:
                self._take_in(grant, lines)
            self._dismiss()

    async def flush(self) -> None:
        """Tell the ledger what it does not know yet, so that a process may be frozen or stopped after it."""
        if self._has_news():
            await self.tick()

    # what goes out ---------------------------------------------------------------------------------

    def _has_business(self) -> bool:
        return self._holds_advance or any(self._lines.values()) or self._has_news()

    def _has_news(self) -> bool:
        return bool(
            self._open.requests or self._untold or self._corrected or self._allowance is not None
        )

    def _ask(self) -> BudgetExchange:
        # Told again until the ledger has answered; what is used meanwhile is charged by itself.
        if self._open.requests:
            self._untold.append(self._open)
            self._open = _Charge()
        wanted = max(LEAST_ADVANCE, round(self._recent_calls)) if self._holds_advance else 0
        asked = BudgetExchange(
            worker=self._worker,
            now_ms=self._clock.now_ms(),
            requests_per_min=self._requests_per_min,
            tokens_per_min=self._tokens_per_min,
            interactive=_line_of(self._lines["interactive"]),
            detached=_line_of(self._lines["detached"]),
            used_requests=sum(charge.requests for charge in self._untold),
            used_tokens=sum(charge.tokens for charge in self._untold),
            advance_requests=wanted,
            advance_tokens=wanted * round(self._call_tokens),
            corrections=self._take_corrections(),
            allowance=self._allowance,
        )
        self._allowance = None
        # It is given back with the exchange: what is taken from it meanwhile would count for nothing.
        self._advance_requests = self._advance_tokens = 0
        return asked

    def _take_corrections(self) -> tuple[BudgetCorrection, ...]:
        known = [charge for charge in self._corrected if charge.cell is not None]
        self._corrected = [charge for charge in self._corrected if charge.cell is None]
        corrections = [
            BudgetCorrection(cell=charge.cell or 0, kind=kind, tokens=tokens)
            for charge in known
            for kind, tokens in charge.corrected.items()
            if tokens
        ]
        for charge in known:
            charge.corrected = {}
        return tuple(corrections)

    # what comes in ---------------------------------------------------------------------------------

    def _take_in(self, grant: BudgetGrant, lines: dict[BudgetClass, list[_Waiter]]) -> None:
        if self._share is not None:
            self._share = None
            _log.info("budget.ledger_back")
        for charge in self._untold:
            charge.cell = grant.cell
        self._untold.clear()
        now_ms = self._clock.now_ms()
        self._workers = grant.workers
        self._next_wait_ms, self._told_at_ms = grant.next_wait_ms, now_ms
        self._advance_requests = self._advance_size = grant.advance_requests
        self._advance_tokens = grant.advance_tokens
        self._advance_until_ms = now_ms + ADVANCE_KEPT_MS
        charge = _Charge(cell=grant.cell)
        is_refused = False
        granted: dict[BudgetClass, int] = {
            "interactive": grant.interactive,
            "detached": grant.detached,
        }
        for kind, asked in lines.items():
            for waiter in asked[: granted[kind]]:
                self._let_go(kind, waiter, charge)
            is_refused = is_refused or granted[kind] < len(asked)
        self._poll_ms = grant.wait_ms if is_refused else None
        if is_refused:
            self._give_notice(grant)
        # Who came while we asked.
        line = self._lines["interactive"]
        while line and self._takes_from_advance(line[0].tokens):
            self._let_go("interactive", line[0], self._open)

    def _let_go(self, kind: BudgetClass, waiter: _Waiter, charge: _Charge) -> None:
        # What is used of an advance is told as interactive.
        charged_as = "interactive" if charge is self._open else kind
        ticket = Ticket(charge, charged_as, waiter.tokens)
        with suppress(ValueError):
            self._lines[kind].remove(waiter)
        if waiter.answer.done():  # its caller left while we asked
            self.settle(ticket, 0)
        else:
            waiter.answer.set_result(ticket)

    def _give_notice(self, grant: BudgetGrant) -> None:
        """Tell those whose patience would end before the first of the line may go."""
        earliest_ms = self._clock.now_ms() + grant.certain_wait_ms
        self._hint_ms = max(grant.certain_wait_ms, min(grant.wait_ms, UNCERTAIN_WAIT_MS))
        self._dismiss_if(lambda give_up_at_ms: earliest_ms > give_up_at_ms)

    def _dismiss(self) -> None:
        now_ms = self._clock.now_ms()
        self._dismiss_if(lambda give_up_at_ms: now_ms >= give_up_at_ms)

    def _dismiss_if(self, is_over: Callable[[float], bool]) -> None:
        for line in self._lines.values():
            for waiter in list(line):
                if waiter.give_up_at_ms is not None and is_over(waiter.give_up_at_ms):
                    line.remove(waiter)
                    if not waiter.answer.done():
                        waiter.answer.set_result(BudgetShort(self._hint_ms))

    def _serve_alone(self, asked: BudgetExchange, error: DependencyUnavailable) -> None:
        now_ms = self._clock.now_ms()
        if self._share is None:
            _log.warning("budget.ledger_away", error_type=type(error).__name__)
            self._share = open_share(
                self._requests_per_min, self._tokens_per_min, self._workers, now_ms
            )
        # A lost refund costs a little of the budget, a lost debit would overdraw it.
        for each in asked.corrections:
            if each.tokens > 0:
                charge = _Charge(cell=each.cell, corrected={each.kind: each.tokens})
                self._corrected.append(charge)
        if asked.allowance is not None and self._allowance is None:
            self._allowance = msgspec.structs.replace(asked.allowance, pause_ms=0)
        self._share = grown(self._share, now_ms)
        for kind, line in self._lines.items():
            while line and now_ms >= self._paused_until_ms:
                left = spend(self._share, line[0].tokens)
                if left is None:
                    break
                self._share = left
                self._open.requests += 1
                self._open.tokens += line[0].tokens
                self._let_go(kind, line[0], self._open)
        self._poll_ms = POLL_MS

    # between exchanges -----------------------------------------------------------------------------

    def _takes_from_advance(self, tokens: int) -> bool:
        now_ms = self._clock.now_ms()
        if now_ms >= self._advance_until_ms or now_ms < self._paused_until_ms:
            return False
        if self._advance_requests < 1 or self._advance_tokens < tokens:
            return False
        self._advance_requests -= 1
        self._advance_tokens -= tokens
        self._open.requests += 1
        self._open.tokens += tokens
        if self._advance_requests * 2 < self._advance_size:
            self._wake.set()
        return True

    def _count_call(self, tokens: int) -> None:
        now_ms = self._clock.now_ms()
        faded = 0.5 ** (max(0.0, now_ms - self._called_at_ms) / 1_000)
        self._recent_calls = self._recent_calls * faded + 1
        self._called_at_ms = now_ms
        self._call_tokens = max(float(tokens), 0.9 * self._call_tokens + 0.1 * tokens)

    def _leave(self, kind: BudgetClass, waiter: _Waiter) -> None:
        with suppress(ValueError):
            self._lines[kind].remove(waiter)
        if waiter.answer.cancelled() or not waiter.answer.done():
            return
        answer = waiter.answer.result()
        if isinstance(answer, Ticket):
            self.settle(answer, 0)

    def _ask_now(self) -> None:
        self._poll_ms = None
        self._wake.set()

    async def _rest(self) -> None:
        rest_ms = TICK_MS
        if any(self._lines.values()):
            if self._poll_ms is None:
                return
            rest_ms = min(max(1, self._poll_ms), POLL_MS)
        sleeper = asyncio.create_task(self._clock.sleep(rest_ms / 1000))
        waker = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait([sleeper, waker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeper.cancel()
            waker.cancel()


def _line_of(line: deque[_Waiter]) -> BudgetLine:
    asked = [waiter for _, waiter in zip(range(ASKED_AT_ONCE), line, strict=False)]
    return BudgetLine(
        tokens=tuple(waiter.tokens for waiter in asked),
        since_ms=asked[0].since_ms if asked else 0,
    )
