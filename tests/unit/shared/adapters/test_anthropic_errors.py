"""Which errors are whose: transports break in many types, and a bug must stay a bug."""

from __future__ import annotations

import ssl

import aiohttp
import anthropic
import httpx2
import pytest

from shared.adapters.anthropic_errors import classify
from shared.adapters.anthropic_events import StreamedError
from shared.errors import ChatError, ModelDisconnected, ModelRejected, ModelTimeout

REQUEST = httpx2.Request("POST", "http://model/v1/messages")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (anthropic.APITimeoutError(REQUEST), ModelTimeout),
        (httpx2.ReadTimeout("x"), ModelTimeout),
        (httpx2.PoolTimeout("x"), ModelTimeout),
        (TimeoutError(), ModelTimeout),
        (aiohttp.SocketTimeoutError(), ModelTimeout),
        (anthropic.APIConnectionError(request=REQUEST), ModelDisconnected),
        (httpx2.RemoteProtocolError("x"), ModelDisconnected),
        (httpx2.ReadError("x"), ModelDisconnected),
        (httpx2.StreamClosed(), ModelDisconnected),
        (aiohttp.ClientOSError(104, "reset"), ModelDisconnected),
        (aiohttp.ServerDisconnectedError(), ModelDisconnected),
        (aiohttp.ClientPayloadError("x"), ModelDisconnected),
        (ssl.SSLError("x"), ModelDisconnected),
        (ConnectionResetError(), ModelDisconnected),
        (EOFError(), ModelDisconnected),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
@pytest.mark.case("B-02")
def test_every_broken_exchange_has_a_name(error: Exception, expected: type[ChatError]) -> None:
    assert type(classify(error, 0)) is expected


@pytest.mark.parametrize("bug", [KeyError("x"), TypeError("x"), AttributeError("x")])
def test_a_bug_is_nobodys_error(bug: Exception) -> None:
    assert classify(bug, 0) is None


def test_an_error_of_ours_stays_itself() -> None:
    error = ModelRejected("no")

    assert classify(error, 0) is error


def test_a_long_answer_of_the_provider_is_cut() -> None:
    error = classify(StreamedError("invalid_request_error", "x" * 5_000), 0)

    assert isinstance(error, ModelRejected)
    assert len(str(error)) <= 300
