"""What a reader missed: from the log, else from the store."""

from __future__ import annotations

import msgspec
import pytest

from services.gateway.replaying import terminal_alone
from services.gateway.session_io import (
    CouldNotAsk,
    NotFound,
    Replayed,
    Stopped,
)
from shared.contracts.identifiers import (
    TurnId,
    TurnRef,
)
from shared.contracts.server_frames import (
    decode_server_frame,
)
from tests.fakes.use_case_world import (
    SESSION,
    accepted,
    build,
    claim,
    fail,
    resume,
    stored_turn,
)


async def test_an_end_before_any_claim_is_replayed_as_it_was() -> None:
    world = build()
    turn = accepted(await world.send())
    stopped = await world.cancelling.cancel(SESSION, turn.turn_id, None)
    assert isinstance(stopped, Stopped)
    replay = await resume(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert (replay.attempt, replay.frames, replay.complete) == (0, (stopped.outcome,), True)


async def test_an_end_whose_log_is_gone_is_its_terminal_frame_alone_of_the_next_attempt() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])
    world.clock.skip(901)
    replay = await resume(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    (frame,) = replay.frames
    again = decode_server_frame(frame)
    assert again == msgspec.structs.replace(decode_server_frame(failed), attempt=2, seq=0)
    assert (replay.attempt, replay.from_seq, replay.is_stored) == (2, 0, True)
    assert terminal_alone(failed, 0) == failed


async def test_a_stored_answer_replaces_a_log_that_is_gone() -> None:
    world = build()
    turn = accepted(await world.send())
    await fail(world, world.intake.submitted[0])
    await world.store.put(stored_turn(TurnRef(SESSION, turn.turn_id)))
    world.clock.skip(901)
    replay = await resume(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert len(replay.frames) == 3


async def test_a_marker_is_no_answer() -> None:
    world = build()
    turn = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    stored = stored_turn(TurnRef(SESSION, turn))
    await world.store.put(msgspec.structs.replace(stored, status="marker"))
    assert await resume(world, turn) == NotFound(turn, "resume")


@pytest.mark.parametrize("fault", ["unavailable", "refusing"])
async def test_a_store_that_is_away_or_forbids_it_is_said_so(fault: str) -> None:
    world = build()
    turn = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    setattr(world.store, fault, True)
    assert await resume(world, turn) == CouldNotAsk(turn, "resume")


async def test_a_turn_in_burst_is_told_from_one_that_runs() -> None:
    world = build()
    world.intake.unavailable = True
    turn = accepted(await world.send())
    replay = await resume(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert replay.is_queued
    await claim(world, world.turn_queue.sent[0][1])
    replay = await resume(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert not replay.is_queued


async def test_a_turn_that_everybody_forgot_leaves_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = build()
    turn_id = TurnId("s1.01HF7YAT31JZHSMW1CG6Q6MHB7")

    for purpose in ("resume", "check"):
        answer = await world.replaying.replay(
            SESSION, turn_id, None, attempt=None, after_seq=-1, purpose=purpose
        )
        assert answer == NotFound(turn_id, purpose)

    assert [record.message for record in caplog.records] == ["turn.lost"]


async def test_a_reader_beyond_an_end_is_answered_above_what_it_has() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])
    end = decode_server_frame(failed)

    for seen in ((7, 3), (1, end.seq), (1, end.seq + 4)):
        replay = await world.replaying.replay(
            SESSION, turn.turn_id, None, attempt=seen[0], after_seq=seen[1], purpose="check"
        )
        assert isinstance(replay, Replayed)
        (frame,) = replay.frames
        assert decode_server_frame(frame) == msgspec.structs.replace(
            end, attempt=seen[0] + 1, seq=0
        )
        assert (replay.attempt, replay.is_stored, replay.complete) == (seen[0] + 1, True, True)


async def test_a_reader_before_an_end_is_answered_from_the_log() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])

    replay = await world.replaying.replay(
        SESSION, turn.turn_id, None, attempt=1, after_seq=-1, purpose="check"
    )

    assert isinstance(replay, Replayed)
    assert not replay.is_stored
    assert replay.frames[-1] == failed


async def test_a_stored_answer_is_cut_anew_above_what_the_reader_has() -> None:
    world = build()
    turn = accepted(await world.send())
    await fail(world, world.intake.submitted[0])
    await world.store.put(stored_turn(TurnRef(SESSION, turn.turn_id)))

    replay = await world.replaying.replay(
        SESSION, turn.turn_id, None, attempt=5, after_seq=2, purpose="check"
    )

    assert isinstance(replay, Replayed)
    assert [decode_server_frame(frame).attempt for frame in replay.frames] == [6, 6, 6]
