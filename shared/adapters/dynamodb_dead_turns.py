"""DeadTurns in a DynamoDB table with the keys `pk` and `sk`. Three kinds of items share it:

- a death: `pk` = fingerprint, `sk` = time of death (13 digits, epoch ms) + `#` + id
- where a turn's latest death lies: `pk` = `turn#` + id, `sk` = `place`; its `rank` orders deaths, so repeats are known
- a fingerprint: `pk` = `fingerprints`, `sk` = fingerprint
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.adapters.dynamodb_items import Number, Text, number, read_answer
from shared.clock import Clock
from shared.contracts.dead_turns import DeadTurn, DeadTurnBrief, Kept, Step
from shared.errors import DependencyUnavailable
from shared.telemetry import Log

ITEM_LIMIT_BYTES: Final = 380_000
"""Of the record alone; DynamoDB's 400 KB hold its keys and the brief, too."""
_DAY_S: Final = 86_400
_FINGERPRINTS: Final = "fingerprints"
_PLACE: Final = "place"
_ATTEMPTS_IN_RANK: Final = 500

_Answer = TypeVar("_Answer")
_log = Log("dead_turns")
_encode = msgspec.json.encode


class _Record(msgspec.Struct):
    record: Text
    steps: Number
    expires_at: Number


class _Brief(msgspec.Struct):
    pk: Text
    id: Text
    brief: Text
    state: Text


class _Place(msgspec.Struct):
    fingerprint: Text
    death: Text  # sort key of the record
    rank: Number
    life: Number
    expires_at: Number


class _Fingerprint(msgspec.Struct):
    sk: Text


class _FoundPlace(msgspec.Struct):
    Item: _Place | None = None


class _FoundRecord(msgspec.Struct):
    Item: _Record | None = None


class _Lifetime(msgspec.Struct):
    expires_at: Number


class _Replaced(msgspec.Struct):
    Attributes: _Lifetime | None = None


class _Page(msgspec.Struct):
    Items: list[dict[str, Any]] = []
    LastEvaluatedKey: dict[str, Any] | None = None


class DynamoDbDeadTurns:
    """Dead turns. DynamoDB deletes expired items days late, so every read filters them."""

    def __init__(self, api: AwsJsonApi, table: str, clock: Clock, *, kept_days: int = 30) -> None:
        self._api = api
        self._table = table
        self._clock = clock
        self._kept_s = kept_days * _DAY_S

    async def keep(self, turn: DeadTurn) -> Kept:
        """See DeadTurns. The fingerprint first, so that no death lies under one that nobody finds."""
        is_new_fingerprint = await self._note_fingerprint(turn)
        place = await self._place(turn.id)
        rank = _rank(turn)
        if place is not None and place.rank.value >= rank:
            return Kept(False, is_new_fingerprint)
        earlier = None if place is None else await self._readable(place)
        if earlier is not None:
            turn = msgspec.structs.replace(turn, trail=earlier.trail)
        try:
            await self._call("TransactWriteItems", self._writes(turn, rank, place))
        except AwsRefusal as refusal:
            if refusal.code != "TransactionCanceledException":
                raise
            raise DependencyUnavailable("another triage keeps the same turn") from refusal
        return Kept(True, is_new_fingerprint)

    async def find(self, turn_id: str) -> DeadTurn | None:
        """See DeadTurns."""
        place = await self._place(turn_id)
        return None if place is None else await self._read(place)

    async def fingerprints(self) -> Sequence[str]:
        """See DeadTurns."""
        query = self._query("pk = :pk", {":pk": Text(_FINGERPRINTS)})
        return [_convert(item, _Fingerprint).sk.S async for item in self._items(query)]

    async def of_fingerprint(
        self, fingerprint: str, *, since_ms: int = 0, limit: int = 10_000
    ) -> Sequence[DeadTurnBrief]:
        """See DeadTurns. Reads whole items, transfers briefs."""
        query = self._query(
            "pk = :pk AND sk >= :since",
            {":pk": Text(fingerprint), ":since": Text(f"{since_ms:013d}")},
        )
        query["ProjectionExpression"] = "pk, id, brief, #state"
        query["ExpressionAttributeNames"] = {"#state": "state"}
        turns: list[DeadTurnBrief] = []
        async for item in self._items(query):
            try:
                turns.append(_brief(_convert(item, _Brief)))
            except DependencyUnavailable:
                _log.error("dead_turn.unreadable", fingerprint=fingerprint)
            if len(turns) == limit:
                break
        return turns

    async def note(self, turn_id: str, step: Step) -> None:
        """See DeadTurns."""
        place = await self._place(turn_id)
        turn = None if place is None else await self._read(place)
        if place is None or turn is None:
            raise DependencyUnavailable(f"no dead turn {turn_id}")
        noted = msgspec.structs.replace(turn, trail=(*turn.trail, step))
        request = {
            "TableName": self._table,
            "Key": {"pk": place.fingerprint, "sk": place.death},
            "UpdateExpression": "SET #record = :record, steps = :steps, #state = :state",
            "ConditionExpression": "steps = :seen",
            "ExpressionAttributeNames": {"#record": "record", "#state": "state"},
            "ExpressionAttributeValues": {
                ":record": Text(_fit(noted)),
                ":steps": number(len(noted.trail)),
                ":state": Text(noted.state),
                ":seen": number(len(turn.trail)),
            },
        }
        try:
            await self._call("UpdateItem", request)
        except AwsRefusal as refusal:
            if refusal.code != "ConditionalCheckFailedException":
                raise
            raise DependencyUnavailable(f"somebody else acts on {turn_id}") from refusal

    async def _note_fingerprint(self, turn: DeadTurn) -> bool:
        request = {
            "TableName": self._table,
            "Key": {"pk": Text(_FINGERPRINTS), "sk": Text(turn.letter.fingerprint)},
            "UpdateExpression": "SET expires_at = :until",
            "ExpressionAttributeValues": {":until": self._expires_at()},
            "ReturnValues": "ALL_OLD",
        }
        old = read_answer(await self._call("UpdateItem", request), _Replaced).Attributes
        return old is None or old.expires_at.value <= self._now_s()

    def _writes(self, turn: DeadTurn, rank: int, place: _Place | None) -> dict[str, Any]:
        pk = Text(turn.letter.fingerprint)
        sk = Text(f"{turn.letter.dead_at_ms:013d}#{turn.id}")
        record = {
            "pk": pk,
            "sk": sk,
            "id": Text(turn.id),
            "brief": Text(_encode(_brief_of(turn)).decode()),
            "state": Text(turn.state),
            "steps": number(len(turn.trail)),
            "record": Text(_fit(turn)),
            "expires_at": self._expires_at(),
        }
        pointer = {
            "pk": Text(f"turn#{turn.id}"),
            "sk": Text(_PLACE),
            "fingerprint": pk,
            "death": sk,
            "rank": number(rank),
            "life": number(turn.life_ms),
            "expires_at": self._expires_at(),
        }
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
        if place is not None:
            condition = {
                "ConditionExpression": "#rank = :seen",
                "ExpressionAttributeNames": {"#rank": "rank"},
                "ExpressionAttributeValues": {":seen": place.rank},
            }
        writes: list[dict[str, Any]] = [
            {"Put": {"TableName": self._table, "Item": pointer, **condition}},
            {"Put": {"TableName": self._table, "Item": record}},
        ]
        is_replaced = place is not None and place.life.value == turn.life_ms
        if place is not None and is_replaced and (place.fingerprint, place.death) != (pk, sk):
            key = {"pk": place.fingerprint, "sk": place.death}
            writes.append({"Delete": {"TableName": self._table, "Key": key}})
        return {"TransactItems": writes}

    async def _place(self, turn_id: str) -> _Place | None:
        """Where the latest death lies, one that is past its time included: its rank is still compared."""
        request = {
            "TableName": self._table,
            "Key": {"pk": Text(f"turn#{turn_id}"), "sk": Text(_PLACE)},
            "ConsistentRead": True,
        }
        return read_answer(await self._call("GetItem", request), _FoundPlace).Item

    async def _read(self, place: _Place) -> DeadTurn | None:
        item = await self._item_at(place)
        return None if item is None else read_answer(item.record.S, DeadTurn)

    async def _item_at(self, place: _Place) -> _Record | None:
        request = {
            "TableName": self._table,
            "Key": {"pk": place.fingerprint, "sk": place.death},
            "ConsistentRead": True,
        }
        item = read_answer(await self._call("GetItem", request), _FoundRecord).Item
        if item is None or item.expires_at.value <= self._now_s():
            return None
        return item

    async def _readable(self, place: _Place) -> DeadTurn | None:
        """None as well for a death that this version cannot read: it must not keep a later one from being kept."""
        item = await self._item_at(place)
        try:
            return None if item is None else read_answer(item.record.S, DeadTurn)
        except DependencyUnavailable:
            _log.error("dead_turn.unreadable", fingerprint=place.fingerprint.S)
            return None

    def _query(self, condition: str, values: dict[str, Any]) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "FilterExpression": "expires_at > :now",
            "ExpressionAttributeValues": {**values, ":now": number(self._now_s())},
            "ConsistentRead": True,
        }

    async def _items(self, query: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        while True:
            page = read_answer(await self._call("Query", query), _Page)
            for item in page.Items:
                yield item
            if not page.LastEvaluatedKey:
                return
            query["ExclusiveStartKey"] = page.LastEvaluatedKey

    async def _call(self, operation: str, request: dict[str, Any]) -> bytes:
        return await self._api.call(operation, _encode(request))

    def _expires_at(self) -> Number:
        return number(self._now_s() + self._kept_s)

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000


def _rank(turn: DeadTurn) -> int:
    """Later lives before earlier ones, later attempts before earlier ones, letters before moved messages."""
    attempt = min(turn.last_attempt, _ATTEMPTS_IN_RANK - 1)
    return (turn.life_ms * _ATTEMPTS_IN_RANK + attempt) * 2 + (turn.origin == "letter")


def _brief_of(turn: DeadTurn) -> DeadTurnBrief:
    return DeadTurnBrief(
        id=turn.id,
        fingerprint=turn.letter.fingerprint,
        klass=turn.letter.klass,
        verdict=turn.verdict,
        reason=turn.reason,
        state=turn.state,
        queue=turn.queue,
        error_type=turn.letter.error.type,
        dead_at_ms=turn.letter.dead_at_ms,
    )


def _brief(item: _Brief) -> DeadTurnBrief:
    brief = read_answer(item.brief.S, DeadTurnBrief)
    return _convert({**msgspec.to_builtins(brief), "state": item.state.S}, DeadTurnBrief)


def _fit(turn: DeadTurn) -> str:
    """The record's JSON; what is too long for an item loses its end."""
    text = _encode(turn).decode()
    while len(text.encode()) > ITEM_LIMIT_BYTES:
        text = _encode(turn := _cut(turn)).decode()
    return text


def _cut(turn: DeadTurn) -> DeadTurn:
    letter = turn.letter
    if letter.raw:
        letter = msgspec.structs.replace(letter, raw=letter.raw[: len(letter.raw) // 2])
    elif letter.answer:
        letter = msgspec.structs.replace(letter, answer=letter.answer[: len(letter.answer) // 2])
    else:
        error = letter.error
        error = msgspec.structs.replace(
            error,
            message=error.message[: len(error.message) // 2],
            stack=error.stack[: len(error.stack) // 2],
        )
        letter = msgspec.structs.replace(letter, error=error, attempts=letter.attempts[-1:])
    return msgspec.structs.replace(turn, letter=letter, is_cut=True)


def _convert(item: dict[str, Any], type_: type[_Answer]) -> _Answer:
    try:
        return msgspec.convert(item, type_)
    except msgspec.ValidationError as error:
        raise DependencyUnavailable("a dead turn cannot be read") from error
