"""Whatever happens to the turns of a session, the window cached beside the ledger is the end of what is stored."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from shared.contracts.stored_turns import HistoryEntry
from shared.contracts.turns import TurnRequest
from shared.policy.history_window import is_usable
from shared.turn.memory import decode_window
from tests.fakes.clock import settle
from tests.fakes.model import Forever, Step, Wait
from tests.fakes.turn_world import SESSION, TurnWorld, after_put


class Talk:
    """One session whose turns go every way that turns go."""

    def __init__(self, seed: int) -> None:
        self.world = TurnWorld(["unused"])
        self.random = random.Random(seed)
        self.late: list[TurnRequest] = []
        self.failed: list[TurnRequest] = []
        self.seen_windows = 0

    def next_says(self, *script: Step) -> None:
        calls = len(self.world.model.calls)
        self.world.model.scripts = [["unused"]] * calls + [list(script)]

    async def answered(self) -> None:
        self.next_says(f"answer {len(self.world.model.calls)}")
        await self.world.answer("a question")

    async def stopped(self) -> None:
        self.next_says("half an answer", Forever())
        await self._stop(await self.world.accept("a question to stop"))

    async def stopped_before_any_text(self) -> None:
        self.next_says(Forever())
        await self._stop(await self.world.accept("a question to stop"))

    async def failed_for_good(self) -> None:
        self.next_says(KeyError())
        request = await self.world.accept("a question that fails")
        await self.world.finish(self.world.begin(request))
        self.failed.append(request)

    async def taken_over(self) -> None:
        self.next_says(Wait(1), "never said")
        request = await self.world.accept("a question")
        task = self.world.begin(request)
        await self.world.clock.advance(0.5)
        task.cancel()
        await settle()
        self.next_says("from the second")
        await self.world.finish(self.world.begin(request, "burst"))

    async def taken_over_when_stored(self) -> None:
        world, put = self.world, self.world.store.put
        self.next_says("stored, not finished")
        request = await world.accept("a question")
        after_put(world, lambda: task.cancel())
        task = world.begin(request)
        await settle()
        await world.clock.advance(4)
        world.store.put = put  # type: ignore[method-assign]
        await world.finish(world.begin(request, "burst"))

    async def put_off(self) -> None:
        self.late.append(await self.world.accept("for later", detached=True, priority="low"))

    async def done_late(self) -> None:
        if self.late:
            self.next_says("late")
            await self.world.finish(self.world.begin(self.late.pop(0), "queue"))

    async def redriven(self) -> None:
        if self.failed:
            request = msgspec.structs.replace(
                self.failed.pop(0),
                detached=True,
                priority="low",
                attempt_hint=1,
                connection_id=None,
            )
            await self.world.ledger.reopen(request, now_ms=self.world.clock.now_ms())
            self.next_says("after all")
            await self.world.finish(self.world.begin(request, "queue"))

    async def forgotten(self) -> None:
        self.world.ledger._session(SESSION).history = None

    async def _stop(self, request: TurnRequest) -> None:
        task = self.world.begin(request)
        await self.world.clock.advance(0.5)
        await self.world.ledger.cancel(request.ref, b"", self.world.clock.now_ms())
        await self.world.finish(task)

    async def step(self) -> str:
        """One more event of the conversation; its name."""
        event = self.random.choice(
            (
                self.answered,
                self.answered,
                self.stopped,
                self.stopped_before_any_text,
                self.failed_for_good,
                self.taken_over,
                self.taken_over_when_stored,
                self.put_off,
                self.done_late,
                self.redriven,
                self.forgotten,
            )
        )
        await event()
        return event.__name__

    async def stored(self) -> list[HistoryEntry]:
        """What the store would answer, oldest first."""
        page = await self.world.store.newest(SESSION, limit=99)
        turns = [
            HistoryEntry(turn.ref.turn_id, turn.user_text, turn.assistant_text)
            for turn in reversed(page.turns)
        ]
        return [turn for turn in turns if is_usable(turn)]

    async def check(self, after: str) -> None:
        window = decode_window(self.world.ledger._session(SESSION).history)
        if window is None:
            return
        self.seen_windows += 1
        stored = await self.stored()
        assert list(window.turns) == stored[len(stored) - len(window.turns) :], after
        assert window.turns or not stored, after


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.case("B-33")
async def test_the_cached_window_is_the_end_of_what_is_stored(seed: int) -> None:
    talk = Talk(seed)
    async with talk.world.running():
        for _ in range(25):
            await talk.check(after=await talk.step())
            await asyncio.sleep(0)

    assert talk.seen_windows > 5
