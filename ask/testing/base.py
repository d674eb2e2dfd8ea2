# ruff: noqa: S101 - the contract is checked by assertions
"""The base class of the contract tests, which calls the provider's hooks as ask does."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from ask import (
    ChatCompletions,
    ChatRequest,
    HttpRequest,
    Message,
    ModelResponse,
    Provider,
    ProviderInfo,
    RawEvent,
    Responses,
    StreamReader,
    ToolCall,
    ToolSpec,
)
from ask.testing.conversation import KEY, SHORT_CONVERSATION
from ask.testing.responses_samples import RESPONSES_SAMPLES, RESPONSES_WHOLE
from ask.testing.samples import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE

REQUIRED_HOOKS = ("provider_build_request", "provider_stream_reader", "provider_parse_response")
"""The hooks without a default implementation."""
MODULE_HOOKS = ("provider_info", "provider_supports_tools")
"""The hooks that a module must define, too."""
TOOL_HOOKS = ("provider_parse_tool_calls", "provider_format_tool_result")
"""The hooks that a provider must define if any of its models supports tools."""


class ContractBase:
    """The attributes to set (see `ProviderContract`) and the helpers that tests use to call hooks."""

    provider: ClassVar[Provider | ModuleType]
    samples: ClassVar[Mapping[str, Sequence[RawEvent]] | None] = None
    whole: ClassVar[Mapping[str, Mapping[str, Any]] | None] = None

    @property
    def info(self) -> ProviderInfo:
        info = self.call("provider_info")
        assert isinstance(info, ProviderInfo), "provider_info returns a ProviderInfo"
        return info

    @property
    def model(self) -> str:
        return self.info.default_model or "contract-model"

    @property
    def streams(self) -> Mapping[str, Sequence[RawEvent]]:
        if self.samples is not None:
            return self.samples
        if isinstance(self.provider, Responses):
            return RESPONSES_SAMPLES
        return CHAT_COMPLETIONS_SAMPLES if isinstance(self.provider, ChatCompletions) else {}

    @property
    def wholes(self) -> Mapping[str, Mapping[str, Any]]:
        if self.whole is not None:
            return self.whole
        if isinstance(self.provider, Responses):
            return RESPONSES_WHOLE
        return CHAT_COMPLETIONS_WHOLE if isinstance(self.provider, ChatCompletions) else {}

    @property
    def has_tools(self) -> bool:
        """Whether the provider has the hooks that any provider with tools needs."""
        return all(defines_hook(self.provider, hook) for hook in TOOL_HOOKS)

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook as ask does, with only the arguments that it accepts. A module may omit hooks with a default."""
        function = getattr(self.provider, hook, None) or getattr(Provider(self.info), hook)
        return function(**{name: arguments[name] for name in list_host_arguments(function)})

    def takes(self, media_type: str) -> bool:
        """Check whether the provider accepts files of this MIME type."""
        accepted = self.call("provider_supports_attachment", model=self.model, media_type=media_type)
        assert isinstance(accepted, bool), "provider_supports_attachment returns True or False"
        return accepted

    def build(
        self,
        messages: Sequence[Message] = SHORT_CONVERSATION,
        key: str = KEY,
        model: str = "",
        *,
        tools: Sequence[ToolSpec] = (),
        **fields: Any,
    ) -> HttpRequest:
        """Build the request for a conversation, with its tools and tool results formatted by the provider's hooks.

        A provider without tools gets none.
        """
        formatted_messages = [self.format_result(each) if each.role == "tool" else each for each in messages]
        formatted_tools = self.format_tools(tools) if tools and self.has_tools else ()
        request = ChatRequest(model or self.model, formatted_messages, formatted_tools, **fields)
        return self.build_formatted(request, key)

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        formatted = self.call("provider_format_tools", tools=tools)
        assert isinstance(formatted, list), "provider_format_tools returns a list"
        assert all(isinstance(each, dict) for each in formatted), "provider_format_tools returns a list of dicts"
        return formatted

    def format_result(self, message: Message) -> Message:
        """Return a tool result with its `formatted_result`."""
        formatted = self.call(
            "provider_format_tool_result",
            tool_call_id=message.tool_call_id,
            tool_name=message.tool_name,
            result=message.content,
        )
        assert isinstance(formatted, dict), "provider_format_tool_result returns a dict"
        return message._replace(formatted_result=formatted)

    def build_formatted(self, request: ChatRequest, key: str = KEY) -> HttpRequest:
        """Build the HTTP request and check that its body is JSON."""
        http_request = self.call("provider_build_request", request=request, key=key)
        assert isinstance(http_request, HttpRequest), "provider_build_request returns an HttpRequest"
        json.dumps(http_request.body, allow_nan=False)
        return http_request

    def read(self, response: Mapping[str, Any]) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the answer and the tool calls in a response, and check their types."""
        answer = self.call("provider_parse_response", response=response)
        assert isinstance(answer, ModelResponse), "provider_parse_response returns a ModelResponse"
        calls = self.call("provider_parse_tool_calls", response=response)
        assert all(isinstance(call, ToolCall) for call in calls), "provider_parse_tool_calls returns ToolCalls"
        assert all(isinstance(text, str) for call in calls for text in (call.id, call.name, call.arguments))
        assert all(call.id for call in calls), "every call has an id, invented where the provider sends none"
        assert len({call.id for call in calls}) == len(calls), "the calls of one answer have different ids"
        return answer, calls

    def feed(self, events: Iterable[RawEvent]) -> tuple[StreamReader, list[Any]]:
        """Feed events to a new stream reader; return the reader and the deltas."""
        reader = self.call("provider_stream_reader")
        return reader, [delta for event in events for delta in reader.feed(event)]


def list_hook_names() -> list[str]:
    return [name for name in vars(Provider) if name.startswith("provider_")]


def defines_hook(provider: Provider | ModuleType, hook: str) -> bool:
    """Check whether a provider defines a hook. Inheriting the default does not count."""
    if isinstance(provider, ModuleType):
        return callable(vars(provider).get(hook))
    return getattr(getattr(provider, hook), "__func__", None) is not getattr(Provider, hook)


def list_host_arguments(function: Any) -> list[str]:
    """List the parameters that ask passes to a hook: those without a default value."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
