"""The public API of `ask` for plugin authors.

A provider for a service with OpenAI's Chat Completions API:

    from ask import ChatCompletions
    provider = ChatCompletions(name="groq", base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY")

A tool:

    from ask import tool
    @tool
    def count_words(text: str) -> int: ...

Base classes of providers:

    Provider          the specification of every hook, with its default
    ChatCompletions   a provider that uses OpenAI's Chat Completions API
    Responses         a provider that uses OpenAI's Responses API
    BatchApi          a batch API, which the hook `provider_batch` returns
    DecisionApi       a decisions API, which the hook `provider_decisions` returns

What the hooks of a provider get and return:

    ProviderInfo      the description of a provider
    ChatRequest       one request to a model
    Message           one message of a conversation
    Attachment        a file in a message
    ToolSpec          a tool that the model may call
    HttpRequest       an HTTP request for ask to send
    StreamReader      the protocol of the object that reads one stream
    RawEvent          one event of a stream
    Delta             what a stream reader returns for an event: any of the next four
    TextDelta         a piece of the answer's text
    ReasoningDelta    a piece of the model's reasoning
    ToolCallDelta     the start of a tool call
    ServerToolDelta   a call of a tool that the service ran itself
    ModelResponse     a model's answer
    Citation          a source of an answer
    ServerToolCall    a call of a tool that the service ran itself, with its result
    FinishReason      the reason why an answer ended
    Usage             the tokens that an answer used, and its cost
    ToolCall          a tool call requested by the model
    ProviderState     provider-specific parts of a message, to send back in later requests
    ModelInfo         one entry of a provider's models list
    ModelProfile      what is known about a family of models, for `Provider.profiles`

What the methods of a `BatchApi` get and return:

    Batch             the state of a batch
    BatchPage         one page of a list of batches
    BatchRequest      one request of a batch
    BatchResult       the result of one request
    ResultsRequest    a request for the results of a batch

What the methods of a `DecisionApi` get and return:

    DecisionRequest   one request: questions about a conversation
    DecisionQuestion  a question with a fixed set of answers
    DecisionResponse  the response
    DecisionAnswer    the answer to one question

Errors:

    AskError          an error that ends the run with a one-line message
    ProviderError     an error response of a provider
    RetryAction       what ask does after a ProviderError

Loaders:

    PromptTemplate    a template that a loader returns; text and attachments are str and Attachment

Tools:

    tool              the decorator that marks a function as a tool
    Tool              a tool that is not made from a function
    ToolContext       the parts of a run that a tool may use
    ToolResult        the result of a call
    ToolError         an error that the model gets as the result of a call

The interface itself:

    API_VERSION       the version of the plugin API

Functions for parsing responses are in `ask.parsing`, and the tests for plugins in `ask.testing`. `help(ask.Provider)`
and the like describe the names above. The guides are docs/providers.md, docs/tools.md and docs/loaders.md.
"""

from __future__ import annotations

import sys

# Not imported from typing: until `ask.__main__` is loaded, Ctrl-C prints a traceback, so imports are kept short.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ask.errors import AskError, ProviderError, RetryAction
    from ask.messages import (
        Attachment,
        Citation,
        DecisionAnswer,
        DecisionQuestion,
        Delta,
        FinishReason,
        Message,
        ModelResponse,
        ProviderState,
        RawEvent,
        ReasoningDelta,
        ServerToolCall,
        ServerToolDelta,
        TextDelta,
        ToolCall,
        ToolCallDelta,
        ToolSpec,
        Usage,
    )
    from ask.plugin_api.chat_completions import ChatCompletions
    from ask.plugin_api.compatibility import API_VERSION
    from ask.plugin_api.provider import BatchApi, DecisionApi, Provider
    from ask.plugin_api.responses import Responses
    from ask.plugin_api.types import (
        Batch,
        BatchPage,
        BatchRequest,
        BatchResult,
        ChatRequest,
        DecisionRequest,
        DecisionResponse,
        HttpRequest,
        ModelInfo,
        PromptTemplate,
        ProviderInfo,
        ResultsRequest,
        StreamReader,
    )
    from ask.profiles import ModelProfile
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
    "Citation",
    "DecisionAnswer",
    "DecisionApi",
    "DecisionQuestion",
    "DecisionRequest",
    "DecisionResponse",
    "Delta",
    "FinishReason",
    "HttpRequest",
    "Message",
    "ModelInfo",
    "ModelProfile",
    "ModelResponse",
    "PromptTemplate",
    "Provider",
    "ProviderError",
    "ProviderInfo",
    "ProviderState",
    "RawEvent",
    "ReasoningDelta",
    "Responses",
    "ResultsRequest",
    "RetryAction",
    "ServerToolCall",
    "ServerToolDelta",
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
    "ask.messages": (
        "Attachment Citation DecisionAnswer DecisionQuestion Delta FinishReason Message ModelResponse ProviderState "
        "RawEvent ReasoningDelta ServerToolCall ServerToolDelta TextDelta ToolCall ToolCallDelta ToolSpec Usage"
    ),
    "ask.plugin_api.chat_completions": "ChatCompletions",
    "ask.plugin_api.compatibility": "API_VERSION",
    "ask.plugin_api.provider": "BatchApi DecisionApi Provider",
    "ask.plugin_api.responses": "Responses",
    "ask.profiles": "ModelProfile",
    "ask.tools.base": "Tool ToolContext ToolError ToolResult",
    "ask.tools.plugins.functions": "tool",
}
_MODULE_BY_NAME = {name: module for module, names in _MODULES.items() for name in names.split()}


class _Package(type(sys)):  # type: ignore[misc]  # the type of modules, without loading `types`
    """The class of this module. Its properties are the public names, each imported on first use.

    An interactive session completes them, but `dir` does not list them, so that `help(ask)` is the docstring above and
    not the documentation of all classes.
    """


def _add_name(name: str) -> None:
    def get_name(_: object) -> Any:
        module = __import__(_MODULE_BY_NAME.get(name, "ask.plugin_api.types"), fromlist=[name])
        return getattr(module, name)

    setattr(_Package, name, property(get_name))


class _PackageFinder:
    """Finds every module in the folder, but lists only the public ones, for `help(ask)` and `pkgutil`."""

    def __init__(self, folder: str) -> None:
        finder: Any
        for create_finder in sys.path_hooks:
            try:
                finder = create_finder(folder)
            except ImportError:
                continue
            self.find_spec, self.invalidate_caches = finder.find_spec, finder.invalidate_caches
            sys.path_importer_cache[folder] = self
            return

    def iter_modules(self, prefix: str = "") -> list[tuple[str, bool]]:
        return [(f"{prefix}parsing", False), (f"{prefix}testing", True)]


for _name in __all__:
    _add_name(_name)
sys.modules[__name__].__class__ = _Package
_PackageFinder(__path__[0])
