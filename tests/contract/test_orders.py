"""What every Orders does, in memory and for real: a user's own orders and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event

import msgspec
import pytest

from shared.adapters.s3_orders import READS_AT_ONCE, READS_WAITING, S3Orders, orders_key
from shared.contracts.identifiers import TenantId, UserId
from shared.contracts.orders import Order, OrderLine
from shared.errors import DependencyUnavailable
from shared.ports import Orders
from tests.fakes.knowledge import FakeOrders
from tests.fakes.knowledge_bucket import BUCKET, KnowledgeBucket, knowledge_bucket

PREFIX = "orders/"


def order(number: str) -> Order:
    return Order(
        number=number,
        status="shipped",
        placed_on="2026-11-27",
        lines=(OrderLine(title="漫画 & „Akira“", quantity=2, price="9 USD"),),
        note="🦊",
    )


BY_OWNER = {
    ("acme", "ana"): (order("A-3"), order("A-2"), order("A-1")),
    ("acme", "bob"): (order("B-1"),),
    ("other", "ana"): (order("O-1"),),
    ("acme", "../acme/ana"): (order("X-1"),),
}


@pytest.fixture
def bucket() -> Iterator[KnowledgeBucket]:
    with knowledge_bucket() as made:
        yield made


def put(bucket: KnowledgeBucket, tenant: str, user: str, body: bytes) -> None:
    bucket.client.put_object(Bucket=BUCKET, Key=orders_key(PREFIX, tenant, user), Body=body)


@pytest.fixture(params=["fake", "s3"])
def orders(request: pytest.FixtureRequest, bucket: KnowledgeBucket) -> Orders:
    if request.param == "fake":
        fake = FakeOrders()
        fake.by_owner = dict(BY_OWNER)
        return fake
    for (tenant, user), found in BY_OWNER.items():
        put(bucket, tenant, user, msgspec.json.encode({"orders": found}))
    return S3Orders(bucket.client, BUCKET, PREFIX)


@pytest.mark.parametrize("owner", BY_OWNER)
async def test_orders_are_those_of_exactly_this_tenant_and_user(
    orders: Orders, owner: tuple[str, str]
) -> None:
    found = await orders.of_user(TenantId(owner[0]), UserId(owner[1]), 9)

    assert tuple(found) == BY_OWNER[owner]


@pytest.mark.parametrize(
    ("tenant", "user"), [("acme", "eve"), ("acme", "ana.json"), ("acme/ana", ""), ("acme", "ana ")]
)
async def test_a_user_without_orders_has_none(orders: Orders, tenant: str, user: str) -> None:
    assert list(await orders.of_user(TenantId(tenant), UserId(user), 9)) == []


async def test_the_newest_come_first_and_no_more_than_asked_for(orders: Orders) -> None:
    found = await orders.of_user(TenantId("acme"), UserId("ana"), 2)

    assert [each.number for each in found] == ["A-3", "A-2"]


def test_no_name_leaves_its_folder_or_becomes_anothers() -> None:
    names = ["a", "a/b", "..", "a%2Fb", "a.json", "ä", "", "A", "a b", "../a/b"]
    keys = {orders_key(PREFIX, tenant, user) for tenant in names for user in names}

    assert len(keys) == len(names) ** 2
    assert all(key.count("/") == 2 and ".." not in key for key in keys)


@pytest.mark.parametrize(
    "body", [b"no json", b'{"orders": 3}', b'{"orders": [{"number": 1}]}', b"{}"]
)
async def test_a_broken_object_is_a_source_that_could_not_be_asked(
    bucket: KnowledgeBucket, body: bytes
) -> None:
    put(bucket, "acme", "ana", body)

    with pytest.raises(DependencyUnavailable):
        await S3Orders(bucket.client, BUCKET, PREFIX).of_user(TenantId("acme"), UserId("ana"), 9)


async def test_an_object_beyond_its_bound_is_not_read(bucket: KnowledgeBucket) -> None:
    put(bucket, "acme", "ana", b" " * 262_145)

    with pytest.raises(DependencyUnavailable, match="262144 bytes"):
        await S3Orders(bucket.client, BUCKET, PREFIX).of_user(TenantId("acme"), UserId("ana"), 9)


async def test_a_missing_bucket_is_no_user_without_orders(bucket: KnowledgeBucket) -> None:
    with pytest.raises(DependencyUnavailable):
        await S3Orders(bucket.client, "gone", PREFIX).of_user(TenantId("acme"), UserId("ana"), 9)


async def test_reads_that_nobody_waits_for_any_more_stay_bounded(
    monkeypatch: pytest.MonkeyPatch, bucket: KnowledgeBucket
) -> None:
    orders = S3Orders(bucket.client, BUCKET, PREFIX)
    released = Event()
    monkeypatch.setattr(S3Orders, "_read", lambda self, key: (released.wait(10), ())[1])

    async def ask() -> object:
        return await orders.of_user(TenantId("acme"), UserId("ana"), 9)

    waiting = [asyncio.create_task(ask()) for _ in range(READS_AT_ONCE + READS_WAITING)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

    with pytest.raises(DependencyUnavailable, match="too many"):
        await ask()
    released.set()
    while orders._open:
        await asyncio.sleep(0.001)
    assert await ask() == ()
    orders.close()
