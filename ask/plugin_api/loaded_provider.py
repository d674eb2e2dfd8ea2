"""Calls of a provider's hooks. What they return is checked, so that a plugin's mistake is reported as the plugin's."""

from __future__ import annotations

import math
import signal
import threading
import typing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, cast

from ask.errors import AskError, MissingDependencyError, NetworkError, PluginError, SignalExit
from ask.messages import EMPTY_MAPPING, ToolCall
from ask.plugin_api.provider import Delta, HttpRequest, ModelInfo, Provider, ProviderInfo, RawEvent, StreamReader
from ask.profiles import ModelProfile, find_profile

if TYPE_CHECKING:
    from ask.plugin_api.batches import BatchApi

FEED, RESPONSE = "feed of its stream reader", "response of its stream reader"


class LoadedProvider:
    """A provider whose hooks were checked when it was loaded.

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
        self._plugin_hooks = hooks
        self.is_builtin = is_builtin
        self._missing_tool_hooks = missing_tool_hooks
        self.plugin = plugin
        self.profiles = profiles
        self.configured_profiles: Sequence[ModelProfile] = ()
        self.listed_profiles: Sequence[ModelProfile] = ()
        self._profile_cache: dict[str, ModelProfile] = {}
        self._time_limit: float | None = None
        self._notify: Callable[[str], None] = discard_notice

    def with_limits(self, time_limit: float, notify: Callable[[str], None]) -> LoadedProvider:
        """Return the provider with a time limit in seconds for each call, and a receiver of notices."""
        limited = copy(self)
        limited._time_limit, limited._notify = time_limit, notify
        return limited

    def with_profiles(self, configured: Sequence[ModelProfile], listed: Sequence[ModelProfile]) -> LoadedProvider:
        """Return the provider with the user's rows, and those of the models list, which come before its own."""
        other = copy(self)
        other.configured_profiles, other.listed_profiles, other._profile_cache = configured, listed, {}
        return other

    def with_listed_model(self, model: ModelInfo, name: str) -> LoadedProvider:
        """Return the provider with what its models list says about a model."""
        efforts, output_limit, context_length = model.efforts, model.output_limit or None, model.context_length or None
        row = ModelProfile(name, efforts=efforts, output_limit=output_limit, context_length=context_length)
        return self.with_profiles(self.configured_profiles, (row,))

    def find_profile(self, model: str) -> ModelProfile:
        """Return what is known about a model."""
        if model not in self._profile_cache:
            profiles = (*self.configured_profiles, *self.listed_profiles, *self.profiles)
            self._profile_cache[model] = find_profile(profiles, model)
        return self._profile_cache[model]

    @property
    def hooks(self) -> Provider:
        """The provider's hooks, to be called with keywords."""
        return cast("Provider", GuardedCalls(self, self._plugin_hooks, Provider))

    def supports_tools(self, model: str) -> bool:
        supported = self.hooks.provider_supports_tools(model=model)
        if supported and self._missing_tool_hooks:
            names = " and ".join(self._missing_tool_hooks)
            raise self.make_error("provider_supports_tools", f"must return False without {names}")
        return supported

    def supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type."""
        known_types = self.find_profile(model).attachments
        if known_types is not None:
            return media_type in known_types
        return self.hooks.provider_supports_attachment(model=model, media_type=media_type)

    def parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = self.hooks.provider_parse_tool_calls(response=response)
        if len({call.id for call in calls}) < len(calls) or not all(call.id for call in calls):
            raise self.make_error("provider_parse_tool_calls", "must return calls with unique ids")
        return calls

    def send(self, request: HttpRequest) -> Generator[RawEvent] | None:
        """Send a request without HTTP and return its events; return None for a provider that uses HTTP.

        Raises:
            MissingDependencyError: a program that the plugin runs is not installed.
            NetworkError: an event takes longer than the time limit.
        """
        timeout = math.inf if self._time_limit is None else self._time_limit
        events = self.hooks.provider_send(request=request, timeout=timeout)
        return None if events is None else self._iter_events(events)

    def _iter_events(self, events: Iterator[RawEvent]) -> Generator[RawEvent]:
        try:
            while True:
                event = self.call("provider_send", next, events, None)
                if event is None:
                    return
                self.check_result("provider_send", [event], list[RawEvent])
                yield event
        finally:
            if isinstance(events, Generator):
                self.call("provider_send", events.close)

    def create_stream_reader(self) -> StreamReader:
        reader: StreamReader = self.call("provider_stream_reader", self._plugin_hooks.provider_stream_reader)
        missing = next((name for name in ("feed", "response", "complete") if not hasattr(reader, name)), None)
        if missing:
            problem = f"returned an object of type {type(reader).__name__} without {missing!r}"
            raise self.make_error("provider_stream_reader", problem)
        return reader

    def feed(self, reader: StreamReader, events: Sequence[RawEvent], deltas: list[Delta]) -> None:
        """Have a reader process events, and add the resulting deltas to `deltas`, also those before an error."""
        start = len(deltas)

        def feed_events() -> None:
            for event in events:
                deltas.extend(reader.feed(event))

        self.call(FEED, feed_events)
        self.check_result(FEED, deltas[start:], list[Delta])

    def get_response(self, reader: StreamReader) -> dict[str, Any]:
        """Return the answer that a reader has collected, in the format of the non-streaming API."""
        response: dict[str, Any] = self.call(RESPONSE, reader.response)
        self.check_result(RESPONSE, response, dict)
        return response

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API; None if it has none."""
        from ask.plugin_api.batches import BatchApi

        api = self.hooks.provider_batch()
        return cast("BatchApi", GuardedCalls(self, api, BatchApi, " of its batch API")) if api else None

    def check_result(self, hook: str, result: object, expected: Any) -> None:
        """Raise `PluginError` unless a result has the expected type, with fields of the right types.

        `expected` is a type, or the method that declares it. What built-in providers return is checked by mypy.
        """
        if self.is_builtin:
            return
        from ask.type_checks import WrongTypeError, check_value, describe_type, describe_value, format_path

        try:
            check_value(result, _get_return_type(expected) if isinstance(expected, FunctionType) else expected)
        except WrongTypeError as error:
            path, value, type_name = format_path(error.path), describe_value(error.value), describe_type(error.expected)
            if path:
                problem = f"returned a {type(result).__name__} whose {path} is {value}, not {type_name}"
            else:
                problem = f"must return {type_name}, not {value}"
            raise self.make_error(hook, problem) from None

    def call(self, hook: str, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        """Call a hook, or a method of its result: an unexpected exception in it becomes a `PluginError`."""
        try:
            if self.is_builtin:
                return function(*arguments, **keywords)
            with self._isolate(hook):
                return function(*arguments, **keywords)
        except (AskError, SignalExit):
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, FileNotFoundError | PermissionError) and hook == "provider_send":
                is_missing = isinstance(error, FileNotFoundError)
                reason = "is not installed" if is_missing else f"cannot be run ({error.strerror})"
                message = f"{error.filename} {reason}"
                raise MissingDependencyError(message, f"needed by the provider {self.info.name}") from error
            raise self.make_error(hook, f"failed with {type(error).__name__}: {error}") from error

    @contextmanager
    def _isolate(self, hook: str) -> Iterator[None]:
        """Capture what a plugin's hook prints, and interrupt Python code that runs longer than the time limit."""
        # File descriptors and signals belong to the whole process. Only `ask map` calls hooks in other threads, and
        # keeps standard output to itself.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        from ask.plugin_api.import_guard import capture_output

        def interrupt(_: int, __: FrameType | None) -> None:
            if hook == "provider_send":
                message = f"no new data from {self.info.name} for {self._time_limit:g} s"
                raise NetworkError(message, "raise the limit with --timeout")
            raise self.make_error(hook, f"took longer than {self._time_limit:g} s")

        with capture_output(f"{self.info.name} printed in {hook}", self._notify):
            previous_handler = signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, self._time_limit or 0)
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, previous_handler)

    def make_error(self, hook: str, problem: str) -> PluginError:
        return PluginError(f"the plugin {self.info.name} has a bug: {hook} {problem}", "-v shows the traceback")


@cache
def _get_return_type(method: FunctionType) -> Any:
    from ask.plugin_api.batches import BatchApi

    return typing.get_type_hints(method, localns={"BatchApi": BatchApi})["return"]


class GuardedCalls:
    """An object whose methods are called as hooks: by `LoadedProvider.call`, and with their results checked.

    Args:
        provider: the provider that the object belongs to.
        target: the object with the methods.
        specification: the class that declares their results.
        suffix: what follows a method's name in an error message.
    """

    def __init__(self, provider: LoadedProvider, target: object, specification: type, suffix: str = "") -> None:
        self._provider = provider
        self._target = target
        self._specification = specification
        self._suffix = suffix

    def __getattr__(self, name: str) -> Any:
        value, declaration = getattr(self._target, name), getattr(self._specification, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **keywords: Any) -> Any:
            result = self._provider.call(name + self._suffix, value, *arguments, **keywords)
            self._provider.check_result(name + self._suffix, result, declaration)
            return result

        return call


def discard_notice(_: str) -> None:
    """Ignore a notice that does not concern the user."""


class PluginResponse:
    """The events that a provider's `provider_send` yields. `LoadedProvider` limits the time that each takes."""

    status = 200
    headers: Mapping[str, str] = EMPTY_MAPPING
    end_marker_seen = done_seen = False
    """Set by the caller, as for an `HttpResponse`. The end of the events is the end of the answer, too."""

    def __init__(self, events: Generator[RawEvent]) -> None:
        self._events = events

    def __enter__(self) -> PluginResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self._events.close()

    def is_stream(self, requested: bool) -> bool:
        return True

    def iter_event_batches(self) -> Iterator[list[RawEvent]]:
        """Yield the events as they arrive."""
        for event in self._events:
            yield [event]
        self.end_marker_seen = True

    def format_shown_url(self) -> str:
        """Return "": the plugin knows where it sent the request."""
        return ""

    def mark_progress(self) -> None:
        """Do nothing: the time limit begins anew with each event."""

    def read_unexpected_text(self) -> str:
        """Return "": there is no body besides the events."""
        return ""

    def read_words(self) -> str:
        """Return "", as there is no body."""
        return ""

    def read_text(self) -> str:
        """Return the data of all events."""
        return "".join(event.data for event in self._events)
