"""The one place that says what a failure of the Messages API means for the turn.

The error's own type decides, because an error event in mid-stream comes under HTTP status 200; the status only where
no type was given.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import anthropic
import httpx2

from shared.adapters.anthropic_events import StreamedError
from shared.errors import (
    ChatError,
    ModelDisconnected,
    ModelOverloaded,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    TransientError,
)
from shared.policy.retry_after import retry_after_ms

#: What a broken exchange may raise: the SDK's own, httpx2's, aiohttp's (its transport maps most, not all, of them to
#: httpx2's), sockets, TLS and timers.
TRANSPORT_ERRORS = (
    anthropic.APIConnectionError,
    httpx2.HTTPError,
    httpx2.StreamError,
    aiohttp.ClientError,
    OSError,
    EOFError,
)
_MESSAGE_LIMIT = 300

_BY_TYPE: dict[str, type[TransientError] | type[ModelRejected]] = {
    "overloaded_error": ModelOverloaded,
    "rate_limit_error": ModelRateLimited,
    "api_error": ModelDisconnected,
    "timeout_error": ModelTimeout,
    "invalid_request_error": ModelRejected,
    "authentication_error": ModelRejected,
    "billing_error": ModelRejected,
    "permission_error": ModelRejected,
    "not_found_error": ModelRejected,
    "request_too_large": ModelRejected,
    # Bedrock's names, as its streams carry them.
    "throttlingException": ModelRateLimited,
    "serviceUnavailableException": ModelOverloaded,
    "internalServerException": ModelDisconnected,
    "modelStreamErrorException": ModelDisconnected,
    "modelTimeoutException": ModelTimeout,
    "validationException": ModelRejected,
    # ... and as its refusals name them in a header.
    "accessDeniedException": ModelRejected,
    "modelErrorException": ModelDisconnected,
    "modelNotReadyException": ModelOverloaded,
    "resourceNotFoundException": ModelRejected,
    "serviceQuotaExceededException": ModelRateLimited,
}
_BY_STATUS: dict[int, type[TransientError] | type[ModelRejected]] = {
    408: ModelTimeout,
    409: ModelDisconnected,
    424: ModelDisconnected,  # Bedrock: the model itself failed
    425: ModelDisconnected,
    429: ModelRateLimited,
    503: ModelOverloaded,
    504: ModelTimeout,
    529: ModelOverloaded,
}


def classify(error: Exception, now_ms: int) -> ChatError | None:
    """The error of shared/errors.py that the caller acts on, None for an exception that is nobody's: a bug.

    `now_ms` epoch milliseconds, for a `retry-after` given as a date.
    """
    match error:
        case ChatError():
            return error
        case StreamedError():
            return _fault(200, error.type, str(error), None)
        case anthropic.APIStatusError():
            retry_after = retry_after_ms(error.response.headers.get("retry-after"), now_ms)
            type_ = error.type or _bedrock_type(error.response.headers)
            return _fault(error.status_code, type_, error.api_message or "", retry_after)
        case anthropic.APITimeoutError() | httpx2.TimeoutException() | TimeoutError():
            return ModelTimeout(f"the model's provider: {type(error).__name__}")
        case _ if isinstance(error, TRANSPORT_ERRORS):
            return ModelDisconnected(f"the model's connection: {type(error).__name__}")
        case anthropic.APIError():
            return ModelDisconnected(f"the model's answer: {type(error).__name__}")
        case _:
            return None


def _bedrock_type(headers: Mapping[str, str]) -> str | None:
    """The name as streams carry it, from `ThrottlingException:http://internal.amazon.com/…`."""
    name = headers.get("x-amzn-errortype", "").partition(":")[0]
    return name[:1].lower() + name[1:] or None


def misconfigured_setting(error: anthropic.APIStatusError) -> str | None:
    """The setting to look at when no call of this process can succeed, None for any other refusal."""
    match error.status_code:
        case 401 | 403:
            return "ANTHROPIC_API_KEY, or the role's permission to invoke the model on Bedrock"
        case 404:
            return "BURSTCHAT_MODEL_PRIMARY and BURSTCHAT_MODEL_FAST"
        case _:
            return None


def _fault(status: int, type_: str | None, message: str, retry_after: int | None) -> ChatError:
    kind = _BY_TYPE.get(type_ or "") or _BY_STATUS.get(status)
    if kind is None:
        kind = ModelRejected if 400 <= status < 500 else ModelDisconnected
    text = f"the model's provider answered {status} {type_ or 'without a type'}: {message}"
    text = text[:_MESSAGE_LIMIT]
    if issubclass(kind, ModelRejected):
        return kind(text)
    return kind(text, retry_after_ms=retry_after)
