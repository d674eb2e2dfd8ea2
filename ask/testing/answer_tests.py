# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for parsing answers, run on the provider's sample answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ask import AskError, FinishReason, Message, ProviderError, ReasoningDelta, TextDelta, ToolCallDelta
from ask.testing.base import ContractBase
from ask.testing.conversation import SHORT_CONVERSATION, TOOLS, check_once, iterate_leaves
from ask.testing.samples import CALL_KINDS, EXPECTED

if TYPE_CHECKING:
    import pytest


class AnswerTests(ContractBase):
    """The contract for the stream reader, `provider_parse_response` and `provider_parse_tool_calls`."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test that uses samples once for every kind that the provider has."""
        kinds = {
            "streamed": self.streams.keys(),
            "unstreamed": self.wholes.keys(),
            "both_ways": self.streams.keys() & self.wholes.keys() - {"error"},
            "calling": self.streams.keys() & CALL_KINDS,
        }
        for name in kinds.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, sorted(kinds[name]))

    def test_fresh_reader_holds_an_empty_answer(self) -> None:
        reader, _ = self.feed([])
        assert reader.complete is False, "no end was seen yet"
        try:
            answer, calls = self.read(reader.response())
        except ProviderError:
            return
        assert (answer.text, answer.reasoning, calls) == ("", "", [])

    def test_readers_share_nothing(self) -> None:
        for events in self.streams.values():
            self.feed(events)
        self.test_fresh_reader_holds_an_empty_answer()

    def test_stream_says_what_its_kind_holds(self, streamed: str) -> None:
        reader, deltas = self.feed(self.streams[streamed])
        expected = EXPECTED[streamed]
        response = reader.response()
        json.dumps(response)
        if expected.error:
            self.check_error(streamed, response, text_before_error=expected.text)
            return
        assert reader.complete is not expected.cut, "`ended` tells whether the end marker was seen"
        self.check_answer(streamed, response)
        answer, calls = self.read(response)
        text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        reasoning = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
        indexed_names = [(delta.index, delta.name) for delta in deltas if isinstance(delta, ToolCallDelta)]
        assert text == answer.text, "what is shown as it comes is the answer's text"
        assert reasoning == answer.reasoning, "reasoning is shown as it comes"
        assert indexed_names == list(enumerate(call.name for call in calls)), "each call is told once, as it begins"

    def test_whole_answer_says_what_its_kind_holds(self, unstreamed: str) -> None:
        if EXPECTED[unstreamed].error:
            self.check_error(unstreamed, self.wholes[unstreamed], text_before_error=None)
        else:
            self.check_answer(unstreamed, self.wholes[unstreamed])

    def test_stream_and_whole_answer_read_the_same(self, both_ways: str) -> None:
        streamed, streamed_calls = self.read(self.feed(self.streams[both_ways])[0].response())
        unstreamed, unstreamed_calls = self.read(self.wholes[both_ways])
        assert streamed == unstreamed
        assert [decode_call(call) for call in streamed_calls] == [decode_call(call) for call in unstreamed_calls]

    def test_result_goes_back_with_what_the_model_needs(self, calling: str) -> None:
        """The next request contains each result once, and the answer's provider state."""
        answer, calls = self.read(self.feed(self.streams[calling])[0].response())
        model = answer.provider_state.model if answer.provider_state else ""
        state = answer.provider_state and answer.provider_state._replace(model=model or self.model)
        texts = [f"The sum, number {i}." for i in range(len(calls))]
        results = (Message("tool", text, (), call.id, call.name) for text, call in zip(texts, calls, strict=True))
        message = Message("assistant", answer.text, tuple(calls), provider_state=state)
        body = self.build((*SHORT_CONVERSATION, message, *results), model=model, tools=TOOLS).body
        check_once(body, *texts)
        if state:
            state_texts = {leaf for leaf in iterate_leaves(state.data) if isinstance(leaf, str)}
            lost = state_texts - set(iterate_leaves(body))
            assert not lost, f"provider state that did not go back: {lost}"

    def check_answer(self, kind: str, response: Mapping[str, Any]) -> None:
        """Check that a response parses to what `EXPECTED` defines for its kind."""
        answer, calls = self.read(response)
        expected = EXPECTED[kind]
        assert expected.text in (None, answer.text), f"text of {kind}: {answer.text!r}"
        assert answer.reasoning == expected.reasoning, f"reasoning of {kind}"
        assert [decode_call(call) for call in calls] == list(expected.calls), f"calls of {kind}"
        finishes = {expected.finish, FinishReason.STOP} if calls else {expected.finish}
        assert expected.cut or answer.finish_reason in finishes, f"finish of {kind}: {answer.finish_reason}"

    def check_error(self, kind: str, response: Mapping[str, Any], text_before_error: str | None) -> None:
        """Check that a response raises its error, which has the text before it as its answer."""
        try:
            self.read(response)
        except ProviderError as error:
            assert EXPECTED[kind].error in error.message.lower(), f"the error's own words: {error.message!r}"
            if text_before_error is not None:
                assert error.partial_response is not None, "what was said before the error is the error's answer"
                assert error.partial_response.text == text_before_error
            return
        except AskError as error:
            raise AssertionError(f"{kind} raises a ProviderError, not {error!r}") from error
        raise AssertionError(f"{kind} raises a ProviderError")


def decode_call(call: Any) -> tuple[str, Any]:
    """Return a call's name and its parsed arguments."""
    return call.name, json.loads(call.arguments)
