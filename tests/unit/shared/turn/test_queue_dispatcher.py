import pytest

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import QueueName, TurnRequest
from shared.errors import DependencyUnavailable, ItemTooLarge
from shared.turn.queue_dispatcher import QueueDispatcher
from tests.fakes.clock import FakeClock
from tests.fakes.ledger import FakeLedger


class FakeQueue:
    def __init__(self) -> None:
        self.sent: list[tuple[QueueName, TurnRequest]] = []
        self.error: Exception | None = None

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        if self.error:
            raise self.error
        self.sent.append((queue, request))


def turn(clock: FakeClock, **fields) -> TurnRequest:
    return TurnRequest(
        turn_id=TurnId("s.1"),
        session_id=SessionId("s"),
        message_id=MessageId("m"),
        tenant=TenantId("t"),
        user=UserId("u"),
        text="hello",
        accepted_at_ms=clock.now_ms(),
        **fields,
    )


async def test_an_interactive_head_goes_to_burst_and_is_marked():
    clock, queue = FakeClock(), FakeQueue()
    ledger = FakeLedger(clock)
    request = turn(clock)
    await ledger.accept(request, None)
    await QueueDispatcher(queue, ledger, clock).dispatch(request)

    ((name, message),) = queue.sent
    assert (name, message.reason, message.enqueued_at_ms) == ("burst", "next_head", clock.now_ms())
    state = await ledger.state(request.ref)
    assert state is not None
    assert state.placed == "burst"


async def test_a_detached_head_of_lower_priority_goes_to_its_own_queue():
    clock, queue = FakeClock(), FakeQueue()
    request = turn(clock, detached=True, priority="low")
    await QueueDispatcher(queue, FakeLedger(clock), clock).dispatch(request)
    assert [name for name, _ in queue.sent] == ["background"]


@pytest.mark.parametrize("error", [DependencyUnavailable("queue"), ItemTooLarge("turn")])
async def test_a_head_that_cannot_be_sent_is_left_to_the_sweeper(error):
    clock, queue = FakeClock(), FakeQueue()
    queue.error = error
    await QueueDispatcher(queue, FakeLedger(clock), clock).dispatch(turn(clock))
    assert queue.sent == []
