import pytest

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.turns import TurnRequest
from shared.policy.routing import has_own_queue, queue_for


def turn(**fields) -> TurnRequest:
    return TurnRequest(
        turn_id=TurnId("s.1"),
        session_id=SessionId("s"),
        message_id=MessageId("m"),
        tenant=TenantId("t"),
        user=UserId("u"),
        text="hello",
        accepted_at_ms=1,
        **fields,
    )


@pytest.mark.parametrize(
    ("fields", "queue"),
    [
        ({}, "burst"),
        ({"detached": True}, "burst"),
        ({"priority": "low"}, "burst"),
        ({"detached": True, "priority": "normal"}, "deferred"),
        ({"detached": True, "priority": "low"}, "background"),
    ],
)
def test_only_detached_turns_of_lower_priority_have_a_queue_of_their_own(fields, queue):
    assert queue_for(turn(**fields)) == queue
    assert has_own_queue(turn(**fields)) == (queue != "burst")
