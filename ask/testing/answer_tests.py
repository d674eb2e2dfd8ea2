# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for parsing answers, run on the provider's sample answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import takewhile
from typing import Any

import pytest

from ask import (
    AskError,
    ChatCompletions,
    FinishReason,
    Message,
    ModelResponse,
    ProviderError,
    ReasoningDelta,
    ServerToolDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
)
from ask.parsing import parse_json, read_dict, read_first_choice
from ask.testing.base import ContractBase, fail, remove_end_markers, warn_author
from ask.testing.conversation import SHORT_CONVERSATION, TOOLS, check_once, find_occurrences, iterate_leaves
from ask.testing.samples import CALL_KINDS, EXPECTED, find_second_call_ids, find_state_texts

INPUT_TOKENS, OUTPUT_TOKENS = 12, 7
"""The usage of the sample "text"."""


class AnswerTests(ContractBase):
    """The contract for the stream reader, `provider_parse_response` and `provider_parse_tool_calls`."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test that uses samples once for every kind that the provider has."""
        known = EXPECTED.keys()
        kinds = {
            "streamed": self.streams.keys() & known,
            "unstreamed": self.given_responses.keys() & known,
            "both_ways": self.streams.keys() & self.given_responses.keys() & known - {"error"},
            "calling": self.streams.keys() & CALL_KINDS,
        }
        for name in kinds.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, sorted(kinds[name]))

    def test_streamed_answer_is_parsed(self, streamed: str) -> None:
        self.report_first_failure(self.check_stream, streamed)

    def report_first_failure(self, check: Callable[[str], None], kind: str) -> None:
        """Check a sample; skip the test if a simpler sample fails, too: one mistake is one failure."""
        __tracebackhide__ = True
        try:
            check(kind)
        except (Exception, pytest.fail.Exception):
            for simpler in takewhile(lambda other: other != kind, EXPECTED):
                if not self.is_correct(check, simpler):
                    pytest.skip(f"not run, because it fails for the sample {simpler!r}; correct that first")
            raise

    def is_correct(self, check: Callable[[str], None], kind: str) -> bool:
        """Check a sample, if there is one of this kind; return whether it is correct."""
        samples = {
            "check_stream": self.streams,
            "check_response": self.responses,
            "check_both_forms": self.streams.keys() & self.responses.keys() - {"error"},
            "check_sent_back": self.streams.keys() & CALL_KINDS,
        }
        if kind not in samples[check.__name__]:
            return True
        try:
            check(kind)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - the test itself reports it
            return False
        return True

    def check_stream(self, streamed: str) -> None:
        """Check that the stream of a kind is read and parsed to its expected content."""
        reader, deltas = self.feed(self.streams[streamed])
        expected = EXPECTED[streamed]
        response = self.get_response(reader)
        json.dumps(response)
        if expected.error:
            self.check_error(streamed, response, text_before_error=expected.text)
            return
        self.check_answer(streamed, response)
        if expected.is_cut:
            assert not reader.complete, (
                "The stream reader is complete after a stream that was cut off. Set complete only at the end marker."
            )
        elif len(remove_end_markers(self.streams[streamed])) == len(self.streams[streamed]):
            assert reader.complete, (
                f"The stream reader is not complete after the sample {streamed!r}. Set complete at the end marker."
            )
        self.check_deltas(streamed, deltas, *self.read(response))

    def check_deltas(self, kind: str, deltas: list[Any], answer: ModelResponse, calls: list[ToolCall]) -> None:
        """Check that the deltas of a stream add up to its answer."""
        for name, delta_type, expected in (
            ("reasoning", ReasoningDelta, answer.reasoning),
            ("text", TextDelta, answer.text),
        ):
            shown = "".join(delta.text for delta in deltas if isinstance(delta, delta_type))
            assert shown == expected, (
                f"The {delta_type.__name__}s of the sample {kind!r} add up to {shown!r}, but its {name} is "
                f"{expected!r}. Return each new piece of {name} once, as a {delta_type.__name__}, from feed."
            )
        shown_calls = tuple(delta.call for delta in deltas if isinstance(delta, ServerToolDelta))
        assert shown_calls == answer.server_calls, (
            f"The ServerToolDeltas of the sample {kind!r} have {shown_calls}, but its server_calls are "
            f"{answer.server_calls}. Return each finished call once, as a ServerToolDelta, from feed."
        )
        indexed_names = [(delta.index, delta.name) for delta in deltas if isinstance(delta, ToolCallDelta)]
        expected_names = list(enumerate(call.name for call in calls))
        assert indexed_names == expected_names, (
            f"The ToolCallDeltas of the sample {kind!r} are {indexed_names}, but its calls are {expected_names}. "
            "Return one ToolCallDelta(index, name) from feed when a call begins."
        )

    def test_unstreamed_answer_is_parsed(self, unstreamed: str) -> None:
        self.report_first_failure(self.check_response, unstreamed)

    def check_response(self, unstreamed: str) -> None:
        """Check that the response of a kind is parsed to its expected content."""
        if EXPECTED[unstreamed].error:
            self.check_error(unstreamed, self.responses[unstreamed], text_before_error=None)
        else:
            self.check_answer(unstreamed, self.responses[unstreamed])

    def test_responses_without_streaming_are_confirmed(self) -> None:
        """Show the responses that the stream reader makes up, for the author to compare with the service's."""
        if not (kinds := self.list_unconfirmed_kinds()):
            return
        responses = self.responses
        entries = (f'        "{kind}": {responses[kind]},\n' for kind in kinds if kind in responses)
        warn_author(
            type(self),
            f"unstreamed_samples lacks {', '.join(kinds)}; the tests used what the stream reader returned. Compare it "
            "with what the service returns without streaming. If it is the same, confirm it by adding it to the class:"
            f"\n\n    unstreamed_samples = {{\n{''.join(entries)}    }}\n",
        )

    def test_both_forms_of_an_answer_are_parsed_alike(self, both_ways: str) -> None:
        self.report_first_failure(self.check_both_forms, both_ways)

    def check_both_forms(self, both_ways: str) -> None:
        """Check that both samples of a kind are parsed to the same answer, if each is correct."""
        if not (self.is_correct(self.check_stream, both_ways) and self.is_correct(self.check_response, both_ways)):
            return
        streamed, streamed_calls = self.read_stream(both_ways)
        unstreamed, unstreamed_calls = self.read(self.responses[both_ways])
        for name, streamed_value, unstreamed_value in zip(streamed._fields, streamed, unstreamed, strict=True):
            assert streamed_value == unstreamed_value, (
                f"The {name} of the sample {both_ways!r} differs: {streamed_value!r} if streamed, {unstreamed_value!r} "
                "without streaming. Make the reader's response() return what the service returns without streaming."
            )
        assert list(map(decode_call, streamed_calls)) == list(map(decode_call, unstreamed_calls)), (
            f"The calls of the sample {both_ways!r} differ between streaming and not. Make the reader's response() "
            "return what the service returns without streaming."
        )

    def test_call_ids_are_those_of_the_service(self) -> None:
        self.require_tools()
        if "parallel" not in self.responses or "parallel" not in self.streams:
            return
        _, unstreamed = self.read(self.responses["parallel"])
        _, streamed = self.read_stream("parallel")
        service_ids = find_second_call_ids(self.responses)
        events = [parse_json(event.data) for event in self.streams["parallel"]]
        for form, calls in (("answer", unstreamed), ("streamed answer", streamed)):
            ids = [call.id for call in calls]
            is_known = len(ids) < 2 or ids[1] in service_ids or (calls is streamed and find_occurrences(ids[1], events))
            assert is_known or not service_ids, (
                f"The second call of the {form} 'parallel' has the id {ids[1]!r}; the service sends "
                f"{' or '.join(map(repr, sorted(service_ids)))}. Return the service's id: the result must name it."
            )

    def test_usage_is_reported(self) -> None:
        if "usage" in self.unsupported:
            return
        answers = {}
        if "text" in self.responses and self.is_correct(self.check_response, "text"):
            answers["without streaming"] = self.read(self.responses["text"])[0]
        if "text" in self.streams and self.is_correct(self.check_stream, "text"):
            answers["of the stream"] = self.read_stream("text")[0]
        for form, answer in answers.items():
            usage = answer.usage
            assert (usage.input_tokens, usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS), (
                f"The sample 'text' {form} has the usage {usage} instead of {INPUT_TOKENS} input and {OUTPUT_TOKENS} "
                "output tokens: a count is missing, or they are swapped. Return the counts of the prompt and of the "
                'answer or, if the service does not report them, set unsupported = {"usage"} in the test class.'
            )

    def test_result_is_sent_back_with_the_provider_state(self, calling: str) -> None:
        """The next request contains each result once, and the answer's provider state."""
        self.report_first_failure(self.check_sent_back, calling)

    def check_sent_back(self, calling: str) -> None:
        """Check the request after the streamed sample of a kind, if that is correct."""
        if not self.is_correct(self.check_stream, calling):
            return
        answer, calls = self.read_stream(calling)
        state = answer.provider_state
        model = (state and state.model) or self.model_name
        texts = [f"The sum, number {i}." for i in range(len(calls))]
        results = (Message("tool", text, (), call.id, call.name) for text, call in zip(texts, calls, strict=True))
        sent_state = state and state._replace(model=model)
        message = Message("assistant", answer.text, tuple(calls), provider_state=sent_state)
        body = self.build((*SHORT_CONVERSATION, message, *results), model=model, tools=TOOLS).body
        check_once(body, *texts)
        state_texts = {leaf for leaf in iterate_leaves(state.data) if isinstance(leaf, str)} if state else set()
        required = state_texts | self.find_required_state(calling)
        lost = sorted(required - set(iterate_leaves(body)))
        assert not lost, (
            f"The next request lacks {lost} from the sample {calling!r}, which the service needs back; the "
            f"provider_state is {state}. Return it in ModelResponse.provider_state under the provider's own name, and "
            "add self.find_provider_state(message, request.model) to the message."
        )

    def test_answer_is_continued(self) -> None:
        """Check how an answer is continued, if the sample "length" or "cut" has a continuation token."""
        for kind in ("length", "cut"):
            if kind in self.streams and self.is_correct(self.check_stream, kind):
                response = self.get_streamed_response(kind)
                if token := self.read(response)[0].continuation_token:
                    self.check_continuation(kind, response, token)

    def check_continuation(self, kind: str, response: Mapping[str, Any], token: str) -> None:
        """Check the request with a token, and the response that is joined with its response."""
        check_once(self.build(continuation_token=token).body, token)
        hook = "provider_join_responses"
        for added, text in (({}, ""), (self.responses["text"], "Hello, wörld!")):
            joined, _ = self.read(self.call(hook, response=deepcopy(response), continuation=deepcopy(added)))
            assert joined.text == f"Hello, w{text}", (
                f"The text of the sample {kind!r}, joined with a response with {text!r}, is {joined.text!r}. Join the "
                f"contents in {hook}."
            )
            assert bool(joined.continuation_token) is not bool(added), (
                f"The sample {kind!r}, joined with a {'complete' if added else 'missing'} response, has the "
                f"continuation_token {joined.continuation_token!r}. Take it from the continuation, and keep the "
                f"earlier one only while the answer is not complete, in {hook}."
            )

    def find_required_state(self, kind: str) -> set[str]:
        """Return the texts in a sample that must be sent back."""
        response = self.responses.get(kind, {})
        if not isinstance(self.provider, ChatCompletions):
            return find_state_texts(response)
        message = read_dict(read_first_choice(response).get("message"))
        fields = [message.get(name) for name in self.provider.state_fields]
        return {leaf for leaf in iterate_leaves(fields) if isinstance(leaf, str)}

    def check_answer(self, kind: str, response: Mapping[str, Any]) -> None:
        """Check that a response parses to what `EXPECTED` defines for its kind."""
        answer, calls = self.read(response)
        expected = EXPECTED[kind]
        text = answer.text if expected.text is None else expected.text
        in_text = " The reasoning is in the text." if expected.reasoning and expected.reasoning in answer.text else ""
        assert answer.text == text, (
            f"The text of the sample {kind!r} is {answer.text!r} instead of {text!r}.{in_text} Correct "
            "provider_parse_response, the stream reader or the sample."
        )
        assert answer.reasoning == expected.reasoning, (
            f"The reasoning of the sample {kind!r} is {answer.reasoning!r} instead of {expected.reasoning!r}. Return "
            "it in ModelResponse.reasoning."
        )
        decoded = [decode_call(call) for call in calls]
        assert decoded == list(expected.calls), (
            f"The calls of the sample {kind!r} are {decoded} instead of {list(expected.calls)}. Return every call of "
            "the response, in order, from provider_parse_tool_calls."
        )
        self.check_sources(kind, answer)
        finishes = {expected.finish_reason, FinishReason.STOP} if calls else {expected.finish_reason}
        if not expected.is_cut and answer.finish_reason not in finishes:
            fail(
                f"The finish_reason of the sample {kind!r} is {answer.finish_reason!r} instead of "
                f"{expected.finish_reason!r}. "
                f"Map the service's reason to FinishReason.{expected.finish_reason.name}."
            )

    @staticmethod
    def check_sources(kind: str, answer: ModelResponse) -> None:
        """Check the sources of an answer, and the calls that the service ran itself."""
        expected = EXPECTED[kind]
        urls = tuple(citation.url for citation in answer.citations)
        assert urls == expected.sources, (
            f"The citations of the sample {kind!r} have the addresses {list(urls)} instead of "
            f"{list(expected.sources)}. Return the sources of the answer in ModelResponse.citations."
        )
        for citation in answer.citations:
            start, end = citation.start, citation.end
            assert (start is None and end is None) or 0 <= (start or 0) < (end or 0) <= len(answer.text), (
                f"A citation of the sample {kind!r} is at {start} to {end}, but the text has {len(answer.text)} "
                "characters. Count in characters of ModelResponse.text, or return None for both."
            )
        calls = tuple((call.name, parse_json(call.arguments)) for call in answer.server_calls)
        assert calls in ((), expected.server_calls), (
            f"The server_calls of the sample {kind!r} are {list(calls)} instead of {list(expected.server_calls)}. Use "
            "ask's names of the tools, and JSON for the arguments."
        )

    def check_error(self, kind: str, response: Mapping[str, Any], text_before_error: str | None) -> None:
        """Check that a response raises its error, which has the text before it as its answer."""
        try:
            answer, _ = self.read(response)
        except ProviderError as error:
            word = EXPECTED[kind].error
            assert word in error.message.lower(), (
                f"The message of the error is {error.message!r}, without the service's own words. Include its message, "
                f"which contains {word!r} in the sample."
            )
            if text_before_error is not None:
                partial_text = error.partial_response and error.partial_response.text
                assert partial_text == text_before_error, (
                    f"The error's partial_response has the text {partial_text!r} instead of {text_before_error!r}. Set "
                    "error.partial_response to the answer received before the error."
                )
            return
        except AskError as error:
            fail(f"The sample {kind!r} raises {error!r}. Raise an ask.ProviderError from provider_parse_response.")
        fail(
            f"The error in the sample {kind!r} is ignored: provider_parse_response returned {answer.text!r}. Raise an "
            "ask.ProviderError, for errors in the middle of a stream, too."
        )


def decode_call(call: ToolCall) -> tuple[str, Any]:
    """Return a call's name and its parsed arguments."""
    arguments = parse_json(call.arguments)
    return call.name, call.arguments if arguments is None else arguments
