"""The shared model budget in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from shared.contracts.model_budget import BudgetClass, BudgetExchange, BudgetGrant, BudgetLine
from shared.errors import DependencyUnavailable

WINDOW_MS = 60_000
CELL_MS = 250
DEAD_AFTER_MS = 10_000
LINE_DEAD_AFTER_MS = 2_000
CLOCK_TOLERANCE_MS = 5_000
LIMIT_KEPT_MS = 600_000
SHARE: dict[BudgetClass, float] = {"interactive": 0.9, "detached": 0.1}
OTHER: dict[BudgetClass, BudgetClass] = {"interactive": "detached", "detached": "interactive"}


@dataclass
class Charge:
    requests: int = 0
    tokens: int = 0


@dataclass
class Waiting:
    since_ms: int
    tokens: int


@dataclass
class FakeBudgetWindow:
    """BudgetWindow; `calls` are the exchanges, one round trip each."""

    calls: list[BudgetExchange] = field(default_factory=list)
    available: bool = True

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._latest_ms = 0
        self._cells: dict[tuple[int, BudgetClass], Charge] = {}
        self._seen_ms: dict[str, int] = {}
        self._held: dict[str, Charge] = {}
        self._lines: dict[BudgetClass, dict[str, Waiting]] = {"interactive": {}, "detached": {}}
        self._limits = (0, 0)
        self._limits_until_ms = 0
        self._paused_until_ms = 0

    async def exchange(self, exchange: BudgetExchange) -> BudgetGrant:
        self.calls.append(exchange)
        if not self.available:
            raise DependencyUnavailable("Redis is away")
        if exchange.now_ms < self._latest_ms - CLOCK_TOLERANCE_MS:
            self._forget()
        now_ms = self._latest_ms = max(exchange.now_ms, self._latest_ms)
        return _Step(self, exchange, now_ms).grant()


class _Step:
    """One exchange."""

    def __init__(self, window: FakeBudgetWindow, exchange: BudgetExchange, now_ms: int) -> None:
        self.window = window
        self.asked = exchange
        self.now_ms = now_ms
        self.cell = now_ms // CELL_MS
        self.first = math.floor((now_ms - WINDOW_MS) / CELL_MS)
        self.lines: dict[BudgetClass, BudgetLine] = {
            "interactive": exchange.interactive,
            "detached": exchange.detached,
        }
        self.cap = Charge(
            exchange.requests_per_min or 2**53,
            exchange.tokens_per_min or 2**53,
        )

    def grant(self) -> BudgetGrant:
        window, asked = self.window, self.asked
        for name in [name for name in window._cells if name[0] < self.first]:
            del window._cells[name]
        self._bury_the_dead()
        window._seen_ms[asked.worker] = self.now_ms
        window._held.pop(asked.worker, None)
        self._charge(self.cell, "interactive", asked.used_requests, asked.used_tokens)
        for each in asked.corrections:
            if self.first <= each.cell <= self.cell:
                self._charge(each.cell, each.kind, 0, each.tokens)
        self._listen_to_the_provider()
        for kind, line in self.lines.items():
            if line.tokens:
                waiting = window._lines[kind].setdefault(asked.worker, Waiting(0, 0))
                waiting.since_ms = line.since_ms
            else:
                window._lines[kind].pop(asked.worker, None)
        eldest = {kind: self._eldest(kind) for kind in self.lines}
        granted: dict[BudgetClass, int] = {}
        lack: Charge | None = None
        for kind in self.lines:
            granted[kind], short = self._serve(kind, eldest)
            lack = lack or short
        is_line = any(window._lines.values())
        advance = self._advance(is_line)
        wait_ms = certain_wait_ms = 0.0
        if lack is not None:
            held = self._sum(*window._held.values())
            certain_wait_ms = max(self._pause_ms(), self._wait_ms(lack.requests - held.requests, 0))
            wait_ms = max(
                self._pause_ms(),
                CELL_MS,
                self._wait_ms(lack.requests - held.requests, lack.tokens - held.tokens),
            )
        return BudgetGrant(
            cell=self.cell,
            interactive=granted["interactive"],
            detached=granted["detached"],
            advance_requests=advance.requests,
            advance_tokens=advance.tokens,
            wait_ms=math.ceil(wait_ms),
            certain_wait_ms=math.ceil(certain_wait_ms),
            next_wait_ms=math.ceil(self._next_wait_ms(granted, is_line)),
            workers=len(window._seen_ms),
        )

    def _bury_the_dead(self) -> None:
        window = self.window
        dead = [name for name, ms in window._seen_ms.items() if ms <= self.now_ms - DEAD_AFTER_MS]
        for worker in sorted(dead, key=lambda name: (window._seen_ms[name], name))[:16]:
            held = window._held.pop(worker, Charge())
            self._charge(self.cell, "interactive", held.requests, held.tokens)
            del window._seen_ms[worker]

    def _charge(self, cell: int, kind: BudgetClass, requests: int, tokens: int) -> None:
        charge = self.window._cells.setdefault((cell, kind), Charge())
        charge.requests += requests
        charge.tokens += tokens

    def _sum(self, *charges: Charge) -> Charge:
        return Charge(sum(each.requests for each in charges), sum(each.tokens for each in charges))

    def _used(self, kind: BudgetClass | None = None) -> Charge:
        return self._sum(
            *(charge for (_, k), charge in self.window._cells.items() if kind in (None, k))
        )

    def _taken(self) -> Charge:
        return self._sum(self._used(), *self.window._held.values())

    def _listen_to_the_provider(self) -> None:
        window, told = self.window, self.asked.allowance
        if told is not None:
            if (told.requests_limit or 0) > 0 or (told.tokens_limit or 0) > 0:
                window._limits = (told.requests_limit or 0, told.tokens_limit or 0)
                window._limits_until_ms = self.now_ms + LIMIT_KEPT_MS
            if told.pause_ms > 0:
                window._paused_until_ms = max(window._paused_until_ms, self.now_ms + told.pause_ms)
        if window._limits_until_ms > self.now_ms:
            requests, tokens = window._limits
            if requests > 0 and self.asked.requests_per_min:
                self.cap.requests = min(self.cap.requests, requests)
            if tokens > 0 and self.asked.tokens_per_min:
                self.cap.tokens = min(self.cap.tokens, tokens)
        if told is not None:
            taken = self._taken()
            left_r = told.requests_left if self.asked.requests_per_min else None
            left_t = told.tokens_left if self.asked.tokens_per_min else None
            foreign = Charge(
                0 if left_r is None else max(0, self.cap.requests - taken.requests - left_r),
                0 if left_t is None else max(0, self.cap.tokens - taken.tokens - left_t),
            )
            self._charge(self.cell, "interactive", foreign.requests, foreign.tokens)

    def _eldest(self, kind: BudgetClass) -> str | None:
        line = self.window._lines[kind]
        while line:
            worker = min(line, key=lambda name: (line[name].since_ms, name))
            seen_ms = self.window._seen_ms.get(worker, 0)
            if worker == self.asked.worker or seen_ms > self.now_ms - LINE_DEAD_AFTER_MS:
                return worker
            del line[worker]
        return None

    def _serve(
        self, kind: BudgetClass, eldest: dict[BudgetClass, str | None]
    ) -> tuple[int, Charge | None]:
        line, me = self.window._lines[kind], self.asked.worker
        first = eldest[kind]
        aside = Charge(1, line[first].tokens) if first and first != me else Charge()
        granted = 0
        for tokens in self.lines[kind].tokens:
            taken = self._taken()
            lack = Charge(
                taken.requests + aside.requests + 1 - self.cap.requests,
                taken.tokens + min(self.cap.tokens, aside.tokens + tokens) - self.cap.tokens,
            )
            fits = lack.requests <= 0 and lack.tokens <= 0
            if not fits or not self._is_within_share(kind, tokens, eldest) or self._pause_ms():
                line[me].tokens = tokens
                return granted, lack
            self._charge(self.cell, kind, 1, tokens)
            granted += 1
        line.pop(me, None)
        return granted, None

    def _is_within_share(
        self, kind: BudgetClass, tokens: int, eldest: dict[BudgetClass, str | None]
    ) -> bool:
        if eldest[OTHER[kind]] is None:
            return True
        used = self._used(kind)
        if used.requests <= 0:
            return True
        return (
            used.requests + 1 <= SHARE[kind] * self.cap.requests
            and used.tokens + tokens <= SHARE[kind] * self.cap.tokens
        )

    def _pause_ms(self) -> int:
        return max(0, self.window._paused_until_ms - self.now_ms)

    def _advance(self, is_line: bool) -> Charge:
        if is_line or self._pause_ms():
            return Charge()
        taken, workers = self._taken(), len(self.window._seen_ms)
        advance = Charge(
            min(
                self.asked.advance_requests,
                (self.cap.requests - taken.requests) // (2 * workers),
            ),
            min(self.asked.advance_tokens, (self.cap.tokens - taken.tokens) // (2 * workers)),
        )
        if advance.requests < 1 or advance.tokens < 1:
            return Charge()
        self.window._held[self.asked.worker] = advance
        return advance

    def _next_wait_ms(self, granted: dict[BudgetClass, int], is_line: bool) -> float:
        left = 1 + sum(len(line.tokens) - granted[kind] for kind, line in self.lines.items())
        if is_line:
            left *= sum(len(line) for line in self.window._lines.values())
        lack = self._used().requests + left - self.cap.requests
        return max(self._pause_ms(), self._wait_ms(lack, 0))

    def _wait_ms(self, lack_requests: int, lack_tokens: int) -> float:
        if lack_requests <= 0 and lack_tokens <= 0:
            return 0
        freed = Charge()
        for cell in sorted({cell for cell, _ in self.window._cells}):
            freed = self._sum(
                freed, *(charge for (at, _), charge in self.window._cells.items() if at == cell)
            )
            if freed.requests >= lack_requests and freed.tokens >= lack_tokens:
                return (cell + 1) * CELL_MS + WINDOW_MS - self.now_ms
        excess = max(
            (lack_requests - freed.requests) / max(1, self.cap.requests),
            (lack_tokens - freed.tokens) / max(1, self.cap.tokens),
        )
        return math.ceil(WINDOW_MS * (1 + min(excess, 1_000)))
