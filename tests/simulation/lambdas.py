"""The burst worker as the platform runs it: execution environments, and the trigger that feeds them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from functions.burst_worker.batch import TurnBatch
from shared.contracts.turns import QueueName, TurnRequest
from shared.ports import InboxMessage
from shared.turn.interruption import Interruption
from shared.turn.queue_dispatcher import QueueDispatcher
from shared.turn.result import TurnResult
from tests.simulation.loop import Process
from tests.simulation.queues import Message
from tests.simulation.services import make_engine
from tests.simulation.surroundings import Ports, Surroundings

PUSH_PATIENCE_S = 2.5


class NoInbox:
    """TurnInbox of a trigger that gives failed messages back at once: nothing is left to hide."""

    async def receive(
        self, queue: QueueName, *, limit: int, wait_s: int, hidden_s: int
    ) -> Sequence[InboxMessage]:
        return ()

    async def hide(self, message: InboxMessage, *, hidden_s: int) -> bool:
        return False

    async def delete(self, message: InboxMessage) -> None:
        return None


class Environment:
    """One execution environment of the burst worker: frozen between invocations, killed at the function's limit."""

    def __init__(self, world: Surroundings, process: Process) -> None:
        self.process = process
        self.is_idle = True
        self._world = world
        ports = Ports(world, process)
        dispatcher = QueueDispatcher(ports.queue, ports.ledger, process.clock)
        self._engine = make_engine(world, process, ports, dispatcher, "burst_worker")
        self._batch = TurnBatch(
            run=self._run,
            queue=ports.queue,
            inbox=NoInbox(),
            dead_letters=ports.queue.dead_letters,
            clock=process.clock,
            metrics=ports.metrics,
        )
        process.start(self._engine.run())

    def invoke(
        self, messages: list[Message], answer: Callable[[list[Message], list[Message]], None]
    ) -> None:
        """Run a batch; `answer` gets it with what must come back, or everything when the process dies."""
        self.is_idle = False
        self.process.thaw()
        self.process.start(self._invoke(messages, answer))

    async def _invoke(self, messages: list[Message], answer: Any) -> None:
        limit_s = self._world.sizes.function_timeout_s
        deadline = self._world.network.later(limit_s, self.process.kill)
        batch = [
            InboxMessage(
                queue=each.queue,  # type: ignore[arg-type]
                message_id=str(each.number),
                receipt=str(each.receipt),
                body=each.body.decode(),
                sent_at_ms=0,
            )
            for each in messages
        ]
        returned = await self._batch.run(batch, round(limit_s * 1000))
        await asyncio.wait([asyncio.ensure_future(self._engine.close())], timeout=PUSH_PATIENCE_S)
        deadline.cancel()
        numbers = {each.message_id for each in returned}
        failed = [each for each in messages if str(each.number) in numbers]
        self._world.network.later(0.005, answer, messages, failed)
        self.is_idle = True
        self._world.network.later(0.005, self._freeze_when_idle)

    async def _run(self, request: TurnRequest, give_up: Interruption) -> TurnResult:
        return await self._engine.pipeline.run(request, "burst", give_up=give_up)

    def _freeze_when_idle(self) -> None:
        if self.is_idle:
            self.process.freeze()


class Trigger:
    """Lambda's event source mapping: polls burst and retry, starts environments, deletes what succeeded."""

    def __init__(
        self,
        world: Surroundings,
        *,
        limit: int,
        start: Callable[[], Process],
    ) -> None:
        self._world = world
        self._limit = limit
        self._start = start
        self.environments: list[Environment] = []
        world.queues.trigger = self.poll

    def poll(self, queue: Any) -> None:
        """Something became visible, or an environment is free."""
        if queue not in ("retry", "burst"):
            return
        weather = self._world.network.weather
        while not weather.trigger_is_off and (environment := self._free()) is not None:
            limit = 1 if queue == "retry" else self._world.sizes.batch
            messages = self._world.queues.receive(queue, limit)
            if not messages:
                return
            environment.invoke(messages, self._settle)

    def poll_all(self) -> None:
        for queue in ("retry", "burst"):
            self.poll(queue)

    def _settle(self, taken: list[Message], failed: list[Message]) -> None:
        for message in taken:
            # What comes back does so when the consumer wished, or when its visibility has passed.
            if message not in failed:
                self._world.queues.delete(message)
        self.poll_all()

    def _free(self) -> Environment | None:
        alive = [each for each in self.environments if each.process.is_alive]
        self.environments = alive
        for environment in alive:
            if environment.is_idle:
                return environment
        if len(alive) >= self._limit:
            return None
        environment = Environment(self._world, self._start())
        environment.process.on_death.append(lambda: self._world.network.later(1.0, self.poll_all))
        self.environments.append(environment)
        return environment
