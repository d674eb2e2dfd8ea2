# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for answers that are like the provider's samples, but with other texts, arguments or end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ask import FinishReason, ProviderError, RawEvent, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta
from ask.parsing import parse_json
from ask.testing.answer_tests import AnswerTests
from ask.testing.base import fail
from ask.testing.conversation import shorten
from ask.testing.sample_changes import (
    change_events,
    find_argument_pieces,
    find_arguments_text,
    find_pieces,
    format_path,
    iterate_paths,
    replace_objects,
    replace_paths,
    replace_values,
)
from ask.testing.samples import ADD_2_3, EXPECTED

START, END = " \n☃ ", " 🙂\n "
"""What is added at the edges of a text: spaces, and characters outside of ASCII."""
NEW_NAME = "Look-Up_2"
MALFORMED_ARGUMENTS = '{"a": 2, "b": '
UNKNOWN_REASON = "contract_reason"
CACHE_PATH = re.compile("cache", re.IGNORECASE)
NO_READ_PATH = re.compile("writ|creat|miss|ttl|to_?cache|store", re.IGNORECASE)
"""Paths of token counts that are not of what was read from the cache."""
REASONING_FIELD = re.compile("reasoning|thinking|thought", re.IGNORECASE)


class ChangedAnswerTests(AnswerTests):
    """The contract for answers whose content differs from that of the samples, which are changed for these tests.

    A test does nothing if the sample itself is not parsed correctly, which another test reports.
    """

    def is_parsed(self, kind: str) -> bool:
        """Check whether the sample of a kind exists and is parsed correctly."""
        return kind in self.streams and self.is_correct(self.check_stream, kind)

    def read_changed(self, events: Sequence[RawEvent]) -> tuple[list[Any], Any, list[ToolCall]]:
        """Read changed events; return the deltas, the answer and the calls."""
        reader, deltas = self.feed(events)
        answer, calls = self.read(self.get_response(reader))
        return deltas, answer, calls

    def test_spaces_and_unusual_characters_in_an_answer_are_kept(self) -> None:
        for kind, name, delta_type in (("text", "text", TextDelta), ("reasoning", "reasoning", ReasoningDelta)):
            text = getattr(EXPECTED[kind], name)
            pieces = find_pieces(self.streams[kind], text) if self.is_parsed(kind) else []
            for start, end in ((START, END), (None, "")) if len(pieces) > 1 else ((START, END),) if pieces else ():
                # The second time, the first piece is only spaces, with which some models begin.
                first = " \n" if start is None else start + pieces[0]
                expected = first + "".join(pieces[1:]) + end
                replacements = {pieces[0]: first, pieces[-1]: pieces[-1] + end, text: expected}
                if len(pieces) == 1:
                    replacements = {text: expected}
                deltas, answer, _ = self.read_changed(change_events(self.streams[kind], replacements))
                shown = "".join(delta.text for delta in deltas if isinstance(delta, delta_type))
                for source, actual in (("feed", shown), ("provider_parse_response", getattr(answer, name))):
                    assert actual == expected, (
                        f"{source} returned the {name} {actual!r} instead of {expected!r}. Keep every character: do "
                        "not strip texts, skip pieces that are only spaces, or change the encoding."
                    )

    def test_arguments_are_returned_as_the_model_wrote_them(self) -> None:
        """Arguments may be malformed or empty, which ask handles: it reports the error to the model."""
        if not self.is_parsed("call"):
            return
        for arguments in (MALFORMED_ARGUMENTS, '{"a": " ☃ \\n"}', "{}", ""):
            for source, calls in self.list_calls_with(arguments):
                returned = [call.arguments for call in calls]
                is_kept = len(returned) == 1 and (
                    returned[0] == arguments
                    or (parse_json(returned[0]) == parse_json(arguments) is not None)
                    or (not arguments and returned[0] in ("", "{}"))
                )
                assert is_kept, (
                    f"provider_parse_tool_calls returned calls with the arguments {returned} for {source} with one "
                    f"call whose arguments are {arguments!r}. Return every call, with its arguments as the model wrote "
                    "them, even if they are no valid JSON: with {} in their place, the tool would run with other "
                    "arguments."
                )

    def list_calls_with(self, arguments: str) -> Iterator[tuple[str, list[ToolCall]]]:
        """Yield the calls parsed from the sample "call" with other arguments, streamed and not."""
        events, response = self.streams["call"], self.responses.get("call")
        text = find_arguments_text(response, ADD_2_3[1])
        if text and response is not None:
            yield "an answer", self.parse_tool_calls(replace_values(response, {text: arguments}))
        pieces = find_pieces(events, text) if text else find_argument_pieces(events, ADD_2_3[1])
        if pieces:
            replacements = dict.fromkeys(pieces, "") | {pieces[0]: arguments, "".join(pieces): arguments}
            yield "a stream", self.read_changed(change_events(events, replacements))[2]
        value = parse_json(arguments)
        if not text and response is not None and value is not None:  # arguments are objects
            yield "an answer", self.parse_tool_calls(replace_objects(response, ADD_2_3[1], value))

    def test_tool_names_in_answers_are_returned_unchanged(self) -> None:
        if not self.is_parsed("call"):
            return
        name = ADD_2_3[0]
        if find_pieces(self.streams["call"], name):
            deltas, _, calls = self.read_changed(change_events(self.streams["call"], {name: NEW_NAME}))
            announced = [delta.name for delta in deltas if isinstance(delta, ToolCallDelta)][-1:]
            assert [call.name for call in calls] == announced == [NEW_NAME], (
                f"A streamed call of the tool {NEW_NAME!r} is returned with the name "
                f"{[call.name for call in calls]} and announced as {announced}. Return names exactly as they are."
            )
        if "call" in self.responses:
            calls = self.parse_tool_calls(replace_values(self.responses["call"], {name: NEW_NAME}))
            if any(call.name != name for call in calls):
                assert [call.name for call in calls] == [NEW_NAME], (
                    f"provider_parse_tool_calls returned the name {[call.name for call in calls]} for a call of the "
                    f"tool {NEW_NAME!r}. Return names exactly as they are: ask finds the tool by its name."
                )

    def test_unknown_finish_reasons_are_reported(self) -> None:
        if not (self.is_parsed("text") and self.is_parsed("length")):
            return
        text, length = (self.get_streamed_response(kind) for kind in ("text", "length"))
        ends = {path: leaf for path, leaf in iterate_paths(text) if isinstance(leaf, str)}
        paths = {
            path
            for path, leaf in iterate_paths(length)
            if isinstance(leaf, str) and leaf != ends.get(path, "") and leaf not in ("", EXPECTED["length"].text)
        }
        if not paths:
            return
        try:
            answer, _ = self.read(replace_paths(length, paths, UNKNOWN_REASON))
        except ProviderError:
            return
        fields = " and ".join(format_path(path) for path in sorted(paths))
        if answer.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS) and not answer.finish_message:
            fail(
                f"provider_parse_response returned finish_reason={answer.finish_reason!r}, as for a complete answer, "
                f"though {fields} is {UNKNOWN_REASON!r}. Return FinishReason.STOP only for reasons that mean success; "
                "for an unknown one also set finish_message to ask.parsing.format_unknown_reason(reason), or return "
                "FinishReason.ERROR."
            )

    def test_cached_tokens_are_reported(self) -> None:
        """Tokens read from the cache are part of the input tokens; those written to it are not cached tokens."""
        if "usage" in self.unsupported or not self.passes("test_usage_is_reported"):
            return
        for kind in filter(self.is_parsed, ("text", "reasoning")):
            response = self.get_streamed_response(kind)
            events = [parse_json(event.data) for event in self.streams[kind]]
            counts = dict(_find_cached_counts(events)) | dict(_find_cached_counts(response))
            cached = self.read(response)[0].usage.cached_tokens
            assert not counts or cached in counts.values(), (
                f"Usage.cached_tokens is {cached} for the sample {kind!r}, in which {next(iter(counts))} is "
                f"{next(iter(counts.values()))}. Return the tokens read from the cache in cached_tokens, without those "
                "written to it, and both in input_tokens."
            )

    def test_reasoning_in_the_samples_is_declared(self) -> None:
        """`unsupported` does not hide that the service returns reasoning."""
        if "reasoning" not in self.unsupported:
            return
        samples = {
            **{f"unstreamed_samples[{kind!r}]": response for kind, response in self.responses.items()},
            **{
                f"samples[{kind!r}]": [parse_json(event.data) for event in events]
                for kind, events in self.streams.items()
            },
        }
        for source, sample in samples.items():
            for path, leaf in iterate_paths(sample):
                if isinstance(leaf, str) and len(leaf) > 3 and REASONING_FIELD.search(path[-1] if path else ""):
                    fail(
                        f"{source} contains reasoning ({format_path(path)}: {shorten(leaf)}), but `unsupported` "
                        'contains "reasoning". Return it in ModelResponse.reasoning, and as a ReasoningDelta from '
                        "feed, and add the sample 'reasoning'."
                    )


def _find_cached_counts(value: Any) -> Iterator[tuple[str, int]]:
    """Yield the numbers of tokens that were read from the cache, with their paths."""
    for path, leaf in iterate_paths(value):
        name = format_path(path)
        is_count = isinstance(leaf, int) and not isinstance(leaf, bool) and leaf > 0
        if is_count and CACHE_PATH.search(name) and not NO_READ_PATH.search(name):
            yield name, leaf
