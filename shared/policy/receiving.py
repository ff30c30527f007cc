"""From which queue the next messages are received, and how many: weights, pauses and ageing between priorities.

SQS has no priorities: each tier has queues of its own, and this decides between them. It shares out *messages*, by
start-time fair queueing: whichever queue is furthest behind its share is received from next, and a share that a
queue leaves unused goes to the others.

- A queue that had messages is **fetched** from: up to a batch, several consumers at once, with the shortest wait
  that still asks all of SQS's servers.
- A queue of which nothing is known, or that was empty, is **listened** to: one receive of one message, which waits
  long. So it costs one slot and three requests a minute, and its next message starts at once.
- The lowest tier is **paused** from the moderate load level on: one message per `paused_interval_ms`.
- A queue that showed a message older than `promoted_after_ms` counts as the tier above, weight and pause alike,
  until it shows none.

No queue starves, at any level. Between two receives of a queue that asked for `n` messages every other queue brings
at most `n * w / w_own + consumers * batch` messages, with weights `w`; a paused queue moreover waits out its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from shared.contracts.turns import QueueName
from shared.policy.load_level import LoadLevel

BurstConsumer = Literal["lambda", "ecs"]
"""Who drains burst and retry."""

FETCH_WAIT_S: Final = 1
"""With less SQS answers from a part of its servers, and an empty answer proves nothing."""
RECEIVE_LIMIT: Final = 10
_LOWEST, _DEFERRED, _INTERACTIVE = 0, 1, 2
_RANKS: dict[QueueName, int] = {
    "retry": _INTERACTIVE,
    "burst": _INTERACTIVE,
    "deferred": _DEFERRED,
    "background": _LOWEST,
}


class ReceiveLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one process. `tier_weight`: each tier gets so many times the messages of the one below."""

    queues: tuple[QueueName, ...]
    slots: int
    consumers: int
    tier_weight: int
    poll_s: int
    paused_interval_ms: int
    promoted_after_ms: int

    @property
    def batch(self) -> int:
        """Messages of one fetch: a consumer's part of the slots."""
        return min(RECEIVE_LIMIT, -(-self.slots // self.consumers))

    @property
    def listen_s(self) -> int:
        """Wait of a listening receive; short when listening everywhere would leave no consumer or slot to fetch."""
        can_wait = min(self.slots, self.consumers) > len(self.queues)
        return self.poll_s if can_wait else FETCH_WAIT_S


class Receive(msgspec.Struct, frozen=True, kw_only=True):
    """One receive to be made now: up to `limit` messages, an empty answer after `wait_s`. It holds `limit` slots."""

    queue: QueueName
    limit: int
    wait_s: int
    weight: int


@dataclass
class _QueueState:
    finish: float = 0.0  # the share that it has used, messages per weight
    open: int = 0
    is_empty: bool = True
    is_promoted: bool = False
    last_at_s: float = field(default=float("-inf"))


def served_queues(consumer: BurstConsumer) -> tuple[QueueName, ...]:
    """The queues of the queue_runner, highest tier first."""
    own: tuple[QueueName, ...] = ("deferred", "background")
    return own if consumer == "lambda" else ("retry", "burst", *own)


class ReceivePlan:
    """The receives of one process; each `next` is followed by one `answered` or `withdrawn`."""

    def __init__(self, limits: ReceiveLimits) -> None:
        self._limits = limits
        self._states = {queue: _QueueState() for queue in limits.queues}
        self._now = 0.0  # virtual time: the share at which the last receive started
        self._held = 0

    def next(self, *, running: int, level: LoadLevel, now_s: float) -> Receive | None:
        """What to receive beside `running` turns; None when no slot is free or nothing may be asked now.

        `now_s` is monotonic.
        """
        free = self._limits.slots - running - self._held
        candidates = [queue for queue in self._states if self._may_ask(queue, level, now_s)]
        if free < 1 or not candidates:
            return None
        queue = min(candidates, key=lambda name: (self._start(name), -self._weight(name)))
        state, weight = self._states[queue], self._weight(queue)
        is_single = state.is_empty or self._is_paused(queue, level)
        receive = Receive(
            queue=queue,
            limit=1 if is_single else min(self._limits.batch, free),
            wait_s=self._limits.listen_s if state.is_empty else FETCH_WAIT_S,
            weight=weight,
        )
        self._now = self._start(queue)
        state.finish = self._now + receive.limit / weight
        state.open += 1
        state.last_at_s = now_s
        self._held += receive.limit
        return receive

    def answered(self, receive: Receive, ages_ms: Sequence[int]) -> None:
        """Note the ages of the messages that it brought."""
        state = self._close(receive, used=len(ages_ms))
        state.is_empty = not ages_ms
        if state.is_empty:
            # To the back: with a single consumer, asking in vain must not come before work that is there.
            last = max(each.finish for each in self._states.values())
            state.finish = last + 1 / receive.weight
        state.is_promoted = any(age_ms >= self._limits.promoted_after_ms for age_ms in ages_ms)

    def withdrawn(self, receive: Receive) -> None:
        """Nobody could ask: nothing is known of the queue, and nothing was used."""
        self._close(receive, used=0)

    def _close(self, receive: Receive, *, used: int) -> _QueueState:
        state = self._states[receive.queue]
        state.open -= 1
        state.finish -= (receive.limit - used) / receive.weight
        self._held -= receive.limit
        return state

    def _may_ask(self, queue: QueueName, level: LoadLevel, now_s: float) -> bool:
        state = self._states[queue]
        if self._is_paused(queue, level):
            since_ms = (now_s - state.last_at_s) * 1000
            return not state.open and since_ms >= self._limits.paused_interval_ms
        return not (state.is_empty and state.open)

    def _is_paused(self, queue: QueueName, level: LoadLevel) -> bool:
        return level >= LoadLevel.MODERATE and self._rank(queue) == _LOWEST

    def _start(self, queue: QueueName) -> float:
        # A queue that was idle has not saved up a share.
        return max(self._now, self._states[queue].finish)

    def _weight(self, queue: QueueName) -> int:
        return int(self._limits.tier_weight ** self._rank(queue))

    def _rank(self, queue: QueueName) -> int:
        return min(_RANKS[queue] + self._states[queue].is_promoted, _INTERACTIVE)
