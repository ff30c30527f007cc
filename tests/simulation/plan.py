"""What a run will be, drawn from its seed before it starts: users, their doings, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from shared.contracts.identifiers import MessageId
from tests.simulation.model import FAULTS as MODEL_FAULTS
from tests.simulation.model import Script
from tests.simulation.surroundings import Sizes

FaultKind = Literal[
    "kill",
    "freeze",
    "drain",
    "duplicate",
    "drop",
    "delay",
    "skew",
    "slow_client",
    "reconnect",
    "leave",
    "redis_away",
    "redis_failover",
    "redelivery",
    "model",
    "store",
    "trigger_off",
    "outage",
]
WEIGHTS: dict[FaultKind, int] = {
    "kill": 6,
    "freeze": 5,
    "drain": 3,
    "duplicate": 4,
    "drop": 4,
    "delay": 4,
    "skew": 4,
    "slow_client": 3,
    "reconnect": 4,
    "leave": 3,
    "redis_away": 3,
    "redis_failover": 4,
    "redelivery": 4,
    "model": 8,
    "store": 4,
    "trigger_off": 4,
    "outage": 3,
}
PRODUCERS = "producers"
"""Whoever claims a turn next is hit in the middle of it, and its successor when it has stored the answer."""
_AWAITED = ("freeze", "drain", "redis_failover")
SERVICES = ("gateway-1", "gateway-2", "orchestrator-1", "orchestrator-2", "queue_runner")


@dataclass(frozen=True)
class Shape:
    """Which faults of a kind there are: for how long (seconds), on whom, and `size` as its kind understands it."""

    for_s: Sequence[float] = (0.0,)
    target: str = ""
    size: Sequence[float] = (0.0,)


SHAPES: dict[FaultKind, Shape] = {
    "kill": Shape((0.5, 3.0, 20.0), "process"),
    "freeze": Shape((0.5, 2.0, 4.0, 7.0, 14.0), "process"),
    "drain": Shape((3.0,), "service"),
    "duplicate": Shape((1.0, 5.0, 15.0), size=(0.05, 0.2, 0.5)),
    "drop": Shape((1.0, 5.0, 15.0), size=(0.05, 0.2, 0.5)),
    "delay": Shape((1.0, 5.0, 15.0), size=(0.05, 0.4, 2.5)),
    "skew": Shape((0.0,), "process", (-2.0, -0.5, 0.5, 2.0)),
    "slow_client": Shape((1.0, 6.0, 14.0), "client"),
    # size 1: silently, so that the gateway learns of it late
    "reconnect": Shape((0.01, 2.0, 10.0, 20.0), "client", (0.0, 0.0, 1.0)),
    "leave": Shape((0.0,), "client"),
    "redis_away": Shape((0.3, 2.0, 6.0, 20.0)),
    # size: seconds of writes that are lost
    "redis_failover": Shape((0.2, 2.0, 5.0), size=(0.05, 0.4, 1.0)),
    "redelivery": Shape((4.0,)),
    # size 1: writes are made but their answers get lost; 0: the store is away
    "store": Shape((0.5, 3.0, 10.0, 60.0), size=(0.0, 1.0)),
    "trigger_off": Shape((5.0, 30.0, 90.0)),
    # no orchestrator and no function at all
    "outage": Shape((5.0, 60.0)),
}


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong; `size` means what its kind makes of it."""

    number: int
    kind: FaultKind
    at_s: float
    for_s: float
    target: str = ""
    size: float = 0.0
    script: Script | None = None

    def __str__(self) -> str:
        words = [f"#{self.number} {self.kind}", f"at {self.at_s:.2f} s"]
        if self.for_s:
            words.append(f"for {self.for_s:.2f} s")
        if self.target:
            words.append(f"on {self.target}")
        if self.size:
            words.append(f"({self.size:.2f})")
        if self.script:
            words.append(f"[{self.script.fault} after {self.script.after} x{self.script.times}]")
        return " ".join(words)


@dataclass(frozen=True)
class Action:
    """What a user does."""

    at_s: float
    client: str
    what: Literal["send", "stop", "ask_later"]
    message_id: MessageId
    text: str = ""


@dataclass
class Plan:
    """Everything that is fixed before a run."""

    seed: int
    sizes: Sizes
    clients: dict[str, str]
    """Session by client name."""
    actions: list[Action] = field(default_factory=list)
    scripts: dict[str, Script] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    environments: int = 2
    visibility_s: float = 450.0

    @property
    def ends_at_s(self) -> float:
        """When the last planned thing has come; who stands still must have gone on, bad weather may last."""
        ends = [action.at_s for action in self.actions]
        for fault in self.faults:
            lasts_s = fault.for_s + fault.size if fault.kind in _AWAITED else 0.0
            ends.append(fault.at_s + lasts_s)
        return max(ends, default=0.0)


def draw_plan(seed: int) -> Plan:
    """The plan of a seed, always the same."""
    chance = random.Random(f"plan/{seed}")
    plan = Plan(
        seed,
        _draw_sizes(chance),
        {},
        environments=chance.choice((1, 2, 3)),
        visibility_s=chance.choice((450.0, 450.0, 30.0)),
    )
    for number in range(1, chance.choice((1, 2, 2, 3)) + 1):
        _draw_session(plan, f"s{number}", chance)
    for number in range(chance.choice((1, 2, 3, 4, 5, 6, 8))):
        fault = _draw_fault(plan, number + 1, chance)
        plan.faults.append(fault)
        if fault.kind == "redis_failover":
            _stop_what_was_lost(plan, fault, chance)
    return plan


def _stop_what_was_lost(plan: Plan, fault: Fault, chance: random.Random) -> None:
    """A user who presses stop for what the failover may have lost."""
    lost_until_s = fault.at_s + fault.size
    sends = [each for each in plan.actions if each.what == "send" and each.at_s <= lost_until_s]
    if sends and chance.random() < 0.5:
        last = max(sends, key=lambda action: action.at_s)
        at_s = lost_until_s + fault.for_s + chance.choice((0.05, 0.5))
        plan.actions.append(Action(at_s, last.client, "stop", last.message_id))


def _draw_sizes(chance: random.Random) -> Sizes:
    outbox_bytes = chance.choice((262_144, 262_144, 2_048))
    return Sizes(
        slots=chance.choice((1, 2, 4)),
        waiting_in_burst=chance.choice((50, 50, 50, 0)),
        batch=chance.choice((1, 5, 10)),
        function_timeout_s=chance.choice((75.0, 75.0, 16.0)),
        outbox_bytes=outbox_bytes,
        write_high_bytes=32_768 if outbox_bytes > 100_000 else 512,
        flush_tick_ms=chance.choice((40, 200)),
        retry_in_process_limit_ms=chance.choice((4_000, 500)),
    )


def _draw_session(plan: Plan, session: str, chance: random.Random) -> None:
    first = f"{session}a"
    plan.clients[first] = session
    devices = [first]
    if chance.random() < 0.3:
        plan.clients[f"{session}b"] = session
        devices.append(f"{session}b")
    at_s = 0.2 + chance.random() * 2
    for number in range(1, chance.choice((1, 2, 2, 3, 6)) + 1):
        message_id = MessageId(f"m{number}")
        text = f"{session} {chance.choice(devices)} says {number}"
        client = text.split()[1]
        plan.actions.append(Action(at_s, client, "send", message_id, text))
        plan.scripts[text] = Script(
            deltas=chance.choice((1, 4, 8, 8, 20, 50)),
            ttft_s=0.1 + chance.random() * 1.5,
            pace_s=chance.choice((0.0, 0.05, 0.3, 0.5)),
        )
        if chance.random() < 0.15:
            stop_at_s = at_s + chance.choice((0.0, 0.3, 1.0, 3.0))
            plan.actions.append(Action(stop_at_s, client, "stop", message_id))
        if chance.random() < 0.08:
            later = Action(at_s, client, "ask_later", MessageId(f"d{number}"), f"{text} later")
            plan.actions.append(later)
        at_s += chance.choice((0.0, 0.05, 1.0, 4.0))


def _draw_fault(plan: Plan, number: int, chance: random.Random) -> Fault:
    kind = chance.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
    at_s = chance.choice(plan.actions).at_s + chance.random() * chance.choice((0.1, 1.5, 6.0))
    if kind == "model":
        target, script = _draw_model_fault(plan, chance)
        return Fault(number, kind, 0.0, 0.0, target, script=script)
    if kind == "skew":
        at_s = 0.0
    elif kind == "trigger_off":
        at_s = chance.choice((0.0, at_s))
    shape = SHAPES[kind]
    return Fault(
        number,
        kind,
        at_s,
        chance.choice(shape.for_s),
        chance.choice(_targets(plan, shape.target)),
        chance.choice(shape.size),
    )


def _targets(plan: Plan, kind: str) -> Sequence[str]:
    match kind:
        case "process":
            return (*SERVICES, "environment", PRODUCERS)
        case "service":
            return SERVICES
        case "client":
            return list(plan.clients)
        case _:
            return ("",)


def _draw_model_fault(plan: Plan, chance: random.Random) -> tuple[str, Script]:
    text = chance.choice([action.text for action in plan.actions if action.what == "send"])
    usual = plan.scripts[text]
    return text, Script(
        deltas=usual.deltas,
        ttft_s=usual.ttft_s,
        pace_s=usual.pace_s,
        fault=chance.choice(MODEL_FAULTS),
        after=chance.choice((0, 0, 1, 3)),
        times=chance.choice((0, 1, 1, 2)),
        retry_after_ms=chance.choice((None, None, 2_000, 20_000, 90_000)),
    )
