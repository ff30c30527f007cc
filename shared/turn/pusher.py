"""Pushing frames to connections: in order per connection, batched per endpoint, one slow reader alone with itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shared.clock import Clock, Randomness
from shared.contracts.ledger import Follower
from shared.contracts.pushes import PushFrame, PushStatus
from shared.errors import ConfigurationError
from shared.policy.backoff import ceiling_ms
from shared.policy.limits import PushLimits
from shared.ports import FramePush
from shared.telemetry import Log

_log = Log("pusher")
_FORBIDDEN_FOR_S = 30.0


class PushSink(Protocol):
    """Who wants to know what became of the frames."""

    def connection_gone(self, follower: Follower) -> None:
        """The connection no longer exists."""
        ...

    def frame_refused(self) -> None:
        """The transport refused a frame as too large; it was dropped."""
        ...


@dataclass(frozen=True)
class _Queued:
    data: bytes
    sink: PushSink | None


@dataclass(eq=False)
class _Connection:
    follower: Follower
    queue: deque[_Queued] = field(default_factory=deque)
    queued_bytes: int = 0
    in_flight: bool = False
    held: bool = False  # waits out a 429 or a failed request
    failures: int = 0  # in a row
    failing_since_s: float | None = None
    leaving: bool = False  # forgotten as soon as nothing is queued
    delivered: bool = False  # something has arrived there, so a 410 is a farewell

    @property
    def is_ready(self) -> bool:
        return bool(self.queue) and not self.in_flight and not self.held

    @property
    def is_free(self) -> bool:
        return not (self.queue or self.in_flight or self.held)


@dataclass(eq=False)
class _Endpoint:
    connections: dict[str, _Connection] = field(default_factory=dict)
    ready: dict[_Connection, None] = field(default_factory=dict)  # in the order they became so
    in_flight: int = 0
    forbidden_until_s: float | None = None


_Batch = list[tuple[_Connection, list[_Queued]]]


class Pusher:
    """At most one push in flight per connection; what comes meanwhile gathers.

    Nothing here is ever awaited by a tick. A lost push costs its reader a resume, never text: so a backlog beyond
    its bound, or one that nobody took for `give_up_after_ms`, is dropped.
    """

    def __init__(
        self, push: FramePush, clock: Clock, randomness: Randomness, limits: PushLimits
    ) -> None:
        self._push = push
        self._clock = clock
        self._randomness = randomness
        self._limits = limits
        self._endpoints: dict[str, _Endpoint] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def offer(
        self,
        followers: Iterable[Follower],
        frames: Sequence[bytes],
        sink: PushSink | None = None,
    ) -> None:
        """Queue frames for every follower, in this order; `pump` sends them."""
        if not frames:
            return
        for follower in followers:
            endpoint = self._endpoints.setdefault(follower.endpoint, _Endpoint())
            if self._is_forbidden(endpoint):
                continue
            connection = endpoint.connections.get(follower.connection_id)
            if connection is None or connection.follower != follower:
                connection = endpoint.connections[follower.connection_id] = _Connection(follower)
            connection.leaving = False
            self._enqueue(connection, frames, sink)
            self._note_ready(endpoint, connection)

    def forget(self, followers: Iterable[Follower]) -> None:
        """No more frames will be offered to them: what is known of their connections goes with the last push."""
        for follower in followers:
            endpoint = self._endpoints.get(follower.endpoint)
            connection = endpoint and endpoint.connections.get(follower.connection_id)
            if endpoint and connection:
                connection.leaving = True
                self._leave_if_idle(endpoint, connection)

    def pump(self) -> None:
        """Start requests to every endpoint that has frames for free connections."""
        for address, endpoint in list(self._endpoints.items()):
            self._pump(address, endpoint)
            self._forget_if_unused(address, endpoint)

    def is_free(self, follower: Follower) -> bool:
        """True when nothing is queued, under way or held for the connection."""
        endpoint = self._endpoints.get(follower.endpoint)
        if endpoint is None:
            return True
        connection = endpoint.connections.get(follower.connection_id)
        return connection is None or connection.is_free

    async def close(self) -> None:
        """Return when every push has arrived or was given up (bounded by `give_up_after_ms` and the push time-out)."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _enqueue(
        self, connection: _Connection, frames: Sequence[bytes], sink: PushSink | None
    ) -> None:
        if connection.queue and connection.queued_bytes + sum(map(len, frames)) > (
            self._limits.backlog_bytes
        ):
            self._drop(connection, "backlog")
        for data in frames:
            connection.queue.append(_Queued(data, sink))
            connection.queued_bytes += len(data)

    def _pump(self, address: str, endpoint: _Endpoint) -> None:
        while endpoint.in_flight < self._limits.requests_per_endpoint:
            batch = self._gather(endpoint)
            if not batch:
                return
            endpoint.in_flight += 1
            self._spawn(self._send(address, endpoint, batch))

    def _gather(self, endpoint: _Endpoint) -> _Batch:
        batch: _Batch = []
        room = self._limits.batch_bytes
        while endpoint.ready and room > 0:
            connection = next(iter(endpoint.ready))
            del endpoint.ready[connection]
            taken: list[_Queued] = []
            while connection.queue and room > 0:
                queued = connection.queue.popleft()
                connection.queued_bytes -= len(queued.data)
                room -= len(queued.data)
                taken.append(queued)
            connection.in_flight = True
            batch.append((connection, taken))
        return batch

    async def _send(self, address: str, endpoint: _Endpoint, batch: _Batch) -> None:
        frames = [
            PushFrame(connection.follower.connection_id, queued.data)
            for connection, taken in batch
            for queued in taken
        ]
        try:
            statuses = iter(await self._push.push(address, frames))
            for connection, taken in batch:
                self._settle(connection, taken, [next(statuses) for _ in taken])
        except ConfigurationError:
            # Ours to mend: the connections are fine, so no follower is removed.
            endpoint.forbidden_until_s = self._clock.monotonic_s() + _FORBIDDEN_FOR_S
            _log.error("push.forbidden", endpoint=address)
            for connection, _ in batch:
                self._drop(connection, "forbidden")
        except Exception as error:  # noqa: BLE001 - whatever an adapter raises, the frames are resent or given up
            _log.warning("push.failed", endpoint=address, error_type=type(error).__name__)
            for connection, taken in batch:
                self._put_back(connection, taken)
                self._hold(connection)
        finally:
            endpoint.in_flight -= 1
            for connection, _ in batch:
                connection.in_flight = False
                self._note_ready(endpoint, connection)
                self._leave_if_idle(endpoint, connection)
            self._pump(address, endpoint)

    def _settle(
        self, connection: _Connection, sent: list[_Queued], statuses: list[PushStatus]
    ) -> None:
        for position, (queued, status) in enumerate(zip(sent, statuses, strict=True)):
            if status is PushStatus.SENT:
                connection.delivered = True
                connection.failures = 0
                connection.failing_since_s = None
            elif status is PushStatus.TOO_LARGE:
                _log.error("push.too_large", connection_id=connection.follower.connection_id)
                if queued.sink is not None:
                    queued.sink.frame_refused()
            elif status is PushStatus.THROTTLED or self._may_be_opening(connection):
                self._put_back(connection, sent[position:])
                self._hold(connection)
                return
            else:
                self._farewell(connection, sent[position:])
                return

    def _may_be_opening(self, connection: _Connection) -> bool:
        return not connection.delivered and connection.failures < self._limits.young_gone_retries

    def _farewell(self, connection: _Connection, unsent: list[_Queued]) -> None:
        _log.info("push.connection_gone", connection_id=connection.follower.connection_id)
        sinks = {id(queued.sink): queued.sink for queued in (*unsent, *connection.queue)}
        self._clear(connection)
        for sink in sinks.values():
            if sink is not None:
                sink.connection_gone(connection.follower)

    def _put_back(self, connection: _Connection, unsent: list[_Queued]) -> None:
        connection.queue.extendleft(reversed(unsent))
        connection.queued_bytes += sum(len(queued.data) for queued in unsent)

    def _hold(self, connection: _Connection) -> None:
        now_s = self._clock.monotonic_s()
        connection.failures += 1
        connection.failing_since_s = (
            now_s if connection.failing_since_s is None else connection.failing_since_s
        )
        if now_s - connection.failing_since_s >= self._limits.give_up_after_ms / 1000:
            self._drop(connection, "given up")
            connection.failing_since_s = None
            return
        longest = ceiling_ms(self._limits.hold_ms, connection.failures, self._limits.hold_max_ms)
        connection.held = True
        self._spawn(self._release(connection, self._randomness.uniform(longest / 2, longest)))

    async def _release(self, connection: _Connection, wait_ms: float) -> None:
        await self._clock.sleep(wait_ms / 1000)
        connection.held = False
        address = connection.follower.endpoint
        endpoint = self._endpoints.setdefault(address, _Endpoint())
        self._note_ready(endpoint, connection)
        self._leave_if_idle(endpoint, connection)
        self._pump(address, endpoint)

    def _drop(self, connection: _Connection, reason: str) -> None:
        _log.warning(
            "push.backlog_dropped",
            connection_id=connection.follower.connection_id,
            frames=len(connection.queue),
            reason=reason,
        )
        self._clear(connection)

    def _clear(self, connection: _Connection) -> None:
        connection.queue.clear()
        connection.queued_bytes = 0

    def _is_forbidden(self, endpoint: _Endpoint) -> bool:
        until_s = endpoint.forbidden_until_s
        return until_s is not None and self._clock.monotonic_s() < until_s

    def _note_ready(self, endpoint: _Endpoint, connection: _Connection) -> None:
        if connection.is_ready:
            endpoint.ready[connection] = None

    def _leave_if_idle(self, endpoint: _Endpoint, connection: _Connection) -> None:
        if not (connection.leaving and connection.is_free):
            return
        address, connection_id = connection.follower.endpoint, connection.follower.connection_id
        if endpoint.connections.get(connection_id) is connection:
            del endpoint.connections[connection_id]
        self._forget_if_unused(address, endpoint)

    def _forget_if_unused(self, address: str, endpoint: _Endpoint) -> None:
        if not endpoint.connections and not self._is_forbidden(endpoint):
            self._endpoints.pop(address, None)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
