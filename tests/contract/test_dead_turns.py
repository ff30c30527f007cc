"""What every DeadTurns does, in memory and in a DynamoDB table."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec
import pytest

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.dynamodb_dead_turns import DynamoDbDeadTurns
from shared.adapters.http_session import HttpSession
from shared.contracts.dead_turns import Kept, Step
from shared.errors import DependencyUnavailable
from shared.ports import DeadTurns
from tests.fakes.clock import FakeClock
from tests.fakes.dead_turns import FakeDeadTurns, brief_of
from tests.fakes.deaths import NOW_MS, death
from tests.fakes.emulator import Emulator

FINGERPRINT = death().letter.fingerprint
REDRIVEN = Step(kind="redriven", by="ann", at_ms=NOW_MS + 5_000, life_ms=death().life_ms)
DISCARDED = Step(
    kind="discarded", by="ben", at_ms=NOW_MS + 6_000, life_ms=death().life_ms, note="a test"
)


def in_memory(request: pytest.FixtureRequest) -> DeadTurns:
    return FakeDeadTurns()


def dynamodb(request: pytest.FixtureRequest, clock: FakeClock | None = None) -> DynamoDbDeadTurns:
    emulator: Emulator = request.getfixturevalue("emulator")
    http: HttpSession = request.getfixturevalue("http")
    credentials: AwsCredentials = request.getfixturevalue("emulator_credentials")
    clock = clock or FakeClock()
    api = AwsJsonApi(
        "dynamodb",
        http=http,
        credentials=credentials,
        clock=clock,
        endpoint_url=emulator.url,
        timeout_ms=2_000,
    )
    table = f"dead-turns-{uuid.uuid4().hex}"
    emulator.make_turns_table(table)
    return DynamoDbDeadTurns(api, table, clock)


@pytest.fixture(params=[in_memory, dynamodb], ids=["fake", "dynamodb"])
def dead(request: pytest.FixtureRequest, http: HttpSession) -> DeadTurns:
    make: Callable[[pytest.FixtureRequest], DeadTurns] = request.param
    return make(request)


async def test_keep_keeps_the_whole_death(dead: DeadTurns) -> None:
    turn = death()

    assert await dead.keep(turn) == Kept(True, True)
    assert await dead.find(turn.id) == turn


async def test_find_knows_nothing_of_a_turn_that_lives(dead: DeadTurns) -> None:
    assert await dead.find("s1.never") is None


async def test_a_repeat_of_the_same_death_changes_nothing(dead: DeadTurns) -> None:
    turn = death()
    await dead.keep(turn)

    later = death(letter_dead_at_ms=NOW_MS + 9_000)

    assert await dead.keep(later) == Kept(False, False)
    assert await dead.find(turn.id) == turn
    assert len(await dead.of_fingerprint(FINGERPRINT)) == 1


async def test_a_moved_message_adds_nothing_to_the_letter(dead: DeadTurns) -> None:
    turn = death()
    await dead.keep(turn)

    moved = death(origin="moved", letter_fingerprint="fedcba9876543210")

    assert (await dead.keep(moved)).is_new is False
    assert await dead.find(turn.id) == turn


async def test_a_letter_takes_the_place_of_the_moved_message(dead: DeadTurns) -> None:
    await dead.keep(death(origin="moved", attempt=0, letter_fingerprint="fedcba9876543210"))
    await dead.note(death().id, REDRIVEN)
    turn = death()

    assert (await dead.keep(turn)).is_new

    assert await dead.of_fingerprint("fedcba9876543210") == []
    found = await dead.find(turn.id)
    assert found is not None
    assert (found.letter, found.trail) == (turn.letter, (REDRIVEN,))


async def test_a_redriven_turn_that_dies_again_is_another_death_with_the_same_trail(
    dead: DeadTurns,
) -> None:
    first = death()
    await dead.keep(first)
    await dead.note(first.id, REDRIVEN)
    second = death(attempt=2, turn_accepted_at_ms=NOW_MS + 5_000, letter_dead_at_ms=NOW_MS + 7_000)
    second = msgspec.structs.replace(second, id=first.id)

    assert (await dead.keep(second)).is_new

    found = await dead.find(first.id)
    assert found is not None
    assert (found.state, found.redrives, found.last_attempt) == ("open", 1, 2)
    states = [turn.state for turn in await dead.of_fingerprint(FINGERPRINT)]
    assert states == ["redriven", "open"]


async def test_a_moved_message_of_a_redriven_turn_is_another_death(dead: DeadTurns) -> None:
    first = death()
    await dead.keep(first)
    await dead.note(first.id, REDRIVEN)
    moved = death(
        attempt=0,
        origin="moved",
        turn_accepted_at_ms=NOW_MS + 5_000,
        turn_attempt_hint=1,
        letter_dead_at_ms=NOW_MS + 7_000,
    )
    moved = msgspec.structs.replace(moved, id=first.id)

    assert (await dead.keep(moved)).is_new


async def test_deaths_of_a_fingerprint_come_in_the_order_of_dying(dead: DeadTurns) -> None:
    turns = [death(number, letter_dead_at_ms=NOW_MS + 10 * number) for number in (3, 1, 2)]
    for turn in turns:
        await dead.keep(turn)

    found = await dead.of_fingerprint(FINGERPRINT)

    assert found == [brief_of(turns[1]), brief_of(turns[2]), brief_of(turns[0])]
    assert await dead.of_fingerprint(FINGERPRINT, since_ms=NOW_MS + 20) == found[1:]
    assert await dead.of_fingerprint(FINGERPRINT, limit=1) == found[:1]
    assert await dead.of_fingerprint("unknown") == []


async def test_fingerprints_are_each_named_once(dead: DeadTurns) -> None:
    other = "fedcba9876543210"
    kept = [
        await dead.keep(turn) for turn in (death(1), death(2), death(3, letter_fingerprint=other))
    ]

    assert [each.is_new_fingerprint for each in kept] == [True, False, True]
    assert sorted(await dead.fingerprints()) == sorted([FINGERPRINT, other])


async def test_the_trail_says_who_did_what_and_when(dead: DeadTurns) -> None:
    turn = death()
    await dead.keep(turn)

    await dead.note(turn.id, REDRIVEN)
    await dead.note(turn.id, DISCARDED)

    found = await dead.find(turn.id)
    assert found is not None
    assert found.trail == (REDRIVEN, DISCARDED)
    assert [each.state for each in await dead.of_fingerprint(FINGERPRINT)] == ["discarded"]


async def test_a_note_about_nothing_is_refused(dead: DeadTurns) -> None:
    with pytest.raises(DependencyUnavailable):
        await dead.note("s1.never", REDRIVEN)


async def test_a_message_without_a_turn_is_kept_once(dead: DeadTurns) -> None:
    turn = msgspec.structs.replace(
        death(letter_klass="malformed"), id="message-7", origin="undecodable"
    )
    lost = msgspec.structs.replace(
        turn, letter=msgspec.structs.replace(turn.letter, turn=None, raw="{\x01é")
    )

    assert (await dead.keep(lost)).is_new
    assert not (await dead.keep(lost)).is_new
    assert await dead.find("message-7") == lost


class TestTable:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def table(
        self, request: pytest.FixtureRequest, http: HttpSession, clock: FakeClock
    ) -> DynamoDbDeadTurns:
        return dynamodb(request, clock)

    @pytest.mark.parametrize(
        "changes",
        [
            {"letter_raw": "\x01" * 131_072},
            {"letter_answer": "ま" * 300_000},
            {"letter_klass": "failed", "turn_text": "é" * 30_000, "letter_answer": "x" * 500_000},
        ],
        ids=["raw", "answer", "both"],
    )
    async def test_a_death_above_the_item_limit_is_cut_and_says_so(
        self, table: DynamoDbDeadTurns, changes: dict
    ) -> None:
        turn = death(**changes)

        assert (await table.keep(turn)).is_new

        found = await table.find(turn.id)
        assert found is not None
        assert found.is_cut
        assert found.letter.error == turn.letter.error
        await table.note(turn.id, REDRIVEN)

    async def test_a_death_is_forgotten_after_thirty_days(
        self, table: DynamoDbDeadTurns, clock: FakeClock
    ) -> None:
        turn = death()
        await table.keep(turn)
        clock.skip(30 * 86_400 + 1)

        assert await table.find(turn.id) is None
        assert await table.of_fingerprint(FINGERPRINT) == []
        assert await table.fingerprints() == []
        assert (await table.keep(death(2))).is_new_fingerprint

    async def test_many_pages_are_followed(self, table: DynamoDbDeadTurns) -> None:
        for number in range(6):
            await table.keep(death(number, letter_answer="x" * 300_000))

        assert len(await table.of_fingerprint(FINGERPRINT)) == 6


async def test_a_death_that_cannot_be_read_hides_no_other_and_keeps_none_out(
    request: pytest.FixtureRequest, http: HttpSession
) -> None:
    dead = dynamodb(request)
    first, second = death(1), death(2)
    for turn in (first, second):
        await dead.keep(turn)
    place = await dead._place(first.id)
    assert place is not None
    damage = {
        "TableName": dead._table,
        "Key": {"pk": {"S": FINGERPRINT}, "sk": {"S": place.death.S}},
        "UpdateExpression": "SET #record = :nothing, brief = :nothing",
        "ExpressionAttributeNames": {"#record": "record"},
        "ExpressionAttributeValues": {":nothing": {"S": "{}"}},
    }
    await dead._api.call("UpdateItem", msgspec.json.encode(damage))

    assert await dead.of_fingerprint(FINGERPRINT) == [brief_of(second)]
    with pytest.raises(DependencyUnavailable):
        await dead.find(first.id)

    again = death(1, attempt=2, letter_dead_at_ms=NOW_MS + 60_000)
    assert (await dead.keep(again)).is_new
    assert await dead.find(first.id) == again
