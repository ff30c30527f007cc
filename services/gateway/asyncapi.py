"""`/asyncapi.json`: every frame of sockets and event streams, from the types that are sent and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

import msgspec

from shared.contracts.client_frames import AnyClientFrame
from shared.contracts.server_frames import (
    AcceptedPath,
    AnyServerFrame,
    CancelledBy,
    ChatAccepted,
    ChatQueued,
    ChatRejected,
    ChatResumed,
    ErrorCode,
    FailedCode,
    ProtocolError,
    RejectedCode,
    ResponseCancelled,
    ResponseCompleted,
    ResponseDelta,
    ResponseExpired,
    ResponseFailed,
    ResponseStarted,
    SessionGoaway,
    StartedPath,
)

_REF = "#/components/schemas/{name}"
_TURN = "s1.01JDB2V7Q0M3X9K5T8E6R4W2YZ"
_PLACE = {"turn_id": _TURN, "attempt": 1}
_SHA = "5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"

_CODES: Mapping[tuple[type, str], Any] = {
    (ChatAccepted, "path"): AcceptedPath,
    (ResponseStarted, "path"): StartedPath,
    (ResponseFailed, "code"): FailedCode,
    (ResponseCancelled, "by"): CancelledBy,
    (ChatRejected, "code"): RejectedCode,
    (ProtocolError, "code"): ErrorCode,
}
"""Plain strings in the frames, so that a client understands a newer server; these are what is sent today."""
_EXAMPLES: Mapping[str, dict[str, Any]] = {
    "chat.send": {"message_id": "m1", "text": "How many volumes does Fullmetal Alchemist have?"},
    "chat.resume": {"turn_id": _TURN, "after_seq": 4, "attempt": 1},
    "chat.cancel": {"turn_id": _TURN},
    "ping": {"nonce": 7},
    "session.ready": {
        "connection_id": "dGhpcyBpcyBhbiBpZA",
        "session_id": "s1",
        "heartbeat_ms": 25_000,
        "idle_timeout_ms": 300_000,
        "running": [{"turn_id": _TURN, "message_id": "m1", "attempt": 1, "last_seq": 12}],
        "protocol": 1,
    },
    "chat.accepted": {"message_id": "m1", "turn_id": _TURN, "path": "inline", "duplicate": False},
    "chat.queued": {"turn_id": _TURN, "wait_ms": 2_400},
    "chat.response.started": {
        **_PLACE,
        "seq": 0,
        "path": "inline",
        "intent": "product_question",
        "model": "claude-sonnet-5",
    },
    "chat.response.delta": {**_PLACE, "seq": 1, "delta": "Fullmetal Alchemist has "},
    "chat.response.completed": {
        **_PLACE,
        "seq": 3,
        "stop_reason": "end_turn",
        "length": 35,
        "sha256": _SHA,
        "usage": {"input_tokens": 412, "output_tokens": 9},
        "timings": {"queued_ms": 4, "first_token_ms": 310, "total_ms": 520},
        "sources": [{"title": "Fullmetal Alchemist", "id": "series/fullmetal-alchemist"}],
    },
    "chat.response.failed": {
        **_PLACE,
        "seq": 1,
        "code": "model_overloaded",
        "message": "The assistant is overloaded. Please try again.",
        "retryable": True,
        "partial": False,
        "retry_after_ms": 4_000,
    },
    "chat.response.cancelled": {**_PLACE, "seq": 3, "by": "user", "length": 24, "sha256": _SHA},
    "chat.response.expired": {
        "turn_id": _TURN,
        "attempt": 0,
        "seq": 0,
        "age_ms": 45_120,
        "retryable": True,
    },
    "chat.rejected": {
        "message_id": "m1",
        "code": "overloaded",
        "message": "The assistant is very busy right now. Please try again in a moment.",
        "retry_after_ms": 4_000,
    },
    "chat.resumed": {"turn_id": _TURN, "attempt": 1, "from_seq": 5, "complete": False},
    "session.goaway": {"reason": "drain", "reconnect_after_ms": 8_200},
    "pong": {"nonce": 7, "at_ms": 1_732_900_000_000},
    "error": {"code": "unknown_turn", "message": "No such turn.", "turn_id": _TURN},
}
_HISTORY: Mapping[bool, dict[str, Any]] = {
    True: {"limit": 20},
    False: {
        "turns": [
            {
                "turn_id": _TURN,
                "message_id": "m1",
                "user_text": "How many volumes does Fullmetal Alchemist have?",
                "assistant_text": "Fullmetal Alchemist has 27 volumes.",
                "stop_reason": "end_turn",
                "completed_at_ms": 1_732_900_000_520,
                "path": "inline",
                "timings": {"queued_ms": 4, "first_token_ms": 310, "total_ms": 520},
                "sources": [{"title": "Fullmetal Alchemist", "id": "series/fullmetal-alchemist"}],
            }
        ],
        "more": False,
    },
}
"""`chat.history` asked (True) and answered: the one frame type that goes both ways."""
_STREAMED = (
    ChatAccepted,
    ChatResumed,
    ChatQueued,
    ResponseStarted,
    ResponseDelta,
    ResponseCompleted,
    ResponseFailed,
    ResponseCancelled,
    ResponseExpired,
    SessionGoaway,
)
"""What an event stream carries: `event` is the frame's type, `id` its `attempt.seq`, `data` the frame."""


def asyncapi_document() -> dict[str, Any]:
    """An AsyncAPI 3.0 document; the application is the server, so clients send what it receives."""
    from_client, from_server = get_args(AnyClientFrame), get_args(AnyServerFrame)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "burstchat",
            "version": "1",
            "description": "JSON frames, one per WebSocket text message or server-sent event.",
        },
        "defaultContentType": "application/json",
        "channels": {
            "socket": {
                "address": "/ws",
                "messages": _messages((*from_client, *from_server)),
                "bindings": {
                    "ws": {
                        "bindingVersion": "0.1.0",
                        "method": "GET",
                        "query": {
                            "type": "object",
                            "properties": {
                                "session_id": {
                                    "type": "string",
                                    "pattern": "^[A-Za-z0-9_-]{1,64}$",
                                    "description": "Absent = a new session.",
                                }
                            },
                        },
                    }
                },
            },
            "events": {
                "address": "/v1/turns/{turn_id}/events",
                "description": "Also the body of `POST /v1/chat` with `Accept: text/event-stream`.",
                "parameters": {"turn_id": {"description": "A turn of the caller's."}},
                "messages": _messages(_STREAMED),
            },
        },
        "operations": {
            "receiveFrames": _operation("receive", "socket", from_client),
            "sendFrames": _operation("send", "socket", from_server),
            "sendEvents": _operation("send", "events", _STREAMED),
        },
        "components": {
            "messages": {kind.__name__: _message(kind) for kind in (*from_client, *from_server)},
            "schemas": _schemas((*from_client, *from_server)),
        },
    }


def _messages(kinds: Iterable[type]) -> dict[str, Any]:
    return {kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in kinds}


def _operation(action: str, channel: str, kinds: Iterable[type]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{kind.__name__}"} for kind in kinds],
    }


def _message(kind: type) -> dict[str, Any]:
    tag = _tag(kind)
    fields = _EXAMPLES.get(tag) or _HISTORY[kind in get_args(AnyClientFrame)]
    return {
        "name": tag,
        "summary": (kind.__doc__ or "").partition("\n")[0],
        "payload": {"$ref": _REF.format(name=kind.__name__)},
        "examples": [{"payload": {"type": tag, **fields}}],
    }


def _schemas(kinds: Iterable[type]) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    for (kind, name), codes in _CODES.items():
        schemas[kind.__name__]["properties"][name]["examples"] = list(get_args(codes))
    return schemas


def _tag(kind: type) -> str:
    tag = kind.__struct_config__.tag  # type: ignore[attr-defined]
    return str(tag)
