"""The scenarios: what each does to the stack. All return when the last turn has ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadtest.scenarios.later import Later, ask_later, token, wait_for_ends
from loadtest.scenarios.person import Person, Seen, now_ms
from loadtest.shape import Burst

PAUSE_S = (0.5, 1.5)
LATER_ENDS_WITHIN_S = 120.0


@dataclass(frozen=True)
class Target:
    """The running stack."""

    chat_url: str
    origin: str
    orchestrator_pids: Sequence[int]


@dataclass(frozen=True)
class Knobs:
    """How large a run is."""

    people: int
    hold_s: float
    message: str
    sockets: int


@dataclass
class Outcome:
    """What a run saw; `notes` are lines of its own."""

    seen: Seen = field(default_factory=Seen)
    later: Later = field(default_factory=Later)
    notes: list[str] = field(default_factory=list)


async def tenfold(target: Target, knobs: Knobs) -> Outcome:
    """Ten times the users within ten seconds, beside work of both lower priorities."""
    return await _climb(target, knobs, factor=10)


async def threefold(target: Target, knobs: Knobs) -> Outcome:
    """Users beyond three times what slots and burst hold together, at once."""
    return await _climb(target, knobs, factor=1)


async def kill(target: Target, knobs: Knobs) -> Outcome:
    """As tenfold; an orchestrator dies without a word at the peak."""

    async def strike() -> None:
        await asyncio.sleep(20 + knobs.hold_s / 2)
        for pid in target.orchestrator_pids[:1]:
            os.kill(pid, signal.SIGKILL)

    outcome = await _climb(target, knobs, factor=10, beside=strike)
    outcome.notes.append(f"killed orchestrator, pid {target.orchestrator_pids[0]}, at the peak")
    return outcome


async def flood(target: Target, knobs: Knobs) -> Outcome:
    """Two users of a quiet tenant alone, then beside fifty times as many of another tenant that never pause."""
    outcome = Outcome()
    alone_until_ms = now_ms() + round(knobs.hold_s * 1_000)
    quiet = [
        Person(
            target.chat_url, outcome.seen, tenant="quiet", token=await _token(target, "quiet", n)
        )
        for n in range(2)
    ]
    await _gather(person.chat(knobs.message, alone_until_ms, (2.0, 4.0)) for person in quiet)
    switched_ms = now_ms()
    floods = [
        Person(
            target.chat_url, outcome.seen, tenant="flood", token=await _token(target, "flood", n)
        )
        for n in range(2 * 50)
    ]
    flood_until_ms = now_ms() + round((10 + knobs.hold_s) * 1_000)
    await _gather(
        [
            *(person.chat(knobs.message, flood_until_ms, (0.0, 0.1)) for person in floods),
            _later(
                10.0,
                lambda: _gather(p.chat(knobs.message, flood_until_ms, (2.0, 4.0)) for p in quiet),
            ),
        ]
    )
    outcome.notes.extend(_quiet_notes(outcome.seen, switched_ms))
    return outcome


async def reconnects(target: Target, knobs: Knobs) -> Outcome:
    """Thousands of sockets are lost at once, while some people chat; all come back as they are told."""
    outcome = Outcome()
    idle_seen = Seen()
    idle = [Person(target.chat_url, idle_seen) for _ in range(knobs.sockets)]
    for start in range(0, len(idle), 100):
        await _gather(person.connect() for person in idle[start : start + 100])
    opened = f"{len(idle)} sockets open after {idle_seen.refused_handshakes} refusals"
    idle_seen.refused_handshakes = 0
    until_ms = now_ms() + round(knobs.hold_s * 1_000)
    chatting = [Person(target.chat_url, outcome.seen) for _ in range(knobs.people)]
    talk = asyncio.gather(*(person.chat(knobs.message, until_ms, PAUSE_S) for person in chatting))
    await asyncio.sleep(min(5.0, knobs.hold_s / 4))
    lost_ms = now_ms()
    for person in idle:
        if person.socket is not None:
            person.socket.transport.abort()
    back_ms: list[int] = []

    async def come_back(person: Person) -> None:
        await person.connect()
        back_ms.append(now_ms() - lost_ms)

    await _gather(come_back(person) for person in idle)
    await talk
    await _gather(person.leave() for person in idle)
    back_ms.sort()
    outcome.notes.append(opened)
    outcome.notes.append(
        f"all lost at once: half back after {back_ms[len(back_ms) // 2] / 1_000:.1f} s, all after "
        f"{back_ms[-1] / 1_000:.1f} s, {idle_seen.refused_handshakes} handshakes told to come back, "
        f"{_failures(idle_seen)} failed"
    )
    return outcome


SCENARIOS: dict[str, Callable[[Target, Knobs], Coroutine[Any, Any, Outcome]]] = {
    "tenfold": tenfold,
    "threefold": threefold,
    "flood": flood,
    "reconnects": reconnects,
    "kill": kill,
}


async def _climb(
    target: Target,
    knobs: Knobs,
    *,
    factor: int,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> Outcome:
    outcome = Outcome()
    burst = Burst(baseline_users=knobs.people, factor=factor, hold_s=knobs.hold_s)
    until_ms = now_ms() + round(burst.length_s * 1_000)
    people: list[Awaitable[None]] = []
    for number in range(knobs.people * factor):
        person = Person(target.chat_url, outcome.seen)
        enters_s = 0.0
        if number >= knobs.people:
            share = (number - knobs.people) / max(1, knobs.people * (factor - 1))
            enters_s = burst.baseline_s + burst.ramp_s * share
        people.append(
            _later(enters_s, lambda person=person: person.chat(knobs.message, until_ms, PAUSE_S))  # type: ignore[misc]
        )
    for priority in ("normal", "low"):
        people.append(
            ask_later(
                target.origin,
                outcome.later,
                priority,
                knobs.message,
                every_s=0.5,
                until_ms=until_ms,
            )
        )
    if beside is not None:
        people.append(beside())
    await _gather(people)
    await wait_for_ends(target.origin, outcome.later, LATER_ENDS_WITHIN_S)
    return outcome


def _quiet_notes(seen: Seen, switched_ms: int) -> list[str]:
    notes = []
    for name, is_alone in (("alone", True), ("beside the flood", False)):
        firsts = sorted(
            turn.first_token_ms
            for turn in seen.turns
            if seen.tenants[turn.message_id] == "quiet"
            and (turn.sent_at_ms < switched_ms) == is_alone
            and turn.first_token_ms is not None
        )
        if firsts:
            p99 = firsts[min(len(firsts) - 1, int(0.99 * len(firsts)))]
            notes.append(f"quiet tenant {name}: {len(firsts)} turns, first token p99 {p99} ms")
    return notes


def _failures(seen: Seen) -> str:
    names = ", ".join(f"{count} {name}" for name, count in seen.failed_handshakes.most_common())
    return names or "none"


async def _token(target: Target, tenant: str, number: int) -> str:
    return await asyncio.to_thread(token, target.origin, tenant, f"{tenant}-{number}")


async def _later(delay_s: float, start: Callable[[], Awaitable[None]]) -> None:
    await asyncio.sleep(delay_s)
    await start()


async def _gather(work: Iterable[Awaitable[object]]) -> None:
    await asyncio.gather(*work)
