"""Every error of burstchat, grouped by what the caller does next.

ChatError
├── TransientError             retry within the turn's limits
│   ├── ModelOverloaded        the provider is overloaded
│   ├── ModelRateLimited       the provider refused for rate; may carry retry_after_ms
│   ├── ModelTimeout           no first event, or silence in mid-stream
│   ├── ModelDisconnected      the connection broke or the stream was cut without a stop reason
│   └── DependencyUnavailable  Redis, a queue, a table or a service could not be asked
├── PermanentError             never retried: dead-letter at once
│   ├── MalformedMessage       bytes that are not one of our messages; keeps the raw data
│   ├── UnsupportedTurn        a schema or feature that this version does not know
│   ├── ItemTooLarge           a stored turn above the store's item limit
│   ├── FrameTooLarge          a frame above what a transport takes
│   ├── ModelRejected          the provider called the request invalid
│   ├── MalformedDocument      a knowledge document that cannot be read; names it and the line
│   └── IncompatibleIndex      an index artefact of another schema or embedding, or damaged
├── GuardrailBlocked           answer politely, count, ack
└── ConfigurationError         refuse to start; names the setting

Adapters translate SDK errors at their edge and chain the cause. Any other exception is a bug.
"""

from __future__ import annotations


class ChatError(Exception):
    """Base of every error that burstchat raises on purpose."""


class TransientError(ChatError):
    """Likely to succeed later. `retry_after_ms` is the remote's own hint, None when it gave none."""

    #: The code of PROTOCOL §3 that a turn ends with when its retries are used up.
    code: str = "internal"

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class ModelOverloaded(TransientError):
    """The model provider is overloaded (HTTP 529 or an `overloaded_error` event)."""

    code = "model_overloaded"


class ModelRateLimited(TransientError):
    """The model provider refused for rate (HTTP 429 or a `rate_limit_error` event)."""

    code = "model_rate_limited"


class ModelTimeout(TransientError):
    """No first event, or silence in mid-stream, for longer than the limit."""

    code = "model_timeout"


class ModelDisconnected(TransientError):
    """The model's connection broke, or its stream ended without a stop reason."""

    code = "model_disconnected"


class DependencyUnavailable(TransientError):
    """A dependency could not be asked. Never means "not found"."""


class PermanentError(ChatError):
    """Never succeeds, however often it is tried."""

    code: str = "internal"


class MalformedMessage(PermanentError):
    """Bytes that are not one of our messages; `raw` keeps them for the dead letter."""

    def __init__(self, message: str, raw: bytes) -> None:
        super().__init__(message)
        self.raw = raw


class UnsupportedTurn(PermanentError):
    """A turn of a schema that this version does not know."""


class ItemTooLarge(PermanentError):
    """A turn above the store's item limit (400 KB in DynamoDB)."""


class FrameTooLarge(PermanentError):
    """A frame above what a transport takes: no attempt could deliver this turn."""


class ModelRejected(PermanentError):
    """The provider called our request invalid; sending it again cannot help."""

    code = "model_rejected"


class MalformedDocument(PermanentError):
    """A knowledge document that cannot be read; `line` counts from 1, 0 = the document as a whole."""

    def __init__(self, document: str, line: int, reason: str) -> None:
        super().__init__(f"{document}, line {line}: {reason}" if line else f"{document}: {reason}")
        self.document = document
        self.line = line
        self.reason = reason


class IncompatibleIndex(PermanentError):
    """An index artefact of another schema or embedding, or damaged; the one in use stays."""


class GuardrailBlocked(ChatError):
    """A guardrail refused the message or the reply."""


class ConfigurationError(ChatError):
    """The process must not start; the text names the setting and what to do."""
