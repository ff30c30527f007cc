"""One run: the processes of a small deployment, its users, and the faults of a plan."""

from __future__ import annotations

import gc
import logging
import random
import sys
import warnings
from asyncio import all_tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from clients.reducer import Turn
from shared.contracts.identifiers import SessionId, SessionRef, TenantId, TurnId, TurnRef, UserId
from shared.contracts.turns import TurnRequest
from tests.fakes.turn_store import FakeTurnStore
from tests.simulation.checker import (
    check_calls,
    check_end,
    check_ended,
    check_opened_call,
    check_takeovers,
)
from tests.simulation.clients import Client
from tests.simulation.history import History
from tests.simulation.hunt import Hunt
from tests.simulation.lambdas import Environment, Trigger
from tests.simulation.loop import GATE, Process, SimClock, Stuck, VirtualLoop
from tests.simulation.model import SimModel
from tests.simulation.monitor import Monitor
from tests.simulation.network import Network, Weather
from tests.simulation.plan import PRODUCERS, SERVICES, Action, Fault, Plan
from tests.simulation.queues import SimQueues
from tests.simulation.redis import SimRedis
from tests.simulation.services import Gateway, Orchestrator, QueueRunner
from tests.simulation.surroundings import Surroundings, hash_of

PATIENCE_S = 320.0
"""After the last planned thing every turn must have ended within this."""
AFTERMATH_S = 4.0
"""How long the run goes on after the last end: late writes of old producers must change nothing."""
_BUGS = ("crashed", "bug", "failed")


@dataclass
class Outcome:
    """A finished run."""

    plan: Plan
    history: History
    lasted_s: float
    steps: int


class World:
    """Builds everything and lets it run; see `run_plan`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = VirtualLoop()
        self.history = History(self.loop.time)
        self.weather = Weather()
        self.network = Network(self.loop, self.weather, self._chance("network"))
        self.redis = SimRedis(SimClock(self.loop))
        self.monitor = Monitor(self.history, self.redis.ledger, self.loop.time)
        self.model = SimModel(self.loop, self.history)
        self.store = FakeTurnStore()
        self.queues = SimQueues(self.network, self._chance("queues"), plan.visibility_s)
        self.services: dict[str, Gateway | Orchestrator | QueueRunner] = {}
        self.processes: list[Process] = []
        self._incarnations: dict[str, int] = {}
        self.surroundings = Surroundings(
            network=self.network,
            redis=self.redis,
            store=self.store,
            model=self.model,
            queues=self.queues,
            monitor=self.monitor,
            sizes=plan.sizes,
            settings=plan.sizes.settings(),
            seed=plan.seed,
            gateways={},
            doors=lambda: [
                self.services[name]  # type: ignore[misc]
                for name in ("orchestrator-1", "orchestrator-2")
            ],
        )
        self.trigger = Trigger(
            self.surroundings,
            limit=plan.environments,
            start=lambda: self._process("environment"),
        )
        self.clients = {
            name: Client(
                name,
                SessionId(session),
                network=self.network,
                chance=self._chance(name),
                history=self.history,
                pick=self._pick_gateway,
                fetch=lambda turn_id, session=session: self._stored_text(session, turn_id),
            )
            for name, session in plan.clients.items()
        }
        self._balancer = self._chance("balancer")
        self._model_scripts(plan)

    # life ----------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Play the plan to its end."""
        for fault in self.plan.faults:
            self.history.count(f"fault:{fault.kind}")
            self._schedule(fault)
        for name in SERVICES:
            self._start(name)
        for client in self.clients.values():
            self.network.later(self._balancer.random() * 0.1, client.connect)
        for action in self.plan.actions:
            self.network.later(action.at_s, self._act, action)
        self.model.on_open = lambda call: check_opened_call(self, call)
        self.monitor.on_end = lambda truth: check_ended(self, truth)
        watching = self.loop.create_task(self._watch())
        with _logs_into(self.history):
            try:
                self.loop.run_until_complete(watching)
            except Stuck:
                self.history.violate("P1", "nothing will ever happen any more")
        check_calls(self)
        check_takeovers(self)
        check_end(self)
        for failure in self.loop.failures:
            self.history.violate("bug", f"{failure.get('message')}: {failure.get('exception')!r}")
        return Outcome(self.plan, self.history, self.loop.time(), self.loop.steps)

    def _act(self, action: Action) -> None:
        client = self.clients[action.client]
        match action.what:
            case "send":
                client.send(action.message_id, action.text)
            case "stop":
                client.cancel(action.message_id)
            case "ask_later":
                self._ask_later(action)

    def _ask_later(self, action: Action) -> None:
        gateway = self._pick_gateway()
        if gateway is None:
            return
        session = session_ref(self.plan.clients[action.client])
        self.history.note(action.client, "asks for later", action.text)
        request = TurnRequest(
            turn_id=TurnId(""),
            session_id=session.session_id,
            message_id=action.message_id,
            tenant=session.tenant,
            user=session.user,
            text=action.text,
            priority="normal" if self._balancer.random() < 0.5 else "low",
            detached=True,
            accepted_at_ms=0,
        )
        gateway.ask_later(request)

    async def _watch(self) -> None:
        clock = SimClock(self.loop)
        await clock.sleep(self.plan.ends_at_s + 0.5)
        give_up_s = self.loop.time() + PATIENCE_S
        while not self.is_quiet() and self.loop.time() < give_up_s:
            await clock.sleep(1.0)
        await clock.sleep(AFTERMATH_S)

    def is_quiet(self) -> bool:
        """True when every turn has ended and every client that stayed knows it."""
        for truth in self.monitor.turns.values():
            if truth.end is None and not (truth.may_take_hours or self.is_forgotten(truth.ref)):
                return False
        return not any(
            self.open_turns(client) or client.pending_sends
            for client in self.clients.values()
            if not client.has_left
        )

    def open_turns(self, client: Client) -> list[Turn]:
        """What the client still waits for, and may expect within a run."""
        truths = self.monitor.turns
        return [
            turn
            for turn in client.open_turns
            if turn.turn_id not in truths or not truths[turn.turn_id].may_take_hours
        ]

    def is_forgotten(self, ref: TurnRef) -> bool:
        """True when the ledger does not know the turn, or knows its end."""
        turn = self.redis.ledger._find(ref)
        return turn is None or turn.outcome is not None

    # processes -----------------------------------------------------------------------------------

    def _process(self, name: str) -> Process:
        number = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        skew_ms = sum(
            round(fault.size * 1000)
            for fault in self.plan.faults
            if fault.kind == "skew" and fault.target == name
        )
        process = Process(self.loop, f"{name}#{number}", skew_ms)
        process.on_death.append(lambda: self.monitor.killed(process))
        process.on_death.append(lambda: self.history.note(process.name, "is dead"))
        self.processes.append(process)
        self.history.note(process.name, "starts", f"skew {skew_ms} ms" if skew_ms else "")
        return process

    def _start(self, name: str) -> None:
        kind = _KINDS[name.partition("-")[0]]
        self.services[name] = kind(self.surroundings, self._process(name))

    def _pick_gateway(self) -> Gateway | None:
        ready = [
            service
            for service in self.services.values()
            if isinstance(service, Gateway) and service.process.is_alive and not service.is_draining
        ]
        return self._balancer.choice(ready) if ready else None

    def _environment(self) -> Environment | None:
        busy = [each for each in self.trigger.environments if not each.is_idle]
        alive = [each for each in busy if each.process.is_running]
        return self._balancer.choice(alive) if alive else None

    # faults --------------------------------------------------------------------------------------

    def _schedule(self, fault: Fault) -> None:
        begin, end = (
            getattr(self, f"_begin_{fault.kind}"),
            getattr(self, f"_end_{fault.kind}", None),
        )
        for_s = 0.0 if fault.kind == "kill" else fault.for_s + max(0.0, fault.size)
        storm = (fault.at_s - 0.01, fault.at_s + for_s + 0.01)
        if fault.kind not in ("leave", "model", "reconnect", "slow_client", "skew"):
            self.weather.storms.append(storm)
        self.network.later(fault.at_s, self._do, fault, begin)
        if end is not None:
            self.network.later(fault.at_s + fault.for_s, self._do, fault, end)

    def _do(self, fault: Fault, work: Callable[[Fault], None]) -> None:
        self.history.note("FAULT", work.__name__.strip("_").replace("_", " ", 1), str(fault))
        work(fault)

    def _victim(self, fault: Fault) -> Process | None:
        if fault.target == "environment":
            environment = self._environment()
            return None if environment is None else environment.process
        return self.services[fault.target].process

    def _begin_kill(self, fault: Fault) -> None:
        if fault.target == PRODUCERS:
            self._hunt(fault, Process.kill)
            return
        victim = self._victim(fault)
        if victim is not None:
            victim.kill()

    def _end_kill(self, fault: Fault) -> None:
        for name, service in list(self.services.items()):
            if fault.target in (name, PRODUCERS) and not service.process.is_alive:
                self._start(name)

    def _hunt(self, fault: Fault, strike: Callable[[Process], None]) -> None:
        def hit(process: Process) -> None:
            now_s = self.loop.time()
            self.weather.storms.append((now_s - 0.01, now_s + fault.for_s))
            self.history.note("FAULT", "hits", process.name)
            strike(process)
            self.network.later(fault.for_s, self._end_kill, fault)

        Hunt(self.network, self.monitor, self.processes, hit)

    def _begin_freeze(self, fault: Fault) -> None:
        def freeze(victim: Process) -> None:
            if victim.is_running:
                victim.freeze()
                self.network.later(fault.for_s, victim.thaw)

        victim = None if fault.target == PRODUCERS else self._victim(fault)
        if fault.target == PRODUCERS:
            self._hunt(fault, freeze)
        elif victim is not None:
            freeze(victim)

    def _begin_drain(self, fault: Fault) -> None:
        service = self.services[fault.target]
        if service.process.is_alive and not service.is_draining:
            service.drain()
            service.process.on_death.append(
                lambda: self.network.later(fault.for_s, self._end_kill, fault)
            )

    def _begin_duplicate(self, fault: Fault) -> None:
        self.weather.duplicate_share = fault.size

    def _end_duplicate(self, fault: Fault) -> None:
        self.weather.duplicate_share = 0.0

    def _begin_drop(self, fault: Fault) -> None:
        self.weather.drop_share = fault.size

    def _end_drop(self, fault: Fault) -> None:
        self.weather.drop_share = 0.0

    def _begin_delay(self, fault: Fault) -> None:
        self.weather.longest_delay_s = fault.size

    def _end_delay(self, fault: Fault) -> None:
        self.weather.longest_delay_s = 0.0

    def _begin_skew(self, fault: Fault) -> None:
        """Taken into account when the process starts."""

    def _begin_slow_client(self, fault: Fault) -> None:
        self.clients[fault.target].stall()

    def _end_slow_client(self, fault: Fault) -> None:
        self.clients[fault.target].unstall()

    def _begin_reconnect(self, fault: Fault) -> None:
        self.clients[fault.target].go_offline(fault.for_s, is_silent=bool(fault.size))

    def _begin_leave(self, fault: Fault) -> None:
        self.clients[fault.target].leave()

    def _begin_redis_away(self, fault: Fault) -> None:
        self.weather.redis_is_away = True

    def _end_redis_away(self, fault: Fault) -> None:
        self.weather.redis_is_away = False

    def _begin_redis_failover(self, fault: Fault) -> None:
        self.redis.replicate()
        self.network.later(fault.size, self._fail_over, fault)

    def _fail_over(self, fault: Fault) -> None:
        lost = self.redis.fail_over()
        self.history.note("redis", "fails over", f"{len(lost)} turns are not as they were")
        self.monitor.lost(lost)
        self.weather.redis_is_away = True
        self.network.later(fault.for_s, self._end_redis_away, fault)

    def _begin_redelivery(self, fault: Fault) -> None:
        for step in range(8):
            self.network.later(step * fault.for_s / 8, self.queues.redeliver)

    def _begin_model(self, fault: Fault) -> None:
        """Scripted before the run."""

    def _begin_store(self, fault: Fault) -> None:
        self.weather.store_loses_answers = bool(fault.size)
        self.weather.store_is_away = not fault.size

    def _end_store(self, fault: Fault) -> None:
        self.weather.store_loses_answers = self.weather.store_is_away = False

    def _begin_trigger_off(self, fault: Fault) -> None:
        self.weather.trigger_is_off = True

    def _end_trigger_off(self, fault: Fault) -> None:
        self.weather.trigger_is_off = False
        self.trigger.poll_all()

    def _begin_outage(self, fault: Fault) -> None:
        self.weather.trigger_is_off = True
        for name in ("orchestrator-1", "orchestrator-2"):
            self.services[name].process.kill()
        for environment in self.trigger.environments:
            environment.process.kill()

    def _end_outage(self, fault: Fault) -> None:
        for name in ("orchestrator-1", "orchestrator-2"):
            if not self.services[name].process.is_alive:
                self._start(name)
        self._end_trigger_off(fault)

    # parts ---------------------------------------------------------------------------------------

    def _model_scripts(self, plan: Plan) -> None:
        self.model.scripts.update(plan.scripts)
        for fault in plan.faults:
            if fault.script is not None:
                self.model.scripts[fault.target] = fault.script

    def _stored_text(self, session: str, turn_id: TurnId) -> str | None:
        stored = self.store.items.get(TurnRef(session_ref(session), turn_id))
        return None if stored is None or stored.status == "marker" else stored.assistant_text

    def _chance(self, name: str) -> random.Random:
        return random.Random(hash_of(self.plan.seed, name))


_KINDS: dict[str, Any] = {
    "gateway": Gateway,
    "orchestrator": Orchestrator,
    "queue_runner": QueueRunner,
}


def session_ref(session: str) -> SessionRef:
    """A simulated session under the one simulated user."""
    return SessionRef(TenantId("default"), UserId("dev"), SessionId(session))


def run_plan(plan: Plan) -> Outcome:
    """Play a plan; nothing of it stays behind but its outcome."""
    world = World(plan)
    was_collecting = gc.isenabled()
    gc.disable()  # a collection in mid-run could finish something at a time that no seed knows
    try:
        return world.run()
    finally:
        with _silence():
            _forget(world)
            del world
            gc.collect()
        if was_collecting:
            gc.enable()


def _forget(world: World) -> None:
    for task in all_tasks(world.loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    world.history.close()
    world.loop.close()


class _LogHandler(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        gate = GATE.get()
        fields = getattr(record, "fields", {})
        shown = ("turn_id", "connection_id", "session_id", "trace", "queue", "sqs_message_id")
        detail = " ".join(f"{name}={value}" for name, value in fields.items() if name not in shown)
        who = gate.name if gate else "?"
        event = record.getMessage()
        self._history.note(who, f"log {event}", detail)
        is_scripted = "RuntimeError" in str(fields.get("error_type"))
        if event.rpartition(".")[2] in _BUGS and "stack" in fields and not is_scripted:
            self._history.violate("bug", f"{who}: {event} {detail}")


@contextmanager
def _logs_into(history: History) -> Iterator[None]:
    logger = logging.getLogger("burstchat")
    handler = _LogHandler(history)
    level, propagates, handlers = logger.level, logger.propagate, logger.handlers[:]
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagates


@contextmanager
def _silence() -> Iterator[None]:
    """Work that a killed process left unfinished ends here, and has nothing to say any more."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda failure: None
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
        sys.unraisablehook = hook
