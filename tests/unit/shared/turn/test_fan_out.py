"""Asking sources at once, and doing without those that do not answer."""

from __future__ import annotations

import asyncio
import io
import logging

import msgspec
import pytest

from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.knowledge import Intent, PassageEntry
from shared.contracts.orders import Order, OrderLine
from shared.contracts.turns import TurnRequest
from shared.telemetry import Metrics
from shared.turn.fan_out import FanOut, SourcePorts
from shared.turn.findings import Findings
from shared.turn.left_out import LeftOut
from shared.turn.understanding import Wish
from tests.fakes.clock import FakeClock
from tests.fakes.knowledge import FakeCatalogue, FakeOrders, FakeRecommender, FakeRetriever
from tests.fakes.limits import turn_limits


def entry(title: str, *themes: str, **facts: tuple[str, ...]) -> PassageEntry:
    name = title.lower()
    known = {"themes": themes, **facts} if themes else facts
    return PassageEntry(
        id=f"{name}#1",
        source_id=name,
        title=title,
        text=f"{title} text",
        kind="series",
        facts=known,
    )


ENTRIES = (entry("Naruto", "ninja"), entry("Bleach", "ninja"), entry("Returns"))
REQUEST = TurnRequest(
    turn_id=TurnId("t"),
    session_id=SessionId("s"),
    message_id=MessageId("m"),
    tenant=TenantId("acme"),
    user=UserId("ana"),
    text="",
    accepted_at_ms=0,
)


def order(number: str) -> Order:
    return Order(number=number, status="shipped", placed_on="", lines=(OrderLine(title="Naruto"),))


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.retriever = FakeRetriever(ENTRIES)
        self.catalogue = FakeCatalogue(ENTRIES)
        self.recommender = FakeRecommender(ENTRIES)
        self.orders = FakeOrders()
        self.orders.by_owner = {
            ("acme", "ana"): (order("A-1"),),
            ("acme", "bob"): (order("B-1"),),
            ("other", "ana"): (order("O-1"),),
        }
        self.metrics = io.StringIO()
        self.fan_out = FanOut(
            SourcePorts(
                retriever=self.retriever,
                catalogue=self.catalogue,
                recommender=self.recommender,
                orders=self.orders,
            ),
            self.clock,
            turn_limits(),
            LeftOut(Metrics("burstchat", "orchestrator", self.clock, self.metrics)),
        )

    async def gather(
        self, label: str, text: str, *, leans: bool = False, request: TurnRequest = REQUEST
    ) -> Findings:
        return await self.fan_out.gather(Wish(Intent(label, 0.9), text, leans), request)


async def test_a_question_about_a_title_gets_its_facts_first_and_once() -> None:
    findings = await World().gather("product_question", "Naruto text")

    assert [passage.id for passage in findings.passages] == ["naruto#1"]
    assert not findings.has_orders


async def test_suggestions_leave_the_named_title_out_unless_the_message_leans_on_it() -> None:
    findings = await World().gather("recommendation", "like Naruto text")

    assert [title.passage.title for title in findings.similar] == ["Bleach"]
    assert "Naruto" not in [passage.title for passage in findings.passages]
    leaning = await World().gather("recommendation", "what genre is that Naruto", leans=True)
    assert leaning.passages[0].title == "Naruto"


@pytest.mark.parametrize(
    ("tenant", "user", "numbers"),
    [
        ("acme", "ana", ["A-1"]),
        ("acme", "bob", ["B-1"]),
        ("other", "ana", ["O-1"]),
        ("acme", "eve", []),
    ],
)
async def test_orders_are_those_of_the_turns_own_user_whatever_the_text_says(
    tenant: str, user: str, numbers: list[str]
) -> None:
    request = msgspec.structs.replace(REQUEST, tenant=TenantId(tenant), user=UserId(user))

    findings = await World().gather(
        "order_status", "show the order B-1 of user bob", request=request
    )

    assert [each.number for each in findings.orders] == numbers
    assert findings.has_orders


async def test_small_talk_asks_nobody() -> None:
    world = World()

    assert await world.gather("chit_chat", "Naruto") == Findings()
    assert not world.retriever.searches


async def test_nothing_found_is_nothing_to_cite() -> None:
    assert (await World().gather("general", "zzz")).passages == ()


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("retriever", "product_question"),
        ("catalogue", "product_question"),
        ("recommender", "recommendation"),
        ("orders", "order_status"),
    ],
)
async def test_a_dead_source_costs_its_own_part_and_is_counted(
    source: str, label: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    getattr(world, source).is_down = True

    with caplog.at_level(logging.WARNING, "burstchat.sources"):
        findings = await world.gather(label, "Naruto text")

    assert findings.passages
    assert (findings.similar, findings.orders, findings.has_orders) == ((), (), False)
    name = {"retriever": "retrieval", "recommender": "recommendations"}.get(source, source)
    (record,) = caplog.records
    assert record.message == "source.left_out"
    assert record.fields == {  # type: ignore[attr-defined]
        "source": name,
        "reason": "unavailable",
        "error_type": "DependencyUnavailable",
    }
    assert world.metrics.getvalue().count(f'"Source":"{name}","Reason":"unavailable"') == 1


async def test_all_sources_together_take_no_longer_than_one_deadline() -> None:
    world = World()

    async def never(*_: object) -> tuple[()]:
        await world.clock.sleep(60)
        return ()

    world.retriever.search = never  # type: ignore[method-assign]
    world.orders.of_user = never  # type: ignore[method-assign]
    gathering = asyncio.create_task(world.gather("returns", "Naruto"))
    await world.clock.advance(0.29)
    assert not gathering.done()
    await world.clock.advance(0.02)

    assert (await gathering) == Findings()
    assert world.metrics.getvalue().count('"Reason":"timeout"') == 2


async def test_a_bug_in_a_source_is_counted_as_one() -> None:
    world = World()

    async def broken(*_: object) -> tuple[()]:
        raise ZeroDivisionError

    world.catalogue.named = broken  # type: ignore[method-assign]

    assert (await world.gather("general", "Naruto text")).passages
    assert '"Source":"catalogue","Reason":"error"' in world.metrics.getvalue()


async def test_leaving_closes_what_was_asked() -> None:
    world = World()
    was_cancelled = asyncio.Event()

    async def never(*_: object) -> tuple[()]:
        try:
            await world.clock.sleep(60)
        finally:
            was_cancelled.set()
        return ()

    world.retriever.search = never  # type: ignore[method-assign]
    gathering = asyncio.create_task(world.gather("general", "Naruto"))
    await world.clock.advance(0.01)
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering

    assert was_cancelled.is_set()
