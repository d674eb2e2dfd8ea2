"""Prepares requests for direct calls of a provider's hooks, as `ProviderClient` does at run time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ask import ChatRequest, Message, Provider, ToolSpec
from ask.plugin_api.provider import format_tool_results
from ask.profiles import adapt_options, find_profile


def prepare_request(
    provider: Provider, model: str, messages: Iterable[Message], tools: Sequence[ToolSpec] = (), **fields: Any
) -> ChatRequest:
    """Return a request whose tools and tool results are formatted by the provider's hooks, with adapted options."""
    formatted_tools = provider.provider_format_tools(tools) if tools else ()
    profile = find_profile(provider.profiles, model)
    options = adapt_options(profile, model, fields.pop("options", {}), lambda _: None)
    return ChatRequest(
        model, format_results(provider, messages), formatted_tools, options=options, profile=profile, **fields
    )


def format_results(provider: Provider, messages: Iterable[Message]) -> list[Message]:
    """Return messages whose tool results have their `formatted_result`."""
    return format_tool_results(messages, provider)
