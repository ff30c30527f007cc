from __future__ import annotations

import msgspec
import pytest
from redis.crc import key_slot

from shared.adapters import redis_keys
from shared.adapters.redis_keys import SessionKeys, decode_ref, encode_ref
from shared.contracts.identifiers import (
    MessageId,
    SessionId,
    SessionRef,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
)


def session(tenant: str = "acme", user: str = "ann", session_id: str = "s1") -> SessionRef:
    return SessionRef(TenantId(tenant), UserId(user), SessionId(session_id))


@pytest.mark.case("B-38")
def test_all_keys_of_a_session_lie_in_one_slot_whatever_the_ids() -> None:
    keys = SessionKeys(session(user="{}"))
    names = [*keys.queue, keys.history]
    for odd in ("t", "{x}", "a:b", "", "漫画"):
        names += [keys.turn(TurnId(odd)), keys.followers(TurnId(odd)), keys.log(TurnId(odd))]
        names.append(keys.message(MessageId(odd)))
    assert len({key_slot(name.encode()) for name in names}) == 1
    assert len(set(names)) == len(names)


def test_same_session_id_of_another_user_has_other_keys() -> None:
    heads = {SessionKeys(each).head for each in (session(), session(user="bob"), session("t2"))}
    assert len(heads) == 3


def test_a_turn_ref_survives_as_a_member() -> None:
    turn = TurnRef(session(user='b"ö'), TurnId("s1.1"))
    assert decode_ref(encode_ref(turn)) == turn


def test_a_foreign_member_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_ref(b'["acme"]')


def test_due_entries_spread_over_all_sets() -> None:
    keys = {redis_keys.due(TurnRef(session(), TurnId(f"s1.{n}"))) for n in range(500)}
    assert keys == {redis_keys.due_shard(n) for n in range(redis_keys.DUE_SHARDS)}
    assert len({key_slot(key.encode()) for key in keys}) == redis_keys.DUE_SHARDS
