# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for the provider object, its hooks and their results, which all other tests rely on."""

from __future__ import annotations

import inspect
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, partial
from itertools import zip_longest
from typing import Any

import pytest

from ask import ChatRequest, Message, Provider, ProviderError, RawEvent
from ask.errors import ConfigError
from ask.parsing import parse_json
from ask.plugin_api.loaded_provider import FEED
from ask.plugin_api.provider import TOOL_HOOKS, list_hook_names
from ask.testing.base import ContractBase, fail, load_provider, warn_author
from ask.testing.conversation import (
    KEY,
    MEDIA_TYPES,
    SHORT_CONVERSATION,
    TOOL_CONVERSATION,
    TOOLS,
    find_occurrences,
    shorten,
)
from ask.testing.sample_changes import iterate_paths
from ask.testing.samples import CALL_KINDS, EXPECTED, REASONING_KINDS, SOURCE_KINDS

MODELS_BODY = {
    "data": [{"id": "m", "name": "M", "context_length": 8}],
    "models": [{"id": "m", "name": "m", "model": "m", "slug": "m", "details": {}}],
}
"""A models list in the formats of most services."""
MAX_WAIT_SECONDS = 0.05
"""Seconds that a hook may wait."""
SIMILARITY = 0.85
"""How similar a name must be to that of a hook to be taken for a misspelling."""


UNSUPPORTED_WORDS = {*EXPECTED, "usage", "schema", "attachments", "images", "tools", "cached", "reasoning_history"}
"""The words that `unsupported` may contain."""


class StructureTests(ContractBase):
    """The contract for the provider object, the names, parameters and result types of its hooks, and its samples.

    While one of these tests fails, all later tests are skipped: they would fail for the same reason.
    """

    @pytest.fixture(autouse=True)
    def _require_valid_structure(self, request: pytest.FixtureRequest) -> None:
        name = request.function.__name__
        test_class: Any = type(self)
        failing = find_failing_structure_test(test_class)
        if failing not in ("", name):
            pytest.skip(f"not run, because {failing} fails; correct that first")

    def test_provider_can_be_loaded(self) -> None:
        """Every required hook exists, and no name or parameter is misspelled."""
        if not hasattr(self, "provider"):
            fail(f"{type(self).__name__} has no provider. Set `provider` to the object that the entry point names.")
        try:
            load_provider(self.provider)
        except ConfigError as error:
            fail(f"{error.message}: {error.hint}. Correct the object in {type(self).__name__}.provider.")
        problems = [*self.find_misspelled_hooks(), *self.find_default_values()]
        if problems:
            fail(" ".join(problems))

    def find_misspelled_hooks(self) -> Iterator[str]:
        """Yield names that are almost those of a hook, but do not begin with `provider_`."""
        for name in dir(self.provider):
            match = get_close_matches(name, list_hook_names(), 1, SIMILARITY)
            if match and match[0] != name:
                yield f"{name} is not a hook, so ask never calls it; did you mean {match[0]}?"

    def find_default_values(self) -> Iterator[str]:
        """Yield parameters that ask does not pass, because they have a default value."""
        for hook in list_hook_names():
            known = inspect.signature(getattr(Provider, hook)).parameters
            function = getattr(self.provider, hook, None)
            for parameter in inspect.signature(function).parameters.values() if function else ():
                if parameter.name in known and parameter.default is not parameter.empty:
                    yield f"{hook}: ask does not pass {parameter.name}, because it has a default. Remove the default."

    def test_info_is_valid(self) -> None:
        info = self.info
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", info.name), (
            f"ProviderInfo.name is {info.name!r}. Use lower-case letters, digits, - and _, beginning with a letter."
        )
        assert info.title.strip(), "ProviderInfo.title is empty. Set it to the name of the service."
        is_url = re.fullmatch(r"https?://[^\s?#]*[^\s?#/]", info.base_url)
        assert is_url or (not info.base_url and self.has_own_transport), (
            f"ProviderInfo.base_url is {info.base_url!r}. Use an http(s) URL without a final slash, query or fragment."
        )
        assert info.stream_format in ("sse", "ndjson"), (
            f"ProviderInfo.stream_format is {info.stream_format!r}. Use 'sse' or 'ndjson'."
        )
        assert isinstance(info.key_env, tuple), (
            f"ProviderInfo.key_env is {info.key_env!r}. Use a tuple of variable names, as ({str(info.key_env)!r},)."
        )
        for variable in info.key_env:
            assert re.fullmatch(r"[A-Z][A-Z0-9_]*", variable), (
                f"ProviderInfo.key_env contains {variable!r}. Use upper-case letters, digits and _."
            )
        assert info == self.call("provider_info"), "provider_info returns different values. Return the same each time."

    def test_samples_are_complete(self) -> None:
        if invalid := self.find_invalid_sample():
            fail(invalid)
        if missing := self.find_missing_samples():
            fail(
                f"Samples are missing: {'; '.join(missing)}. Add them as the service sends them, or list kinds that "
                f"the service does not have in `unsupported`."
            )

    def find_invalid_sample(self) -> str:
        """Describe the first sample, or word in `unsupported`, that is not of the documented form; "" for none."""
        words = [self.unsupported] if isinstance(self.unsupported, str) else self.unsupported
        if unknown := sorted(set(words) - UNSUPPORTED_WORDS):
            return f"`unsupported` contains {unknown[0]!r}. Use only {', '.join(sorted(UNSUPPORTED_WORDS))}."
        if isinstance(self.unsupported, str):
            return f"`unsupported` is {self.unsupported!r}. Use a set, as {{{self.unsupported!r}}}."
        for kind, events in self.streams.items():
            for event in events:
                if not isinstance(event, RawEvent) or not isinstance(event.data, str):
                    return f"samples[{kind!r}] contains {event!r}. Use RawEvent(None, json.dumps(...)) for each event."
        for kind, response in self.responses.items():
            if not isinstance(response, dict):
                return (
                    f"unstreamed_samples[{kind!r}] is a {type(response).__name__}. Use the response's JSON as a dict."
                )
        return ""

    def find_missing_samples(self) -> list[str]:
        """List the kinds that apply to the provider and have no sample, by attribute."""
        kinds = set(EXPECTED) - set(self.unsupported)
        if not self.has_tools:
            kinds -= CALL_KINDS
        if "reasoning" in self.unsupported:
            kinds -= REASONING_KINDS
        if not self.call("provider_server_tools", model=self.model_name):
            kinds -= SOURCE_KINDS
        absent = [kind for kind in EXPECTED if kind in kinds and kind not in self.streams]
        missing = [f"samples lacks {', '.join(absent)}"] if absent else []
        for attribute, samples in (("samples", self.streams), ("unstreamed_samples", self.given_responses)):
            if unknown := sorted(set(samples) - set(EXPECTED)):
                missing.append(f"{attribute} has unknown kinds {', '.join(unknown)}")
        return missing

    def test_untested_parts_are_reported(self) -> None:
        """A warning names what this run did not test, though nothing says that the service does not have it."""
        untested = dict(self.list_untested_parts())
        for word in set(self.unsupported) & untested.keys():
            del untested[word]
        if untested:
            words = ", ".join(map(repr, untested))
            text = f"{type(self).__name__} tested {'; '.join(untested.values())}. If the service has none of "
            text += f"this, add {words} to `unsupported`."
            warn_author(type(self), text)

    def list_untested_parts(self) -> Iterator[tuple[str, str]]:
        """Yield the parts of the contract that could not be tested: a word for `unsupported`, and the reason."""
        accepted = [media_type for media_type in MEDIA_TYPES if self.takes(media_type)]
        hint = f"for the model {self.model_name!r}; `model` sets another one"
        if not accepted:
            yield "attachments", f"no attachment: provider_supports_attachment accepts no image, PDF or audio {hint}"
        elif not any(media_type.startswith("image/") for media_type in accepted):
            yield "images", f"no image: provider_supports_attachment accepts only {', '.join(accepted)} {hint}"
        if not self.has_tools:
            yield "tools", f"no tools and no tool history: the provider lacks {' or '.join(TOOL_HOOKS)}"
        elif not self.call("provider_supports_tools", model=self.model_name):
            yield "tools", f"tools only in part: provider_supports_tools returned False {hint}"
        if lost_reasoning := self.find_lost_reasoning():
            yield "reasoning_history", lost_reasoning
        if "text" in self.streams and "usage" not in self.unsupported:
            events = [parse_json(event.data) for event in self.streams["text"]]
            if not any(re.search("cache", ".".join(path), re.IGNORECASE) for path, _ in iterate_paths(events)):
                yield "cached", "no cached tokens: the usage in the sample 'text' has no field for them"

    def find_lost_reasoning(self) -> str:
        """Describe the reasoning beside a call in the author's samples that the next request lacks; "" for none."""
        kind = "reasoning_and_call"
        if self.samples is None or kind not in self.streams or not self.has_tools:
            return ""
        answer, calls = self.read_stream(kind)
        if not answer.reasoning or answer.provider_state:
            return ""
        message = Message("assistant", answer.text, tuple(calls))
        results = [Message("tool", "5", (), call.id, call.name) for call in calls]
        body = self.build((*SHORT_CONVERSATION, message, *results), tools=TOOLS).body
        if find_occurrences(answer.reasoning, body):
            return ""
        return (
            f"no reasoning in later requests: the one after the sample {kind!r} lacks {answer.reasoning!r}; if the "
            "service wants it back, return it in ModelResponse.provider_state and send it"
        )

    def test_hooks_return_the_documented_types(self) -> None:
        """Each hook returns the documented type for ordinary input, without I/O, waiting or printing."""
        for hook, call_hook in self.list_ordinary_calls():
            call_hook()
            wait = measure_waiting(call_hook)
            if wait > MAX_WAIT_SECONDS:
                fail(f"{hook} waited {wait:.2f} s. Hooks must not wait, sleep or do I/O: ask does that for them.")

    def list_ordinary_calls(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield a call of each hook."""
        yield "provider_info", lambda: self.call("provider_info")
        yield "provider_supports_tools", lambda: self.call("provider_supports_tools", model=self.model_name)
        yield "provider_supports_attachment", lambda: self.takes("image/png")
        yield "provider_supports_result_attachment", lambda: self.takes_in_result("image/png")
        yield "provider_supports_answer_attachment", lambda: self.takes_in_answer("image/png")
        if self.has_tools:
            yield "provider_format_tools", lambda: self.format_tools(TOOLS)
        yield "provider_format_tool_result", lambda: self.format_results(TOOL_CONVERSATION)
        yield "provider_build_request", lambda: self.build(TOOL_CONVERSATION, tools=TOOLS)
        yield FEED, lambda: self.feed(self.streams.get("text", ()))
        yield from self.list_response_calls()
        yield "provider_parse_error", self.parse_ordinary_errors
        yield "provider_logprob_options", lambda: self.call("provider_logprob_options")
        yield "provider_models_request", lambda: self.call("provider_models_request", key=KEY)
        yield "provider_parse_models", self.parse_ordinary_models

    def list_response_calls(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield calls of the hooks that parse responses, for each sample without an error."""
        for kind, expected in EXPECTED.items():
            if not expected.error and kind in self.streams:
                yield "provider_parse_response", partial(self.parse_ordinary_stream, kind)
            if not expected.error and kind in self.responses:
                yield "provider_parse_response", partial(self.parse_ordinary_response, self.responses[kind], kind)
        yield "provider_notice", self.get_ordinary_notice

    def parse_ordinary_stream(self, kind: str) -> None:
        self.parse_ordinary_response(self.get_streamed_response(kind), kind)

    def parse_ordinary_response(self, response: Mapping[str, Any], kind: str) -> None:
        self.call("provider_parse_logprobs", response=response)
        try:
            self.read(response)
        except ProviderError as error:
            fail(
                f"provider_parse_response raised {error!r} for the sample {kind!r}, which has no error: "
                f"{shorten(str(response))}. Return a ModelResponse, and raise only for the error of the service."
            )

    def get_ordinary_notice(self) -> None:
        if "text" in self.responses:
            answer, _ = self.read(self.responses["text"])
            request = ChatRequest(self.model_name, SHORT_CONVERSATION)
            self.call("provider_notice", request=request, answer=answer)

    def parse_ordinary_errors(self) -> None:
        for status in (400, 429, 500):
            try:
                self.call("provider_parse_error", status=status, headers={}, body=json.dumps({"error": "No."}))
            except ProviderError:
                fail("provider_parse_error raised the error. Return it instead: ask raises it when needed.")

    def parse_ordinary_models(self) -> None:
        body = MODELS_BODY if self.models is None else self.models
        models = self.call("provider_parse_models", body=body)
        if not models and self.call("provider_models_request", key=KEY) is not None:
            fail(
                "provider_parse_models found no model in the models list. Correct it or, if the format of your service "
                "differs, set `models` to the JSON of a models list with at least one model."
            )

    def test_stream_readers_are_independent(self) -> None:
        """Streams that are read at the same time, or one after the other, do not mix."""
        kinds = [kind for kind in ("text", "length", "cut", "parallel") if kind in self.streams]
        alone = [self.get_streamed_response(kind) for kind in kinds]
        alone = json.loads(json.dumps(alone))
        readers = [self.open_reader() for _ in kinds]
        for events in zip_longest(*(self.streams[kind] for kind in kinds)):
            for reader, event in zip(readers, events, strict=True):
                if event:
                    self.feed([event], reader)
        together = [self.get_response(reader) for reader in readers]
        assert together == alone, (
            "Streams that are read at the same time share state. Return a new stream reader each time, and keep its "
            "state in the instance: neither in its class nor in the provider."
        )
        self.check_new_stream_reader()

    def check_new_stream_reader(self) -> None:
        reader, _ = self.feed([])
        assert reader.complete is False, (
            f"A new stream reader is complete: {reader.complete!r}. Start with complete = False."
        )
        try:
            answer, calls = self.read(self.get_response(reader))
        except ProviderError:
            return
        assert (answer.text, answer.reasoning, calls) == ("", "", []), (
            "A new stream reader has parts of an answer. Create a new reader, with new containers, for each stream."
        )


def measure_waiting(function: Callable[[], Any]) -> float:
    """Return the seconds that a function spends waiting, the shortest of several calls if the first one waits."""
    shortest = math.inf
    for _ in range(10):  # a busy machine may delay some of them
        start, cpu_start = time.monotonic(), time.thread_time()
        function()
        shortest = min(shortest, time.monotonic() - start - (time.thread_time() - cpu_start))
        if shortest <= MAX_WAIT_SECONDS:
            break
    return shortest


STRUCTURE_TESTS = (
    "test_provider_can_be_loaded",
    "test_info_is_valid",
    "test_samples_are_complete",
    "test_hooks_return_the_documented_types",
    "test_stream_readers_are_independent",
)
"""The tests of `StructureTests`, in the order in which they rely on each other."""


@cache
def find_failing_structure_test(test_class: type[StructureTests]) -> str:
    """Return the name of the first structure test that fails; "" if none does."""
    for name in STRUCTURE_TESTS:
        try:
            getattr(test_class(), name)()
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the test itself reports it
            return name
    return ""
