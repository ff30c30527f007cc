"""`POST /v1/chat` in its three forms, and the events of a turn. Handlers translate, nothing more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.asgi import client_address, headers_of
from services.gateway import openapi
from services.gateway.chat_call import ChatCall, read_chat_call
from services.gateway.connection import Peer
from services.gateway.detached_call import DetachedCall
from services.gateway.event_stream import parse_last_event_id
from services.gateway.frames_in import InputLimits
from services.gateway.handshake import USER_AGENT_LIMIT
from services.gateway.http_problem import Problem, json_response, turn_path
from services.gateway.http_protocol import transport_of
from services.gateway.identity import Identity
from services.gateway.streaming_call import StreamingCall, disconnected
from services.gateway.virtual_connections import Caller
from services.gateway.waiting_call import WaitingCall
from shared.contracts.identifiers import SessionId, SessionRef, TurnId, session_of_turn


class ChatUseCases(msgspec.Struct, frozen=True, kw_only=True):
    """What the handlers call, and what bounds their input."""

    waiting: WaitingCall
    streaming: StreamingCall
    detached: DetachedCall
    limits: InputLimits
    encoded_limit_bytes: int
    trusted_proxies: int
    new_id: Callable[[], str]


class _Written(Response):
    """An answer that is written while it comes to be."""

    def __init__(self, write: Callable[[Receive, Send], Awaitable[None]]) -> None:
        super().__init__()
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._write(receive, send)


def add_chat(
    app: FastAPI, use_cases: ChatUseCases, identify: Callable[[Request], Identity]
) -> None:
    """Add the calls to the app; `identify` raises Problem 401."""

    @app.post("/v1/chat", **openapi.CHAT)
    async def chat(request: Request) -> Response:
        identity = identify(request)
        call = read_chat_call(
            await request.body(),
            accept=_header(request, "accept"),
            prefer=_header(request, "prefer"),
            limits=use_cases.limits,
            encoded_limit_bytes=use_cases.encoded_limit_bytes,
            new_id=use_cases.new_id(),
        )
        session = SessionRef(identity.tenant, identity.user, call.session_id)
        if call.mode == "detach":
            return await _detach(use_cases.detached, session, call)
        caller = _caller(request, identity, call.session_id, use_cases.trusted_proxies)
        if call.mode == "stream":
            return _Written(partial(use_cases.streaming.ask, caller, call))
        return _Written(partial(_wait, use_cases.waiting, request.scope, caller, call))

    @app.get("/v1/turns/{turn_id}/events", **openapi.EVENTS)
    async def events(turn_id: str, request: Request) -> Response:
        identity = identify(request)
        place = parse_last_event_id(request.headers.get("last-event-id"))
        session_id = session_of_turn(turn_id)
        if session_id is None:
            raise Problem(404, "unknown_turn", "No such turn.")
        caller = _caller(request, identity, session_id, use_cases.trusted_proxies)
        return _Written(partial(use_cases.streaming.follow, caller, TurnId(turn_id), *place))


async def _detach(detached: DetachedCall, session: SessionRef, call: ChatCall) -> Response:
    accepted = await detached.accept(session, call)
    answer = openapi.AcceptedTurn(
        turn_id=accepted.turn_id,
        session_id=session.session_id,
        message_id=accepted.message_id,
        status=accepted.status,
    )
    headers = {
        "location": turn_path(accepted.turn_id),
        "preference-applied": "respond-async",
        "x-session-id": session.session_id,
    }
    return json_response(answer, 202, headers)


async def _wait(
    waiting: WaitingCall,
    scope: Scope,
    caller: Caller,
    call: ChatCall,
    receive: Receive,
    send: Send,
) -> None:
    turn = await waiting.wait(caller, call, partial(disconnected, receive))
    if turn is not None:
        answer = json_response(turn, headers={"x-session-id": call.session_id})
        await answer(scope, receive, send)


def _caller(
    request: Request, identity: Identity, session_id: SessionId, trusted_proxies: int
) -> Caller:
    headers = headers_of(request.scope)
    address = client_address(request.scope, headers, trusted_proxies)
    return Caller(
        session=SessionRef(identity.tenant, identity.user, session_id),
        peer=Peer(address, headers.get("user-agent", "")[:USER_AGENT_LIMIT]),
        expires_at_ms=identity.expires_at_ms,
        transport=transport_of(request.scope),
    )


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
