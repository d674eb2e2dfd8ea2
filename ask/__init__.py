"""The public door of `ask`, for plugin authors. Nothing here is loaded before it is used.

from ask import ChatCompletions
provider = ChatCompletions(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")

from ask import tool
@tool
def words(text: str) -> int: ...
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing: until `ask.__main__` is loaded, Ctrl-C prints a traceback
if TYPE_CHECKING:
    from typing import Any

    from ask.chat_completions import (
        ChatCompletions,
        arguments_object,
        error_text,
        first_choice,
        invent_id,
        page_text,
        parse_json,
        read_tool_calls,
    )
    from ask.chat_stream import ChatStreamReader, find_error
    from ask.errors import AskError, ConfigError, ProviderError, Remedy
    from ask.hookspecs import hookimpl
    from ask.json_values import as_dict, as_int, as_list, as_number, as_text
    from ask.messages import (
        Answer,
        Attachment,
        Finish,
        Message,
        Native,
        ToolCall,
        ToolSpec,
        Usage,
    )
    from ask.provider import (
        CONTRACT,
        CallDelta,
        ChatRequest,
        Delta,
        HttpRequest,
        ModelInfo,
        Provider,
        ProviderInfo,
        ReasoningDelta,
        ServerEvent,
        StreamReader,
        TextDelta,
        default_remedy,
        model_family,
        retry_after,
    )
    from ask.tool_plugins.functions import as_tool
    from ask.tool_plugins.mark import tool
    from ask.tool_schemas.normalize import normalize_tool
    from ask.tools import Tool, ToolContext, ToolError, ToolResult
    from ask.version import VERSION

_HOMES = {
    "ask.chat_completions": (
        "ChatCompletions",
        "arguments_object",
        "error_text",
        "first_choice",
        "invent_id",
        "page_text",
        "parse_json",
        "read_tool_calls",
    ),
    "ask.chat_stream": ("ChatStreamReader", "find_error"),
    "ask.errors": ("AskError", "ConfigError", "ProviderError", "Remedy"),
    "ask.hookspecs": ("hookimpl",),
    "ask.json_values": ("as_dict", "as_int", "as_list", "as_number", "as_text"),
    "ask.messages": ("Answer", "Attachment", "Finish", "Message", "Native", "ToolCall", "ToolSpec", "Usage"),
    "ask.provider": (
        "CONTRACT",
        "CallDelta",
        "ChatRequest",
        "Delta",
        "HttpRequest",
        "ModelInfo",
        "Provider",
        "ProviderInfo",
        "ReasoningDelta",
        "ServerEvent",
        "StreamReader",
        "TextDelta",
        "default_remedy",
        "model_family",
        "retry_after",
    ),
    "ask.tool_plugins.functions": ("as_tool",),
    "ask.tool_plugins.mark": ("tool",),
    "ask.tool_schemas.normalize": ("normalize_tool",),
    "ask.tools": ("Tool", "ToolContext", "ToolError", "ToolResult"),
    "ask.version": ("VERSION",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CONTRACT",
    "VERSION",
    "Answer",
    "AskError",
    "Attachment",
    "CallDelta",
    "ChatCompletions",
    "ChatRequest",
    "ChatStreamReader",
    "ConfigError",
    "Delta",
    "Finish",
    "HttpRequest",
    "Message",
    "ModelInfo",
    "Native",
    "Provider",
    "ProviderError",
    "ProviderInfo",
    "ReasoningDelta",
    "Remedy",
    "ServerEvent",
    "StreamReader",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "arguments_object",
    "as_dict",
    "as_int",
    "as_list",
    "as_number",
    "as_text",
    "as_tool",
    "default_remedy",
    "error_text",
    "find_error",
    "first_choice",
    "hookimpl",
    "invent_id",
    "model_family",
    "normalize_tool",
    "page_text",
    "parse_json",
    "read_tool_calls",
    "retry_after",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ask' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME_OF[name]), name)
