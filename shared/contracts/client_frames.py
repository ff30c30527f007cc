"""Frames from the client (PROTOCOL §2)."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.contracts.identifiers import MessageId, TurnId


class ClientFrame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every frame that a client may send; unknown fields are ignored."""


class ChatSend(ClientFrame, frozen=True, kw_only=True, tag="chat.send"):
    """A user message. `message_id` is unique in the session; repeating it never starts a second turn."""

    message_id: MessageId
    text: str
    metadata: dict[str, Any] = {}


class ChatResume(ClientFrame, frozen=True, kw_only=True, tag="chat.resume"):
    """Become a follower of a turn and replay what comes after (`attempt`, `after_seq`)."""

    turn_id: TurnId
    after_seq: int = -1
    attempt: int | None = None


class ChatCancel(ClientFrame, frozen=True, kw_only=True, tag="chat.cancel"):
    """Stop a turn, running or waiting."""

    turn_id: TurnId


class ChatHistoryRequest(ClientFrame, frozen=True, kw_only=True, tag="chat.history"):
    """Earlier turns, newest first, older than `before`."""

    before: TurnId | None = None
    limit: int = 20


class Ping(ClientFrame, frozen=True, kw_only=True, tag="ping"):
    """Answered by `pong` with the same nonce; not user activity."""

    nonce: str | int | None = None


AnyClientFrame = ChatSend | ChatResume | ChatCancel | ChatHistoryRequest | Ping
