"""The gateway's use cases over in-memory ports, without sockets."""

from __future__ import annotations

import io
from dataclasses import dataclass

import msgspec

from services.gateway.cancelling import Cancelling
from services.gateway.connections import Connections
from services.gateway.door import Door
from services.gateway.follow_ups import FollowUps
from services.gateway.masking import Masking
from services.gateway.offering import Offering
from services.gateway.queue_waits import QueueWaits
from services.gateway.replaying import Replaying
from services.gateway.sending import Sending
from services.gateway.session_io import Accepted, CouldNotAsk, NotFound, Refused, Replayed
from shared.bootstrap.limits import detached_limits
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
    encode_frame,
)
from shared.contracts.stored_turns import StoredTurn
from shared.contracts.turns import Priority, TurnRequest
from shared.policy.admission import BurstLimits
from shared.settings import Settings
from shared.telemetry import Metrics
from shared.turn.ended_turns import EndedTurns
from shared.turn.load_watch import LoadWatch
from shared.turn.queue_dispatcher import QueueDispatcher
from tests.fakes.allowances import FakeAllowances
from tests.fakes.clock import FakeClock, FakeRandomness
from tests.fakes.intake import FakeIntake
from tests.fakes.ledger import FakeLedger
from tests.fakes.load_board import FakeLoadBoard
from tests.fakes.push import FakePush
from tests.fakes.queues import FakeTurnQueue
from tests.fakes.turn_events import FakeTurnEvents
from tests.fakes.turn_store import FakeTurnStore

SESSION = SessionRef(TenantId("t"), UserId("u"), SessionId("s"))
MINE = Follower(ConnectionId("mine"), "http://gateway-1", OwnerId("o1"))
THEIRS = Follower(ConnectionId("theirs"), "http://gateway-2", OwnerId("o2"))


@dataclass
class UseCaseWorld:
    """The use cases and what they talk to."""

    clock: FakeClock
    ledger: FakeLedger
    store: FakeTurnStore
    intake: FakeIntake
    turn_queue: FakeTurnQueue
    board: FakeLoadBoard
    watch: LoadWatch
    push: FakePush
    offering: Offering
    follow_ups: FollowUps
    sending: Sending
    cancelling: Cancelling
    replaying: Replaying
    metrics: io.StringIO
    events: FakeTurnEvents

    async def send(
        self,
        message_id: str = "m1",
        follower: Follower | None = MINE,
        *,
        session: SessionRef = SESSION,
        priority: Priority = "high",
        detached: bool = False,
        text: str = "hi",
    ) -> Accepted | Refused:
        """Send a message, if nothing else is said in the one session."""
        return await self.sending.send(
            session,
            MessageId(message_id),
            text,
            {},
            follower,
            priority=priority,
            detached=detached,
        )

    async def show_load(
        self, *, slots: int, running: int, queued: int, mean_turn_ms: float = 1_000
    ) -> None:
        """Let the gateway see one worker and the burst queue like this."""
        sample = LoadSample(
            worker="w",
            at_ms=self.clock.now_ms(),
            slots=slots,
            running=running,
            lag_ms=0,
            cpu_share=0,
            mean_turn_ms=mean_turn_ms,
        )
        await self.board.publish(sample)
        now_ms = self.clock.now_ms()
        self.board.queued_at_ms = {f"t{number}": now_ms for number in range(queued)}
        await self.watch.refresh()


def build(*, turns_per_min: int = 0) -> UseCaseWorld:
    """A world in which everything works and an orchestrator takes every turn."""
    clock = FakeClock(auto=True)
    ledger = FakeLedger(clock)
    store = FakeTurnStore()
    intake = FakeIntake()
    turn_queue = FakeTurnQueue()
    board = FakeLoadBoard(clock)
    push = FakePush(clock)
    written = io.StringIO()
    events = FakeTurnEvents()
    metrics = Metrics("test", "gateway", clock, written)
    watch = LoadWatch(board, clock, burst_capacity_turns=10)
    limits = BurstLimits(capacity_turns=10, waiting_turns=5, wait_ms=45_000)
    door = Door(
        watch,
        limits,
        user_turns_per_min=turns_per_min,
        sessions=ledger,
        allowances=FakeAllowances(ledger),
        clock=clock,
    )
    offering = Offering(
        intake=intake,
        turn_queue=turn_queue,
        sessions=ledger,
        queues=QueueDispatcher(turn_queue, ledger, clock),
        door=door,
        clock=clock,
    )
    connections = Connections(clock, QueueWaits(watch.forecast, clock, metrics))
    follow_ups = FollowUps(connections, ledger, push, offering, clock)
    replaying = Replaying(ledger, store, clock)
    return UseCaseWorld(
        clock=clock,
        ledger=ledger,
        store=store,
        intake=intake,
        turn_queue=turn_queue,
        board=board,
        watch=watch,
        push=push,
        offering=offering,
        follow_ups=follow_ups,
        sending=Sending(
            sessions=ledger,
            claims=ledger,
            offering=offering,
            follow_ups=follow_ups,
            door=door,
            limits=detached_limits(Settings()),
            masking=Masking(is_on=True, metrics=metrics),
            clock=clock,
            randomness=FakeRandomness(),
            metrics=metrics,
            ended=EndedTurns(events),
        ),
        cancelling=Cancelling(
            sessions=ledger,
            replaying=replaying,
            follow_ups=follow_ups,
            clock=clock,
            metrics=metrics,
            ended=EndedTurns(events),
        ),
        replaying=replaying,
        metrics=written,
        events=events,
    )


async def claim(world: UseCaseWorld, request: TurnRequest) -> Claimed:
    """Become the turn's producer."""
    claimed = await world.ledger.claim(
        request,
        nonce=ClaimNonce(f"n-{request.turn_id}"),
        worker="w",
        path="inline",
        grace_ms=15_000,
        now_ms=world.clock.now_ms(),
    )
    assert isinstance(claimed, Claimed)
    return claimed


async def fail(world: UseCaseWorld, request: TurnRequest) -> bytes:
    """Run the turn to a failed end; its terminal frame."""
    claimed = await claim(world, request)
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
    """The answer, which must be this one."""
    assert isinstance(answer, Accepted), answer
    return answer


def refused(answer: Accepted | Refused) -> Refused:
    """The answer, which must be this one."""
    assert isinstance(answer, Refused), answer
    return answer


async def resume(world: UseCaseWorld, turn_id: TurnId) -> Replayed | NotFound | CouldNotAsk:
    """Resume the turn from its start."""
    return await world.replaying.replay(
        SESSION, turn_id, MINE, attempt=None, after_seq=-1, purpose="resume"
    )


def kinds(world: UseCaseWorld, connection_id: str) -> list[str]:
    """The types of the frames that were pushed to a connection of another gateway."""
    return [
        str(msgspec.json.decode(data)["type"])
        for data in world.push.received.get(connection_id, [])
    ]


def stored_turn(ref: TurnRef) -> StoredTurn:
    """An answered turn as the table holds it."""
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
