"""The HTTP calls under `/v1`, and health. Handlers parse, call one use case and answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from services import asgi
from services.gateway import openapi
from services.gateway.asyncapi import asyncapi_document
from services.gateway.cancelling import Cancelling
from services.gateway.history import History
from services.gateway.http_problem import Problem, json_response, unavailable
from services.gateway.identity import DEFAULT_TENANT, Identities, Identity, Unauthorized
from services.gateway.readiness import Readiness
from services.gateway.rest_chat import ChatUseCases, add_chat
from services.gateway.session_io import CouldNotAsk, NotFound
from services.gateway.turn_lookup import TurnLookup
from shared.contracts.identifiers import SessionId, SessionRef, TurnId, is_client_id
from shared.errors import ChatError
from shared.telemetry import Log

_log = Log("rest")
_NO_SESSION = SessionId("-")
"""Stands in where only the caller's tenant and user count."""
_PATH_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}


class TokenRequest(BaseModel):
    """Whom the token is for."""

    user: str = Field(min_length=1, max_length=128)
    tenant: str = Field(default=DEFAULT_TENANT, min_length=1, max_length=128)


class TokenAnswer(BaseModel):
    """A bearer token."""

    token: str
    expires_at_ms: int


class RestUseCases(msgspec.Struct, frozen=True, kw_only=True):
    """What the handlers call."""

    identities: Identities
    turns: TurnLookup
    cancelling: Cancelling
    history: History
    readiness: Readiness
    chat: ChatUseCases
    token_lifetime_ms: int
    is_dev: bool
    """Tokens are issued, and callers without one are served."""


def build_rest(use_cases: RestUseCases) -> FastAPI:
    """The FastAPI app; `/openapi.json` describes it, `/asyncapi.json` the frames of sockets and event streams."""
    app = FastAPI(docs_url=None, redoc_url=None)
    _answer_problems(app)
    _add_health(app, use_cases.readiness)
    _add_asyncapi(app)
    if use_cases.is_dev:
        _add_tokens(app, use_cases)
    _add_turns(app, use_cases)
    add_chat(app, use_cases.chat, lambda request: _caller(request, use_cases))
    openapi.describe(app, requires_token=not use_cases.is_dev)
    return app


def _caller(request: Request, use_cases: RestUseCases) -> Identity:
    try:
        return use_cases.identities.identify(request.headers.get("authorization"))
    except Unauthorized as error:
        raise Problem(401, "unauthorized", str(error)) from error


def _add_health(app: FastAPI, readiness: Readiness) -> None:
    @app.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Mapping[str, str]:
        return asgi.ALIVE

    @app.get("/readyz", summary="Should it get traffic? With the reason of each failing dependency")
    async def readyz() -> JSONResponse:
        status, body = asgi.readiness(readiness.faults())
        return JSONResponse(body, status_code=status)


def _add_tokens(app: FastAPI, use_cases: RestUseCases) -> None:
    @app.post("/v1/tokens", summary="A token for a named user; development only")
    async def tokens(wanted: TokenRequest) -> TokenAnswer:
        try:
            token, expires_at_ms = use_cases.identities.issue(
                wanted.user, wanted.tenant, use_cases.token_lifetime_ms
            )
        except ValueError as error:
            raise Problem(400, "bad_request", str(error)) from error
        return TokenAnswer(token=token, expires_at_ms=expires_at_ms)


def _add_turns(app: FastAPI, use_cases: RestUseCases) -> None:
    @app.get("/v1/turns/{turn_id}", **openapi.TURN)
    async def get_turn(turn_id: str, request: Request) -> Response:
        turn = await use_cases.turns.find(_session(request, use_cases), TurnId(turn_id))
        if turn is None:
            raise Problem(404, "unknown_turn", "No such turn.")
        return json_response(turn)

    @app.delete("/v1/turns/{turn_id}", **openapi.CANCEL)
    async def cancel_turn(turn_id: str, request: Request) -> Response:
        answer = await use_cases.cancelling.cancel(
            _session(request, use_cases), TurnId(turn_id), None
        )
        if isinstance(answer, NotFound):
            raise Problem(404, "unknown_turn", "No such turn.")
        if isinstance(answer, CouldNotAsk):
            raise unavailable()
        return json_response(openapi.CancelledTurn(turn_id=turn_id), 202)

    @app.get("/v1/sessions/{session_id}/turns", **openapi.HISTORY)
    async def list_turns(
        session_id: str,
        request: Request,
        before: Annotated[str | None, Query(max_length=128)] = None,
        limit: Annotated[int, Query(ge=1, le=50)] = 20,
    ) -> Response:
        session = _session(request, use_cases, SessionId(session_id))
        if not is_client_id(session_id):
            raise Problem(404, "unknown_session", "No such session.")
        page = await use_cases.history.page(
            session, before=TurnId(before) if before else None, limit=limit
        )
        return json_response(openapi.TurnPage(turns=page.turns, more=page.more))


def _add_asyncapi(app: FastAPI) -> None:
    document = msgspec.json.encode(asyncapi_document())

    @app.get("/asyncapi.json", include_in_schema=False)
    async def asyncapi() -> Response:
        return Response(document, media_type="application/json")


def _answer_problems(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def problem(_: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(ChatError)
    async def could_not_ask(_: Request, error: ChatError) -> Response:
        _log.warning("request.unavailable", error_type=type(error).__name__)
        return unavailable().response()

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        # The framework raises it again when this is sent; the public port writes it down.
        return Problem(500, "internal", "Something went wrong on our side.").response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        where = ", ".join(sorted({".".join(map(str, fault["loc"])) for fault in error.errors()}))
        return Problem(400, "bad_request", f"Not understood: {where}.").response()

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = _PATH_CODES.get(error.status_code, "error")
        answer = Problem(error.status_code, code, str(error.detail)).response()
        if error.status_code == 405:
            answer.headers["allow"] = ", ".join(_methods(app, request))
        return answer


def _methods(app: FastAPI, request: Request) -> list[str]:
    """What may be asked of a path; the framework names only the methods of its first route."""
    found: set[str] = set()
    for route in app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found.update(route.methods or ())
    return sorted(found)


def _session(
    request: Request, use_cases: RestUseCases, session_id: SessionId = _NO_SESSION
) -> SessionRef:
    who = _caller(request, use_cases)
    return SessionRef(who.tenant, who.user, session_id)
