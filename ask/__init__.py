"""The public API of `ask` for plugin authors. Each name is imported on first use.

from ask import ChatCompletions
provider = ChatCompletions(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")

from ask import tool
@tool
def words(text: str) -> int: ...
"""

from __future__ import annotations

# Not imported from typing: until `ask.__main__` is loaded, Ctrl-C prints a traceback, so imports are kept short.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ask.errors import AskError, ConfigError, ProviderError, Remedy
    from ask.messages import Answer, Attachment, Finish, Message, Native, ToolCall, ToolSpec, Usage
    from ask.parsing import (
        arguments_object,
        as_dict,
        as_int,
        as_list,
        as_number,
        as_text,
        error_text,
        find_error,
        page_text,
        parse_json,
    )
    from ask.plugin_api.chat_completions import (
        ChatCompletions,
        ChatStreamReader,
        first_choice,
        invent_id,
        read_tool_calls,
    )
    from ask.plugin_api.loader import hookimpl
    from ask.plugin_api.provider import (
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
        model_family,
    )
    from ask.plugin_api.responses import Responses
    from ask.plugin_api.tool_schemas import normalize_tool
    from ask.retries import default_remedy, retry_after
    from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
    from ask.tools.plugins.functions import as_tool, tool
    from ask.version import VERSION

_EXPORTS_BY_MODULE = {
    "ask.errors": "AskError ConfigError ProviderError Remedy",
    "ask.messages": "Answer Attachment Finish Message Native ToolCall ToolSpec Usage",
    "ask.parsing": (
        "arguments_object as_dict as_int as_list as_number as_text error_text find_error page_text parse_json"
    ),
    "ask.plugin_api.chat_completions": "ChatCompletions ChatStreamReader first_choice invent_id read_tool_calls",
    "ask.plugin_api.loader": "hookimpl",
    "ask.plugin_api.provider": (
        "CONTRACT CallDelta ChatRequest Delta HttpRequest ModelInfo Provider ProviderInfo ReasoningDelta "
        "ServerEvent StreamReader TextDelta model_family"
    ),
    "ask.plugin_api.responses": "Responses",
    "ask.plugin_api.tool_schemas": "normalize_tool",
    "ask.retries": "default_remedy retry_after",
    "ask.tools.base": "Tool ToolContext ToolError ToolResult",
    "ask.tools.plugins.functions": "as_tool tool",
    "ask.version": "VERSION",
}
_MODULE_BY_EXPORT = {name: module for module, names in _EXPORTS_BY_MODULE.items() for name in names.split()}

__all__ = ["CONTRACT", "VERSION", "Answer", "AskError", "Attachment", "CallDelta", "ChatCompletions", "ChatRequest"]
__all__ += ["ChatStreamReader", "ConfigError", "Delta", "Finish", "HttpRequest", "Message", "ModelInfo", "Native"]
__all__ += [
    "Provider",
    "ProviderError",
    "ProviderInfo",
    "ReasoningDelta",
    "Remedy",
    "Responses",
    "ServerEvent",
    "StreamReader",
]
__all__ += ["TextDelta", "Tool", "ToolCall", "ToolContext", "ToolError", "ToolResult", "ToolSpec", "Usage"]
__all__ += ["arguments_object", "as_dict", "as_int", "as_list", "as_number", "as_text", "as_tool", "default_remedy"]
__all__ += ["error_text", "find_error", "first_choice", "hookimpl", "invent_id", "model_family", "normalize_tool"]
__all__ += ["page_text", "parse_json", "read_tool_calls", "retry_after", "tool"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_EXPORT:
        raise AttributeError(f"module 'ask' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_BY_EXPORT[name]), name)
