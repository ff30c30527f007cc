"""Sending, cancelling, replaying and history over the in-memory ports."""

from __future__ import annotations

import io
from dataclasses import dataclass

import msgspec
import pytest

from services.gateway.cancelling import Cancelling
from services.gateway.connections import Connections
from services.gateway.door import Door
from services.gateway.endings import Endings
from services.gateway.history import History
from services.gateway.placing import Placing
from services.gateway.replaying import Replaying, terminal_alone
from services.gateway.sending import Sending
from services.gateway.session_io import (
    Accepted,
    CouldNotAsk,
    NotFound,
    Refused,
    Replayed,
    Stopped,
    Stopping,
)
from shared.contracts.identifiers import (
    ClaimNonce,
    ConnectionId,
    MessageId,
    OwnerId,
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
)
from shared.contracts.ledger import Append, Claimed, Follower
from shared.contracts.load import LoadSample
from shared.contracts.server_frames import (
    ResponseFailed,
    ResponseStarted,
    Timings,
    Usage,
    decode_server_frame,
    encode_frame,
)
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import IntakeDecision, TurnRequest
from shared.errors import DependencyUnavailable
from shared.policy.admission import BurstLimits
from shared.telemetry import Metrics
from shared.turn.load_watch import LoadWatch
from shared.turn.queue_dispatcher import QueueDispatcher
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.intake import FakeIntake
from tests.fakes.ledger import FakeLedger
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.push import FakePush
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_store import FakeTurnStore

SESSION = SessionRef(TenantId("t"), UserId("u"), SessionId("s"))
MINE = Follower(ConnectionId("mine"), "http://gateway-1", OwnerId("o1"))
THEIRS = Follower(ConnectionId("theirs"), "http://gateway-2", OwnerId("o2"))


class SilentIntake(FakeIntake):
    """Takes the turn, runs it, and loses its answer."""

    def __init__(self, ledger: FakeLedger, clock: FakeClock) -> None:
        super().__init__()
        self._ledger = ledger
        self._clock = clock

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        await claim(self._ledger, self._clock, request)
        raise DependencyUnavailable("no answer in time")


@dataclass
class World:
    clock: FakeClock
    ledger: FakeLedger
    store: FakeTurnStore
    intake: FakeIntake
    turn_queue: FakeTurnQueue
    board: FakeLoadBoard
    watch: LoadWatch
    push: FakePush
    endings: Endings
    sending: Sending
    cancelling: Cancelling
    replaying: Replaying

    async def send(
        self, message_id: str = "m1", follower: Follower | None = MINE
    ) -> Accepted | Refused:
        return await self.sending.send(SESSION, MessageId(message_id), "hi", {}, follower)


def build(*, intake: FakeIntake | None = None, turns_per_min: int = 0) -> World:
    clock = FakeClock(auto=True)
    ledger = FakeLedger(clock)
    store = FakeTurnStore()
    intake = intake or FakeIntake()
    turn_queue = FakeTurnQueue()
    board = FakeLoadBoard(clock)
    push = FakePush(clock)
    watch = LoadWatch(board, clock, burst_capacity_turns=10)
    limits = BurstLimits(capacity_turns=10, waiting_turns=5, wait_ms=45_000)
    door = Door(watch, limits, turns_per_min, clock)
    placing = Placing(
        intake=intake,
        turn_queue=turn_queue,
        sessions=ledger,
        queues=QueueDispatcher(turn_queue, ledger, clock),
        door=door,
        clock=clock,
    )
    endings = Endings(Connections(clock, door.queued_wait_ms), push, placing)
    replaying = Replaying(ledger, store, clock)
    return World(
        clock=clock,
        ledger=ledger,
        store=store,
        intake=intake,
        turn_queue=turn_queue,
        board=board,
        watch=watch,
        push=push,
        endings=endings,
        sending=Sending(
            sessions=ledger,
            claims=ledger,
            placing=placing,
            endings=endings,
            door=door,
            clock=clock,
            randomness=FakeRandomness(),
            metrics=Metrics("test", "gateway", clock, io.StringIO()),
        ),
        cancelling=Cancelling(sessions=ledger, replaying=replaying, endings=endings, clock=clock),
        replaying=replaying,
    )


async def claim(ledger: FakeLedger, clock: FakeClock, request: TurnRequest) -> Claimed:
    claimed = await ledger.claim(
        request,
        nonce=ClaimNonce(f"n-{request.turn_id}"),
        worker="w",
        path="inline",
        grace_ms=15_000,
        now_ms=clock.now_ms(),
    )
    assert isinstance(claimed, Claimed)
    return claimed


async def fail(world: World, request: TurnRequest) -> bytes:
    """Run the turn to a failed end; its terminal frame."""
    claimed = await claim(world.ledger, world.clock, request)
    started = ResponseStarted(
        turn_id=request.turn_id, attempt=1, seq=0, path="inline", intent="general", model="m"
    )
    failed = encode_frame(
        ResponseFailed(
            turn_id=request.turn_id,
            attempt=1,
            seq=1,
            code="model_timeout",
            message="late",
            retryable=True,
            partial=False,
        )
    )
    await world.ledger.finish(
        Append(claimed.ref, 0, (encode_frame(started), failed)),
        status="failed",
        history=None,
        now_ms=world.clock.now_ms(),
    )
    return failed


def accepted(answer: Accepted | Refused) -> Accepted:
    assert isinstance(answer, Accepted), answer
    return answer


def refused(answer: Accepted | Refused) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


# sending -----------------------------------------------------------------------------------------


async def test_a_head_goes_to_the_intake_as_ready_and_with_its_sender() -> None:
    world = build()
    answer = accepted(await world.send())
    (request,) = world.intake.submitted
    assert request.turn_id == answer.turn_id
    assert request.turn_id.startswith("s.")
    assert request.ready_at_ms == request.accepted_at_ms == world.clock.now_ms()
    assert (request.connection_id, request.detached) == ("mine", False)


async def test_what_waits_is_not_dispatched_and_a_full_session_is_busy() -> None:
    world = build()
    answers = [await world.send(f"m{number}") for number in range(5)]
    assert [accepted(answer).position for answer in answers[:4]] == [0, 1, 2, 3]
    assert refused(answers[4]).code == "busy"
    assert refused(answers[4]).turn_id is None
    assert len(world.intake.submitted) == 1


async def test_a_duplicate_says_where_its_turn_was_last_put() -> None:
    world = build()
    world.intake.unavailable = True
    await world.send("m1")
    await world.send("m2")
    assert accepted(await world.send("m1")).path == "burst"
    waiting = accepted(await world.send("m2"))
    assert (waiting.path, waiting.position, waiting.duplicate) == ("waiting", 1, True)


async def test_a_turn_that_the_silent_intake_runs_after_all_is_accepted() -> None:
    world = build()
    world.intake = SilentIntake(world.ledger, world.clock)
    world.sending._placing._intake = world.intake
    world.turn_queue.unavailable = True
    answer = accepted(await world.send())
    assert (answer.path, answer.duplicate) == ("inline", False)


async def test_a_refusal_whose_taking_back_fails_drops_the_turn_s_frames() -> None:
    world = build()
    world.intake.unavailable = world.turn_queue.unavailable = True

    async def away(*_: object, **__: object) -> None:
        raise DependencyUnavailable("away")

    world.ledger.end_unclaimed = away  # type: ignore[assignment, method-assign]
    answer = refused(await world.send())
    assert answer.code == "unavailable"
    assert answer.turn_id is not None


async def test_a_shed_turn_tells_the_others_who_sent_it_and_dispatches_the_next() -> None:
    world = build()
    await world.send("m1")
    first = world.intake.submitted[0]
    await world.send("m2")
    await world.send("m2", THEIRS)
    await world.send("m3")
    world.intake.decision = IntakeDecision(path=None, reason="burst_full", retry_after_ms=2_000)
    await world.cancelling.cancel(SESSION, first.turn_id, None)
    await world.endings.settle()
    assert [frame.type for frame in _kinds(world, "mine")] == ["chat.response.cancelled"]
    # The shed head of another session: nobody else follows it, the hint is the intake's.
    other = msgspec.structs.replace(SESSION, session_id=SessionId("other"))
    shed = refused(await world.sending.send(other, MessageId("m1"), "hi", {}, MINE))
    assert (shed.code, shed.retry_after_ms) == ("overloaded", 2_000)


async def test_others_who_wait_for_a_message_that_is_taken_back_are_told() -> None:
    world = build()

    class Joined(FakeIntake):
        async def submit(self, request: TurnRequest) -> IntakeDecision:
            await world.send("m1", THEIRS)
            return IntakeDecision(path=None, reason="burst_full", retry_after_ms=1_000)

    world.sending._placing._intake = Joined()
    assert refused(await world.send("m1")).code == "overloaded"
    await world.endings.settle()
    ((_, ids),) = world.push.requests
    assert ids == ["theirs"]
    assert b"chat.rejected" in world.push.received["theirs"][0]


async def test_the_door_refuses_what_no_slot_and_no_burst_worker_could_take() -> None:
    world = build()
    await world.board.publish(
        LoadSample(
            worker="w",
            at_ms=world.clock.now_ms(),
            slots=1,
            running=1,
            lag_ms=0,
            cpu=0,
            mean_turn_ms=1_000,
        )
    )
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(5)}
    await world.watch.refresh()
    answer = refused(await world.send())
    assert answer.code == "overloaded"
    assert world.ledger.calls == ["find_message"]
    assert world.intake.submitted == []


async def test_under_moderate_load_a_new_session_is_kept_short() -> None:
    world = build()
    await world.board.publish(
        LoadSample(
            worker="w",
            at_ms=world.clock.now_ms(),
            slots=2,
            running=0,
            lag_ms=0,
            cpu=0,
            mean_turn_ms=1_000,
        )
    )
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(20)}
    await world.watch.refresh()
    for number in range(5):
        turn = accepted(await world.send(f"m{number}"))
        await world.cancelling.cancel(SESSION, turn.turn_id, None)
    await world.endings.settle()
    assert refused(await world.send("m6")).code == "session_limited"
    assert accepted(await world.send("m1")).duplicate


async def test_counters_that_are_not_fresh_refuse_nobody() -> None:
    world = build()
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(5)}
    await world.watch.refresh()
    world.board.available = False
    await world.watch.refresh()
    assert isinstance(await world.send("m1"), Refused)
    world.clock.skip(6)
    assert isinstance(await world.send("m1"), Accepted)


async def test_without_an_intake_a_full_burst_queue_sheds() -> None:
    world = build()
    world.intake.unavailable = True
    await world.board.publish(
        LoadSample(
            worker="w",
            at_ms=world.clock.now_ms(),
            slots=100,
            running=1,
            lag_ms=0,
            cpu=0,
            mean_turn_ms=1_000,
        )
    )
    world.board.queued_at_ms = {f"t{number}": 0 for number in range(5)}
    await world.watch.refresh()
    assert refused(await world.send()).code == "overloaded"
    assert world.turn_queue.sent == []


async def test_a_user_who_sends_too_fast_is_refused_but_never_for_a_repeat() -> None:
    world = build(turns_per_min=2)
    await world.send("m1")
    await world.send("m1")  # a repeat does not count
    await world.send("m2")
    limited = refused(await world.send("m3"))
    assert limited.code == "rate_limited"
    assert limited.retry_after_ms is not None
    assert 0 < limited.retry_after_ms <= 60_000
    assert accepted(await world.send("m2")).duplicate
    world.ledger.unavailable = True
    assert refused(await world.send("m2")).code == "rate_limited"


async def test_a_mark_that_fails_does_not_undo_the_queued_turn() -> None:
    world = build()
    world.intake.unavailable = True

    async def away(*_: object) -> None:
        raise DependencyUnavailable("away")

    world.ledger.mark_placed = away  # type: ignore[assignment, method-assign]
    assert accepted(await world.send()).path == "burst"


# cancelling --------------------------------------------------------------------------------------


async def test_a_cancel_tells_remote_followers_and_dispatches_the_next_head() -> None:
    world = build()
    first = accepted(await world.send("m1"))
    await world.send("m1", THEIRS)
    await world.send("m2")
    stopped = await world.cancelling.cancel(SESSION, first.turn_id, MINE)
    assert isinstance(stopped, Stopped)
    await world.endings.settle()
    assert world.push.received["theirs"] == [stopped.outcome]
    assert "mine" not in world.push.received  # answered by its own session
    assert [request.message_id for request in world.intake.submitted] == ["m1", "m2"]


@pytest.mark.parametrize("obstacle", ["unavailable", "shed"])
async def test_a_next_head_that_nobody_takes_is_left_to_the_sweeper(obstacle: str) -> None:
    world = build()
    first = accepted(await world.send("m1"))
    await world.send("m2")
    if obstacle == "unavailable":
        world.intake.unavailable = world.turn_queue.unavailable = True
    else:
        world.intake.decision = IntakeDecision(path=None, reason="burst_full")
    assert isinstance(await world.cancelling.cancel(SESSION, first.turn_id, MINE), Stopped)
    await world.endings.settle()
    (running,) = await world.ledger.running(SESSION)
    assert running.message_id == "m2"


async def test_a_detached_next_head_goes_to_its_own_queue() -> None:
    world = build()
    request = TurnRequest(
        turn_id=TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        session_id=SESSION.session_id,
        message_id=MessageId("d"),
        tenant=SESSION.tenant,
        user=SESSION.user,
        text="later",
        priority="low",
        detached=True,
        accepted_at_ms=1,
    )
    await world.sending._placing.dispatch(request)
    ((queue, sent, _),) = world.turn_queue.sent
    assert (queue, sent.turn_id) == ("background", request.turn_id)


async def test_a_cancel_makes_its_sender_a_follower_of_the_claimed_turn() -> None:
    world = build()
    turn = accepted(await world.send())
    claimed = await claim(world.ledger, world.clock, world.intake.submitted[0])
    assert await world.cancelling.cancel(SESSION, turn.turn_id, THEIRS) == Stopping(turn.turn_id)
    assert await world.cancelling.cancel(SESSION, turn.turn_id, None) == Stopping(turn.turn_id)
    (held,) = await world.ledger.renew_many([claimed.ref], world.clock.now_ms())
    assert THEIRS in held.followers  # type: ignore[union-attr]


async def test_a_cancel_of_an_ended_or_unknown_turn() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])
    assert await world.cancelling.cancel(SESSION, turn.turn_id, MINE) == Stopped(
        turn.turn_id, failed
    )
    for unknown in ("s.01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"):
        assert isinstance(await world.cancelling.cancel(SESSION, TurnId(unknown), MINE), NotFound)


async def test_a_cancel_of_a_message_that_was_taken_back_is_unknown() -> None:
    world = build()
    world.intake.unavailable = world.turn_queue.unavailable = True
    turn_id = refused(await world.send()).turn_id
    assert turn_id is not None
    assert isinstance(await world.cancelling.cancel(SESSION, turn_id, MINE), NotFound)
    assert isinstance(await _replay(world, turn_id), NotFound)


async def test_a_cancel_asks_an_absent_ledger_again_and_then_says_so() -> None:
    world = build()
    turn = accepted(await world.send())
    world.ledger.unavailable = True
    world.ledger.calls.clear()
    answer = await world.cancelling.cancel(SESSION, turn.turn_id, MINE)
    assert answer == CouldNotAsk(turn.turn_id, "cancel")
    assert world.ledger.calls == ["cancel"] * 3


# replaying ---------------------------------------------------------------------------------------


async def test_an_end_before_any_claim_is_replayed_as_it_was() -> None:
    world = build()
    turn = accepted(await world.send())
    stopped = await world.cancelling.cancel(SESSION, turn.turn_id, None)
    assert isinstance(stopped, Stopped)
    replay = await _replay(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert (replay.attempt, replay.frames, replay.complete) == (0, (stopped.outcome,), True)


async def test_an_end_whose_log_is_gone_is_its_terminal_frame_alone_of_the_next_attempt() -> None:
    world = build()
    turn = accepted(await world.send())
    failed = await fail(world, world.intake.submitted[0])
    world.clock.skip(901)
    replay = await _replay(world, turn.turn_id)
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
    replay = await _replay(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert len(replay.frames) == 3


async def test_a_marker_is_no_answer() -> None:
    world = build()
    turn = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    stored = stored_turn(TurnRef(SESSION, turn))
    await world.store.put(msgspec.structs.replace(stored, status="marker"))
    assert await _replay(world, turn) == NotFound(turn, "resume")


async def test_a_store_or_ledger_that_is_away_is_said_so() -> None:
    world = build()
    turn = TurnId("s.01ARZ3NDEKTSV4RRFFQ69G5FAV")
    world.store.unavailable = True
    assert await _replay(world, turn) == CouldNotAsk(turn, "resume")


async def test_a_turn_in_burst_is_told_from_one_that_runs() -> None:
    world = build()
    world.intake.unavailable = True
    turn = accepted(await world.send())
    replay = await _replay(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert replay.is_queued
    await claim(world.ledger, world.clock, world.turn_queue.sent[0][1])
    replay = await _replay(world, turn.turn_id)
    assert isinstance(replay, Replayed)
    assert not replay.is_queued


# history -----------------------------------------------------------------------------------------


async def test_a_page_of_history_ends_at_its_size_but_holds_at_least_one_turn() -> None:
    store = FakeTurnStore()
    for number in range(3):
        turn_id = TurnId(f"s.01ARZ3NDEKTSV4RRFFQ69G5FA{number}")
        stored = stored_turn(TurnRef(SESSION, turn_id))
        await store.put(msgspec.structs.replace(stored, assistant_text="x" * 1_000))
    sizes = []
    for page_bytes in (10, 2_600, 99_999):
        page = await History(store, page_bytes).page(SESSION, before=None, limit=50)
        sizes.append((len(page.turns), page.more))
    assert sizes == [(1, True), (2, True), (3, False)]


def stored_turn(ref: TurnRef) -> StoredTurn:
    return StoredTurn(
        ref=ref,
        message_id="m1",
        attempt=1,
        nonce="n",
        status="completed",
        user_text="q",
        assistant_text="a",
        stop_reason="end_turn",
        intent="general",
        model="m",
        usage=Usage(),
        timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
        sources=(),
        accepted_at_ms=1,
        completed_at_ms=2,
    )


async def _replay(world: World, turn_id: TurnId) -> Replayed | NotFound | CouldNotAsk:
    return await world.replaying.replay(
        SESSION, turn_id, MINE, attempt=None, after_seq=-1, purpose="resume"
    )


@dataclass
class _Kind:
    type: str


def _kinds(world: World, connection_id: str) -> list[_Kind]:
    return [
        _Kind(str(msgspec.json.decode(data)["type"]))
        for data in world.push.received.get(connection_id, [])
    ]
