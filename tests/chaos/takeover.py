"""From kill -9 of the process that runs a turn to the claim of its next attempt."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.chaos.audit import Audit, judge
from tests.chaos.crowd import crowd
from tests.chaos.faults import Fault, Kind
from tests.chaos.inside import Inside
from tests.chaos.processes import Processes, Role
from tests.chaos.readying import services_back
from tests.chaos.user import ChaosUser, Script
from tests.harness.stack import Stack

INLINE_TURNS = 16
BURST_TURNS = 9
"""A batch less one, so that the burst trigger does not need a second process."""
SCRIPTS: dict[Role, Script] = {
    "orchestrator": Script(tokens=120, tokens_per_s=40, ttft_ms=100),
    # Overflow starts last: the others must still be at it then.
    "burst_worker": Script(tokens=240, tokens_per_s=40, ttft_ms=100),
}
ROUND_WITHIN_S = 120.0
BATCH_KILLS = 25
"""Then the turns are judged: the ledger forgets them after a while."""
LOGS_WITHIN_S = 5.0
"""A function's log lines appear when its invocation is over."""


@dataclass
class Takeovers:
    """Durations in ms by the role of the process that was killed."""

    warm_ms: dict[Role, list[int]] = field(default_factory=dict)
    cold_ms: dict[Role, list[int]] = field(default_factory=dict)
    """Claimed by a process that had been started after the kill."""
    audits: list[Audit] = field(default_factory=list)
    kills: Counter[Role] = field(default_factory=Counter)


async def measure_takeovers(
    stack: Stack, kills: int, seed: int, found: Takeovers, say: Callable[[str], None]
) -> None:
    """Kill an orchestrator or a worker of the function in mid-turn, so many times."""
    chance = random.Random(seed)
    while (done := found.kills.total()) < kills:
        names = [f"t{seed}-{done}-{number}" for number in range(INLINE_TURNS + BURST_TURNS)]
        await _measure_batch(stack, names, min(kills - done, BATCH_KILLS), chance, found, say)


async def _measure_batch(
    stack: Stack,
    names: Sequence[str],
    kills: int,
    chance: random.Random,
    found: Takeovers,
    say: Callable[[str], None],
) -> None:
    faults: dict[str, Fault] = {}
    async with crowd(stack, names, chance) as users:
        for _ in range(kills):
            # Orchestrators thrice as often: a killed function process leaves the others busy starting one.
            role: Role = "burst_worker" if found.kills.total() % 4 == 3 else "orchestrator"
            await services_back(stack)
            async with asyncio.timeout(ROUND_WITHIN_S):
                asked = await _ask(users, role)
                fault = await asyncio.to_thread(_kill_busiest, stack, role)
                await asyncio.gather(*(user.ended(m) for user, m in asked))
            for user, message_id in asked:
                faults[str(user.turn(message_id).turn_id)] = fault
            found.kills[role] += 1
            say(f"{found.kills.total():3d} kills, last {role}")
        await asyncio.sleep(LOGS_WITHIN_S)
        await asyncio.to_thread(_collect, stack, faults, found)
        found.audits.append(await asyncio.to_thread(judge, stack, users))


async def _ask(users: list[ChaosUser], role: Role) -> list[tuple[ChaosUser, str]]:
    """A message from as many as reach that role; answers once every turn runs."""
    speakers = users if role == "burst_worker" else users[:INLINE_TURNS]
    asked = [(user, await user.say(SCRIPTS[role])) for user in speakers]
    await asyncio.gather(*(user.until(message_id, "streaming") for user, message_id in asked))
    return asked


def _kill_busiest(stack: Stack, role: Role) -> Fault:
    """Kill the process of that role that runs most turns."""
    targets = Processes(stack.state_dir).alive(role)
    if role == "orchestrator":
        inside = Inside(stack)
        try:
            running = Counter(
                turn.worker for turn in inside.ledger_turns().values() if turn.status == "running"
            )
        finally:
            inside.close()
        names = inside.orchestrators()
        targets.sort(key=lambda target: -running[names[target.index]])
    at_ms = round(time.time() * 1000)
    assert targets[0].signal(signal.SIGKILL), f"{targets[0].name} was gone already"
    return Fault(Kind("kill", role), targets[0].name, at_ms)


def _collect(stack: Stack, kills: dict[str, Fault], found: Takeovers) -> None:
    inside = Inside(stack)
    try:
        turns = inside.ledger_turns()
    finally:
        inside.close()
    opened_at_ms = inside.workers_opened_at_ms()
    seen_by = inside.function_workers()
    for turn_id, fault in kills.items():
        turn = turns[turn_id]
        if turn.attempt != 2:
            continue
        # The queue may have given the turn to a process that had to start first, and somebody else was faster.
        workers = seen_by.get(turn_id, set()) | {turn.worker}
        is_cold = any(opened_at_ms.get(name, fault.at_ms) >= fault.at_ms for name in workers)
        place = found.cold_ms if is_cold else found.warm_ms
        place.setdefault(fault.kind.role, []).append(turn.claimed_at_ms - fault.at_ms)
