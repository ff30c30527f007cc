"""Many readers behind one endpoint that takes only so many calls a second, as an account's quota does."""

from __future__ import annotations

import pytest

from shared.clock import Clock
from shared.contracts.identifiers import SessionId
from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.server_frames import ResponseCompleted
from tests.fakes.model import Wait
from tests.fakes.push import FakePush
from tests.fakes.turn_world import TurnWorld, follower, only, shown_text

USERS = 40
TOKENS = 60
CALLS_PER_S = 100


class QuotaPush(FakePush):
    """Every frame is a call, as towards API Gateway; above the quota of the running second the answer is 429."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.limited_clock = clock
        self.calls_in_s: dict[int, int] = {}
        self.refused = 0

    def _answer(self, frame: PushFrame) -> PushStatus:
        second = int(self.limited_clock.monotonic_s())
        self.calls_in_s[second] = self.calls_in_s.get(second, 0) + 1
        if self.calls_in_s[second] > CALLS_PER_S:
            self.refused += 1
            return PushStatus.THROTTLED
        return super()._answer(frame)


class EveryThirdPush(FakePush):
    """429 on every third post to each connection."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.posts: dict[str, int] = {}

    def _answer(self, frame: PushFrame) -> PushStatus:
        count = self.posts[frame.connection_id] = self.posts.get(frame.connection_id, 0) + 1
        return PushStatus.THROTTLED if count % 3 == 0 else super()._answer(frame)


def paced(tokens: int) -> list[Wait | str]:
    return [step for n in range(tokens) for step in (Wait(1 / 60), f"token{n} ")]


@pytest.mark.case("B-09")
async def test_an_accounts_quota_delays_and_thins_frames_but_loses_none() -> None:
    world = TurnWorld(paced(TOKENS))
    world.push = QuotaPush(world.clock)
    world.engine = world.make_engine("worker-1", seed=1)
    text = "".join(f"token{n} " for n in range(TOKENS))
    async with world.running():
        tasks = [
            world.begin(await world.accept(session_id=SessionId(f"s{n}"), reader=follower(f"c{n}")))
            for n in range(USERS)
        ]
        results = [await world.finish(task) for task in tasks]
        await world.clock.advance(20)

    assert {result.status for result in results} == {"completed"}
    assert world.push.refused > 0
    for n in range(USERS):
        frames = world.frames(f"c{n}")
        assert [frame.seq for frame in frames] == list(range(len(frames)))
        assert shown_text(frames) == text
        only(frames, ResponseCompleted)
    # A token each would be 2,400 calls; the last frame arrives a few seconds after the last token.
    assert sum(world.push.calls_in_s.values()) - world.push.refused < USERS * TOKENS / 3
    assert max(world.push.calls_in_s) < 15


@pytest.mark.case("B-09")
async def test_every_third_post_refused_keeps_the_order_and_ends_the_turn() -> None:
    world = TurnWorld(paced(TOKENS))
    world.push = EveryThirdPush(world.clock)
    world.engine = world.make_engine("worker-1", seed=1)
    async with world.running():
        result = await world.finish(world.begin(await world.accept()))
        await world.clock.advance(10)

    assert result.status == "completed"
    frames = world.frames()
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    only(frames, ResponseCompleted)
