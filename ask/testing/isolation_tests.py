# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for hooks that run several times, in any order or at the same time: they share no state."""

from __future__ import annotations

import contextlib
import json
import sys
import sysconfig
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ask import ChatRequest, HttpRequest, Message, ProviderError, ProviderState
from ask.plugin_api.provider import format_tool_results
from ask.testing.base import fail, remove_end_markers
from ask.testing.conversation import (
    ATTACHMENTS,
    FOREIGN_STATE,
    KEY,
    LONG_CONVERSATION,
    OBJECT_SCHEMA,
    SHORT_CONVERSATION,
    TOOL_CONVERSATION,
    TOOLS,
    USER_MESSAGE,
    shorten,
)
from ask.testing.history_tests import HistoryTests
from ask.testing.sample_changes import format_path, iterate_paths

LIBRARY_FOLDERS = (f"{Path(__file__).parents[1]}/", f"{sysconfig.get_path('stdlib')}/", "<")
"""Where the files are whose code is not the plugin's."""
PACKAGE_FOLDER = sysconfig.get_path("purelib")
MAX_SWITCHES = 40
"""The limit for the places at which a test switches to another thread."""
LOCK_SECONDS = 1.0
"""Seconds until the other thread is taken to wait for a lock."""


class IsolationTests(HistoryTests):
    """The contract for repeated and simultaneous calls: hooks change no argument, and keep nothing."""

    def test_arguments_are_not_changed(self) -> None:
        if not self.passes("test_hooks_return_the_documented_types"):
            return
        tools = deepcopy(TOOLS)
        self.check_unchanged("provider_format_tools", tools, lambda: self.call("provider_format_tools", tools=tools))
        request = self.make_full_request()
        self.check_unchanged("provider_build_request", request, lambda: self.build_formatted(request))
        for kind in sorted(self.responses):
            response = json.loads(json.dumps(self.responses[kind]))
            for hook in ("provider_parse_response", "provider_parse_tool_calls", "provider_parse_logprobs"):
                self.check_unchanged(hook, response, partial(self.call_or_ignore, hook, response=response))
        if self.models is not None:
            body = json.loads(json.dumps(self.models))
            self.check_unchanged("provider_parse_models", body, lambda: self.call("provider_parse_models", body=body))

    def make_full_request(self) -> ChatRequest:
        """Return a request with every field set."""
        state = ProviderState(self.info.name, self.model_name, json.loads(json.dumps(FOREIGN_STATE)))
        files = tuple(attachment for attachment in ATTACHMENTS if self.takes(attachment.media_type))
        messages = [
            message._replace(provider_state=state, attachments=files if message.role == "user" else ())
            if message.role in ("user", "assistant")
            else message
            for message in LONG_CONVERSATION
        ]
        formatted_tools = self.format_tools(TOOLS) if self.has_tools else []
        schema = json.loads(json.dumps(OBJECT_SCHEMA))
        options = {"temperature": 0.25, "nested": {"list": [1]}}
        return ChatRequest(
            self.model_name, self.format_results(messages), formatted_tools, options=options, schema=schema
        )

    def call_or_ignore(self, hook: str, **arguments: Any) -> None:
        """Call a hook that may raise the error in a sample."""
        with contextlib.suppress(ProviderError):
            self.call(hook, **arguments)

    def check_unchanged(self, hook: str, argument: Any, call: Callable[[], Any]) -> None:
        """Check that a call changes no part of an argument."""
        before = _take_snapshot(argument)
        call()
        difference = _find_difference(before, _take_snapshot(argument))
        assert not difference, (
            f"{hook} changed its argument: {difference}. Change a copy instead, such as dict(...): ask uses the "
            "argument again, for retries and for the history."
        )

    def test_requests_are_not_changed_later(self) -> None:
        """Another request does not change those built before, and an answer belongs to no request."""
        if not self.passes("test_same_conversation_builds_the_same_request"):
            return
        formatted_tools = self.format_tools(TOOLS) if self.has_tools else []
        messages = self.format_results(TOOL_CONVERSATION)
        request = ChatRequest(self.model_name, messages, formatted_tools)
        first = self.call("provider_build_request", request=request, key=KEY)
        before = _take_snapshot((first, formatted_tools))
        self.build(LONG_CONVERSATION, "another-key", "model-1", tools=TOOLS[:1], schema=OBJECT_SCHEMA, stream=False)
        if "text" in self.streams:
            self.read_stream("text")
        difference = _find_difference(before, _take_snapshot((first, formatted_tools)))
        assert not difference, (
            f"A later call of provider_build_request changed an earlier request: {difference}. Build new dicts and "
            "lists for each request, and keep none in the provider."
        )

    def test_requests_do_not_depend_on_earlier_calls(self) -> None:
        if not self.passes("test_same_conversation_builds_the_same_request"):
            return
        before = _take_snapshot(self.build(SHORT_CONVERSATION))
        self.build(
            TOOL_CONVERSATION, "another-key", "model-of-one-test", tools=TOOLS, schema=OBJECT_SCHEMA, stream=False
        )
        for kind in sorted(self.streams.keys() & {"text", "call"}):
            self.read_stream(kind)
        self.call("provider_parse_error", status=429, headers={}, body="{}")
        difference = _find_difference(before, _take_snapshot(self.build(SHORT_CONVERSATION)))
        assert not difference, (
            f"What provider_build_request returns depends on other calls before it: {difference}. Keep nothing between "
            "calls in the provider: ask map builds many requests at the same time."
        )

    def test_calls_are_parsed_from_their_own_response(self) -> None:
        """`provider_parse_tool_calls` uses its argument, not what `provider_parse_response` saw."""
        if not (self.has_tools and {"call", "parallel"} <= self.streams.keys()):
            return
        if not self.passes("test_hooks_return_the_documented_types"):
            return
        one, two = (self.get_streamed_response(kind) for kind in ("call", "parallel"))
        _, expected = self.read(one)
        self.read(two)
        calls = self.parse_tool_calls(one)
        assert [call[1:] for call in calls] == [call[1:] for call in expected], (
            f"provider_parse_tool_calls returned {calls} for a response with the calls {expected}, after another "
            "response was parsed. Read the calls from the argument: ask map parses many responses at the same time."
        )

    def test_requests_are_built_in_several_threads(self) -> None:
        """`ask map` builds requests in several threads, each of which may stop at any line."""
        if not self.passes("test_same_conversation_builds_the_same_request"):
            return
        other = partial(self.build_directly, LONG_CONVERSATION, "another-key", "model-1")
        first = partial(self.build_directly, (SHORT_CONVERSATION[0], USER_MESSAGE._replace(content="Hi.")), KEY, "")
        self.check_threads("Two calls of provider_build_request at the same time mix", first, other)

    def build_directly(self, messages: tuple[Message, ...], key: str, model: str) -> HttpRequest:
        """Build a request in any thread, without the checks for what a hook does."""
        hooks = self.loaded.hooks
        tools = hooks.provider_format_tools(tools=deepcopy(TOOLS)) if self.has_tools else ()
        request = ChatRequest(model or self.model_name, format_tool_results(messages, hooks), tools)
        return hooks.provider_build_request(request=request, key=key)

    def test_answers_are_read_in_several_threads(self) -> None:
        if not {"text", "length"} <= self.streams.keys() or not self.passes("test_stream_readers_are_independent"):
            return
        first, other = (partial(self.read_directly, kind) for kind in ("length", "text"))
        self.check_threads(
            "Two streams that are read at the same time mix in the reader or provider_parse_response", first, other
        )

    def read_directly(self, kind: str) -> Any:
        """Read the streamed sample of a kind in any thread, without the checks for what a hook does."""
        hooks = self.loaded.hooks
        reader = hooks.provider_stream_reader()
        self.loaded.feed(reader, remove_end_markers(self.streams[kind]), [])
        return hooks.provider_parse_response(response=self.loaded.get_response(reader))

    def check_threads(self, problem: str, first: Callable[[], Any], other: Callable[[], Any]) -> None:
        """Check that a call returns the same if another thread makes another call at any line of it."""
        expected = _take_snapshot(first())
        line_count = ThreadSwitch(0, other).run(first)[1]
        step = max(1, line_count // MAX_SWITCHES)
        for position in range(1, line_count + 1, step):
            switch = ThreadSwitch(position, other)
            result, _ = switch.run(first)
            difference = _find_difference(expected, _take_snapshot(result))
            if difference:
                fail(
                    f"{problem}: {difference}, if another thread runs at {switch.place}. Keep the data of a call in "
                    "local variables: ask map calls hooks in several threads."
                )


class ThreadSwitch:
    """Runs a function, and another one in a thread as soon as the plugin's code in it has reached a number of lines."""

    def __init__(self, position: int, other: Callable[[], Any]) -> None:
        self.place = ""
        self._position = position
        self._line_count = 0
        self._other = other

    def run(self, function: Callable[[], Any]) -> tuple[Any, int]:
        """Return the function's result, and how many lines of the plugin ran."""
        previous = sys.gettrace()
        sys.settrace(self._trace)
        try:
            result = function()
        finally:
            sys.settrace(previous)
        return result, self._line_count

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        filename = frame.f_code.co_filename
        if filename.startswith(LIBRARY_FOLDERS) and not filename.startswith(PACKAGE_FOLDER):
            return None
        if event == "line":
            self._line_count += 1
            if self._line_count == self._position:
                self.place = f"{Path(filename).name}:{frame.f_lineno}"
                thread = threading.Thread(target=self._run_other, daemon=True)
                thread.start()
                thread.join(LOCK_SECONDS)  # it may wait for a lock that this call holds
        return self._trace

    def _run_other(self) -> None:
        with contextlib.suppress(Exception):  # the call in the other thread is tested on its own
            self._other()


def _take_snapshot(value: Any) -> Any:
    """Return a copy of a value as JSON."""
    if isinstance(value, Mapping):
        return {str(key): _take_snapshot(part) for key, part in value.items()}
    if hasattr(value, "_asdict"):
        return _take_snapshot(value._asdict())
    if isinstance(value, list | tuple):
        return [_take_snapshot(part) for part in value]
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _find_difference(before: Any, after: Any) -> str:
    """Describe the first difference between two values; "" if there is none."""
    if before == after:
        return ""
    old, new = dict(iterate_paths(before)), dict(iterate_paths(after))
    for path in [*old, *new]:
        if path not in new:
            return f"{format_path(path)}, {shorten(str(old[path]))}, is missing"
        if path not in old:
            return f"{format_path(path)}, {shorten(str(new[path]))}, was added"
        if old[path] != new[path]:
            return f"{format_path(path)} is {shorten(str(new[path]))} instead of {shorten(str(old[path]))}"
    return "an empty value was added or removed"
