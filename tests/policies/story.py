"""The runs that are told of: a day with a flash sale, a quiet tenant beside a flood, work of low priority in a rush."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.policies.demand import DAY_S, Sale, Stream, asks
from tests.policies.fleet import FIRST_TOKEN_S, Fleet, Size
from tests.policies.record import Record, jain, percentile

SHOPS = (
    Stream("shop-a", "high", 1.2, "sale"),
    Stream("shop-b", "high", 0.8, "sale"),
    Stream("shop-c", "high", 0.6, "sale"),
    Stream("shop-d", "high", 0.4, "sale"),
)
LATER = (Stream("shop-a", "normal", 0.2, "day"), Stream("shop-b", "low", 0.8, "night"))
SMALL = Size(tasks=2, slots=20, workers=4, queue_slots=20)
NO_SALE = Sale(factor=1.0)
HOUR_S = 3_600.0
ALONE_S = 300.0


def run_day(
    seed: int, *, from_s: float = 0.0, until_s: float = DAY_S, sale: Sale | None = None
) -> Record:
    """A day of shops with a flash sale in the evening that outgrows the whole fleet, by night work of low priority."""
    sale = sale or Sale()
    streams = [*SHOPS, *LATER]
    found = asks(streams, from_s=from_s, until_s=until_s, sale=sale, seed=seed)
    record = Record(random.Random(seed))
    Fleet(SMALL, record).run(found, from_s=from_s, until_s=until_s)
    return record


def run_beside_flood(seed: int, *, times: float, lasts_s: float = 2_400.0) -> Record:
    """A quiet tenant, and from ALONE_S on one that asks for so many times as much; nobody comes back when refused."""
    quiet = Stream("quiet", "high", 0.4, turns_per_session=4)
    flood = replace(quiet, tenant="flood", per_s=quiet.per_s * times)
    found = asks([quiet], from_s=0, until_s=lasts_s, sale=NO_SALE, seed=seed)
    found += asks([flood], from_s=ALONE_S, until_s=lasts_s, sale=NO_SALE, seed=seed + 1)
    record = Record(random.Random(seed))
    fleet = Fleet(replace(SMALL, users_come_back=False), record)
    fleet.run(sorted(found, key=lambda ask: ask.at_s), from_s=0, until_s=lasts_s)
    return record


def run_floods(seed: int, *, lasts_s: float = 900.0) -> Record:
    """Three tenants that each ask for more than the fleet can answer, the largest ten times as much as the least."""
    streams = [
        Stream("flood-a", "high", 100.0, turns_per_session=4),
        Stream("flood-b", "high", 40.0, turns_per_session=4),
        Stream("flood-c", "high", 10.0, turns_per_session=4),
    ]
    found = asks(streams, from_s=0, until_s=lasts_s, sale=NO_SALE, seed=seed)
    record = Record(random.Random(seed))
    Fleet(replace(SMALL, users_come_back=False), record).run(found, from_s=0, until_s=lasts_s)
    return record


def run_rush(seed: int, *, lasts_s: float = 1_800.0) -> Record:
    """Interactive turns beyond the fleet without an end, more work of normal priority than its slots hold.

    A heap of low priority was accepted just before.
    """
    streams = [
        Stream("shop-a", "high", 20.0, turns_per_session=4),
        Stream("shop-b", "high", 20.0, turns_per_session=4),
        Stream("shop-a", "normal", 4.0),
        Stream("shop-b", "low", 0.9),
    ]
    heap = Stream("shop-b", "low", 150.0)
    found = asks([heap], from_s=0, until_s=1, sale=NO_SALE, seed=seed)
    found += asks(streams, from_s=1, until_s=lasts_s, sale=NO_SALE, seed=seed)
    record = Record(random.Random(seed))
    Fleet(SMALL, record).run(found, from_s=0, until_s=lasts_s)
    return record


def quiet_p99_s(record: Record) -> float:
    """From the quiet tenant's message to its first token, once the flood is there."""
    waits_s = [
        turn.wait_s + FIRST_TOKEN_S[turn.model]
        for turn in record.turns
        if turn.ask.tenant == "quiet" and turn.accepted_s >= ALONE_S and turn.model
    ]
    return percentile(waits_s, 0.99)


def token_fairness(record: Record) -> float:
    """Jain's index of the tokens that the tenants got."""
    return jain(record.tokens().values())
