"""The wires between processes and services: latency, losses and repeats, all drawn from the run's seed."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import ChatError, DependencyUnavailable
from tests.simulation.loop import Process, VirtualLoop, run_now

REFUSED_AFTER_S = 0.001
INTAKE_TIMEOUT_S = 0.5
PUSH_TIMEOUT_S = 2.0


class Weather:
    """The faults of the wires at this moment. `storms` are the times at which anything was wrong, for the checker."""

    def __init__(self) -> None:
        self.longest_delay_s = 0.0
        self.drop_share = 0.0
        self.duplicate_share = 0.0
        self.redis_is_away = False
        self.store_is_away = False
        self.store_loses_answers = False
        self.trigger_is_off = False
        self.storms: list[tuple[float, float]] = []

    def was_clear(self, from_s: float, to_s: float) -> bool:
        """True when no fault touched the interval."""
        return not any(begin < to_s and from_s < end for begin, end in self.storms)


class Network:
    """Carries calls. Whatever is lost raises DependencyUnavailable at the caller, after its time-out."""

    def __init__(self, loop: VirtualLoop, weather: Weather, chance: random.Random) -> None:
        self.loop = loop
        self.weather = weather
        self.chance = chance
        self._world = contextvars.copy_context()

    def latency_s(self) -> float:
        usual = self.chance.random() * 0.004
        longest = self.weather.longest_delay_s
        if longest and self.chance.random() < 0.4:
            return usual + self.chance.random() * longest
        return usual

    def is_dropped(self) -> bool:
        share = self.weather.drop_share
        return bool(share) and self.chance.random() < share

    def is_doubled(self) -> bool:
        share = self.weather.duplicate_share
        return bool(share) and self.chance.random() < share

    def later(
        self, after_s: float, callback: Callable[..., Any], *args: Any
    ) -> asyncio.TimerHandle:
        """Run a callback of the world, which no process fault touches."""
        return self.loop.call_later(after_s, callback, *args, context=self._world)

    async def ask(self, work: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float) -> Any:
        """One call of a service that answers at once. A lost answer leaves its effect."""
        answer = self.loop.create_future()
        out_s, back_s = self._ways_s(timeout_s)

        def arrive() -> None:
            try:
                result = run_now(work())
            except ChatError as error:
                result = error
            if back_s:
                self.later(back_s, _settle, answer, result)
            else:
                _settle(answer, result)

        if out_s <= timeout_s:
            self.later(out_s, arrive)
        if out_s + back_s > timeout_s:
            self.later(timeout_s, _fail, answer, DependencyUnavailable("no answer in time"))
        return await answer

    def _ways_s(self, timeout_s: float) -> tuple[float, float]:
        """How long request and answer take; longer than the time-out = lost."""
        out_s = self.latency_s()
        if self.is_dropped():
            is_request_lost = self.chance.random() < 0.5
            return (timeout_s + 1, 0.0) if is_request_lost else (out_s, timeout_s + 1)
        return out_s, self.latency_s() if self.weather.longest_delay_s else 0.0

    async def ask_process(
        self,
        process: Process | None,
        work: Callable[[], Coroutine[Any, Any, Any]],
        timeout_s: float,
    ) -> Any:
        """One call of another process: refused when it is dead, unanswered while it stands still."""
        answer = self.loop.create_future()
        is_lost = self.is_dropped()
        is_request_lost = is_lost and self.chance.random() < 0.5
        is_doubled = self.is_doubled()

        async def serve() -> None:
            try:
                result = await work()
            except ChatError as error:
                result = error
            if not is_lost:
                self.later(self.latency_s(), _settle, answer, result)

        def arrive() -> None:
            if process is None or not process.is_alive:
                _fail(answer, ConnectionRefused("nobody listens"))
                return
            if is_request_lost:
                return
            process.call(lambda: process.start(serve()))
            if is_doubled:
                process.call(lambda: process.start(serve()), after_s=self.latency_s())

        self.later(self.latency_s(), arrive)
        self.later(timeout_s, _fail, answer, DependencyUnavailable("no answer in time"))
        return await answer


class ConnectionRefused(DependencyUnavailable):
    """The other side is gone; another one may be tried at once."""


class Remote:
    """A port whose every method is a call over the network."""

    def __init__(
        self,
        network: Network,
        service: Any,
        timeout_s: float,
        observe: Callable[[str, tuple[Any, ...], dict[str, Any], Any], None],
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self._network = network
        self._service = service
        self._timeout_s = timeout_s
        self._observe = observe
        self._is_away = is_away

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._service, verb)

        async def perform(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._is_away():
                raise DependencyUnavailable("the service is away")
            answer = await method(*args, **kwargs)
            self._observe(verb, args, kwargs, answer)
            return answer

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._network.ask(lambda: perform(args, kwargs), self._timeout_s)

        self.__dict__[verb] = call
        return call


class PushTarget(Protocol):
    """A gateway's private port."""

    process: Process

    def deliver(self, frame: PushFrame) -> PushStatus: ...


class SimPush:
    """FramePush: the Management API of the gateways, batch extension included."""

    def __init__(
        self,
        network: Network,
        find: Callable[[str], PushTarget | None],
        observe: Callable[[PushFrame], None],
    ) -> None:
        self._network = network
        self._find = find
        self._observe = observe

    async def push(self, endpoint: str, frames: Sequence[PushFrame]) -> Sequence[PushStatus]:
        target = self._find(endpoint)

        async def serve() -> list[PushStatus]:
            assert target is not None
            for frame in frames:
                self._observe(frame)
            return [target.deliver(frame) for frame in frames]

        process = None if target is None else target.process
        statuses: Sequence[PushStatus] = await self._network.ask_process(
            process, serve, PUSH_TIMEOUT_S
        )
        return statuses


class IntakeTarget(Protocol):
    """An orchestrator's intake port."""

    process: Process

    async def submit(self, request: TurnRequest) -> IntakeDecision: ...


class SimIntake:
    """TurnIntake: takes the orchestrators in turn; one that refuses the connection is passed over once."""

    def __init__(self, network: Network, doors: Callable[[], Sequence[IntakeTarget]]) -> None:
        self._network = network
        self._doors = doors
        self._next = network.chance.randrange(8)

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        try:
            return await self._post(request)
        except ConnectionRefused:
            return await self._post(request)

    async def _post(self, request: TurnRequest) -> IntakeDecision:
        doors = self._doors()
        door = doors[self._next % len(doors)]
        self._next += 1
        decision: IntakeDecision = await self._network.ask_process(
            door.process, lambda: door.submit(request), INTAKE_TIMEOUT_S
        )
        return decision


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if isinstance(result, Exception):
        _fail(answer, result)
    else:
        _answer(answer, result)


def _answer(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
