from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from services.asgi import (
    BodyTooLarge,
    BodyTooSlow,
    Disconnected,
    Receive,
    client_address,
    headers_of,
    read_body,
    readiness,
    respond_json,
)


def receiving(events: Iterable[dict[str, Any]]) -> Receive:
    rest = iter(events)

    async def receive() -> dict[str, Any]:
        return next(rest)

    return receive


def part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_is_read_whole_in_as_many_parts_as_it_comes() -> None:
    assert await read_body(receiving([part(b"abc")]), 3, within_s=5) == b"abc"
    events = [part(b"a", more=True), part(b"", more=True), part(b"bc")]
    assert await read_body(receiving(events), 3, within_s=5) == b"abc"
    assert await read_body(receiving([{"type": "http.request"}]), 3, within_s=5) == b""


async def test_a_body_above_the_limit_is_not_read_on() -> None:
    with pytest.raises(BodyTooLarge):
        await read_body(receiving([part(b"abcd", more=True)]), 3, within_s=5)


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    parts = iter([part(b"a", more=True)])

    async def receive() -> dict[str, Any]:
        for each in parts:
            return each
        return await asyncio.get_running_loop().create_future()

    with pytest.raises(BodyTooSlow):
        await read_body(receive, 3, within_s=0.01)


async def test_half_a_body_is_none() -> None:
    with pytest.raises(Disconnected):
        await read_body(
            receiving([part(b"a", more=True), {"type": "http.disconnect"}]), 3, within_s=5
        )


def test_header_names_are_lower_case_and_repeats_are_joined() -> None:
    raw = [(b"X-One", b"1"), (b"x-one", b"2"), (b"Host", b"h")]
    assert headers_of({"headers": raw}) == {"x-one": "1,2", "host": "h"}


@pytest.mark.parametrize(
    ("trusted_proxies", "forwarded", "expected"),
    [
        (0, "1.1.1.1", "9.9.9.9"),
        (1, "1.1.1.1, 2.2.2.2", "2.2.2.2"),
        (2, "1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (5, "1.1.1.1, 2.2.2.2", "1.1.1.1"),
        (1, "", "9.9.9.9"),
    ],
)
def test_only_what_trusted_proxies_wrote_is_believed(
    trusted_proxies: int, forwarded: str, expected: str
) -> None:
    scope = {"client": ("9.9.9.9", 1)}
    assert client_address(scope, {"x-forwarded-for": forwarded}, trusted_proxies) == expected


def test_a_peer_without_an_address_has_none() -> None:
    assert client_address({"client": None}, {}, 0) == ""


async def test_an_answer_in_json_says_so_and_how_long_it_is() -> None:
    sent: list[dict[str, Any]] = []

    async def send(event: Any) -> None:
        sent.append(event)

    await respond_json(send, 404, {"message": "no"}, [(b"x-more", b"1")])
    start, body = sent
    assert (start["status"], json.loads(body["body"])) == (404, {"message": "no"})
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert headers[b"x-more"] == b"1"


def test_readiness_names_what_fails() -> None:
    assert readiness({}) == (200, {"status": "ready", "failing": {}})
    assert readiness({"redis": "away"}) == (
        503,
        {"status": "not_ready", "failing": {"redis": "away"}},
    )
