"""The public port: the hot route is plain ASGI, everything else goes to the page or to REST."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from services.asgi import (
    CLOSE_HEADER,
    App,
    BodyTooLarge,
    BodyTooSlow,
    Disconnected,
    Receive,
    Scope,
    Send,
    read_body,
    respond_json,
)
from services.gateway.web_page import WebPage
from shared.telemetry import Log

_log = Log("public_api")
BODY_TIMEOUT_S = 20.0
"""For 64 KiB over a slow mobile line; a sender that drips holds a connection no longer."""
_WITH_BODY = {"POST", "PUT", "PATCH"}


class PublicApi:
    """Dispatches by protocol and path. Request bodies above the limit are answered 413 before anyone parses them."""

    def __init__(self, sockets: App, page: WebPage, rest: App, body_limit_bytes: int) -> None:
        self._sockets = sockets
        self._page = page
        self._rest = rest
        self._body_limit_bytes = body_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One socket or one HTTP request."""
        if scope["type"] == "websocket":
            if scope["path"] == "/ws":
                await self._sockets(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.http.response.start", "status": 404, "headers": []})
                await send({"type": "websocket.http.response.body", "body": b""})
        elif self._page.has(scope["path"]):
            await self._page(scope, send)
        else:
            await self._call_rest(scope, receive, send)

    async def _call_rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in _WITH_BODY:
            await self._answer(scope, receive, send)
            return
        try:
            body = await read_body(receive, self._body_limit_bytes, within_s=BODY_TIMEOUT_S)
        except BodyTooLarge:
            fault = {
                "code": "message_too_large",
                "message": f"A request body has at most {self._body_limit_bytes} bytes.",
            }
            await respond_json(send, 413, fault, [CLOSE_HEADER])
            return
        except BodyTooSlow:
            fault = {"code": "body_too_slow", "message": "The request body did not arrive in time."}
            await respond_json(send, 408, fault, [CLOSE_HEADER])
            return
        except Disconnected:
            return
        await self._answer(scope, _replayed(body, receive), send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._rest(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the caller has its 500; the server would log the values, too
            _log.exception("request.failed", error, method=scope["method"])


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_read = False

    async def receive_body() -> MutableMapping[str, Any]:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body
