"""Calls of a provider's hooks. What they return is checked, so that a plugin's mistake is reported as the plugin's."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from types import FrameType, NoneType
from typing import TYPE_CHECKING, Any

from ask.errors import AskError, MissingDependencyError, NetworkError, PluginError, ProviderError, SignalExit
from ask.messages import FinishReason, ModelResponse, ProviderState, ToolCall, ToolSpec, Usage
from ask.plugin_api.provider import (
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
from ask.profiles import ModelProfile, find_profile
from ask.text import format_one_line

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ask.plugin_api.batches import BatchApi


FEED, RESPONSE = "feed of its stream reader", "response of its stream reader"
MAX_VALUE_LENGTH = 60
"""The limit for a value in an error message, in characters."""
FIELD_TYPES: Mapping[type, Sequence[type | tuple[type, ...]]] = {
    ToolCall: (str, str, str),
    ModelResponse: (str, str, FinishReason, Usage, (ProviderState, NoneType), str),
    Usage: (*[(int, NoneType)] * 4, (int, float, NoneType)),
    HttpRequest: (str, (Mapping, NoneType), Mapping, str, bytes),
    TextDelta: (str,),
    ReasoningDelta: (str,),
    ToolCallDelta: (int, str),
    ModelInfo: (
        *(str, str, (int, NoneType), (bool, NoneType)),
        *[(int, float, NoneType)] * 3,
        *((int, NoneType), (tuple, NoneType)),
    ),
}
"""The types of the fields of what hooks return, in order."""


class LoadedProvider:
    """A provider whose hooks were checked when it was loaded. Each method calls one hook.

    Any exception other than an `AskError`, a result of the wrong type, and a hook that takes too long raise
    `PluginError`. What a hook prints is passed to `notify`; it never reaches standard output.

    Args:
        hooks: calls the hooks of this provider.
        info: the provider's description.
        is_builtin: whether the provider comes with ask. Its hooks print nothing and do not wait, so its calls need
            neither redirection nor a time limit.
        plugin: the object that implements the hooks.
        profiles: what is known about the models; see `Provider.profiles`.
        missing_tool_hooks: the hooks that the provider lacks although any provider that supports tools needs them.
    """

    def __init__(
        self,
        hooks: Provider,
        info: ProviderInfo,
        *,
        is_builtin: bool,
        plugin: object,
        profiles: Sequence[ModelProfile] = (),
        missing_tool_hooks: Sequence[str] = (),
    ) -> None:
        self.info = info
        self._hooks = hooks
        self.is_builtin = is_builtin
        self._missing_tool_hooks = missing_tool_hooks
        self.plugin = plugin
        self.profiles = profiles
        self._configured_profiles: Sequence[ModelProfile] = ()
        self._listed_profiles: Sequence[ModelProfile] = ()
        self._profile_cache: dict[str, ModelProfile] = {}
        self._time_limit: float | None = None
        self._notify: Callable[[str], None] = discard_notice

    def with_limits(self, time_limit: float, notify: Callable[[str], None]) -> LoadedProvider:
        """Return the provider with a time limit in seconds for each call, and a receiver of notices."""
        limited = copy(self)
        limited._time_limit, limited._notify = time_limit, notify
        return limited

    def with_configured_profiles(self, profiles: Sequence[ModelProfile]) -> LoadedProvider:
        """Return the provider with the user's rows, which come before all others."""
        return self._with_profiles(profiles, self._listed_profiles)

    def with_listed_model(self, model: ModelInfo, name: str) -> LoadedProvider:
        """Return the provider with what its models list says about a model, which comes before its own rows."""
        efforts, output_limit, context_length = model.efforts, model.output_limit or None, model.context_length or None
        row = ModelProfile(name, efforts=efforts, output_limit=output_limit, context_length=context_length)
        return self._with_profiles(self._configured_profiles, (row,))

    def with_profiles_of(self, provider: LoadedProvider) -> LoadedProvider:
        """Return the provider with what the user and the models list say in another form of it."""
        return self._with_profiles(provider._configured_profiles, provider._listed_profiles)

    def _with_profiles(self, configured: Sequence[ModelProfile], listed: Sequence[ModelProfile]) -> LoadedProvider:
        other = copy(self)
        other._configured_profiles, other._listed_profiles, other._profile_cache = configured, listed, {}
        return other

    def find_profile(self, model: str) -> ModelProfile:
        """Return what is known about a model."""
        if model not in self._profile_cache:
            profiles = (*self._configured_profiles, *self._listed_profiles, *self.profiles)
            self._profile_cache[model] = find_profile(profiles, model)
        return self._profile_cache[model]

    def supports_tools(self, model: str) -> bool:
        supported: bool = self._call("provider_supports_tools", bool, model=model)
        if supported and self._missing_tool_hooks:
            names = " and ".join(self._missing_tool_hooks)
            raise self.make_error("provider_supports_tools", f"must return False without {names}")
        return supported

    def supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type."""
        known_types = self.find_profile(model).attachments
        if known_types is not None:
            return media_type in known_types
        supported: bool = self._call("provider_supports_attachment", bool, model=model, media_type=media_type)
        return supported

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return self._call_list("provider_format_tools", dict, tools=tools)

    def parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls: list[ToolCall] = self._call_list("provider_parse_tool_calls", ToolCall, response=response)
        if len({call.id for call in calls}) < len(calls) or not all(call.id for call in calls):
            raise self.make_error("provider_parse_tool_calls", "must return calls with unique ids")
        return calls

    def format_tool_result(self, call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        formatted: dict[str, Any] = self._call(
            "provider_format_tool_result", dict, tool_call_id=call_id, tool_name=tool_name, result=result
        )
        return formatted

    def build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        built: HttpRequest = self._call("provider_build_request", HttpRequest, request=request, key=key)
        return built

    def send(self, request: HttpRequest) -> Generator[RawEvent] | None:
        """Send a request without HTTP and return its events; return None for a provider that uses HTTP.

        Raises:
            MissingDependencyError: a program that the plugin runs is not installed.
            NetworkError: an event takes longer than the time limit.
        """
        timeout = math.inf if self._time_limit is None else self._time_limit
        events = self._call("provider_send", (Iterator, NoneType), request=request, timeout=timeout)
        return None if events is None else self._iter_events(events)

    def _iter_events(self, events: Iterator[RawEvent]) -> Generator[RawEvent]:
        try:
            while True:
                with self.guard("provider_send"):
                    event = next(events, None)
                if event is None:
                    return
                if not isinstance(event, RawEvent):
                    raise self._make_type_error("provider_send", "an iterator of RawEvent", event)
                yield event
        finally:
            if isinstance(events, Generator):
                with self.guard("provider_send"):
                    events.close()

    def create_stream_reader(self) -> GuardedStreamReader:
        reader = self._call("provider_stream_reader", object)
        for name in ("feed", "response", "complete"):
            if not hasattr(reader, name):
                raise self.make_error("provider_stream_reader", f"returned {describe(reader)} without {name!r}")
        return GuardedStreamReader(self, reader)

    def parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer: ModelResponse = self._call("provider_parse_response", ModelResponse, response=response)
        return answer

    def parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        error: ProviderError = self._call(
            "provider_parse_error", ProviderError, status=status, headers=headers, body=body
        )
        return error

    def get_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        notice: str = self._call("provider_notice", str, request=request, answer=answer)
        return notice

    def build_models_request(self, key: str) -> HttpRequest | None:
        request: HttpRequest | None = self._call("provider_models_request", (HttpRequest, NoneType), key=key)
        return request

    def parse_models(self, body: Any) -> list[ModelInfo]:
        return self._call_list("provider_parse_models", ModelInfo, body=body)

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API; None if it has none."""
        from ask.plugin_api.batches import BatchApi, guard_batch_api

        api = self._call("provider_batch", (BatchApi, NoneType))
        return guard_batch_api(self, api) if api else None

    def _call(self, hook: str, expected: type | tuple[type, ...], **arguments: Any) -> Any:
        with self.guard(hook):
            result = getattr(self._hooks, hook)(**arguments)
        self.check_result(hook, result, expected)
        return result

    def check_result(self, hook: str, result: object, expected: type | tuple[type, ...]) -> None:
        """Raise `PluginError` unless a result has the expected type, with fields of the right types."""
        if not isinstance(result, expected):
            raise self._make_type_error(hook, describe_type(expected), result)
        problem = find_field_problem(result)
        if problem:
            raise self.make_error(hook, f"returned a {type(result).__name__} whose {problem}")

    def _call_list(self, hook: str, expected: type, **arguments: Any) -> list[Any]:
        result: list[Any] = self._call(hook, list, **arguments)
        self.check_items(hook, result, expected)
        return result

    def check_items(self, hook: str, items: Sequence[Any], expected: type | tuple[type, ...]) -> None:
        """Raise `PluginError` unless all items have the expected type, with fields of the right types."""
        for item in items:
            if not isinstance(item, expected):
                raise self._make_type_error(hook, f"a list of {describe_type(expected)}", item)
            problem = find_field_problem(item)
            if problem:
                raise self.make_error(hook, f"returned a {type(item).__name__} whose {problem}")

    def guard(self, hook: str) -> AbstractContextManager[None]:
        """Return a context manager in which to call a hook."""
        return _ErrorConverter(self, hook) if self.is_builtin else self._isolate(hook)

    @contextmanager
    def _isolate(self, hook: str) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            # File descriptors and signals belong to the whole process. Only `ask map` calls hooks in other threads,
            # and keeps standard output to itself.
            with _ErrorConverter(self, hook):
                yield
            return
        from ask.plugin_api.import_guard import capture_output

        with (
            _ErrorConverter(self, hook),
            capture_output(f"{self.info.name} printed in {hook}", self._notify),
            self._limit_time(hook),
        ):
            yield

    @contextmanager
    def _limit_time(self, hook: str) -> Iterator[None]:
        """Interrupt Python code that runs longer than the time limit."""
        if self._time_limit is None:
            yield
            return

        def interrupt(_: int, __: FrameType | None) -> None:
            if hook == "provider_send":
                message = f"no new data from {self.info.name} for {self._time_limit:g} s"
                raise NetworkError(message, "raise the limit with --timeout")
            raise self.make_error(hook, f"took longer than {self._time_limit:g} s")

        previous_handler = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, self._time_limit)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous_handler)

    def _make_type_error(self, hook: str, expected: str, value: object) -> PluginError:
        return self.make_error(hook, f"must return {expected}, not {describe(value)}")

    def make_error(self, hook: str, problem: str) -> PluginError:
        return PluginError(f"the plugin {self.info.name} has a bug: {hook} {problem}", "-v shows the traceback")


class _ErrorConverter:
    """A context manager that turns an unexpected exception in a hook into a `PluginError`."""

    def __init__(self, provider: LoadedProvider, hook: str) -> None:
        self._provider = provider
        self._hook = hook

    def __enter__(self) -> None:
        pass

    def __exit__(self, exception_type: type[BaseException] | None, exception: BaseException | None, _: object) -> None:
        if isinstance(exception, AskError | SignalExit) or not isinstance(exception, Exception | SystemExit):
            return
        if isinstance(exception, FileNotFoundError | PermissionError) and self._hook == "provider_send":
            is_missing = isinstance(exception, FileNotFoundError)
            reason = "is not installed" if is_missing else f"cannot be run ({exception.strerror})"
            message = f"{exception.filename} {reason}"
            raise MissingDependencyError(message, f"needed by the provider {self._provider.info.name}") from exception
        problem = f"failed with {type(exception).__name__}: {exception}"
        raise self._provider.make_error(self._hook, problem) from exception


class GuardedStreamReader:
    """A stream reader whose methods are called like hooks."""

    def __init__(self, provider: LoadedProvider, reader: StreamReader) -> None:
        self._provider = provider
        self._reader = reader

    def feed(self, events: Sequence[RawEvent], deltas: list[Delta]) -> None:
        """Process events, and add the resulting deltas to `deltas`, also those before an error."""
        start = len(deltas)
        with self._provider.guard(FEED):
            for event in events:
                deltas += self._reader.feed(event)
        if not self._provider.is_builtin:
            self._provider.check_items(FEED, deltas[start:], (TextDelta, ReasoningDelta, ToolCallDelta))

    @property
    def complete(self) -> bool:
        """Whether the provider's end marker was seen."""
        return self._reader.complete

    @property
    def size(self) -> int | None:
        """The number of characters of the answer so far; None if the reader does not count them."""
        return getattr(self._reader, "size", None)

    @property
    def notice(self) -> str:
        """A line for the user about the stream, to be shown once it has ended; "" for none."""
        return getattr(self._reader, "notice", "")

    def response(self) -> dict[str, Any]:
        """Return the answer so far, in the format of the non-streaming API."""
        with self._provider.guard(RESPONSE):
            response = self._reader.response()
        if not isinstance(response, dict):
            raise self._provider.make_error(RESPONSE, f"must return a dict, not {describe(response)}")
        return response


def find_field_problem(value: object) -> str:
    """Return which field of a value has the wrong type; "" if none has."""
    for name, types in zip(getattr(value, "__match_args__", ()), FIELD_TYPES.get(type(value), ()), strict=False):
        field = getattr(value, name)
        if not isinstance(field, types):
            return f"{name} is {describe(field)}, not {describe_type(types)}"
        problem = find_field_problem(field)
        if problem:
            return f"{name}.{problem}"
    return ""


def describe(value: object) -> str:
    """Describe a value for an error message."""
    return "None" if value is None else f"the {type(value).__name__} {format_one_line(repr(value), MAX_VALUE_LENGTH)}"


def describe_type(expected: type | tuple[type, ...]) -> str:
    """Describe the expected type of a value."""
    types = expected if isinstance(expected, tuple) else (expected,)
    return " or ".join("None" if each is NoneType else each.__name__ for each in types)


def discard_notice(_: str) -> None:
    """Ignore a notice that does not concern the user."""
