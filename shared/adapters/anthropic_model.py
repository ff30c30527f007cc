"""ChatModel over the Anthropic SDK: its transport and authentication, our own reading of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anthropic
import httpx2

from shared.adapters.anthropic_errors import TRANSPORT_ERRORS, classify, misconfigured_setting
from shared.adapters.anthropic_events import EventDecoder, Framing
from shared.adapters.sse_framing import SseFraming
from shared.clock import Clock
from shared.contracts.model import ModelEvent, Prompt
from shared.contracts.model_budget import ProviderAllowance
from shared.errors import ConfigurationError
from shared.policy.rate_headers import allowance_of
from shared.telemetry import Log

PROVIDER_URL = "https://api.anthropic.com"
NO_TIMEOUT = httpx2.Timeout(None)
_KEEPALIVE_S = 60.0
_RATE_LIMITED = 429
_log = Log("model")
# After `message_stop` only the end of the body is missing; a connection read to its end is used again.
_END_OF_BODY_S = 0.02
# Compression would delay tokens and cost more than it saves on a stream.
_HEADERS = {"accept-encoding": "identity"}


AnyClient = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicBedrock


class MessagesModel:
    """Streams from a Messages API. Retries nothing and waits for ever: the turn's own limits decide about both.

    The client is opened at the first call, so that a snapshot of the process holds no socket.
    """

    def __init__(
        self,
        open_client: Callable[[httpx2.AsyncClient], AnyClient],
        framing: Callable[[], Framing],
        *,
        clock: Clock,
        note: Callable[[ProviderAllowance], None] | None = None,
        connections: int = 1_000,
    ) -> None:
        """`note` hears what the provider says of its limits, with refusals, too."""
        self._open_client = open_client
        self._framing = framing
        self._clock = clock
        self._note = note
        self._connections = connections  # open at once; more wait for one of them
        self._client: AnyClient | None = None

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[AsyncIterator[Sequence[ModelEvent]]]:
        """Open one call; each item is what one network read brought, ModelStopped last.

        Leaving the context closes the provider's connection at once unless the body was read to its end. Raises the
        ModelX errors of shared/errors.py, on entering and while iterating.
        """
        client = self._client or self._connect()
        manager = client.messages.with_streaming_response.create(
            **_request(prompt), stream=True, extra_headers=_HEADERS
        )
        try:
            response = await manager.__aenter__()
        except Exception as error:
            if isinstance(error, anthropic.APIStatusError):
                self._listen(error.response.headers, is_refusal=error.status_code == _RATE_LIMITED)
                self._tell_misconfiguration(error, prompt.model)
            raise self._translated(error) from error
        self._listen(response.headers, is_refusal=False)
        events = _Events(self, response.http_response)
        try:
            yield events
            await events.finish()
        finally:
            # The socket is let go before the first wait inside, so a second cancellation leaks nothing.
            with suppress(*TRANSPORT_ERRORS):
                await response.close()

    async def close(self) -> None:
        """Close every connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _listen(self, headers: Mapping[str, str], *, is_refusal: bool) -> None:
        if self._note is None:
            return
        allowance = allowance_of(headers, is_refusal=is_refusal, now_ms=self._clock.now_ms())
        if allowance is not None:
            self._note(allowance)

    def _tell_misconfiguration(self, error: anthropic.APIStatusError, model: str) -> None:
        """What on-call must see at once: every turn of this process ends like this one."""
        setting = misconfigured_setting(error)
        if setting is not None:
            _log.error("model.misconfigured", status=error.status_code, model=model, check=setting)

    def _translated(self, error: Exception) -> Exception:
        return classify(error, self._clock.now_ms()) or error

    def _connect(self) -> AnyClient:
        limits = httpx2.Limits(
            max_connections=self._connections,
            max_keepalive_connections=self._connections,
            keepalive_expiry=_KEEPALIVE_S,
        )
        # How long a stream may be silent is its caller's to watch: one timer per call instead of one per read.
        http = anthropic.DefaultAioHttpClient(limits=limits, timeout=NO_TIMEOUT)
        self._client = self._open_client(http)
        return self._client


class AnthropicChatModel(MessagesModel):
    """ChatModel of the Anthropic API, or of anything that speaks it at `base_url`."""

    def __init__(
        self,
        *,
        api_key: str,
        clock: Clock,
        base_url: str = "",
        note: Callable[[ProviderAllowance], None] | None = None,
    ) -> None:
        if not api_key:
            raise ConfigurationError("ANTHROPIC_API_KEY is missing: key of the Anthropic API.")

        def open_client(http: httpx2.AsyncClient) -> AnyClient:
            return anthropic.AsyncAnthropic(
                api_key=api_key,
                base_url=base_url or PROVIDER_URL,
                max_retries=0,
                timeout=NO_TIMEOUT,
                http_client=http,
            )

        super().__init__(open_client, SseFraming, clock=clock, note=note)


class _Events:
    """The events of one response."""

    def __init__(self, model: MessagesModel, response: httpx2.Response) -> None:
        self._model = model
        self._chunks = response.aiter_raw()
        self._decoder = EventDecoder(model._framing())

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Sequence[ModelEvent]:
        if self._decoder.is_stopped:
            raise StopAsyncIteration
        try:
            return await self._read()
        except Exception as error:
            raise self._model._translated(error) from error

    async def finish(self) -> None:
        """Read the end of a body whose stop has come, so that its connection can be used again."""
        if not self._decoder.is_stopped:
            return
        with suppress(*TRANSPORT_ERRORS):
            async with asyncio.timeout(_END_OF_BODY_S):
                async for _ in self._chunks:
                    pass

    async def _read(self) -> list[ModelEvent]:
        if self._decoder.failure is not None:
            raise self._decoder.failure
        try:
            async for chunk in self._chunks:
                if events := self._decoder.feed(chunk):
                    return events
                if self._decoder.failure is not None:
                    raise self._decoder.failure
        except TRANSPORT_ERRORS:
            if not self._decoder.has_stop_reason:
                raise
        return [self._decoder.end()]


def _request(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_tokens": prompt.max_tokens,
        # Two marks: the rules are the same for everybody, the history for this session's next turn. The provider looks
        # for the longest prefix it knows up to 20 blocks before a mark, and a turn adds two.
        "system": [_marked(prompt.system)],
        "messages": [
            {
                "role": message.role,
                "content": [_marked(message.content)]
                if place == prompt.stable_messages and isinstance(message.content, str)
                else message.content,
            }
            for place, message in enumerate(prompt.messages, 1)
        ],
    }


def _marked(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
