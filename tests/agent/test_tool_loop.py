"""The tool loop with a real client and real tools: its requests, messages and events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ask import ChatCompletions, FinishReason, Message, ModelResponse, ProviderState, TextDelta, ToolSpec, Usage
from ask.agent.tool_loop import RunResult, ToolLoop
from ask.app import AppContext
from ask.client.provider_client import ProviderClient
from ask.client.transport import Transport
from ask.config.directories import AppDirs
from ask.config.settings import Settings
from ask.errors import (
    IncompleteResponseError,
    IncompleteStreamError,
    LimitReachedError,
    ProviderError,
    RunInterruptedError,
    SafetyError,
)
from ask.events import Event, MessageAdded, Notice, RequestStarted, ToolCallFinished, ToolCallRequested, ToolCallStarted
from ask.messages import ToolCallDelta
from ask.plugin_api.provider_loading import check_provider
from ask.tools.base import RunToolContext, Tool, ToolResult
from tests import wire
from tests.model_server import DROP, ModelServer
from tests.run_requests import make_request

START = [Message("user", "Go.")]
STOP_HERE = "stop here"


class PausingService(ChatCompletions):
    """A service that pauses during a turn and has models without tool support."""

    state_fields = ("paused",)

    def provider_supports_tools(self, model: str) -> bool:
        return model != "plain"

    def provider_parse_response(self, response: Mapping[str, Any]) -> ModelResponse:
        answer = super().provider_parse_response(response)
        if response["choices"][0]["finish_reason"] != "pause":
            return answer
        state = ProviderState(self.info.name, wire.MODEL, {"paused": True})
        return ModelResponse(answer.text, answer.reasoning, FinishReason.CONTINUE, answer.usage, state)


def say(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    if arguments["word"] == STOP_HERE:
        raise KeyboardInterrupt
    return ToolResult(arguments["word"].upper())


PARAMETERS = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
SAY = Tool(ToolSpec("say", "Says a word.", PARAMETERS), say, has_side_effects=True)


class AgentBench:
    """An agent that talks to the server, and its events."""

    def __init__(self, server: ModelServer, folder: Path) -> None:
        self.events: list[Event] = []
        self.interrupted_event = -1
        """The number of the event during which the user presses Ctrl-C."""
        self._server = server
        self._folder = folder

    def run(
        self, *, model: str = wire.MODEL, max_rounds: int = 10, stream: bool = True, confirm: bool = False
    ) -> RunResult:
        provider = check_provider(
            PausingService(name="test", base_url=self._server.base_url, needs_key=False), "test", ""
        )
        client = ProviderClient(
            provider,
            lambda: Transport(self._server.base_url, 10),
            "",
            tries=2,
            backoff=0.01,
            on_notice=lambda text: self.events.append(Notice(text)),
        )
        request = make_request(
            self._folder,
            provider=provider,
            model=model,
            user_message=START[0],
            tools=[SAY],
            settings=Settings(stream=stream, max_rounds=max_rounds, confirm=confirm),
        )
        app = AppContext({})
        app.app_dirs = AppDirs(self._folder / "config", self._folder / "data", self._folder / "cache")
        return ToolLoop(request, app, self._on_event, client=client, system_prompt="Be brief.").run()

    def _on_event(self, event: Event) -> None:
        self.events.append(event)
        if len(self.events) - 1 == self.interrupted_event:
            raise KeyboardInterrupt

    @property
    def added_messages(self) -> list[Message]:
        """The messages in the events."""
        return [event.message for event in self.events if isinstance(event, MessageAdded)]


@pytest.fixture
def bench(server: ModelServer, tmp_path: Path) -> AgentBench:
    return AgentBench(server, tmp_path)


def say_call(text: str) -> wire.Call:
    return ("say", {"word": text})


def test_events_are_reported_in_order(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a"), say_call("b"), content="I say."), wire.says("Said."))
    outcome = bench.run()
    assert outcome.error is None
    kinds = [type(event) for event in bench.events]
    # What came together of a text is one piece of it.
    assert [kind for place, kind in enumerate(kinds) if kind is not TextDelta or kinds[place - 1] is not TextDelta] == [
        *(RequestStarted, TextDelta, ToolCallDelta, ToolCallDelta, MessageAdded),
        *(ToolCallRequested, ToolCallStarted, ToolCallFinished, MessageAdded) * 2,
        *(RequestStarted, TextDelta, MessageAdded),
    ]


def test_the_added_messages_are_the_conversation(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a"), say_call("b"), content="I say."), wire.says("Said."))
    outcome = bench.run()
    assert outcome.messages == [*START, *bench.added_messages]
    assert [(m.role, m.content, m.tool_call_id, m.tool_name) for m in bench.added_messages] == [
        ("assistant", "I say.", "", ""),
        ("tool", "A", "call_0", "say"),
        ("tool", "B", "call_1", "say"),
        ("assistant", "Said.", "", ""),
    ]
    assert (outcome.rounds, outcome.finish_reason) == (1, FinishReason.STOP)


def test_the_third_identical_call_in_a_row_is_not_run(bench: AgentBench, server: ModelServer) -> None:
    words = ["a", "a", "a", "a", "b", "a", "a", "b", "a"]
    server.reply(*(wire.calls(say_call(word)) for word in words), wire.says("Said."))
    bench.run()
    finished = [event for event in bench.events if isinstance(event, ToolCallFinished)]
    assert [event.result.startswith("Error: not run") for event in finished] == [
        *(False, False, True, True),
        *(False, False, False, False, False),
    ]
    assert (finished[2].verdict, finished[2].rule) == ("deny", "repeated")


def test_the_usage_of_all_requests_is_summed(bench: AgentBench, server: ModelServer) -> None:
    last = [
        wire.text("Said."),
        wire.finish(),
        wire.usage(100, 50, cost=0.5, prompt_tokens_details={"cached_tokens": 7}),
    ]
    server.reply(wire.calls(say_call("a")), wire.streams(*last))
    assert bench.run().usage == Usage(110, 55, 7, cost=0.5)


def test_after_a_pause_the_partial_answer_is_sent_back(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.says("I think,", finish="pause"), wire.says("so I am."))
    outcome = bench.run()
    assert outcome.error is None
    assert [message.content for message in bench.added_messages] == ["I think,", "so I am."]
    assert bench.added_messages[0].provider_state == ProviderState("test", wire.MODEL, {"paused": True})
    assert server.requests[1].json["messages"][-1] == {"role": "assistant", "content": "I think,", "paused": True}


def test_endless_pauses_reach_the_limit(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.says("And", finish="pause"))
    outcome = bench.run(max_rounds=3)
    assert isinstance(outcome.error, LimitReachedError)
    assert len(server.requests) == 4


def test_a_model_without_tool_support_gets_no_tools(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert bench.run(model="plain").error is None
    assert not server.requests[0].json.keys() & {"tools", "tool_choice"}
    first = bench.events[0]
    assert isinstance(first, Notice)
    assert "plain" in first.text
    assert "tools" in first.text


@pytest.mark.parametrize("stream", [True, False])
def test_streaming_does_not_change_the_conversation(bench: AgentBench, server: ModelServer, stream: bool) -> None:
    server.reply(wire.calls(say_call("a"), content="I say.", whole=not stream), wire.says("Said.", whole=not stream))
    outcome = bench.run(stream=stream)
    assert [message.content for message in outcome.messages[1:]] == ["I say.", "A", "Said."]
    assert outcome.usage == Usage(20, 10)


def test_an_interruption_still_answers_every_call_in_order(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a"), say_call(STOP_HERE), say_call("c")))
    outcome = bench.run()
    assert isinstance(outcome.error, RunInterruptedError)
    results = outcome.messages[2:]
    assert [message.tool_call_id for message in results] == ["call_0", "call_1", "call_2"]
    finished, stopped, never_started = (message.content for message in results)
    assert finished == "A"
    assert all(text.startswith("Error: ") and "interrupted" in text for text in (stopped, never_started))
    assert "not run" in never_started
    assert "not run" not in stopped
    assert len(server.requests) == 1


def test_after_an_interruption_at_any_event_every_call_has_a_result(
    bench: AgentBench, server: ModelServer, tmp_path: Path
) -> None:
    server.reply(wire.calls(say_call("a"), say_call("b"), whole=True))
    bench.run(max_rounds=1, stream=False)
    for number in range(len(bench.events)):
        interrupted = AgentBench(server, tmp_path)
        interrupted.interrupted_event = number
        outcome = interrupted.run(max_rounds=1, stream=False)
        assert isinstance(outcome.error, RunInterruptedError), bench.events[number]
        calls = [call.id for message in outcome.messages for call in message.tool_calls]
        assert [message.tool_call_id for message in outcome.messages[2:] if message.role == "tool"] == calls, number


def test_calls_in_the_answer_at_the_limit_are_dropped(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a")), wire.calls(say_call("b"), content="One more."))
    outcome = bench.run(max_rounds=1)
    assert isinstance(outcome.error, LimitReachedError)
    assert outcome.messages[-1] == Message("assistant", "One more.")


def test_an_incomplete_answer_is_kept_without_its_calls(bench: AgentBench, server: ModelServer) -> None:
    fragments = [wire.text("I say"), wire.call(0, id="c", name="say", arguments='{"word": "a"}')]
    server.reply(wire.streams(*fragments, DROP))
    outcome = bench.run()
    assert isinstance(outcome.error, IncompleteStreamError)
    assert outcome.messages[-1] == Message("assistant", "I say")
    assert outcome.finish_reason is FinishReason.STREAM_INCOMPLETE
    assert bench.events[-1] == MessageAdded(
        Message("assistant", "I say"),
        False,
        ModelResponse("I say", finish_reason=FinishReason.STREAM_INCOMPLETE, model=wire.MODEL),
    )


def test_an_error_in_a_later_round_keeps_the_rounds_before_it(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a")), wire.fails(400, "too long"))
    outcome = bench.run()
    assert isinstance(outcome.error, ProviderError)
    assert [message.role for message in outcome.messages] == ["user", "assistant", "tool"]
    assert outcome.rounds == 1


def test_an_empty_answer_after_a_tool_call_fails(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a")), wire.streams(wire.finish()))
    outcome = bench.run()
    assert isinstance(outcome.error, IncompleteResponseError)
    assert outcome.finish_reason is FinishReason.EMPTY


def test_a_denial_without_a_terminal_fails_the_run_despite_an_answer(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a")), wire.says("I may not."))
    outcome = bench.run(confirm=True)
    assert isinstance(outcome.error, SafetyError)
    assert outcome.messages[-1].content == "I may not."


def test_a_failed_request_is_tried_again_within_the_round(bench: AgentBench, server: ModelServer) -> None:
    server.reply(wire.calls(say_call("a")), wire.fails(503), wire.says("Said."))
    outcome = bench.run()
    assert (outcome.error, outcome.rounds) == (None, 1)
    assert server.requests[1].body == server.requests[2].body
    assert sum(isinstance(event, Notice) for event in bench.events) == 1
