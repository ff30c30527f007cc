import pytest

from services.orchestrator.dispatch import HeadDispatcher
from shared.turn.queue_dispatcher import QueueDispatcher
from tests.fakes.clock import settle


@pytest.fixture
def dispatcher(orchestrator) -> HeadDispatcher:
    queues = QueueDispatcher(orchestrator.queue, orchestrator.sessions, orchestrator.clock)
    return HeadDispatcher(orchestrator.placement.submit, queues)


async def test_the_next_head_takes_a_free_slot(orchestrator, dispatcher, make_turn):
    await dispatcher.dispatch(make_turn(1))
    await settle()
    assert orchestrator.ran == [make_turn(1).turn_id]


async def test_the_next_head_overflows_without_a_slot(orchestrator, dispatcher, make_turn):
    for number in (1, 2, 3):
        await dispatcher.dispatch(make_turn(number))
    assert [request.turn_id for _, request, _ in orchestrator.queue.sent] == [make_turn(3).turn_id]


@pytest.mark.parametrize(("priority", "queue"), [("normal", "deferred"), ("low", "background")])
async def test_a_detached_head_goes_back_to_its_own_queue(
    orchestrator, dispatcher, make_turn, priority, queue
):
    await dispatcher.dispatch(make_turn(1, detached=True, priority=priority))
    assert [name for name, _, _ in orchestrator.queue.sent] == [queue]
    assert orchestrator.ran == []


async def test_a_head_that_cannot_be_sent_is_left_to_the_sweeper(
    orchestrator, dispatcher, make_turn
):
    orchestrator.queue.unavailable = True
    for number in (1, 2, 3):
        await dispatcher.dispatch(make_turn(number))
    await dispatcher.dispatch(make_turn(4, detached=True, priority="low"))
    assert orchestrator.queue.sent == []


async def test_a_head_that_is_shed_is_left_to_the_sweeper(orchestrator, dispatcher, make_turn):
    for number in range(3):
        orchestrator.board.queued_at_ms[str(number)] = 0
    await orchestrator.watch.refresh()
    for number in (1, 2, 3):
        await dispatcher.dispatch(make_turn(number))
    await settle()
    assert orchestrator.queue.sent == []
    assert len(orchestrator.ran) == 2
