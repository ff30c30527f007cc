"""The language model that the settings name."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final

from shared.adapters.anthropic_model import AnthropicChatModel
from shared.adapters.bedrock_model import BedrockChatModel
from shared.clock import Clock
from shared.ports import ChatModel
from shared.settings import Settings

OFFLINE_API_KEY: Final = "offline"
"""Sent to a model server at `model_base_url` that wants none."""


def open_model(settings: Settings, clock: Clock, closing: AsyncExitStack) -> ChatModel:
    """The adapter of `model_provider`, closed with `closing`; no connection is opened yet."""
    model = settings.model
    opened: AnthropicChatModel | BedrockChatModel
    match model.model_provider:
        case "anthropic":
            opened = AnthropicChatModel(
                api_key=model.model_api_key or (OFFLINE_API_KEY if model.model_base_url else ""),
                clock=clock,
                base_url=model.model_base_url,
            )
        case "bedrock":
            opened = BedrockChatModel(
                region=settings.aws.aws_region,
                clock=clock,
                base_url=model.model_base_url,
            )
    closing.push_async_callback(opened.close)
    return opened
