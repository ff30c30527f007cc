"""The table's own rules: time to live, pages, answers of DynamoDB that the emulator cannot be made to give."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.adapters.dynamodb_turn_store import ITEM_LIMIT_BYTES, DynamoDbTurnStore
from shared.adapters.http_session import HttpSession
from shared.contracts.identifiers import SessionId, SessionRef, TenantId, TurnId, TurnRef, UserId
from shared.contracts.server_frames import Timings, Usage
from shared.contracts.stored_turns import StoredTurn
from shared.errors import DependencyUnavailable, ItemTooLarge
from shared.policy.sigv4 import Credential
from tests.fakes.clock import FakeClock
from tests.fakes.emulator import KEY_ID, REGION, SECRET, Emulator, emulator
from tests.fakes.http_calls import FakeHttp

__all__ = ["emulator"]
SESSION = SessionRef(TenantId("acme"), UserId("ana"), SessionId("s1"))
TURN = StoredTurn(
    ref=TurnRef(SESSION, TurnId("s1.01JD0000000000000000000000")),
    message_id="m1",
    attempt=1,
    nonce="n1",
    status="completed",
    user_text="Hi",
    assistant_text="Hello",
    stop_reason="end_turn",
    intent="general",
    model="m",
    usage=Usage(),
    timings=Timings(queued_ms=0, first_token_ms=0, total_ms=0),
    sources=(),
    accepted_at_ms=1,
    completed_at_ms=2,
)
DAY_S = 86_400


def api_over(http: HttpSession, clock: FakeClock, endpoint_url: str = "") -> AwsJsonApi:
    fixed = Credential(KEY_ID, SECRET, REGION)
    credentials = AwsCredentials(REGION, fixed=fixed)
    return AwsJsonApi(
        "dynamodb",
        http=http,
        credentials=credentials,
        clock=clock,
        endpoint_url=endpoint_url,
        timeout_ms=2_000,
    )


def scripted(*answers: tuple[int, bytes] | Exception) -> tuple[DynamoDbTurnStore, FakeHttp]:
    http, clock = FakeHttp(answers=list(answers)), FakeClock()
    return DynamoDbTurnStore(api_over(http, clock), "turns", clock, kept_days=90), http


@pytest.fixture
async def http() -> AsyncIterator[HttpSession]:
    session = HttpSession()
    yield session
    await session.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def table(emulator: Emulator) -> str:
    name = f"turns-{uuid.uuid4().hex}"
    emulator.make_turns_table(name)
    return name


@pytest.fixture
def store(emulator: Emulator, table: str, http: HttpSession, clock: FakeClock) -> DynamoDbTurnStore:
    return DynamoDbTurnStore(api_over(http, clock, emulator.url), table, clock, kept_days=90)


async def test_items_carry_keys_and_their_time_to_live_in_seconds(
    store: DynamoDbTurnStore, emulator: Emulator, table: str, clock: FakeClock
) -> None:
    await store.put(TURN)

    [item] = emulator.client("dynamodb").scan(TableName=table)["Items"]
    assert item["pk"] == {"S": SESSION.slot_tag}
    assert item["sk"] == {"S": TURN.ref.turn_id}
    assert item["expires_at"] == {"N": str(clock.now_ms() // 1000 + 90 * DAY_S)}


async def test_expired_turns_are_not_read_although_dynamodb_still_holds_them(
    store: DynamoDbTurnStore, clock: FakeClock
) -> None:
    await store.put(TURN)
    clock.skip(90 * DAY_S)

    assert await store.get(TURN.ref) is None
    assert (await store.newest(SESSION, limit=5)).turns == ()


async def test_an_expired_turn_does_not_win_against_a_new_one(
    store: DynamoDbTurnStore, clock: FakeClock
) -> None:
    await store.put(msgspec.structs.replace(TURN, attempt=9))
    clock.skip(90 * DAY_S)

    assert await store.put(TURN) is None
    assert await store.get(TURN.ref) == TURN


def items_page(last_key: bool, *attempts: int) -> bytes:
    items = [
        {
            "pk": {"S": SESSION.slot_tag},
            "sk": {"S": TURN.ref.turn_id},
            "attempt": {"N": str(attempt)},
            "nonce": {"S": "n"},
            "status": {"S": "completed"},
            "expires_at": {"N": "99999999999"},
            "turn": {
                "S": msgspec.json.encode(msgspec.structs.replace(TURN, attempt=attempt)).decode()
            },
        }
        for attempt in attempts
    ]
    page: dict[str, object] = {"Items": items, "Count": len(items), "ScannedCount": len(items)}
    if last_key:
        page["LastEvaluatedKey"] = {"pk": {"S": SESSION.slot_tag}, "sk": {"S": "x"}}
    return msgspec.json.encode(page)


@pytest.mark.case("B-20")
async def test_newest_goes_on_from_the_continuation_key_until_the_page_is_full() -> None:
    store, http = scripted(
        (200, items_page(True, 1)),
        (200, items_page(True)),
        (200, items_page(True, 2, 3)),
    )

    page = await store.newest(SESSION, limit=2)

    assert [turn.attempt for turn in page.turns] == [1, 2]
    assert page.more
    requests = [msgspec.json.decode(call.body) for call in http.calls]
    assert [request["Limit"] for request in requests] == [3, 2, 2]
    assert "ExclusiveStartKey" not in requests[0]
    assert requests[1]["ExclusiveStartKey"]["sk"] == {"S": "x"}
    assert all(request["ConsistentRead"] for request in requests)


@pytest.mark.case("B-22")
async def test_every_read_asks_for_what_was_just_written() -> None:
    store, http = scripted((200, b"{}"))

    await store.get(TURN.ref)
    await store.newest(SESSION, limit=5)

    for call in http.calls:
        assert msgspec.json.decode(call.body)["ConsistentRead"] is True


@pytest.mark.case("B-38")
async def test_no_number_travels_as_a_float() -> None:
    store, http = scripted((200, b"{}"))

    await store.put(TURN)

    item = msgspec.json.decode(http.calls[0].body)["Item"]
    for attribute in item.values():
        ((kind, value),) = attribute.items()
        assert kind in ("S", "N")
        assert kind == "S" or value.isdigit()


async def test_the_size_is_checked_before_anything_is_sent() -> None:
    store, http = scripted((200, b"{}"))
    empty = msgspec.json.encode(msgspec.structs.replace(TURN, assistant_text="")).decode()
    fits = ITEM_LIMIT_BYTES - len(empty.encode()) - 200

    await store.put(msgspec.structs.replace(TURN, assistant_text="x" * fits))
    with pytest.raises(ItemTooLarge):
        await store.put(msgspec.structs.replace(TURN, assistant_text="x" * (fits + 200)))
    assert len(http.calls) == 1


@pytest.mark.parametrize("body", [b"[]", b'{"Item":{"pk":{"S":"x"}}}', b"nonsense"])
async def test_answers_that_cannot_be_read_are_unavailable(body: bytes) -> None:
    store, _ = scripted((200, body))

    with pytest.raises(DependencyUnavailable):
        await store.get(TURN.ref)


async def test_a_lost_condition_without_the_winner_is_unavailable() -> None:
    store, _ = scripted((400, b'{"__type":"ConditionalCheckFailedException"}'))

    with pytest.raises(DependencyUnavailable):
        await store.put(TURN)


async def test_a_refused_request_is_permanent() -> None:
    store, _ = scripted((400, b'{"__type":"ValidationException","message":"text"}'))

    with pytest.raises(AwsRefusal):
        await store.put(TURN)


async def test_a_turn_that_another_version_wrote_is_unavailable_not_absent() -> None:
    page = msgspec.json.decode(items_page(False, 1))
    item = {**page["Items"][0], "turn": {"S": '{"future":1}'}}
    store, _ = scripted((200, msgspec.json.encode({"Item": item})))

    with pytest.raises(DependencyUnavailable):
        await store.get(TURN.ref)
