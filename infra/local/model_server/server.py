"""The HTTP side: `POST /v1/messages` as the Anthropic API answers it, and `GET /sim/calls`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
from aiohttp import web

from infra.local.model_server import messages
from infra.local.model_server.answering import compose_answer
from infra.local.model_server.calls import Call, CallLog
from infra.local.model_server.planning import (
    Ending,
    Pace,
    Plan,
    Refusal,
    plan_answer,
    plan_complaint,
    plan_script,
)
from infra.local.model_server.scripting import Mistyped, find_script
from infra.local.model_server.stream import (
    PacedStream,
    chunk,
    closing_events,
    opening_events,
    reset,
)

_MAX_BODY_BYTES = 4 * 1024 * 1024
_REQUESTS_PER_MIN = 4_000
_TOKENS_PER_MIN = 2_000_000
_STALL_AT_MOST_S = 3_600
_AUTHENTICATION = Refusal(401, "authentication_error", "x-api-key header is required")


@dataclass(slots=True)
class _Exchange:
    """One request on its way through the handler."""

    http: web.Request
    request: messages.MessagesRequest
    plan: Plan
    call: Call
    request_id: str
    message_id: str
    input_tokens: int
    headers: dict[str, str]


class ModelServer:
    """Holds the call log; one instance per application.

    A client that leaves is noticed at once (the handler is cancelled) and recorded as `client_closed`.
    """

    def __init__(self, *, now_ms: Callable[[], int], pace: Pace | None = None) -> None:
        self._now_ms = now_ms
        self._pace = pace or Pace()
        self._log = CallLog()
        self._numbers = count(1)
        self._recent: deque[int] = deque()

    def application(self) -> web.Application:
        """The routes; run it with `handler_cancellation=True`."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_get("/sim/calls", self._calls)
        app.router.add_get("/healthz", self._health)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _calls(self, http: web.Request) -> web.Response:
        return web.json_response({"calls": self._log.calls(http.query.get("id", ""))})

    async def _messages(self, http: web.Request) -> web.StreamResponse:
        number = next(self._numbers)
        request_id = f"req_offline{number:016d}"
        headers = {"request-id": request_id, **self._rate_limit_headers()}
        body = await http.read()
        if "x-api-key" not in http.headers and "authorization" not in http.headers:
            return _error_response(_AUTHENTICATION, request_id, headers)
        try:
            request = messages.decode_request(body)
        except messages.InvalidRequest as error:
            refusal = Refusal(400, "invalid_request_error", str(error))
            return _error_response(refusal, request_id, headers)
        call, plan = self._begin(request, body)
        exchange = _Exchange(
            http=http,
            request=request,
            plan=plan,
            call=call,
            request_id=request_id,
            message_id=f"msg_offline{number:016d}",
            input_tokens=request.input_tokens(),
            headers=headers,
        )
        try:
            response = await self._answer(exchange)
        except (asyncio.CancelledError, ConnectionError):
            call.finish("client_closed", self._now_ms())
            raise
        call.finish("fault" if plan.is_fault else "completed", self._now_ms())
        return response

    def _begin(self, request: messages.MessagesRequest, body: bytes) -> tuple[Call, Plan]:
        try:
            script = find_script(request.last_user_texts())
        except Mistyped as error:
            return self._log.begin("", self._now_ms()), plan_complaint(str(error))
        if script is None:
            text = compose_answer(request)
            plan = plan_answer(text, request.max_tokens, self._pace)
            return self._log.begin("", self._now_ms()), plan
        kept: Any = msgspec.json.decode(body) if script.keep else None
        call = self._log.begin(script.id, self._now_ms(), kept)
        if not self._log.take_fault(script.id, script):
            script = script.without_fault()
        return call, plan_script(script, request.max_tokens)

    async def _answer(self, exchange: _Exchange) -> web.StreamResponse:
        plan = exchange.plan
        if plan.refusal is not None:
            return _error_response(plan.refusal, exchange.request_id, exchange.headers)
        if plan.headers_after_s:
            await asyncio.sleep(plan.headers_after_s)
        if exchange.request.stream:
            return await self._stream(exchange)
        return await self._whole(exchange)

    async def _stream(self, exchange: _Exchange) -> web.StreamResponse:
        plan = exchange.plan
        response = web.StreamResponse(headers=exchange.headers)
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        response.headers["cache-control"] = "no-cache"
        response.enable_chunked_encoding()
        await response.prepare(exchange.http)
        await response.write(
            opening_events(plan, exchange.message_id, exchange.request.model, exchange.input_tokens)
        )
        transport = _transport(exchange.http)
        stream = PacedStream(transport, plan, exchange.call)
        try:
            stream.start()
            await stream.done
            if plan.ending is Ending.STALL:
                await asyncio.sleep(_STALL_AT_MOST_S)
        finally:
            stream.close()
        if plan.ending is Ending.RESET:
            await reset(transport)
            return response
        closing = closing_events(plan, exchange.input_tokens, exchange.request_id)
        if closing:
            transport.write(chunk(closing))
        await response.write_eof()
        return response

    async def _whole(self, exchange: _Exchange) -> web.StreamResponse:
        """The answer without streaming: the same time passes, then everything comes at once."""
        plan = exchange.plan
        await asyncio.sleep(
            max(plan.first_after_s, plan.pings_for_s) + plan.interval_s * len(plan.pieces)
        )
        exchange.call.deltas = len(plan.pieces)
        if plan.late_error is not None:
            return _error_response(plan.late_error, exchange.request_id, exchange.headers)
        if plan.ending is Ending.STALL:
            await asyncio.sleep(_STALL_AT_MOST_S)
        if plan.ending in (Ending.RESET, Ending.CUT, Ending.STALL):
            await reset(_transport(exchange.http))
        body = messages.message_body(
            message_id=exchange.message_id,
            model=exchange.request.model,
            text="".join(plan.pieces) if plan.pieces else None,
            stop_reason=plan.stop_reason,
            input_tokens=exchange.input_tokens,
            output_tokens=len(plan.pieces),
        )
        return _json_response(200, body, exchange.headers)

    def _rate_limit_headers(self) -> dict[str, str]:
        """What an account with the default quota would see; requests are really counted."""
        now_ms = self._now_ms()
        self._recent.append(now_ms)
        while self._recent[0] < now_ms - 60_000:
            self._recent.popleft()
        reset_at = datetime.fromtimestamp((self._recent[0] + 60_000) // 1_000, UTC)
        reset_text = reset_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        remaining = {"requests": max(0, _REQUESTS_PER_MIN - len(self._recent))}
        headers = {}
        for name in ("requests", "tokens", "input-tokens", "output-tokens"):
            limit = _REQUESTS_PER_MIN if name == "requests" else _TOKENS_PER_MIN
            prefix = f"anthropic-ratelimit-{name}"
            headers[f"{prefix}-limit"] = str(limit)
            headers[f"{prefix}-remaining"] = str(remaining.get(name, limit))
            headers[f"{prefix}-reset"] = reset_text
        return headers


def _transport(http: web.Request) -> asyncio.Transport:
    transport = http.transport
    if transport is None:
        raise ConnectionResetError("the client left")
    return transport


def _error_response(refusal: Refusal, request_id: str, headers: dict[str, str]) -> web.Response:
    extra = {}
    if refusal.status in (429, 529):
        extra["x-should-retry"] = "true"
    if refusal.retry_after_s is not None:
        extra["retry-after"] = str(refusal.retry_after_s)
    body = messages.error_body(refusal.error_type, refusal.message, request_id)
    return _json_response(refusal.status, body, {**headers, **extra})


def _json_response(status: int, body: dict[str, Any], headers: dict[str, str]) -> web.Response:
    return web.Response(
        status=status,
        body=msgspec.json.encode(body),
        headers=headers,
        content_type="application/json",
    )
