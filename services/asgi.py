"""The pieces of ASGI that the plain routes of all services share, and the form of their answers about health."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ALIVE: Mapping[str, str] = {"status": "ok"}
"""The body of `/healthz`."""
JSON_HEADERS = ((b"content-type", b"application/json"),)
CLOSE_HEADER = (b"connection", b"close")
"""For an answer to a request whose body was not read to its end."""

_encode = msgspec.json.Encoder().encode


class BodyTooLarge(Exception):
    """The request body is above the limit; the rest of it was not read."""


class BodyTooSlow(Exception):
    """The request body did not arrive in time; nobody waits for its rest."""


class Disconnected(Exception):
    """The caller left before the request was complete."""


def headers_of(scope: Scope) -> dict[str, str]:
    """Header values by lower-case name; the values of a repeated header are joined by a comma."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return headers


def client_address(scope: Scope, headers: dict[str, str], trusted_proxies: int) -> str:
    """The address of the client as the outermost trusted proxy saw it.

    Each proxy appends the address of its peer to X-Forwarded-For, so entries further left are the client's own claim.
    """
    if trusted_proxies:
        hops = [hop.strip() for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]
        if hops:
            return hops[-min(trusted_proxies, len(hops))]
    client = scope.get("client")
    return str(client[0]) if client else ""


async def read_body(receive: Receive, limit_bytes: int, *, within_s: float) -> bytes:
    """The whole request body. Raises BodyTooLarge, BodyTooSlow or Disconnected."""
    try:
        async with asyncio.timeout(within_s):
            return await _read_body(receive, limit_bytes)
    except TimeoutError as error:
        raise BodyTooSlow from error


async def _read_body(receive: Receive, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise Disconnected
        part = event.get("body", b"")
        size += len(part)
        if size > limit_bytes:
            raise BodyTooLarge
        if not event.get("more_body"):
            return part if not parts else b"".join((*parts, part))
        parts.append(part)


async def respond(
    send: Send, status: int, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """One complete HTTP answer."""
    fixed = [(b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fixed})
    await send({"type": "http.response.body", "body": body})


async def respond_json(
    send: Send, status: int, value: object, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """One complete HTTP answer in JSON."""
    await respond(send, status, _encode(value), (*JSON_HEADERS, *headers))


def readiness(failing: Mapping[str, str]) -> tuple[int, Mapping[str, object]]:
    """Status and body of `/readyz`; `failing` says by dependency why the process should get no traffic."""
    return (503 if failing else 200), {
        "status": "not_ready" if failing else "ready",
        "failing": failing,
    }
