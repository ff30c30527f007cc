"""Pipelines to Redis or Valkey over a bounded set of connections.

Callers wait for a connection, never longer than the deadline of their call. A connection whose call was cancelled,
timed out or failed is closed and never used again, so no answer can reach the next caller. Nothing is opened before
the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import hiredis
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.exceptions import (
    BusyLoadingError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from shared.adapters.redis_scripts import Call, with_text
from shared.clock import Clock, Randomness
from shared.errors import DependencyUnavailable

Reply = Any
"""What one command answered: bytes, int, None, a list of these, or the ResponseError of this command alone."""

_TRIES: Final = 4
_RETRY_PAUSE_S: Final = (0.01, 0.06)
#: The server as a whole cannot serve: nothing was executed, and the next caller would hear the same.
_SERVER_FAULTS: Final = (
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "TRYAGAIN",
    "UNBLOCKED",
    "NOPERM",
)


class _NotConnected(RedisConnectionError):
    """No connection, so nothing was sent: safe to try again whatever the calls are."""


class RedisClient:
    """Runs pipelines. Safe to share between tasks of one event loop."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        randomness: Randomness,
        timeout_ms: int,
        connections: int,
        idle_limit_ms: int = 30_000,
    ) -> None:
        """`timeout_ms` bounds each call with its wait for a connection. A connection idle for longer than
        `idle_limit_ms` is replaced: the environment may have been frozen, and the socket dead, meanwhile."""
        arguments: dict[str, Any] = dict(parse_url(url))
        self._connection_class: type[AbstractConnection] = arguments.pop(
            "connection_class", Connection
        )
        # Deadlines are ours. RESP2 without client info: no round trip before the first command.
        self._arguments = arguments | {
            "socket_timeout": None,
            "socket_connect_timeout": timeout_ms / 1000,
            "protocol": 2,
            "driver_info": None,
        }
        self._clock = clock
        self._randomness = randomness
        self._timeout_s = timeout_ms / 1000
        self._idle_limit_s = idle_limit_ms / 1000
        self._slots = asyncio.Semaphore(connections)
        self._idle: list[tuple[AbstractConnection, float]] = []
        self._generation = 0

    async def run(self, calls: Sequence[Call], *, repeatable: bool = False) -> list[Reply]:
        """Send all calls in one write, read all replies: one round trip, not atomic as a whole.

        The reply of a call that failed by itself is its ResponseError. Raises DependencyUnavailable when the server
        could not be asked; then any of the calls may have been executed. A `repeatable` pipeline is sent again, after
        a short random pause, when its connection breaks.
        """
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                return await self._run(list(calls), repeatable)
        except TimeoutError as error:
            raise DependencyUnavailable(f"Redis: no answer within {self._timeout_s} s") from error
        except (RedisError, OSError) as error:
            raise DependencyUnavailable(f"Redis: {type(error).__name__}") from error

    async def run_one(self, call: Call, *, repeatable: bool = False) -> Reply:
        """Run a single call; its own failure raises DependencyUnavailable as well."""
        return answered((await self.run((call,), repeatable=repeatable))[0])

    async def drop_connections(self) -> None:
        """Close all connections, those in use after their call. The next call opens new ones."""
        self._generation += 1
        while self._idle:
            await _close(self._idle.pop()[0])

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self.drop_connections()

    async def _run(self, calls: list[Call], repeatable: bool) -> list[Reply]:
        replies: list[Reply] = [None] * len(calls)
        pending = list(range(len(calls)))
        for tries_left in reversed(range(_TRIES)):
            try:
                answers = await self._round_trip([calls[index] for index in pending])
            except (RedisConnectionError, OSError) as error:
                # The connections kept beside this one are of the same era and as dead.
                await self.drop_connections()
                is_safe = repeatable or isinstance(error, _NotConnected | BusyLoadingError)
                if not tries_left or not is_safe:
                    raise
                await self._pause()
                continue
            for index, answer in zip(pending, answers, strict=True):
                replies[index] = answer
            pending = [index for index in pending if _is_refused(replies[index])]
            if not pending:
                return replies
            if any(isinstance(replies[index], ReadOnlyError) for index in pending):
                # The old primary: every kept connection points at it.
                await self.drop_connections()
                await self._pause()
            for index in pending:
                if isinstance(replies[index], NoScriptError):
                    calls[index] = with_text(calls[index])
        raise replies[pending[0]]

    async def _round_trip(self, calls: Sequence[Call]) -> list[Reply]:
        connection = await self._take()
        generation = self._generation
        is_clean = False
        try:
            packed = b"".join([hiredis.pack_command(call) for call in calls])  # type: ignore[arg-type]
            await connection.send_packed_command(packed)
            replies = [await _read(connection) for _ in calls]
            is_clean = True
        finally:
            if is_clean and generation == self._generation:
                self._idle.append((connection, self._clock.monotonic_s()))
            else:
                await _close(connection)
        for reply in replies:
            if isinstance(reply, ResponseError) and _is_server_fault(reply):
                raise reply
        return replies

    async def _take(self) -> AbstractConnection:
        now_s = self._clock.monotonic_s()
        while self._idle:
            connection, since_s = self._idle.pop()
            # Readable without a question asked means closed by the server, or an answer that nobody read.
            if now_s - since_s < self._idle_limit_s and not await connection.can_read():
                return connection
            await _close(connection)
        connection = self._connection_class(**self._arguments)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            await _close(connection)
            raise _NotConnected(str(error)) from error
        except BaseException:
            await _close(connection)
            raise
        return connection

    async def _pause(self) -> None:
        # Many processes lose the same server at once; they must not come back on one beat.
        await self._clock.sleep(self._randomness.uniform(*_RETRY_PAUSE_S))


def answered(reply: Reply) -> Reply:
    """The reply, or DependencyUnavailable when the command failed."""
    if isinstance(reply, ResponseError):
        raise DependencyUnavailable("Redis refused a command") from reply
    return reply


async def _read(connection: AbstractConnection) -> Reply:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except ResponseError as error:
        return error


async def _close(connection: AbstractConnection) -> None:
    # Without waiting for the peer, so that it also works in a task that is being cancelled.
    await connection.disconnect(nowait=True)


def _is_refused(reply: Reply) -> bool:
    return isinstance(reply, NoScriptError | ReadOnlyError)


def _is_server_fault(error: ResponseError) -> bool:
    code = getattr(error, "status_code", None) or str(error).partition(" ")[0]
    return code in _SERVER_FAULTS
