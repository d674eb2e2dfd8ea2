"""The public API of `ask` for plugin authors. Each name is imported on first use.

A provider for a compatible service:

    from ask import ChatCompletions
    provider = ChatCompletions(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")

A tool:

    from ask import tool
    @tool
    def count_words(text: str) -> int: ...

Helpers for parsing responses are in `ask.parsing`, and the tests for plugins in `ask.testing`.
"""

from __future__ import annotations

# Not imported from typing: until `ask.__main__` is loaded, Ctrl-C prints a traceback, so imports are kept short.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ask.errors import AskError, ProviderError, RetryAction
    from ask.messages import Attachment, FinishReason, Message, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
    from ask.plugin_api.chat_completions import ChatCompletions
    from ask.plugin_api.provider import (
        API_VERSION,
        ChatRequest,
        Delta,
        HttpRequest,
        ModelInfo,
        Provider,
        ProviderInfo,
        RawEvent,
        ReasoningDelta,
        StreamReader,
        TextDelta,
        ToolCallDelta,
    )
    from ask.plugin_api.responses import Responses
    from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
    from ask.tools.plugins.functions import tool

__all__ = [
    "API_VERSION",
    "AskError",
    "Attachment",
    "ChatCompletions",
    "ChatRequest",
    "Delta",
    "FinishReason",
    "HttpRequest",
    "Message",
    "ModelInfo",
    "ModelResponse",
    "Provider",
    "ProviderError",
    "ProviderInfo",
    "ProviderState",
    "RawEvent",
    "ReasoningDelta",
    "Responses",
    "RetryAction",
    "StreamReader",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "tool",
]
_MODULES = {
    "ask.errors": "AskError ProviderError RetryAction",
    "ask.messages": "Attachment FinishReason Message ModelResponse ProviderState ToolCall ToolSpec Usage",
    "ask.plugin_api.chat_completions": "ChatCompletions",
    "ask.plugin_api.responses": "Responses",
    "ask.tools.base": "Tool ToolContext ToolError ToolResult",
    "ask.tools.plugins.functions": "tool",
}
_MODULE_BY_NAME = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'ask' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_MODULE_BY_NAME.get(name, "ask.plugin_api.provider")), name)


def __dir__() -> list[str]:
    return __all__
