"""A stored turn that this version cannot read costs itself alone, and every verb still tells what became of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.adapters.redis_due_turns import RedisDueTurns
from shared.adapters.redis_keys import SessionKeys
from shared.contracts.identifiers import made_at_ms
from shared.contracts.ledger import (
    AlreadyAccepted,
    Claimed,
    ClaimRef,
    ClaimRefused,
    Finished,
    Held,
    Replay,
    StillClaimed,
    TurnState,
    TurnUnknown,
)
from shared.contracts.turns import TurnRequest
from shared.errors import MalformedMessage
from shared.ports import DueTurns
from tests.fakes.due_turns import FakeDueTurns
from tests.fakes.ledger_world import (
    LEASE_MS,
    OUTCOME_KEPT_MS,
    FakeWorld,
    LedgerWorld,
    ValkeyWorld,
    follower,
)

NONSENSE = b"\xff no turn"
OF_A_LATER_VERSION = b"""{"schema":2}"""


@pytest.fixture
def due(world: LedgerWorld) -> DueTurns:
    if isinstance(world, ValkeyWorld):
        return RedisDueTurns(world.client, outcome_kept_ms=OUTCOME_KEPT_MS)
    assert isinstance(world, FakeWorld)
    return FakeDueTurns(world._ledger, world.clock)


async def damaged(world: LedgerWorld, raw: bytes = NONSENSE, **fields: object) -> TurnRequest:
    request = await world.accepted(**fields)
    await world.damage(request.ref, raw)
    return request


def is_told(state: TurnState, request: TurnRequest, raw: bytes = NONSENSE) -> bool:
    """The ids of the turn, without its text."""
    told = state.request
    return (
        (told.ref, told.message_id, told.text) == (request.ref, request.message_id, "")
        and told.accepted_at_ms == made_at_ms(request.turn_id)
        and state.unreadable == raw
    )


@pytest.mark.parametrize("raw", [NONSENSE, OF_A_LATER_VERSION, b""])
async def test_one_unreadable_turn_hides_no_other_from_a_sweeper(
    world: LedgerWorld, due: DueTurns, raw: bytes
) -> None:
    before = await world.accepted(session="s1")
    bad = await damaged(world, raw, session="s2")
    after = await world.accepted(session="s3")

    found = await due.look([before.ref, bad.ref, after.ref], world.now_ms)

    states = [turn.state for turn in found if turn is not None]
    assert len(states) == 3
    assert [state.request.text for state in (states[0], states[2])] == [before.text, after.text]
    assert is_told(states[1], bad, raw)
    assert states[0].unreadable is None


async def test_every_read_tells_the_ids_of_an_unreadable_turn(world: LedgerWorld) -> None:
    request = await damaged(world)

    by_message = await world.queue.find_message(request.session, request.message_id)
    by_turn = await world.queue.state(request.ref)
    again = await world.queue.accept(world.request(message=request.message_id), follower("c2"))
    log = await world.join(request.ref, follower("c3"))

    assert by_message is not None
    assert is_told(by_message, request)
    assert by_turn == by_message
    assert isinstance(again, AlreadyAccepted)
    assert is_told(again.state, request)
    assert isinstance(log, Replay)
    assert is_told(log.state, request)


async def test_a_worker_that_holds_the_message_runs_it_all_the_same(world: LedgerWorld) -> None:
    request = await damaged(world)

    answer = await world.claim(request)

    assert isinstance(answer, Claimed)
    assert (answer.request.text, answer.request.ready_at_ms) == (request.text, world.now_ms)
    refused = await world.claim(request, "n2")
    assert isinstance(refused, ClaimRefused)
    assert is_told(refused.state, request)
    assert isinstance(await world.append(answer.ref, 0, b"started"), Held)
    assert isinstance(await world.finish(answer.ref, 1, b"end"), Finished)


async def test_it_is_ended_like_any_other(world: LedgerWorld) -> None:
    request = await damaged(world)
    claim = await world.claimed(request)
    ends: dict[str, object] = {"status": "failed", "outcome": b"end", "attempt": 1}

    held = await world.claims.end_unclaimed(request.ref, now_ms=world.now_ms, **ends)  # type: ignore[arg-type]
    world.clock.skip(LEASE_MS / 1_000)
    ended = await world.claims.end_unclaimed(request.ref, now_ms=world.now_ms, **ends)  # type: ignore[arg-type]

    assert claim.attempt == 1
    assert isinstance(held, StillClaimed)
    assert is_told(held.state, request)
    assert isinstance(ended, Finished)
    log = await world.read(request.ref)
    assert isinstance(log, Replay)
    assert log.frames[-1] == log.state.outcome == b"end"


async def test_an_unreadable_next_turn_does_not_keep_the_one_before_from_ending(
    world: LedgerWorld, due: DueTurns
) -> None:
    first = await world.accepted()
    second = await damaged(world)

    answer = await world.finish(await world.claimed(first), 0, b"end")

    assert answer == Finished((follower(),), None)
    (found,) = await due.look([second.ref], world.now_ms)
    assert found is not None
    assert (found.state.status, found.state.position) == ("waiting", 0)


@pytest.mark.parametrize(
    ("key", "element"),
    [
        (SessionKeys.followers, b"[1]"),
        (SessionKeys.followers, b"\xff"),
        (SessionKeys.attempts, b"no list"),
        (SessionKeys.attempts, b"""["x","w","inline","1","2","crashed"]"""),
    ],
)
async def test_an_unreadable_follower_or_attempt_is_left_out(
    valkey_world: ValkeyWorld, key: Callable[..., str], element: bytes
) -> None:
    world = valkey_world
    claims: list[ClaimRef] = []
    for session in ("s1", "s2"):
        request = await world.accepted(session=session)
        claims.append(await world.claimed(request))
    turn = claims[0].turn
    await world.client.run([("LPUSH", key(SessionKeys(turn.session), turn.turn_id), element)])

    answers = await world.claims.renew_many(claims, world.now_ms)
    world.clock.skip(LEASE_MS / 1_000)
    (found,) = await RedisDueTurns(world.client, outcome_kept_ms=OUTCOME_KEPT_MS).look(
        [turn], world.now_ms
    )
    request = world.request(session="s1")
    again = await world.claim(
        TurnRequest(
            turn_id=turn.turn_id,
            session_id=turn.session.session_id,
            message_id=request.message_id,
            tenant=turn.session.tenant,
            user=turn.session.user,
            text="",
            accepted_at_ms=0,
        ),
        "n2",
    )

    assert [answer.followers for answer in answers if isinstance(answer, Held)] == [
        (follower(),),
        (follower(),),
    ]
    assert found is not None
    assert [attempt.outcome for attempt in found.attempts] == ["crashed"]
    assert isinstance(again, Claimed)
    assert [attempt.attempt for attempt in again.earlier_attempts] == [1]


@pytest.mark.parametrize(
    ("field", "value"), [("attempt", b"1e+20"), ("lease", b"soon"), ("tries", b"?"), ("ready", b"")]
)
async def test_a_turn_whose_numbers_are_none_counts_as_unknown_and_hides_no_other(
    valkey_world: ValkeyWorld, field: str, value: bytes
) -> None:
    world = valkey_world
    due = RedisDueTurns(world.client, outcome_kept_ms=OUTCOME_KEPT_MS)
    bad, good = await world.accepted(session="s1"), await world.accepted(session="s2")
    key = SessionKeys(bad.session).turn(bad.turn_id)
    await world.client.run([("HSET", key, field, value)])

    found = await due.look([bad.ref, good.ref], world.now_ms)

    assert found[0] is None
    assert found[1] is not None
    assert found[1].state.request.text == good.text
    if field != "tries":
        assert await world.queue.state(bad.ref) is None
        assert await world.queue.find_message(bad.session, bad.message_id) is None
        assert await world.join(bad.ref, follower("c2")) == TurnUnknown()
        with pytest.raises(MalformedMessage):
            await world.queue.accept(world.request(message=bad.message_id), follower())
