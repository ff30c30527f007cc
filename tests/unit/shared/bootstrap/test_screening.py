"""Which guardrails the settings make."""

from __future__ import annotations

import io
from contextlib import AsyncExitStack

import pytest

from shared.bootstrap.adapters import ProcessAdapters
from shared.bootstrap.screening import make_screening
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.model import Prompt
from shared.errors import DependencyUnavailable, GuardrailBlocked
from shared.policy.sigv4 import Credential
from shared.settings import GuardrailSettings, RedisSettings, Settings
from shared.telemetry import Metrics
from shared.turn.screening import Screening

CARD = "4111 1111 1111 1111"
PROMPT = Prompt(model="m", system="s", messages=(), max_tokens=1)


def screening(guardrail: GuardrailSettings, closing: AsyncExitStack) -> Screening:
    settings = Settings(guardrail=guardrail, redis=RedisSettings(redis_url="redis://127.0.0.1:1/0"))
    clock = SystemClock()
    adapters = ProcessAdapters(
        settings,
        clock,
        SystemRandomness(),
        closing,
        credential=Credential("k", "s", "us-east-1"),
    )
    metrics = Metrics("test", "orchestrator", clock, io.StringIO())
    return make_screening(settings, adapters, lambda: ("secret plan",), metrics)


async def test_by_default_messages_are_masked_and_phrases_blocked_without_asking_anybody() -> None:
    async with AsyncExitStack() as closing:
        local = screening(GuardrailSettings(), closing)
        assert await local.admit(f"Pay with {CARD}") == "Pay with [card]"
        reply = local.open_reply(PROMPT, lambda: None)
        assert reply.feed("Fine words") == "Fine words"
        with pytest.raises(GuardrailBlocked):
            reply.feed(" secret plan.")
        await reply.settle()


async def test_masking_is_one_setting() -> None:
    async with AsyncExitStack() as closing:
        local = screening(GuardrailSettings(pii_masking="off"), closing)
        assert await local.admit(CARD) == CARD


async def test_bedrock_is_asked_where_the_settings_say_so_and_closed_by_default() -> None:
    away = GuardrailSettings(
        guardrail_provider="bedrock",
        guardrail_id="g",
        guardrail_version="1",
        guardrail_base_url="http://127.0.0.1:1",
    )
    async with AsyncExitStack() as closing:
        with pytest.raises(DependencyUnavailable):
            await screening(away, closing).admit("Hi")
