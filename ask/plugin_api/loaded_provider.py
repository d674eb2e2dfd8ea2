"""Calls of a provider's hooks. What they return is checked, so that a plugin's mistake is reported as the plugin's."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from ask.errors import AskError, MissingDependencyError, NetworkError, PluginError, ProviderError, SignalExit
from ask.messages import ModelResponse, ToolCall, ToolSpec
from ask.plugin_api.provider import (
    ChatRequest,
    Delta,
    HttpRequest,
    ModelInfo,
    Provider,
    ProviderInfo,
    RawEvent,
    StreamReader,
)
from ask.profiles import ModelProfile, find_profile

if TYPE_CHECKING:
    from ask.plugin_api.batches import BatchApi


T = TypeVar("T")

FEED, RESPONSE = "feed of its stream reader", "response of its stream reader"


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
        supported = self.call(Provider.provider_supports_tools, model=model)
        if supported and self._missing_tool_hooks:
            names = " and ".join(self._missing_tool_hooks)
            raise self.make_error("provider_supports_tools", f"must return False without {names}")
        return supported

    def supports_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a message to this model may contain a file of this MIME type."""
        known_types = self.find_profile(model).attachments
        if known_types is not None:
            return media_type in known_types
        return self.call(Provider.provider_supports_attachment, model=model, media_type=media_type)

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        return self.call(Provider.provider_format_tools, tools=tools)

    def parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = self.call(Provider.provider_parse_tool_calls, response=response)
        if len({call.id for call in calls}) < len(calls) or not all(call.id for call in calls):
            raise self.make_error("provider_parse_tool_calls", "must return calls with unique ids")
        return calls

    def format_tool_result(self, call_id: str, tool_name: str, result: str) -> dict[str, Any]:
        return self.call(Provider.provider_format_tool_result, tool_call_id=call_id, tool_name=tool_name, result=result)

    def build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        return self.call(Provider.provider_build_request, request=request, key=key)

    def send(self, request: HttpRequest) -> Generator[RawEvent] | None:
        """Send a request without HTTP and return its events; return None for a provider that uses HTTP.

        Raises:
            MissingDependencyError: a program that the plugin runs is not installed.
            NetworkError: an event takes longer than the time limit.
        """
        timeout = math.inf if self._time_limit is None else self._time_limit
        events = self.call(Provider.provider_send, request=request, timeout=timeout)
        return None if events is None else self._iter_events(events)

    def _iter_events(self, events: Iterator[RawEvent]) -> Generator[RawEvent]:
        try:
            while True:
                with self.guard("provider_send"):
                    event = next(events, None)
                if event is None:
                    return
                self.check_result("provider_send", [event], list[RawEvent])
                yield event
        finally:
            if isinstance(events, Generator):
                with self.guard("provider_send"):
                    events.close()

    def create_stream_reader(self) -> StreamReader:
        with self.guard("provider_stream_reader"):
            reader = self._hooks.provider_stream_reader()
        missing = next((name for name in ("feed", "response", "complete") if not hasattr(reader, name)), None)
        if missing:
            problem = f"returned an object of type {type(reader).__name__} without {missing!r}"
            raise self.make_error("provider_stream_reader", problem)
        return reader

    def feed(self, reader: StreamReader, events: Sequence[RawEvent], deltas: list[Delta]) -> None:
        """Have a reader process events, and add the resulting deltas to `deltas`, also those before an error."""
        start = len(deltas)
        with self.guard(FEED):
            for event in events:
                deltas += reader.feed(event)
        self.check_result(FEED, deltas[start:], list[Delta])

    def get_response(self, reader: StreamReader) -> dict[str, Any]:
        """Return the answer that a reader has collected, in the format of the non-streaming API."""
        with self.guard(RESPONSE):
            response = reader.response()
        self.check_result(RESPONSE, response, dict)
        return response

    def parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        return self.call(Provider.provider_parse_response, response=response)

    def parse_error(self, status: int, headers: Mapping[str, str], body: str) -> ProviderError:
        return self.call(Provider.provider_parse_error, status=status, headers=headers, body=body)

    def get_notice(self, request: ChatRequest, answer: ModelResponse) -> str:
        return self.call(Provider.provider_notice, request=request, answer=answer)

    def build_models_request(self, key: str) -> HttpRequest | None:
        return self.call(Provider.provider_models_request, key=key)

    def parse_models(self, body: Any) -> list[ModelInfo]:
        return self.call(Provider.provider_parse_models, body=body)

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API; None if it has none."""
        from ask.plugin_api.batches import guard_batch_api

        api = self.call(Provider.provider_batch)
        return guard_batch_api(self, api) if api else None

    def call(self, hook: Callable[..., T], **arguments: Any) -> T:
        """Call a hook, given as the method of `Provider`, and check the type of its result."""
        name = hook.__name__
        with self.guard(name):
            result: T = getattr(self._hooks, name)(**arguments)
        self.check_result(name, result, hook)
        return result

    def check_result(self, hook: str, result: object, expected: Any) -> None:
        """Raise `PluginError` unless a result has the expected type, with fields of the right types.

        `expected` is a type, or the method that declares it. What built-in providers return is checked by mypy.
        """
        if self.is_builtin:
            return
        from ask.plugin_api.type_checks import find_type_problem, get_return_type

        is_method = isinstance(expected, FunctionType)
        problem = find_type_problem(result, get_return_type(expected) if is_method else expected)
        if problem:
            raise self.make_error(hook, problem)

    @contextmanager
    def guard(self, hook: str) -> Iterator[None]:
        """Call a hook in the block: an unexpected exception in it becomes a `PluginError`."""
        try:
            with self._isolate(hook):
                yield
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
        if self.is_builtin or threading.current_thread() is not threading.main_thread():
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


def discard_notice(_: str) -> None:
    """Ignore a notice that does not concern the user."""
