"""Tool calls in the nonstandard forms of some Chat Completions services, streamed or not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ChatCompletions, Delta, RawEvent, ToolCallDelta
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask

CHAT = ChatCompletions(name="test", base_url="http://test/v1")
LS = '{"command": "ls"}'
CALL = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": LS}}


def read_stream(*chunks: wire.Json) -> tuple[list[tuple[str, str]], list[Delta]]:
    """Return the calls in a stream, and its text."""
    reader = CHAT.provider_stream_reader()
    shown = [delta for chunk in chunks for delta in reader.feed(RawEvent(None, json.dumps(chunk)))]
    return [(call.name, call.arguments) for call in CHAT.provider_parse_tool_calls(reader.response())], shown


# Names in parts


def test_a_name_may_be_split_between_chunks() -> None:
    calls, shown = read_stream(
        wire.call(0, id="a", name="ba", arguments=""), wire.call(0, name="sh"), wire.call(0, arguments=LS)
    )
    assert calls == [("bash", LS)]
    assert shown == [ToolCallDelta(0, "ba"), ToolCallDelta(0, "bash")]


@pytest.mark.parametrize("call_id", [None, "", "a"])
def test_a_repeated_name_is_not_doubled(call_id: str | None) -> None:
    calls, shown = read_stream(
        wire.call(0, id="a", name="bash", arguments=""),
        wire.call(0, id=call_id, name="bash", arguments=""),
        wire.call(0, id=call_id, name="bash", arguments=LS[:5]),
        wire.call(0, id=call_id, name="bash", arguments=LS[5:]),
    )
    assert (calls, shown) == ([("bash", LS)], [ToolCallDelta(0, "bash")])


def test_a_name_after_arguments_is_not_appended() -> None:
    calls, _ = read_stream(
        wire.call(0, id="a", name="bash", arguments=LS[:5]), wire.call(0, name="x", arguments=LS[5:])
    )
    assert calls == [("bash", LS)]


@pytest.mark.slow
@given(st.lists(st.text("ab_", min_size=1, max_size=4), min_size=1, max_size=4), st.booleans())
def test_chunks_of_several_names_may_be_interleaved(parts: list[str], first: bool) -> None:
    whole: dict[int, str] = {0: "", 1: ""}
    chunks = []
    for part in parts:
        for index in (0, 1) if first else (1, 0):
            if part != whole[index]:
                whole[index] += part
                chunks.append(wire.call(index, name=part, arguments=""))
    chunks += [wire.call(index, arguments="{}") for index in (0, 1)]
    assert sorted(read_stream(*chunks)[0]) == sorted((name, "{}") for name in whole.values())


# A single call


def test_a_response_may_contain_a_single_call_instead_of_a_list() -> None:
    (call,) = CHAT.provider_parse_tool_calls({"choices": [{"message": {"tool_calls": CALL}}]})
    assert (call.id, call.name, call.arguments) == ("a", "bash", LS)


def test_a_stream_may_contain_a_single_call_instead_of_a_list() -> None:
    head = wire.chunk({"tool_calls": {"index": 0, "id": "a", "function": {"name": "bash", "arguments": LS[:3]}}})
    assert read_stream(head, wire.chunk({"tool_calls": {"index": 0, "function": {"arguments": LS[3:]}}}))[0] == [
        ("bash", LS)
    ]


# Through the program


@pytest.mark.parametrize("whole", [False, True])
def test_a_single_call_is_executed_and_answered(ask: Ask, server: ModelServer, whole: bool) -> None:
    delta = {"tool_calls": CALL}
    (ask.cwd / "teal.txt").touch()
    whole_answer = {"choices": [{"message": delta}]}
    reply = wire.whole_reply(whole_answer) if whole else wire.streams(wire.chunk(delta), wire.finish())
    server.reply(reply, wire.says("There it is."))
    result = ask("-p", "openrouter", "look")
    assert (result.text, result.code) == ("There it is.\n", 0)
    *_, made, answered = server.requests[1].json["messages"]
    assert made["tool_calls"][0]["function"]["name"] == "bash"
    assert made["tool_calls"][0]["id"] == answered["tool_call_id"] != ""
    assert "teal.txt" in wire.asked(server.requests[1].json)


@pytest.mark.parametrize("name", ["functions.bash", "bash ", " functions.bash\n"])
def test_a_tool_is_found_by_the_prefixed_names_that_models_use(ask: Ask, server: ModelServer, name: str) -> None:
    server.reply(wire.calls((name, {"command": "echo teal"})), wire.says("Teal."))
    result = ask("-p", "openrouter", "look")
    assert result.text == "Teal.\n"
    assert wire.asked(server.requests[1].json) == "exit code: 0\nstdout:\nteal\n"
    assert "bash" in result.stderr
    assert "functions" not in result.stderr


def test_a_prefix_does_not_make_an_unknown_tool_known(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("functions.nothing", {})), wire.says("No."))
    ask("-p", "openrouter", "look")
    assert "there is no tool 'functions.nothing'" in wire.asked(server.requests[1].json)
