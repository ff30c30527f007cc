import pytest

from shared.contracts.ledger import AcceptedAsHead
from shared.errors import DependencyUnavailable
from tests.fakes.clock import settle


async def fill(orchestrator, make_turn) -> None:
    for number in (91, 92):
        await orchestrator.placement.submit(make_turn(number))


async def test_a_free_slot_runs_the_turn_inline(orchestrator, make_turn):
    decision = await orchestrator.placement.submit(make_turn(1))
    await settle()
    assert (decision.path, decision.reason) == ("inline", "free_slot")
    assert orchestrator.ran == [make_turn(1).turn_id]
    assert orchestrator.queue.sent == []


@pytest.mark.case("B-31")
async def test_a_turn_without_a_slot_goes_to_burst_and_is_marked(orchestrator, make_turn):
    request = make_turn(1)
    assert isinstance(await orchestrator.sessions.accept(request, None), AcceptedAsHead)
    await fill(orchestrator, make_turn)

    decision = await orchestrator.placement.submit(request)
    await orchestrator.placement.settle()

    assert (decision.path, decision.reason) == ("burst", "no_slots")
    ((queue, message, delay_s),) = orchestrator.queue.sent
    assert (queue, message.turn_id, message.reason, delay_s) == (
        "burst",
        request.turn_id,
        "no_slots",
        0,
    )
    assert message.enqueued_at_ms == orchestrator.clock.now_ms()
    state = await orchestrator.sessions.state(request.ref)
    assert state.placed == "burst"


async def test_a_turn_is_shed_when_burst_is_full(orchestrator, make_turn):
    await fill(orchestrator, make_turn)
    for number in range(3):
        orchestrator.board.queued_at_ms[str(number)] = 0
    await orchestrator.watch.refresh()
    decision = await orchestrator.placement.submit(make_turn(1))
    assert (decision.path, decision.reason) == (None, "burst_full")
    assert orchestrator.queue.sent == []


async def test_a_queued_turn_offered_again_gets_no_second_message(orchestrator, make_turn):
    await fill(orchestrator, make_turn)
    decision = await orchestrator.placement.submit(make_turn(1, enqueued_at_ms=1))
    assert decision.path is None
    assert orchestrator.queue.sent == []


async def test_a_slow_queue_is_given_up_in_time_for_the_gateway(orchestrator, make_turn):
    await fill(orchestrator, make_turn)
    orchestrator.queue.gate.clear()
    with pytest.raises(DependencyUnavailable):
        await orchestrator.placement.submit(make_turn(1))


async def test_a_mark_that_fails_leaves_the_turn_placed(orchestrator, make_turn):
    await fill(orchestrator, make_turn)

    async def unavailable(*_: object) -> None:
        raise DependencyUnavailable("ledger")

    orchestrator.sessions.mark_placed = unavailable
    decision = await orchestrator.placement.submit(make_turn(1))
    await orchestrator.placement.settle()
    assert decision.path == "burst"


async def test_one_tenant_leaves_half_of_the_slots_while_another_waits(orchestrator, make_turn):
    await fill(orchestrator, make_turn)
    await orchestrator.placement.submit(make_turn(1, tenant="other"))
    orchestrator.release.set()
    await settle()
    orchestrator.release.clear()

    first = await orchestrator.placement.submit(make_turn(2))
    second = await orchestrator.placement.submit(make_turn(3))
    other = await orchestrator.placement.submit(make_turn(4, tenant="other"))
    assert [first.path, second.reason, other.path] == ["inline", "tenant_share", "inline"]


@pytest.mark.case("B-07")
async def test_a_draining_task_gives_out_no_slot(orchestrator, make_turn):
    orchestrator.placement.close()
    decision = await orchestrator.placement.submit(make_turn(1))
    assert (decision.path, decision.reason) == ("burst", "draining")
    assert orchestrator.ran == []


@pytest.mark.case("B-07")
async def test_a_draining_task_leaves_takeovers_to_others(orchestrator, make_turn):
    orchestrator.placement.close()
    decision = await orchestrator.placement.submit(make_turn(1, attempt_hint=1))
    assert (decision.path, decision.reason) == (None, "draining")
    assert orchestrator.queue.sent == []
