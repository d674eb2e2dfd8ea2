"""Calls of a provider's hooks. What they return is checked, so that a plugin's mistake is reported as the plugin's."""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cache
from operator import attrgetter, methodcaller
from types import FunctionType
from typing import Any, TypeVar, cast

from ask.errors import AskError, MissingDependencyError, NetworkError, PluginError, ProviderError, SignalExit
from ask.messages import EMPTY_MAPPING, Delta, RawEvent, ToolCall, ToolSpec
from ask.parsing import choose_retry_action
from ask.plugin_api.provider import BatchApi, DecisionApi, Provider
from ask.plugin_api.types import ChatRequest, HttpRequest, ModelInfo, ProviderInfo, StreamReader
from ask.profiles import ModelProfile, find_profile
from ask.text import repair_json_surrogates

T = TypeVar("T")
END = object()
"""What `next` returns at the end of the events: a plugin may yield None by mistake."""
FEED, RESPONSE = "feed of its stream reader", "response of its stream reader"


class LoadedProvider:
    """A provider whose hooks were checked when it was loaded.

    Any exception other than an `AskError`, a result of the wrong type, and a hook that takes too long raise
    `PluginError`. What a hook prints is passed to `notify`; it never reaches standard output.

    Args:
        functions: the functions that implement the hooks, by the names of the hooks.
        info: the provider's description.
        is_third_party: whether its code is another package's. The built-in providers and the services in config.toml
            run ask's own code, which prints nothing and does not wait: it needs neither redirection nor a time limit.
        plugin: the object that implements the hooks.
        profiles: what is known about the models; see `Provider.profiles`.
        missing_tool_hooks: the hooks that the provider lacks although any provider that supports tools needs them.
    """

    hooks: Provider
    """The provider's hooks, to be called with keywords."""
    feed: Callable[[StreamReader, Sequence[RawEvent], list[Delta]], list[Delta]]
    """Has a reader process events. It adds the deltas to the list, also those before an error, and returns them."""
    get_response: Callable[[StreamReader], dict[str, Any]]
    """Returns the answer that a reader has collected, in the format of the non-streaming API."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]],
        info: ProviderInfo,
        *,
        is_third_party: bool,
        plugin: object,
        profiles: Sequence[ModelProfile] = (),
        missing_tool_hooks: Sequence[str] = (),
    ) -> None:
        self.info = info
        self._functions = functions
        self.is_third_party = is_third_party
        self._missing_tool_hooks = missing_tool_hooks
        self.plugin = plugin
        self.openai_api = plugin.openai_api if isinstance(plugin, Provider) else ""
        """Which of OpenAI's APIs it speaks; see `Provider.openai_api`."""
        self.profiles = profiles
        self.configured_profiles: Sequence[ModelProfile] = ()
        self.listed_profiles: Sequence[ModelProfile] = ()
        self._profile_cache: dict[str, ModelProfile] = {}
        self._time_limit: float | None = None
        self._notify: Callable[[str], None] = discard_notice
        self._bind_calls()

    def _bind_calls(self) -> None:
        self.hooks = cast("Provider", CheckedHooks(self, self._functions, Provider))
        self.feed = self.bind(FEED, self._feed_events)
        self.get_response = self.bind(RESPONSE, methodcaller("response"), dict)
        self._next_event = self.bind("provider_send", next)
        self._close_events = self.bind("provider_send", methodcaller("close"))

    def with_limits(self, time_limit: float, notify: Callable[[str], None]) -> LoadedProvider:
        """Return the provider with a time limit in seconds for each call, and a receiver of notices.

        The provider itself is returned if it runs ask's own code, which needs neither.
        """
        if not self.is_third_party or (time_limit, notify) == (self._time_limit, self._notify):
            return self
        limited = copy(self)
        limited._time_limit, limited._notify = time_limit, notify
        limited._bind_calls()
        return limited

    def with_profiles(self, configured: Sequence[ModelProfile], listed: Sequence[ModelProfile]) -> LoadedProvider:
        """Return the provider with the user's rows, and those of the models list, which come before its own."""
        other = copy(self)
        other.configured_profiles, other.listed_profiles, other._profile_cache = configured, listed, {}
        return other

    def with_listed_model(self, model: ModelInfo, name: str) -> LoadedProvider:
        """Return the provider with what its models list says about a model."""
        efforts, output_limit, context_length = model.efforts, model.output_limit or None, model.context_length or None
        row = ModelProfile(
            name,
            efforts=efforts,
            output_limit=output_limit,
            context_length=context_length,
            retirement_date=model.retirement_date,
        )
        return self.with_profiles(self.configured_profiles, (row,))

    def find_profile(self, model: str) -> ModelProfile:
        """Return what is known about a model."""
        if model not in self._profile_cache:
            profiles = (*self.configured_profiles, *self.listed_profiles, *self.profiles)
            self._profile_cache[model] = find_profile(profiles, model)
        return self._profile_cache[model]

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
        return self._call_file_hook("provider_supports_attachment", model, media_type)

    def supports_result_attachment(self, model: str, media_type: str) -> bool:
        """Check whether a file of this MIME type, which the model accepts, is sent inside the tool result."""
        return self._call_file_hook("provider_supports_result_attachment", model, media_type)

    def supports_answer_attachment(self, model: str, media_type: str) -> bool:
        """Check whether an image of this MIME type that the model generated, and accepts, is sent inside its answer."""
        return self._call_file_hook("provider_supports_answer_attachment", model, media_type)

    def _call_file_hook(self, hook: str, model: str, media_type: str) -> bool:
        """Call a hook about a type of file. It has no reason to raise an `AskError` either.

        Raises:
            PluginError: it failed.
        """
        try:
            return bool(getattr(self.hooks, hook)(model=model, media_type=media_type))
        except PluginError:
            raise
        except AskError as error:
            raise self._convert_error(hook, error) from error

    def format_tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        """Return the tools in the provider's format. A plugin may change its copy of them."""
        return self.hooks.provider_format_tools(tools=_copy_argument(tools) if self.is_third_party else tools)

    def build_request(self, request: ChatRequest, key: str) -> HttpRequest:
        """Build an HTTP request. A plugin may change its copy of the request, which is sent again after an error."""
        request = _copy_argument(request) if self.is_third_party else request
        http_request: HttpRequest = self.hooks.provider_build_request(request=request, key=key)
        return http_request._replace(body=repair_json_surrogates(http_request.body))

    def parse_tool_calls(self, response: Mapping[str, Any]) -> list[ToolCall]:
        calls = self.hooks.provider_parse_tool_calls(response=response)
        ids = list(map(attrgetter("id"), calls))
        if len({*ids}) < len(ids) or not all(ids):
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
                event = self._next_event(events, END)
                if event is END:
                    return
                self.check_result("provider_send", event, RawEvent)
                yield event
        finally:
            if isinstance(events, Generator) and not getattr(events, "gi_running", False):  # it was given up
                self._close_events(events)

    def get_batch_api(self) -> BatchApi | None:
        """Return the provider's batch API; None if it has none."""
        api = self.hooks.provider_batch()
        return cast("BatchApi", self._check_members(api, BatchApi, " of its batch API")) if api else None

    def get_decision_api(self, model: str) -> DecisionApi | None:
        """Return the decisions API that a model has; None if it has none."""
        api = self.hooks.provider_decisions() if self.find_profile(model).decisions else None
        return cast("DecisionApi", self._check_members(api, DecisionApi, " of its decisions API")) if api else None

    def limit_attachments(self, model: str) -> LoadedProvider:
        """Return the provider with only the types of files that the decisions API of a model accepts."""
        api = self.get_decision_api(model)
        if api is None or api.attachments is None:
            return self
        row = ModelProfile(model, attachments=api.attachments)
        return self.with_profiles((row, *self.configured_profiles), self.listed_profiles)

    def _check_members(self, api: object, specification: type, suffix: str) -> CheckedHooks:
        members = {name: getattr(api, name) for name in vars(specification) if not name.startswith("_")}
        return CheckedHooks(self, members, specification, suffix)

    def bind(self, hook: str, function: Callable[..., Any], expected: Any = None) -> Callable[..., Any]:
        """Return a function that calls a hook, or a method of its result, and checks what it returns.

        An unexpected exception becomes a `PluginError`. `expected` is as in `check_result`; None for any result.
        """

        def call_isolated(*arguments: Any, **keywords: Any) -> Any:
            return self._call_isolated(hook, lambda: function(*arguments, **keywords))

        called = call_isolated if self.is_third_party else function

        def call(*arguments: Any, **keywords: Any) -> Any:
            try:
                return called(*arguments, **keywords)
            except (AskError, SignalExit):
                raise
            except (Exception, SystemExit) as error:
                raise self._convert_error(hook, error) from error

        def call_checked(*arguments: Any, **keywords: Any) -> Any:
            result = call(*arguments, **keywords)
            self.check_result(hook, result, expected)
            return result

        return call_checked if self.is_third_party and expected is not None else call

    def _convert_error(self, hook: str, error: BaseException) -> AskError:
        """Return the error for an exception that a hook raised."""
        name = self.info.name
        # A library that cannot be loaded is an OSError without a number.
        if isinstance(error, OSError) and hook == "provider_send" and (type(error) is not OSError or error.errno):
            return _convert_os_error(name, error)
        if not self.is_third_party:
            return self.make_error(hook, f"failed with {type(error).__name__}: {error}")
        from ask.plugin_api.compatibility import describe_error, explain_missing_name

        if missing := explain_missing_name(error):
            return PluginError(f"the plugin {name} failed in {hook}: {missing}", "upgrade it, or ask itself")
        if isinstance(error, ModuleNotFoundError) and error.name:
            hint = f"needed by the provider {name}: install it in the environment of ask"
            return MissingDependencyError(f"the module {error.name} is not installed", hint)
        module = getattr(self.plugin, "__name__", type(self.plugin).__module__)
        return self.make_error(hook, f"failed with {describe_error(error, module)}")

    def check_result(self, hook: str, result: object, expected: Any) -> None:
        """Raise `PluginError` unless a result has the expected type, with fields of the right types.

        `expected` is a type, or the method that declares it. What ask's own code returns is checked by mypy.
        """
        if not self.is_third_party:
            return
        from ask.config.type_checks import WrongTypeError, check_value, describe_type, describe_value, format_path

        expected_type = _get_return_type(expected) if isinstance(expected, FunctionType) else expected
        if expected_type is StreamReader:  # any class with its methods will do
            members = (name for name in vars(StreamReader) if not name.startswith("_"))
            if missing := next((name for name in members if not hasattr(result, name)), None):
                kind = type(result).__name__
                raise self.make_error(hook, f"returned an object of type {kind} without {missing!r}")
            if callable(getattr(result, "complete", None)):
                raise self.make_error(hook, "returned a reader whose complete is a method, not a property")
            return
        verb = "yield" if expected_type is RawEvent else "return"
        try:
            check_value(result, expected_type)
        except WrongTypeError as error:
            path, value, type_name = format_path(error.path), describe_value(error.value), describe_type(error.expected)
            if len(error.path) == 1 and isinstance(error.path[0], int):
                problem = f"must return a list of {type_name}, not {value}"
            elif path:
                problem = f"{verb}ed a {type(result).__name__} whose {path} is {value}, not {type_name}"
            else:
                problem = f"must {verb} {type_name}, not {value}"
            raise self.make_error(hook, problem) from None

    def _feed_events(self, reader: StreamReader, events: Sequence[RawEvent], deltas: list[Delta]) -> list[Delta]:
        """Have a reader process events, add the deltas to `deltas`, and return them."""
        start = len(deltas)
        for event in events:
            new_deltas = list(reader.feed(event))
            if self.is_third_party:
                self.check_result(FEED, new_deltas, list[Delta])
            deltas += new_deltas
        return deltas[start:]

    def _call_isolated(self, hook: str, call: Callable[[], T]) -> T:
        """Capture what a plugin's hook prints, and end the call if it takes longer than the time limit."""
        from ask.plugin_api.output_capture import call_isolated

        def make_time_error() -> AskError:
            if hook == "provider_send":
                message = f"no new data from {self.info.name} for {self._time_limit:g} s"
                return NetworkError(message, "raise the limit with --timeout")
            return self.make_error(hook, f"took longer than {self._time_limit:g} s")

        event = f"{self.info.name} printed in {hook}"
        return call_isolated(call, event, self._notify, self._time_limit or 0, make_time_error)

    def make_error(self, hook: str, problem: str) -> PluginError:
        return PluginError(
            f"the plugin {self.info.name} has a bug: {hook} {problem}", "-v with a question shows the traceback"
        )


@cache
def _get_return_type(method: FunctionType) -> Any:
    return typing.get_type_hints(method)["return"]


class CheckedHooks:
    """The hooks of a provider, or the members of one of its APIs: functions made by `LoadedProvider.bind`.

    Args:
        provider: the provider.
        members: the plugin's functions and other values by name.
        specification: the class that declares the results of the functions.
        suffix: what follows a function's name in an error message.
    """

    def __init__(
        self, provider: LoadedProvider, members: Mapping[str, Any], specification: type, suffix: str = ""
    ) -> None:
        for name, value in members.items():
            is_function, declaration = callable(value), getattr(specification, name)
            setattr(self, name, provider.bind(name + suffix, value, declaration) if is_function else value)


def _convert_os_error(provider: str, error: OSError) -> AskError:
    """Return the error for a file that cannot be used, a refused request, or a failed connection in `provider_send`."""
    response = getattr(error, "response", error)  # an HTTPError of requests has one, and that of urllib is one
    status = getattr(response, "status_code", getattr(response, "code", None))
    if isinstance(status, int):
        return ProviderError(str(error), status, choose_retry_action(status, getattr(response, "headers", None) or {}))
    if error.filename and error.errno:
        is_path = os.sep in str(error.filename)
        missing = "does not exist" if is_path else "is not installed"
        reason = missing if isinstance(error, FileNotFoundError) else f"cannot be used ({error.strerror})"
        return MissingDependencyError(f"{error.filename} {reason}", f"needed by the provider {provider}")
    reason = str(error) or type(error).__name__
    return NetworkError(f"the connection to {provider} failed ({reason})", retryable=True, offline=True)


def _copy_argument(value: Any) -> Any:
    """Copy the lists and dicts in the argument of a hook, also those in records."""
    if isinstance(value, Mapping):
        return {key: _copy_argument(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(_copy_argument, value))
    if isinstance(value, tuple):
        items = map(_copy_argument, value)
        return tuple.__new__(type(value), items)
    return value


def discard_notice(_: str) -> None:
    """Ignore a notice that does not concern the user."""


class PluginResponse(AbstractContextManager["PluginResponse"]):
    """The events that a provider's `provider_send` yields. `LoadedProvider` limits the time that each takes."""

    status = 200
    headers: Mapping[str, str] = EMPTY_MAPPING
    excerpt = ""
    """Empty, as there is no body."""
    end_marker_seen = done_seen = has_continued = False
    """Set by the caller, as for an `HttpResponse`. The end of the events is the end of the answer, too."""

    def __init__(self, events: Generator[RawEvent]) -> None:
        self._events = events

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
