# ruff: noqa: S101 - the contract is checked by assertions
"""The base class of the contract tests, which calls the provider's hooks as ask does."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from ask import (
    Answer,
    ChatCompletions,
    ChatRequest,
    HttpRequest,
    Message,
    Provider,
    ProviderInfo,
    Responses,
    ServerEvent,
    StreamReader,
    ToolCall,
)
from ask.testing.conversation import KEY, SHORT_CONVERSATION
from ask.testing.responses_samples import RESPONSES_SAMPLES, RESPONSES_WHOLE
from ask.testing.samples import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE


class ContractBase:
    """The attributes to set (see `ProviderContract`) and the helpers that tests use to call hooks."""

    provider: ClassVar[Provider | ModuleType]
    samples: ClassVar[Mapping[str, Sequence[ServerEvent]] | None] = None
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
    def streams(self) -> Mapping[str, Sequence[ServerEvent]]:
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

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook as ask does, with only the arguments that it accepts."""
        function = getattr(self.provider, hook)
        return function(**{name: arguments[name] for name in list_host_arguments(function)})

    def takes(self, media_type: str) -> bool:
        """Check whether the provider accepts files of this MIME type."""
        if not hasattr(self.provider, "provider_takes_attachment"):
            return False
        accepted = self.call("provider_takes_attachment", model=self.model, media_type=media_type)
        assert isinstance(accepted, bool), "provider_takes_attachment returns True or False"
        return accepted

    def build(
        self, messages: Sequence[Message] = SHORT_CONVERSATION, key: str = KEY, model: str = "", **fields: Any
    ) -> HttpRequest:
        """Build the request for a conversation and check that its body is JSON."""
        request = ChatRequest(model or self.model, messages, **fields)
        http_request = self.call("provider_build_request", request=request, key=key)
        assert isinstance(http_request, HttpRequest), "provider_build_request returns an HttpRequest"
        json.dumps(http_request.body, allow_nan=False)
        return http_request

    def read(self, response: Mapping[str, Any]) -> tuple[Answer, list[ToolCall]]:
        """Parse the answer and the tool calls in a response, and check their types."""
        answer = self.call("provider_parse_response", response=response)
        assert isinstance(answer, Answer), "provider_parse_response returns an Answer"
        calls = self.call("provider_parse_tool_calls", response=response)
        assert all(isinstance(call, ToolCall) for call in calls), "provider_parse_tool_calls returns ToolCalls"
        assert all(isinstance(text, str) for call in calls for text in (call.id, call.name, call.arguments))
        assert all(call.id for call in calls), "every call has an id, invented where the provider sends none"
        assert len({call.id for call in calls}) == len(calls), "the calls of one answer have different ids"
        return answer, calls

    def feed(self, events: Iterable[ServerEvent]) -> tuple[StreamReader, list[Any]]:
        """Feed events to a new stream reader; return the reader and the deltas."""
        reader = self.call("provider_stream_reader")
        return reader, [delta for event in events for delta in reader.feed(event)]


def list_hook_names() -> list[str]:
    return [name for name in vars(Provider) if name.startswith("provider_")]


def list_host_arguments(function: Any) -> list[str]:
    """List the parameters that ask passes to a hook: those without a default value."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
