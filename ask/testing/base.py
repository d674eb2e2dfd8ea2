"""The base class of the contract tests, which calls the provider's hooks as ask does."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import pytest

from ask import (
    ChatCompletions,
    ChatRequest,
    HttpRequest,
    Message,
    ModelInfo,
    ModelResponse,
    Provider,
    ProviderError,
    ProviderInfo,
    RawEvent,
    ReasoningDelta,
    Responses,
    StreamReader,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
)
from ask.batches import BatchApi
from ask.testing.conversation import KEY, SHORT_CONVERSATION
from ask.testing.hook_guard import fail, guard_hook
from ask.testing.responses_samples import RESPONSES_SAMPLES, RESPONSES_WHOLE
from ask.testing.samples import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE
from ask.testing.type_checks import find_type_problem

REQUIRED_HOOKS = ("provider_build_request", "provider_stream_reader", "provider_parse_response")
"""The hooks without a default implementation."""
MODULE_HOOKS = ("provider_info", "provider_supports_tools")
"""The hooks that a module must define, too."""
TOOL_HOOKS = ("provider_parse_tool_calls", "provider_format_tool_result")
"""The hooks that a provider must define if any of its models supports tools."""
FEED, RESPONSE = "feed of the stream reader", "response of the stream reader"
RESULT_TYPES: Mapping[str, Any] = {
    "provider_info": ProviderInfo,
    "provider_supports_tools": bool,
    "provider_supports_attachment": bool,
    "provider_format_tools": list[dict[str, Any]],
    "provider_parse_tool_calls": list[ToolCall],
    "provider_format_tool_result": dict,
    "provider_build_request": HttpRequest,
    "provider_stream_reader": object,
    "provider_parse_response": ModelResponse,
    "provider_parse_error": ProviderError,
    "provider_notice": str,
    "provider_models_request": HttpRequest | None,
    "provider_parse_models": list[ModelInfo],
    "provider_batch": BatchApi | None,
}
"""What each hook that ask.testing calls must return."""


class ContractBase:
    """The attributes to set (see `ProviderContract`) and the helpers that tests use to call hooks."""

    provider: ClassVar[Provider | ModuleType]
    samples: ClassVar[Mapping[str, Sequence[RawEvent]] | None] = None
    whole: ClassVar[Mapping[str, Mapping[str, Any]] | None] = None
    models: ClassVar[Any] = None
    unsupported: ClassVar[Collection[str]] = ()

    @property
    def info(self) -> ProviderInfo:
        info: ProviderInfo = self.call("provider_info")
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

    @property
    def has_own_transport(self) -> bool:
        """Whether the provider sends requests itself, without HTTP."""
        return defines_hook(self.provider, "provider_send")

    def require_tools(self) -> None:
        """Skip the test if the provider has no tools."""
        if not self.has_tools:
            pytest.skip("the provider has no tools")

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook as ask does, with only the arguments that it accepts, and check the type of its result.

        A module may omit hooks with a default.
        """
        __tracebackhide__ = True
        function = getattr(self.provider, hook, None) or getattr(Provider(self.info), hook)
        input_data = next((arguments[name] for name in ("response", "body") if name in arguments), None)
        with guard_hook(hook, input_data):
            result = function(**{name: arguments[name] for name in list_host_arguments(function)})
        problem = find_type_problem(result, RESULT_TYPES[hook])
        if problem:
            fail(f"{hook} {problem}")
        return result

    def takes(self, media_type: str) -> bool:
        """Check whether the provider accepts files of this MIME type."""
        accepted: bool = self.call("provider_supports_attachment", model=self.model, media_type=media_type)
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
        formatted: list[dict[str, Any]] = self.call("provider_format_tools", tools=tools)
        return formatted

    def format_result(self, message: Message) -> Message:
        """Return a tool result with its `formatted_result`."""
        formatted = self.call(
            "provider_format_tool_result",
            tool_call_id=message.tool_call_id,
            tool_name=message.tool_name,
            result=message.content,
        )
        return message._replace(formatted_result=formatted)

    def build_formatted(self, request: ChatRequest, key: str = KEY) -> HttpRequest:
        """Build the HTTP request and check that its body is JSON."""
        __tracebackhide__ = True
        http_request: HttpRequest = self.call("provider_build_request", request=request, key=key)
        try:
            json.dumps(http_request.body, allow_nan=False)
        except (TypeError, ValueError) as error:
            fail(
                f"provider_build_request returned a body that is not JSON ({error}). Use only JSON values in the body."
            )
        return http_request

    def read(self, response: Mapping[str, Any]) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the answer and the tool calls in a response."""
        answer: ModelResponse = self.call("provider_parse_response", response=response)
        return answer, self.call("provider_parse_tool_calls", response=response)

    def feed(self, events: Iterable[RawEvent]) -> tuple[StreamReader, list[Any]]:
        """Feed events to a new stream reader; return the reader and the deltas."""
        __tracebackhide__ = True
        reader = self.call("provider_stream_reader")
        deltas: list[Any] = []
        for event in events:
            deltas += self.feed_event(reader, event)
        return reader, deltas

    def feed_event(self, reader: StreamReader, event: RawEvent) -> list[Any]:
        __tracebackhide__ = True
        with guard_hook(FEED, event.data):
            deltas = reader.feed(event)
        problem = find_type_problem(deltas, list[TextDelta | ReasoningDelta | ToolCallDelta])
        if problem:
            fail(f"{FEED} {problem}")
        return deltas

    def get_response(self, reader: StreamReader) -> dict[str, Any]:
        """Return a reader's response, which must be JSON."""
        __tracebackhide__ = True
        with guard_hook(RESPONSE):
            response = reader.response()
        problem = find_type_problem(response, dict)
        if problem:
            fail(f"{RESPONSE} {problem}")
        return response

    def read_stream(self, kind: str) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the streamed sample of a kind."""
        return self.read(self.get_response(self.feed(self.streams[kind])[0]))


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
