"""What `/openapi.json` says of the calls under `/v1`: bodies from the types that are sent, statuses, examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from services.gateway.chat_call import ChatBody
from services.gateway.event_stream import CONTENT_TYPE, encode_event
from services.gateway.http_problem import Fault, turn_path
from services.gateway.turn_lookup import TurnObject
from shared.contracts.identifiers import MessageId, SessionId, TurnId
from shared.contracts.server_frames import (
    HistoryTurn,
    ResponseDelta,
    SourceLink,
    Timings,
    Usage,
    encode_frame,
)
from shared.contracts.turns import TurnStatus

TITLE = "burstchat"
VERSION = "1"
SECURITY_SCHEME = "bearer"

_SESSION, _MESSAGE = SessionId("s1"), MessageId("m1")
_TURN = TurnId("s1.01JDB2V7Q0M3X9K5T8E6R4W2YZ")
_JSON = "application/json"
_REF = "#/components/schemas/{name}"


class AcceptedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that goes on by itself. Its reply is fetched at `Location`."""

    turn_id: str
    session_id: str
    message_id: str
    status: TurnStatus


class CancelledTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The turn is being stopped, or has ended."""

    turn_id: str


class TurnPage(msgspec.Struct, frozen=True, kw_only=True):
    """Earlier turns, newest first; `more` = there are older ones, ask `before` the last."""

    turns: tuple[HistoryTurn, ...]
    more: bool


_EXAMPLES: Mapping[type, object] = {
    TurnObject: TurnObject(
        turn_id=_TURN,
        session_id=_SESSION,
        message_id=_MESSAGE,
        status="completed",
        attempt=1,
        path="inline",
        text="Fullmetal Alchemist has 27 volumes.",
        stop_reason="end_turn",
        usage=Usage(input_tokens=412, output_tokens=9),
        timings=Timings(queued_ms=4, first_token_ms=310, total_ms=520),
        sources=(SourceLink(title="Fullmetal Alchemist", id="series/fullmetal-alchemist"),),
        accepted_at_ms=1_732_900_000_000,
        completed_at_ms=1_732_900_000_520,
    ),
    AcceptedTurn: AcceptedTurn(
        turn_id=_TURN, session_id=_SESSION, message_id=_MESSAGE, status="waiting"
    ),
    CancelledTurn: CancelledTurn(turn_id=_TURN),
    TurnPage: TurnPage(
        turns=(
            HistoryTurn(
                turn_id=_TURN,
                message_id=_MESSAGE,
                user_text="How many volumes does Fullmetal Alchemist have?",
                assistant_text="Fullmetal Alchemist has 27 volumes.",
                stop_reason="end_turn",
                completed_at_ms=1_732_900_000_520,
                path="inline",
            ),
        ),
        more=False,
    ),
    ChatBody: ChatBody(
        text="How many volumes does Fullmetal Alchemist have?",
        session_id=_SESSION,
        message_id=_MESSAGE,
    ),
}
_FAULTS: Mapping[int, tuple[str, Fault]] = {
    400: (
        "The request was not understood, or the text is empty or not valid.",
        Fault(code="message_empty", message="The message is empty."),
    ),
    401: (
        "No token, or one that is not accepted.",
        Fault(code="unauthorized", message="A bearer token is required."),
    ),
    404: (
        "There is no such turn or session of the caller's.",
        Fault(code="unknown_turn", message="No such turn."),
    ),
    409: (
        "The session has too many waiting turns, or the turn was stopped.",
        Fault(
            code="busy",
            message="Please wait for the answers to your earlier messages.",
            retry_after_ms=5_000,
            session_id=_SESSION,
            message_id=_MESSAGE,
        ),
    ),
    413: (
        "The body or the message is too large.",
        Fault(code="message_too_large", message="A message has at most 16384 bytes of UTF-8."),
    ),
    422: (
        "The assistant does not answer this message.",
        Fault(code="blocked", message="I cannot help with that.", turn_id=_TURN),
    ),
    429: (
        "Too many messages, or too many calls that wait.",
        Fault(
            code="rate_limited",
            message="You are sending messages too fast. Please wait a moment.",
            retry_after_ms=3_000,
        ),
    ),
    500: (
        "Something went wrong on our side.",
        Fault(code="internal", message="Something went wrong on our side.", turn_id=_TURN),
    ),
    503: (
        "Refused for load, or nobody could be asked: come back after `Retry-After`.",
        Fault(
            code="overloaded",
            message="The assistant is very busy right now. Please try again in a moment.",
            retry_after_ms=4_000,
        ),
    ),
    504: (
        "No reply in time. With `still_running` the turn goes on: poll `Location`.",
        Fault(
            code="still_running",
            message="The reply takes longer. It goes on, and can be fetched at `turn_id`.",
            turn_id=_TURN,
            session_id=_SESSION,
            message_id=_MESSAGE,
        ),
    ),
}
_HEADERS: Mapping[str, tuple[str, str, str]] = {
    "Location": ("string", "Where the turn is polled.", turn_path(_TURN)),
    "Retry-After": ("integer", "Whole seconds until it is worth trying again.", "4"),
    "X-Session-Id": ("string", "The session of the turn.", _SESSION),
    "Preference-Applied": ("string", "`respond-async`.", "respond-async"),
    "WWW-Authenticate": ("string", "`Bearer`.", "Bearer"),
}
_EVENT = {
    "type": "object",
    "description": "One server-sent event; `/asyncapi.json` describes each frame.",
    "properties": {
        "event": {"type": "string", "description": "The frame's type."},
        "id": {"type": "string", "description": "`attempt.seq` of a logged frame."},
        "data": {"type": "string", "description": "The frame, JSON."},
    },
    "required": ["event", "data"],
}
_STREAM_EXAMPLE = encode_event(
    encode_frame(ResponseDelta(turn_id=_TURN, attempt=1, seq=1, delta="Fullmetal Alchemist"))
).decode()


def describe(app: FastAPI, *, requires_token: bool) -> None:
    """Have the app's `/openapi.json` name the types above, and who may call."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=TITLE, version=VERSION, routes=app.routes)
            app.openapi_schema = _completed(made, requires_token)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _completed(document: dict[str, Any], requires_token: bool) -> dict[str, Any]:
    types = (*_EXAMPLES, Fault)
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    components = document.setdefault("components", {})
    own = components.get("schemas", {})
    components["schemas"] = {
        name: schema for name, schema in own.items() if not name.endswith("ValidationError")
    } | schemas
    components["securitySchemes"] = {
        SECURITY_SCHEME: {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
    }
    given: list[dict[str, list[str]]] = [{SECURITY_SCHEME: []}]
    for path, calls in document["paths"].items():
        for call in calls.values():
            _mend_validation(call)
            if path.startswith("/v1/") and "401" in call["responses"]:
                call["security"] = given if requires_token else [{}, *given]
    return document


def _mend_validation(call: dict[str, Any]) -> None:
    """The framework announces its own form of 422; a request that is not understood gets our 400."""
    said = call["responses"].get("422")
    if said is not None and "ValidationError" in str(said):
        del call["responses"]["422"]
        call["responses"].setdefault("400", _fault(400))


def _answer(
    kind: type, description: str, headers: Iterable[str] = (), *, stream: bool = False
) -> dict[str, Any]:
    content: dict[str, Any] = {
        _JSON: {
            "schema": {"$ref": _REF.format(name=kind.__name__)},
            "example": msgspec.to_builtins(_EXAMPLES[kind]),
        }
    }
    if stream:
        content[CONTENT_TYPE] = {"schema": _EVENT, "example": _STREAM_EXAMPLE}
    return {"description": description, "content": content, "headers": _named(headers)}


def _links(*operations: str) -> dict[str, Any]:
    """Where the turn of an answer can be used."""
    return {
        operation: {"operationId": operation, "parameters": {"turn_id": "$response.body#/turn_id"}}
        for operation in operations
    }


def _fault(status: int) -> dict[str, Any]:
    description, example = _FAULTS[status]
    headers = {401: ["WWW-Authenticate"], 429: ["Retry-After"], 503: ["Retry-After"]}
    return {
        "description": description,
        "content": {
            _JSON: {
                "schema": {"$ref": _REF.format(name=Fault.__name__)},
                "example": msgspec.to_builtins(example),
            }
        },
        "headers": _named(headers.get(status, ())),
    }


def _named(headers: Iterable[str]) -> dict[str, Any]:
    described = {}
    for name in headers:
        kind, description, example = _HEADERS[name]
        value = int(example) if kind == "integer" else example
        described[name] = {
            "description": description,
            "schema": {"type": kind},
            "example": value,
        }
    return described


def _faults(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _fault(status) for status in statuses}


def _header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": schema,
    }


CHAT: dict[str, Any] = {
    "operation_id": "sendMessage",
    "summary": "Send a message and get its reply: in this answer, as events, or later",
    "description": (
        "Waits up to 25 s for the whole reply. With `Accept: text/event-stream` each frame is an event. "
        "With `Prefer: respond-async` the answer is 202 at once, and only then may `priority` be normal or low."
    ),
    "openapi_extra": {
        "parameters": [
            _header(
                "Prefer",
                "`respond-async`: answer 202 now, run the turn without a reader.",
                {"type": "string", "examples": ["respond-async"]},
            )
        ],
        "requestBody": {
            "required": True,
            "content": {
                _JSON: {
                    "schema": {"$ref": _REF.format(name=ChatBody.__name__)},
                    "example": msgspec.to_builtins(_EXAMPLES[ChatBody]),
                }
            },
        },
    },
    "responses": {
        200: {
            **_answer(TurnObject, "The completed turn.", ["X-Session-Id"], stream=True),
            "links": {
                **_links("getTurn", "streamTurn"),
                "listTurns": {
                    "operationId": "listTurns",
                    "parameters": {"session_id": "$response.body#/session_id"},
                },
            },
        },
        202: {
            **_answer(
                AcceptedTurn,
                "The turn runs without a reader.",
                ["Location", "Preference-Applied", "X-Session-Id"],
            ),
            "links": _links("getTurn", "streamTurn", "cancelTurn"),
        },
        **_faults(400, 401, 409, 413, 422, 429, 500, 503, 504),
    },
}
EVENTS: dict[str, Any] = {
    "response_class": Response,
    "operation_id": "streamTurn",
    "summary": "The frames of a turn as server-sent events",
    "openapi_extra": {
        "parameters": [
            _header(
                "Last-Event-ID",
                "The `id` of the last event received: the stream goes on behind it. Another value counts as none.",
                {"type": "string", "examples": ["1.4"]},
            )
        ],
    },
    "responses": {
        200: {
            "description": "Events up to the turn's end.",
            "content": {CONTENT_TYPE: {"schema": _EVENT, "example": _STREAM_EXAMPLE}},
            "headers": _named(["Location", "X-Session-Id"]),
        },
        204: {"description": "The turn has ended and the reader has all of it."},
        **_faults(401, 404, 429, 500, 503),
    },
}
TURN: dict[str, Any] = {
    "operation_id": "getTurn",
    "summary": "A turn in whatever state it is",
    "responses": {
        200: _answer(TurnObject, "The turn; while it runs, the text so far."),
        **_faults(401, 404, 500, 503),
    },
}
CANCEL: dict[str, Any] = {
    "operation_id": "cancelTurn",
    "summary": "Stop a turn",
    "status_code": 202,
    "responses": {
        202: _answer(CancelledTurn, "It is being stopped, or has ended."),
        **_faults(401, 404, 500, 503),
    },
}
HISTORY: dict[str, Any] = {
    "operation_id": "listTurns",
    "summary": "Earlier turns of a session, newest first",
    "responses": {
        200: _answer(TurnPage, "A page."),
        **_faults(400, 401, 404, 500, 503),
    },
}
