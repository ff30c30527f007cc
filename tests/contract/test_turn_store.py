"""What every TurnStore does, in memory and in a DynamoDB table."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.dynamodb_turn_store import DynamoDbTurnStore
from shared.adapters.http_session import HttpSession
from shared.contracts.identifiers import (
    SessionId,
    SessionRef,
    TenantId,
    TurnRef,
    UserId,
    new_turn_id,
)
from shared.contracts.server_frames import SourceLink, Timings, Usage
from shared.contracts.stored_turns import StoredTurn
from shared.errors import DependencyUnavailable, ItemTooLarge
from shared.ports import TurnStore
from tests.fakes.clock import FakeClock
from tests.fakes.emulator import Emulator

SESSION = SessionRef(TenantId("acme"), UserId("ana"), SessionId("s1"))
OTHER_USER = SessionRef(TenantId("acme"), UserId("bob"), SessionId("s1"))


def stored(number: int = 1, session: SessionRef = SESSION, **changes: Any) -> StoredTurn:
    """Turn `number` of a session; a higher number is a later turn."""
    at_ms = 1_700_000_000_000 + number
    turn_id = new_turn_id(session.session_id, at_ms, bytes(10))
    turn = StoredTurn(
        ref=TurnRef(session, turn_id),
        message_id=f"m{number}",
        attempt=1,
        nonce="nonce-1",
        status="completed",
        user_text="Ist „Yotsuba“ für Kinder? 🦊\x01",
        assistant_text="はい。",
        stop_reason="end_turn",
        intent="recommendation",
        model="claude-haiku-4-5",
        usage=Usage(input_tokens=12, output_tokens=3),
        timings=Timings(queued_ms=1, first_token_ms=20, total_ms=300),
        sources=(SourceLink(title="Yotsuba", id="d1"),),
        accepted_at_ms=at_ms,
        completed_at_ms=at_ms + 300,
        path="burst",
    )
    return msgspec.structs.replace(turn, **changes)


def in_memory(request: pytest.FixtureRequest) -> TurnStore:
    from tests.fakes.turn_store import FakeTurnStore

    return FakeTurnStore()


def dynamodb(request: pytest.FixtureRequest) -> TurnStore:
    emulator: Emulator = request.getfixturevalue("emulator")
    http: HttpSession = request.getfixturevalue("http")
    credentials: AwsCredentials = request.getfixturevalue("emulator_credentials")
    clock = FakeClock()
    api = AwsJsonApi(
        "dynamodb",
        http=http,
        credentials=credentials,
        clock=clock,
        endpoint_url=emulator.url,
        timeout_ms=2_000,
    )
    table = f"turns-{uuid.uuid4().hex}"
    emulator.make_turns_table(table)
    return DynamoDbTurnStore(api, table, clock, kept_days=90)


@pytest.fixture(params=[in_memory, dynamodb], ids=["fake", "dynamodb"])
def store(request: pytest.FixtureRequest, http: HttpSession) -> TurnStore:
    make: Callable[[pytest.FixtureRequest], TurnStore] = request.param
    return make(request)


async def test_put_keeps_the_whole_turn(store: TurnStore) -> None:
    turn = stored()

    assert await store.put(turn) is None
    assert await store.get(turn.ref) == turn


async def test_get_finds_nothing_before_the_put(store: TurnStore) -> None:
    assert await store.get(stored().ref) is None


async def test_get_finds_nothing_of_another_user(store: TurnStore) -> None:
    turn = stored()
    await store.put(turn)

    assert await store.get(TurnRef(OTHER_USER, turn.ref.turn_id)) is None


async def test_put_of_the_same_attempt_answers_the_turn_that_won(store: TurnStore) -> None:
    winner = stored()
    await store.put(winner)

    loser = stored(nonce="nonce-2", assistant_text="Nein.")

    assert await store.put(loser) == winner
    assert await store.get(winner.ref) == winner


async def test_put_of_a_lower_attempt_answers_the_turn_that_won(store: TurnStore) -> None:
    winner = stored(attempt=10)
    await store.put(winner)

    assert await store.put(stored(attempt=9, nonce="nonce-2")) == winner


async def test_put_of_a_higher_attempt_replaces_a_lower_one(store: TurnStore) -> None:
    await store.put(stored(attempt=9))
    later = stored(attempt=10, nonce="nonce-2", assistant_text="Doch.")

    assert await store.put(later) is None
    assert await store.get(later.ref) == later


@pytest.mark.case("B-21")
async def test_put_recognises_its_own_earlier_write(store: TurnStore) -> None:
    turn = stored()
    await store.put(turn)

    assert await store.put(turn) is None


@pytest.mark.case("B-20")
async def test_put_refuses_a_turn_above_the_item_limit(store: TurnStore) -> None:
    turn = stored(assistant_text="x" * 410_000)

    with pytest.raises(ItemTooLarge):
        await store.put(turn)
    assert await store.get(turn.ref) is None


@pytest.mark.case("B-20")
async def test_put_keeps_a_turn_just_below_the_item_limit(store: TurnStore) -> None:
    turn = stored(assistant_text="x" * 390_000)

    assert await store.put(turn) is None
    assert await store.get(turn.ref) == turn


async def test_newest_of_an_empty_session_is_empty(store: TurnStore) -> None:
    page = await store.newest(SESSION, limit=20)

    assert page.turns == ()
    assert not page.more


async def test_newest_reads_backwards_from_the_last_turn(store: TurnStore) -> None:
    turns = [stored(number) for number in range(1, 6)]
    for turn in turns:
        await store.put(turn)
    await store.put(stored(9, OTHER_USER))

    page = await store.newest(SESSION, limit=3)

    assert page.turns == (turns[4], turns[3], turns[2])
    assert page.more


async def test_newest_says_that_nothing_older_exists(store: TurnStore) -> None:
    turns = [stored(number) for number in range(1, 4)]
    for turn in turns:
        await store.put(turn)

    page = await store.newest(SESSION, limit=3)

    assert page.turns == (turns[2], turns[1], turns[0])
    assert not page.more


async def test_newest_goes_on_before_a_turn(store: TurnStore) -> None:
    turns = [stored(number) for number in range(1, 6)]
    for turn in turns:
        await store.put(turn)

    page = await store.newest(SESSION, limit=2, before=turns[2].ref.turn_id)

    assert page.turns == (turns[1], turns[0])
    assert not page.more


async def test_newest_leaves_markers_out_and_still_fills_the_page(store: TurnStore) -> None:
    turns = [stored(number) for number in range(1, 4)]
    markers = [stored(number, status="marker") for number in range(4, 12)]
    for turn in turns + markers:
        await store.put(turn)

    page = await store.newest(SESSION, limit=2)

    assert page.turns == (turns[2], turns[1])
    assert page.more
    assert await store.get(markers[0].ref) == markers[0]


@pytest.mark.case("B-20")
async def test_newest_follows_pages_of_a_megabyte(store: TurnStore) -> None:
    turns = [stored(number, assistant_text="x" * 300_000) for number in range(1, 8)]
    for turn in turns:
        await store.put(turn)

    page = await store.newest(SESSION, limit=6)

    assert page.turns == tuple(reversed(turns[1:]))
    assert page.more


async def test_a_stored_turn_that_cannot_be_read_hides_no_other(
    request: pytest.FixtureRequest, http: HttpSession
) -> None:
    store = dynamodb(request)
    assert isinstance(store, DynamoDbTurnStore)
    turns = [stored(number) for number in (1, 2, 3)]
    for turn in turns:
        await store.put(turn)
    damage = {
        "TableName": store._table,
        "Key": {"pk": {"S": SESSION.slot_tag}, "sk": {"S": turns[1].ref.turn_id}},
        "UpdateExpression": "SET turn = :nothing",
        "ExpressionAttributeValues": {":nothing": {"S": '{"later":"version"}'}},
    }
    await store._api.call("UpdateItem", msgspec.json.encode(damage))

    page = await store.newest(SESSION, limit=2)

    assert (page.turns, page.more) == ((turns[2], turns[0]), False)
    with pytest.raises(DependencyUnavailable):
        await store.get(turns[1].ref)
