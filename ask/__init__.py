"""The public API of `ask` for plugin authors.

A provider for a service with OpenAI's Chat Completions API:

    from ask import ChatCompletions
    provider = ChatCompletions(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")

A tool:

    from ask import tool
    @tool
    def count_words(text: str) -> int: ...

Base classes of providers:

    Provider         the specification of every hook, with its default
    ChatCompletions  a provider that uses OpenAI's Chat Completions API
    Responses        a provider that uses OpenAI's Responses API
    BatchApi         a batch API, which the hook `provider_batch` returns

What the hooks of a provider get and return:

    ProviderInfo     the description of a provider
    ChatRequest      one request to a model
    Message          one message of a conversation
    Attachment       a file in a message
    ToolSpec         a tool that the model may call
    HttpRequest      an HTTP request for ask to send
    StreamReader     the protocol of the object that reads one stream
    RawEvent         one event of a stream
    Delta            what a stream reader returns for an event: any of the next three
    TextDelta        a piece of the answer's text
    ReasoningDelta   a piece of the model's reasoning
    ToolCallDelta    the start of a tool call
    ModelResponse    a model's answer
    FinishReason     the reason why an answer ended
    Usage            the tokens that an answer used, and its cost
    ToolCall         a tool call requested by the model
    ProviderState    provider-specific parts of a message, to send back in later requests
    ModelInfo        one entry of a provider's models list

What the methods of a `BatchApi` get and return:

    Batch            the state of a batch
    BatchPage        one page of a list of batches
    BatchRequest     one request of a batch
    BatchResult      the result of one request
    ResultsRequest   a request for the results of a batch

Errors:

    AskError         an error that ends the run with a one-line message
    ProviderError    an error response of a provider
    RetryAction      what ask does after a ProviderError

Tools:

    tool             the decorator that marks a function as a tool
    Tool             a tool that is not made from a function
    ToolContext      the parts of a run that a tool may use
    ToolResult       the result of a call
    ToolError        an error that the model gets as the result of a call

    API_VERSION      the version of the plugin API

Functions for parsing responses are in `ask.parsing`, and the tests for plugins in `ask.testing`. The guides are
docs/providers.md and docs/tools.md. Each name is imported on first use.
"""

from __future__ import annotations

# Not imported from typing: until `ask.__main__` is loaded, Ctrl-C prints a traceback, so imports are kept short.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ask.errors import AskError, ProviderError, RetryAction
    from ask.messages import Attachment, FinishReason, Message, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
    from ask.plugin_api.chat_completions import ChatCompletions
    from ask.plugin_api.provider import API_VERSION, BatchApi, Provider
    from ask.plugin_api.responses import Responses
    from ask.plugin_api.types import (
        Batch,
        BatchPage,
        BatchRequest,
        BatchResult,
        ChatRequest,
        Delta,
        HttpRequest,
        ModelInfo,
        ProviderInfo,
        RawEvent,
        ReasoningDelta,
        ResultsRequest,
        StreamReader,
        TextDelta,
        ToolCallDelta,
    )
    from ask.tools.base import Tool, ToolContext, ToolError, ToolResult
    from ask.tools.plugins.functions import tool

__all__ = [
    "API_VERSION",
    "AskError",
    "Attachment",
    "Batch",
    "BatchApi",
    "BatchPage",
    "BatchRequest",
    "BatchResult",
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
    "ResultsRequest",
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
__version__ = "0.1.0"  # a constant, because reading the installed metadata would slow down `ask --version`
__distribution__ = "ask-gents"
_MODULES = {
    "ask.errors": "AskError ProviderError RetryAction",
    "ask.messages": "Attachment FinishReason Message ModelResponse ProviderState ToolCall ToolSpec Usage",
    "ask.plugin_api.chat_completions": "ChatCompletions",
    "ask.plugin_api.provider": "API_VERSION BatchApi Provider",
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

        return getattr(import_module(_MODULE_BY_NAME.get(name, "ask.plugin_api.types")), name)


def __dir__() -> list[str]:
    return __all__
