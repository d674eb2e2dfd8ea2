"""The base class of the contract tests. It calls the provider's hooks as ask does, and watches what they do.

A test fails if a hook makes a mistake that ask finds, uses the network, starts a process, or prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
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
from ask.errors import PluginError
from ask.plugin_api.loaded_provider import FEED, RESPONSE, LoadedProvider
from ask.plugin_api.loader import check_provider, defines_hook
from ask.plugin_api.provider import TOOL_HOOKS, format_tool_results
from ask.testing.conversation import KEY, SHORT_CONVERSATION
from ask.testing.samples import CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE, RESPONSES_SAMPLES, RESPONSES_WHOLE

HOOK_TIMEOUT = 5.0
"""The time limit for one call of a hook, in seconds."""
PROCESS_AUDIT_EVENTS = ("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn")
BLOCKED_AUDIT_EVENTS = {
    "socket.": "used the network",
    **dict.fromkeys(PROCESS_AUDIT_EVENTS, "started a process"),
    "time.sleep": "called time.sleep",
}
"""What a hook has done, by the prefix of the audit event (https://docs.python.org/3/library/audit_events.html)."""
HARMLESS_AUDIT_EVENTS = frozenset({"socket.__new__", "socket.gethostname"})
PURE = "Hooks must not do I/O, wait or print: ask sends the requests and shows the output"

_running_hook: str = ""
_violations: list[str] = []
_notices: list[str] = []


def fail(message: str) -> NoReturn:
    """Fail the test with a message, without the traceback of the kit."""
    __tracebackhide__ = True
    pytest.fail(message, pytrace=False)


@cache
def load_provider(provider: Provider | ModuleType) -> LoadedProvider:
    """Load a provider as ask does.

    Raises:
        ConfigError: it is not valid.
    """
    return check_provider(provider, "to test", "").with_limits(HOOK_TIMEOUT, _notices.append)


@contextmanager
def guard_hook(hook: str, input_data: object = None) -> Iterator[None]:
    """Call a hook of a loaded provider in the block, and fail the test if it makes a mistake.

    Any `AskError` that the hook may raise passes through. `input_data` is shown with a mistake.
    """
    __tracebackhide__ = True
    global _running_hook  # noqa: PLW0603 - read by the audit hook, which cannot be removed
    _install_audit_hook()
    _violations.clear()
    _notices.clear()
    mistake: PluginError | None = None
    _running_hook = hook
    try:
        # ask captures what is written to file descriptors 1 and 2; pytest's own streams do not write there.
        with redirect_stdout(sys.__stdout__), redirect_stderr(sys.__stderr__):
            yield
    except PluginError as error:
        mistake = error
    finally:
        _running_hook = ""
        if _violations:
            fail(f"{hook} {_violations[0]}. {PURE}.")
        if any(KEY in notice for notice in _notices):
            fail(f"{hook} printed the API key. Remove the output: the key must not reach any log.")
        if _notices:
            fail(f"{_notices[0]}. {PURE}, so remove the output.")
    if mistake:
        shown = "" if input_data is None else f" for {str(input_data)[:500]!r}"
        raise AssertionError(f"{mistake.message}{shown}") from mistake.__cause__


@cache
def _install_audit_hook() -> None:
    """Forbid network access and processes while a hook is running."""

    def check_event(event: str, arguments: tuple[Any, ...]) -> None:
        if not _running_hook or event in HARMLESS_AUDIT_EVENTS:
            return
        for prefix, action in BLOCKED_AUDIT_EVENTS.items():
            if event.startswith(prefix):
                detail = ", ".join(repr(each) for each in arguments if isinstance(each, str | tuple | int))
                _violations.append(f"{action} ({event} {detail})".replace(" )", ")"))
                raise PermissionError(f"{_running_hook} {action}")

    sys.addaudithook(check_event)


class ContractBase:
    """The attributes to set (see `ProviderContract`) and the helpers that tests use to call hooks."""

    provider: ClassVar[Provider | ModuleType]
    samples: ClassVar[Mapping[str, Sequence[RawEvent]] | None] = None
    whole: ClassVar[Mapping[str, Mapping[str, Any]] | None] = None
    models: ClassVar[Any] = None
    unsupported: ClassVar[Collection[str]] = ()

    @property
    def loaded(self) -> LoadedProvider:
        return load_provider(self.provider)

    @property
    def info(self) -> ProviderInfo:
        return self.loaded.info

    @property
    def model(self) -> str:
        return self.info.default_model or "contract-model"

    @property
    def streams(self) -> Mapping[str, Sequence[RawEvent]]:
        return self.default_samples[0] if self.samples is None else self.samples

    @property
    def wholes(self) -> Mapping[str, Mapping[str, Any]]:
        return self.default_samples[1] if self.whole is None else self.whole

    @property
    def default_samples(self) -> tuple[Mapping[str, Sequence[RawEvent]], Mapping[str, Mapping[str, Any]]]:
        """The built-in samples for the provider's base class, streamed and not."""
        if isinstance(self.provider, Responses):
            return RESPONSES_SAMPLES, RESPONSES_WHOLE
        return (
            (CHAT_COMPLETIONS_SAMPLES, CHAT_COMPLETIONS_WHOLE)
            if isinstance(self.provider, ChatCompletions)
            else ({}, {})
        )

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
        """Call a hook as ask does, and check the type of its result."""
        __tracebackhide__ = True
        with guard_hook(hook, arguments.get("response", arguments.get("body"))):
            return getattr(self.loaded.hooks, hook)(**arguments)

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
        formatted_tools = self.format_tools(tools) if tools and self.has_tools else ()
        request = ChatRequest(model or self.model, self.format_results(messages), formatted_tools, **fields)
        return self.build_formatted(request, key)

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        formatted: list[dict[str, Any]] = self.call("provider_format_tools", tools=tools)
        return formatted

    def format_results(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages whose tool results have the `formatted_result` of the provider's hook."""
        with guard_hook("provider_format_tool_result"):
            return format_tool_results(messages, self.loaded.hooks)

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
            self.loaded.feed(reader, events, deltas)
        return reader, deltas

    def get_response(self, reader: StreamReader) -> dict[str, Any]:
        """Return a reader's response."""
        __tracebackhide__ = True
        with guard_hook(RESPONSE):
            return self.loaded.get_response(reader)

    def read_stream(self, kind: str) -> tuple[ModelResponse, list[ToolCall]]:
        """Parse the streamed sample of a kind."""
        return self.read(self.get_response(self.feed(self.streams[kind])[0]))
