"""TurnStore in a DynamoDB table: partition key `pk` = the session's slot tag, sort key `sk` = the turn id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from shared.adapters.aws_json_api import AwsJsonApi, AwsRefusal
from shared.adapters.dynamodb_items import Number, Text, number, read_answer
from shared.clock import Clock
from shared.contracts.identifiers import SessionRef, TurnId, TurnRef
from shared.contracts.stored_turns import StoredPage, StoredTurn
from shared.errors import DependencyUnavailable, ItemTooLarge
from shared.telemetry import Log

ITEM_LIMIT_BYTES = 409_600
_DAY_S = 86_400
_PAGE_SLACK = 1  # one more than asked tells whether older turns exist

_log = Log("turn_store")
_encode = msgspec.json.encode


class _Item(msgspec.Struct):
    """What the conditions and filters look at, beside the whole turn as JSON (so no number is ever a float)."""

    pk: Text
    sk: Text
    attempt: Number
    nonce: Text
    status: Text
    expires_at: Number  # epoch seconds: the table's time-to-live attribute
    turn: Text


class _Found(msgspec.Struct):
    Item: _Item | None = None


class _Page(msgspec.Struct):
    Items: list[_Item] = []
    LastEvaluatedKey: dict[str, Any] | None = None


class DynamoDbTurnStore:
    """Turns and markers. DynamoDB deletes expired items days late, so every read filters them."""

    def __init__(self, api: AwsJsonApi, table: str, clock: Clock, *, kept_days: int) -> None:
        self._api = api
        self._table = table
        self._clock = clock
        self._kept_s = kept_days * _DAY_S

    async def put(self, turn: StoredTurn) -> StoredTurn | None:
        """Store on condition: absent, expired, or of a lower attempt. None = stored.

        An own write whose answer was lost is recognised by attempt and nonce, so repeating is safe. Returns the item
        that won otherwise. Raises ItemTooLarge, nothing sent.
        """
        item = self._item(turn)
        request = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": "attribute_not_exists(pk) OR attempt < :attempt OR expires_at <= :now",
            "ExpressionAttributeValues": {
                ":attempt": item.attempt,
                ":now": number(self._now_s()),
            },
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            await self._api.call("PutItem", _encode(request))
        except AwsRefusal as refusal:
            if refusal.code != "ConditionalCheckFailedException":
                raise
            winner = read_answer(refusal.body, _Found).Item
            if winner is None:
                raise DependencyUnavailable("the winning turn could not be read") from refusal
            if (winner.attempt.N, winner.nonce.S) == (item.attempt.N, item.nonce.S):
                return None
            return _turn(winner)
        return None

    async def get(self, turn: TurnRef) -> StoredTurn | None:
        """One stored turn or marker, None when absent or past its time to live."""
        request = {
            "TableName": self._table,
            "Key": {"pk": Text(turn.session.slot_tag), "sk": Text(turn.turn_id)},
            "ConsistentRead": True,
        }
        item = read_answer(await self._api.call("GetItem", _encode(request)), _Found).Item
        if item is None or item.expires_at.value <= self._now_s():
            return None
        return _turn(item)

    async def newest(
        self, session: SessionRef, *, limit: int, before: TurnId | None = None
    ) -> StoredPage:
        """Up to `limit` turns, newest first, markers left out, every page followed."""
        wanted = limit + _PAGE_SLACK
        request = self._query(session, before)
        turns: list[StoredTurn] = []
        while len(turns) < wanted:
            # DynamoDB counts items before it filters, so a page may bring fewer than asked.
            request["Limit"] = wanted - len(turns)
            page = read_answer(await self._api.call("Query", _encode(request)), _Page)
            turns.extend(_readable(page.Items))
            if not page.LastEvaluatedKey:
                break
            request["ExclusiveStartKey"] = page.LastEvaluatedKey
        return StoredPage(tuple(turns[:limit]), more=len(turns) > limit)

    def _query(self, session: SessionRef, before: TurnId | None) -> dict[str, Any]:
        values = {
            ":pk": Text(session.slot_tag),
            ":marker": Text("marker"),
            ":now": number(self._now_s()),
        }
        if before is not None:
            values[":before"] = Text(before)
        return {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk"
            + (" AND sk < :before" if before is not None else ""),
            "FilterExpression": "#status <> :marker AND expires_at > :now",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": values,
            "ScanIndexForward": False,
            "ConsistentRead": True,
        }

    def _item(self, turn: StoredTurn) -> _Item:
        item = _Item(
            pk=Text(turn.ref.session.slot_tag),
            sk=Text(turn.ref.turn_id),
            attempt=number(turn.attempt),
            nonce=Text(turn.nonce),
            status=Text(turn.status),
            expires_at=number(self._now_s() + self._kept_s),
            turn=Text(_encode(turn).decode()),
        )
        size_bytes = _size_bytes(item)
        if size_bytes > ITEM_LIMIT_BYTES:
            raise ItemTooLarge(f"turn {turn.ref.turn_id} has {size_bytes} bytes")
        return item

    def _now_s(self) -> int:
        return self._clock.now_ms() // 1000


def _size_bytes(item: _Item) -> int:
    """As DynamoDB counts: names and values in UTF-8; a number never takes more than its digits."""
    total = 0
    for name in item.__struct_fields__:
        value = getattr(item, name)
        total += len(name) + len((value.N if isinstance(value, Number) else value.S).encode())
    return total


def _readable(items: Sequence[_Item]) -> Iterator[StoredTurn]:
    """Leaves out what this version cannot read: the session's other turns are history all the same."""
    for item in items:
        try:
            yield _turn(item)
        except DependencyUnavailable:
            _log.error("stored_turn.unreadable", turn_id=item.sk.S)


def _turn(item: _Item) -> StoredTurn:
    try:
        return msgspec.json.decode(item.turn.S, type=StoredTurn)
    except msgspec.MsgspecError as error:
        raise DependencyUnavailable(f"stored turn {item.sk.S} cannot be read") from error
