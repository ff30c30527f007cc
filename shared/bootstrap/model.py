"""The language model that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from shared.adapters.anthropic_model import AnthropicChatModel
from shared.adapters.bedrock_model import BedrockChatModel
from shared.bootstrap.adapters import ProcessAdapters
from shared.clock import Clock
from shared.contracts.model_budget import ProviderAllowance
from shared.ports import ChatModel
from shared.settings import Settings
from shared.turn.model_budget import ModelBudget

OFFLINE_API_KEY: Final = "offline"
"""Sent to a model server at `model_base_url` that wants none."""


def open_budget(
    settings: Settings, adapters: ProcessAdapters, clock: Clock, *, worker: str, holds_advance: bool
) -> ModelBudget:
    """This process's part of the shared model budget; it runs with the engine."""
    return ModelBudget(
        adapters.budget_window(),
        clock,
        worker=worker,
        requests_per_min=settings.model.model_requests_per_min,
        tokens_per_min=settings.model.model_tokens_per_min,
        holds_advance=holds_advance,
    )


def open_model(
    settings: Settings,
    clock: Clock,
    closing: AsyncExitStack,
    *,
    note: Callable[[ProviderAllowance], None],
) -> ChatModel:
    """The adapter of `model_provider`, closed with `closing`; no connection is opened yet.

    `note` hears what the provider says of its limits.
    """
    model = settings.model
    opened: AnthropicChatModel | BedrockChatModel
    match model.model_provider:
        case "anthropic":
            opened = AnthropicChatModel(
                api_key=model.model_api_key or (OFFLINE_API_KEY if model.model_base_url else ""),
                clock=clock,
                base_url=model.model_base_url,
                note=note,
            )
        case "bedrock":
            opened = BedrockChatModel(
                region=settings.aws.aws_region,
                clock=clock,
                base_url=model.model_base_url,
            )
    closing.push_async_callback(opened.close)
    return opened
