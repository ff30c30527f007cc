"""How often something may happen, as values: token buckets and a window of faults. Times in ms."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable


class TokenBucket:
    """`per_s` tokens a second, at most `burst` at once; starts full."""

    __slots__ = ("_at_ms", "_burst", "_per_ms", "_tokens")

    def __init__(self, per_s: float, burst: float, now_ms: int) -> None:
        self._per_ms = per_s / 1_000
        self._burst = burst
        self._tokens = burst
        self._at_ms = now_ms

    def take(self, now_ms: int) -> int:
        """Take a token: 0, or the milliseconds until there is one (nothing taken)."""
        self._refill(now_ms)
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return max(1, round((1 - self._tokens) / self._per_ms))

    def owe(self, now_ms: int) -> int:
        """Take a token even when there is none: the milliseconds until the debt is paid, 0 = no debt."""
        self._refill(now_ms)
        self._tokens -= 1
        return max(0, round(-self._tokens / self._per_ms))

    def give_back(self) -> None:
        """Undo one `take`."""
        self._tokens = min(self._burst, self._tokens + 1)

    def _refill(self, now_ms: int) -> None:
        # The wall clock may step back; that must neither add nor take tokens.
        self._tokens = min(self._burst, self._tokens + max(0, now_ms - self._at_ms) * self._per_ms)
        self._at_ms = now_ms


class KeyedBuckets:
    """One bucket per key (user, address), the least recently used forgotten above `keys_limit`. `per_s` 0 = off."""

    def __init__(self, per_s: float, burst: float, keys_limit: int = 20_000) -> None:
        self._per_s = per_s
        self._burst = burst
        self._keys_limit = keys_limit
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()

    def take(self, key: Hashable, now_ms: int) -> int:
        """As `TokenBucket.take`."""
        if self._per_s <= 0:
            return 0
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self._per_s, self._burst, now_ms)
            if len(self._buckets) > self._keys_limit:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.take(now_ms)

    def give_back(self, key: Hashable) -> None:
        """As `TokenBucket.give_back`."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.give_back()


class ConnectBudget:
    """`per_s` handshakes a second, a second's worth at once; who is refused is told a place in the line.

    The places are a hint and are not kept free: they spread those who come back over the time that all of them need.
    `per_s` 0 = off.
    """

    def __init__(self, per_s: float, *, line_s: float = 30) -> None:
        self._per_s = per_s
        self._line_ms = round(line_s * 1_000)
        self._admitted: TokenBucket | None = None
        self._line_end_ms = 0.0

    def take(self, now_ms: int) -> int:
        """0 = come in, else in how many milliseconds to come back, at most `line_s` and a second."""
        if self._per_s <= 0:
            return 0
        if self._admitted is None:
            self._admitted = TokenBucket(self._per_s, max(1, self._per_s), now_ms)
        if not self._admitted.take(now_ms):
            return 0
        place_ms = max(now_ms, self._line_end_ms) + 1_000 / self._per_s
        if place_ms - now_ms > self._line_ms:
            place_ms = (
                now_ms + 1_000 / self._per_s
            )  # the line begins again; the hint is spread besides
        self._line_end_ms = place_ms
        return round(place_ms - now_ms) + 1_000


class FaultWindow:
    """Counts faults inside a sliding window."""

    __slots__ = ("_at_ms", "_limit", "_window_ms")

    def __init__(self, limit: int, window_ms: int) -> None:
        self._limit = limit
        self._window_ms = window_ms
        self._at_ms: deque[int] | None = None  # most connections never need it

    def add(self, now_ms: int) -> bool:
        """Count one fault; True when `limit` of them lie inside the window."""
        if self._at_ms is None:
            self._at_ms = deque(maxlen=self._limit)
        self._at_ms.append(now_ms)
        return len(self._at_ms) == self._limit and now_ms - self._at_ms[0] < self._window_ms
