"""Ending a turn that nobody holds: ledger, followers, next head."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.contracts.ledger import Finished, Follower, StillClaimed, TurnEnded
from shared.policy.failed_ends import failed_end
from shared.telemetry import Metrics
from shared.turn.terminal_frames import BEFORE_ANY_CLAIM, EndPlace, failed_unclaimed_frame
from shared.turn.unclaimed_ends import UnclaimedEnds, count_end
from tests.fakes.turn_world import TurnWorld, follower


class Ending:
    """A world and the ends of one process in it; `told` holds who was sent what."""

    def __init__(self) -> None:
        self.world = TurnWorld()
        self.told: list[tuple[tuple[Follower, ...], bytes]] = []
        self.ends = UnclaimedEnds(
            self.world.ledger, self.world.dispatcher, self._tell, self.world.clock
        )

    async def _tell(self, followers: Sequence[Follower], outcome: bytes) -> None:
        self.told.append((tuple(followers), outcome))


@pytest.fixture
def ending() -> Ending:
    return Ending()


async def test_an_end_tells_the_followers_and_dispatches_the_next_head(ending: Ending) -> None:
    first = await ending.world.accept()
    second = await ending.world.accept()
    terminal = failed_unclaimed_frame(first.turn_id, failed_end("internal"))

    answer = await ending.ends.end(first.ref, "failed", terminal, BEFORE_ANY_CLAIM)

    assert isinstance(answer, Finished)
    state = await ending.world.ledger.state(first.ref)
    assert state is not None
    assert state.status == "failed"
    assert ending.told == [((follower(),), state.outcome)]
    assert [head.turn_id for head in ending.world.dispatcher.dispatched] == [second.turn_id]


async def test_the_last_turn_of_a_session_leaves_nothing_to_dispatch(ending: Ending) -> None:
    request = await ending.world.accept()
    terminal = failed_unclaimed_frame(request.turn_id, failed_end("internal"))

    await ending.ends.end(request.ref, "failed", terminal, BEFORE_ANY_CLAIM)

    assert len(ending.told) == 1
    assert ending.world.dispatcher.dispatched == []


async def test_a_turn_that_ended_or_is_claimed_is_left_alone(ending: Ending) -> None:
    request = await ending.world.accept()
    terminal = failed_unclaimed_frame(request.turn_id, failed_end("internal"))

    claimed = await ending.ends.end(request.ref, "failed", terminal, EndPlace(1, 0))
    await ending.ends.end(request.ref, "failed", terminal, BEFORE_ANY_CLAIM)
    again = await ending.ends.end(request.ref, "failed", terminal, BEFORE_ANY_CLAIM)

    assert isinstance(claimed, StillClaimed)
    assert isinstance(again, TurnEnded)
    assert len(ending.told) == 1


def test_an_end_without_a_code_is_counted_under_none() -> None:
    world = TurnWorld()
    metrics = Metrics("burstchat", "gateway", world.clock, world.metrics)

    count_end(metrics, "cancelled", path="waiting")

    assert '"Status":"cancelled","Path":"waiting","Code":"none"' in world.metrics.getvalue()
