"""The base class of the contract tests. It calls the provider's hooks as ask does, and watches what they do.

A test fails if a hook makes a mistake that ask finds, or does what `ask.testing.blocked_actions` forbids.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import pytest

from ask import (
    BatchApi,
    ChatCompletions,
    ChatRequest,
    Delta,
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
from ask.parsing import DONE_DATA
from ask.plugin_api.loaded_provider import FEED, RESPONSE, LoadedProvider
from ask.plugin_api.provider import TOOL_HOOKS, format_tool_results
from ask.plugin_api.provider_loading import check_provider, defines_hook
from ask.testing.blocked_actions import guard_hook, limit_hooks
from ask.testing.conversation import KEY, SHORT_CONVERSATION, shorten
from ask.testing.samples import (
    EXPECTED,
    RESPONSES_SAMPLES,
    RESPONSES_UNSTREAMED,
    make_chat_samples,
)


class UntestedWarning(UserWarning):
    """Names a part of the contract that a run could not test."""


class DirectoryContract:
    """Runs each test of a contract in a working directory of its own."""

    def prepare(self, directory: Path) -> None:
        """Create in the working directory what the calls need. Override it; the default creates nothing."""

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        self.prepare(tmp_path)


def fail(message: str) -> NoReturn:
    """Fail the test with a message, without a traceback."""
    __tracebackhide__ = True
    pytest.fail(message, pytrace=False)


@cache
def load_provider(provider: Provider | ModuleType) -> LoadedProvider:
    """Load a provider as ask does.

    Raises:
        ConfigError: it is not valid.
    """
    return limit_hooks(check_provider(provider, "to test", ""))


class CheckedReader:
    """A stream reader whose `feed` must return a list, as documented."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader

    @property
    def complete(self) -> bool:
        return self.reader.complete

    def response(self) -> dict[str, Any]:
        return self.reader.response()

    def feed(self, event: RawEvent) -> list[Delta]:
        __tracebackhide__ = True
        deltas = self.reader.feed(event)
        if not isinstance(deltas, list | tuple):
            fail(
                f"{FEED} returned {shorten(str(deltas))}, an object of type {type(deltas).__name__}, for the event "
                f"{shorten(event.data)}. Return a list of deltas, [] for none; a function with `yield` returns a "
                "generator."
            )
        return list(deltas)


def copy_request(request: HttpRequest, source: str) -> HttpRequest:
    """Check that the body of a request is JSON; return a copy, which later calls cannot change."""
    __tracebackhide__ = True
    try:
        body = json.dumps(request.body, allow_nan=False)
    except (TypeError, ValueError) as error:
        fail(f"{source} returned a body that is not JSON ({error}). Use only JSON values in the body.")
    return request._replace(body=json.loads(body), headers=dict(request.headers))


def remove_end_markers(events: Sequence[RawEvent]) -> list[RawEvent]:
    """Return the events that reach a reader: ask takes "[DONE]" as the end of the stream, and does not pass it on."""
    return [event for event in events if event.data.strip() != DONE_DATA]


class ContractBase:
    """The attributes to set (see `ProviderContract`) and the helpers that tests use to call hooks."""

    provider: ClassVar[Provider | ModuleType]
    samples: ClassVar[Mapping[str, Sequence[RawEvent]] | None] = None
    unstreamed_samples: ClassVar[Mapping[str, Mapping[str, Any]] | None] = None
    models: ClassVar[Any] = None
    model: ClassVar[str] = ""
    unsupported: ClassVar[Collection[str]] = ()

    @property
    def loaded(self) -> LoadedProvider:
        return load_provider(self.provider)

    @property
    def info(self) -> ProviderInfo:
        return self.loaded.info

    @property
    def model_name(self) -> str:
        return self.model or self.info.default_model or "contract-model"

    @property
    def streams(self) -> Mapping[str, Sequence[RawEvent]]:
        return self.default_samples[0] if self.samples is None else self.samples

    @property
    def given_responses(self) -> Mapping[str, Mapping[str, Any]]:
        """The answers without streaming, as far as the test class has them."""
        return self.default_samples[1] if self.unstreamed_samples is None else self.unstreamed_samples

    @property
    def responses(self) -> Mapping[str, Mapping[str, Any]]:
        """The answers without streaming; those that are missing are what the stream reader makes of the streams."""
        made_up: dict[str, Mapping[str, Any]] = {}
        for kind in self.list_unconfirmed_kinds():
            with suppress(Exception, pytest.fail.Exception):  # the tests of the streams report it
                made_up[kind] = self.get_streamed_response(kind)
        return deepcopy({**made_up, **self.given_responses})  # a hook may change what it gets

    def list_unconfirmed_kinds(self) -> list[str]:
        """List the kinds of streamed answers without an unstreamed sample. A program never answers without events."""
        if self.has_own_transport:
            return []
        given = self.given_responses
        return [kind for kind in EXPECTED if kind != "cut" and kind in self.streams and kind not in given]

    @property
    def default_samples(self) -> tuple[Mapping[str, Sequence[RawEvent]], Mapping[str, Mapping[str, Any]]]:
        """The built-in samples for the provider's base class, streamed and not."""
        if isinstance(self.provider, Responses):
            return RESPONSES_SAMPLES, RESPONSES_UNSTREAMED
        if isinstance(self.provider, ChatCompletions):
            return make_chat_samples(thinks_in_content="content" in self.provider.state_fields)
        return {}, {}

    @property
    def has_tools(self) -> bool:
        """Whether the provider has the hooks that any provider with tools needs."""
        return all(defines_hook(self.provider, hook) for hook in TOOL_HOOKS)

    @property
    def has_own_transport(self) -> bool:
        """Whether the provider sends requests itself, without HTTP."""
        return defines_hook(self.provider, "provider_send")

    def passes(self, *names: str) -> bool:
        """Check whether other tests of the class pass, on whose subjects a test builds: one mistake is one failure."""
        test_class: Any = type(self)
        return all(_passes(test_class, name) for name in names)

    def require_tools(self) -> None:
        """Skip the test if the provider has no tools."""
        if not self.has_tools:
            pytest.skip("the provider has no tools")

    def call(self, hook: str, **arguments: Any) -> Any:
        """Call a hook as ask does, and check the type of its result."""
        __tracebackhide__ = True
        with guard_hook(hook, arguments.get("response", arguments.get("body"))):
            return getattr(self.loaded.hooks, hook)(**arguments)

    def takes(self, media_type: str) -> bool:
        """Check whether the provider accepts files of this MIME type."""
        return bool(self.call("provider_supports_attachment", model=self.model_name, media_type=media_type))

    def takes_in_result(self, media_type: str) -> bool:
        """Check whether the provider sends files of this MIME type inside tool results."""
        return bool(self.call("provider_supports_result_attachment", model=self.model, media_type=media_type))

    def takes_in_answer(self, media_type: str) -> bool:
        """Check whether the provider sends generated images of this MIME type inside answers."""
        return bool(self.call("provider_supports_answer_attachment", model=self.model, media_type=media_type))

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
        formatted_tools = self.format_tools(tools) if tools and self.has_tools else ()
        fields = deepcopy(fields)  # a hook may change what it gets
        request = ChatRequest(model or self.model_name, self.format_results(messages), formatted_tools, **fields)
        return self.build_formatted(request, key)

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        formatted: list[dict[str, Any]] = self.call("provider_format_tools", tools=deepcopy(tools))
        return formatted

    def format_results(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages whose tool results have the `formatted_result` of the provider's hook."""
        with guard_hook("provider_format_tool_result"):
            return format_tool_results(messages, self.loaded.hooks)

    def build_formatted(self, request: ChatRequest, key: str = KEY) -> HttpRequest:
        """Build the HTTP request and check that its body is JSON; return a copy, which later calls cannot change."""
        __tracebackhide__ = True
        hook = "provider_build_request"
        return copy_request(self.call(hook, request=request, key=key), hook)

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API, which checks the types of its results."""
        with guard_hook("provider_batch"):
            return self.loaded.get_batch_api()

    def read(self, response: Mapping[str, Any]) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the answer and the tool calls in a response."""
        return self.call("provider_parse_response", response=response), self.parse_tool_calls(response)

    def parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        __tracebackhide__ = True
        with guard_hook("provider_parse_tool_calls", response):
            return self.loaded.parse_tool_calls(response)

    def open_reader(self) -> StreamReader:
        """Return a new stream reader."""
        with guard_hook("provider_stream_reader"):
            return self.loaded.hooks.provider_stream_reader()

    def feed(self, events: Sequence[RawEvent], reader: StreamReader | None = None) -> tuple[StreamReader, list[Delta]]:
        """Feed events to a stream reader, by default a new one; return the reader and the deltas."""
        __tracebackhide__ = True
        reader = reader or self.open_reader()
        deltas: list[Delta] = []
        with guard_hook(FEED, [event.data for event in events]):
            self.loaded.feed(CheckedReader(reader), remove_end_markers(events), deltas)
        return reader, deltas

    def get_response(self, reader: StreamReader) -> dict[str, Any]:
        __tracebackhide__ = True
        with guard_hook(RESPONSE):
            return self.loaded.get_response(reader)

    def get_streamed_response(self, kind: str) -> dict[str, Any]:
        """Return what a stream reader makes of the streamed sample of a kind."""
        return self.get_response(self.feed(self.streams[kind])[0])

    def read_stream(self, kind: str) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the streamed sample of a kind."""
        return self.read(self.get_streamed_response(kind))


def warn_author(test_class: type, text: str) -> None:
    """Warn at the class statement of a test class, even if the author's project turns warnings into errors."""
    file, line_number = test_class.__module__, 1
    with suppress(OSError, TypeError):  # it may have been created in another way
        file, line_number = inspect.getfile(test_class), inspect.getsourcelines(test_class)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn_explicit(text, UntestedWarning, file, line_number)


@cache
def _passes(test_class: type[ContractBase], name: str) -> bool:
    test = getattr(test_class(), name)
    try:
        if test is not None:  # a subclass may have removed it
            test()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the test itself reports it
        return False
    except pytest.skip.Exception:
        return True
    return True
