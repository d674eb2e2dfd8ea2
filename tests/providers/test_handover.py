"""Any provider can continue any other's conversation: calls and results stay, provider-specific data does not.

The conversations are made as runs make them, by reading a provider's own answers. Provider-specific data is looked for
in all 72 pairs. Everything else is read into neutral messages first, so that a provider's answer is sent back to itself
and to the next provider: each reads once and writes twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ask import ChatRequest, Message, ToolCall, ToolSpec
from tests.exchanges import put
from tests.model_server import ModelServer
from tests.wires import SERVICES, Part, Thought, Wire, arguments_of

ASKED = (Message("system", "Be kind."), Message("user", "What is in a.txt, and what lies beside it?"))
NEXT = Message("user", "And what follows from that?")
THOUGHT = Thought("Pondering in private.", "cHJpdmF0ZQ==")
CALLS = (
    ToolCall("call_1", "read_file", '{"filepath": "a.txt"}'),
    ToolCall("call_2", "list_dir", '{"dirpath": ".", "depth": {"most": [1, 2.5, null, "ĝi"]}}'),
)
TEXTS = ("contents of a", "file 12 a.txt")
TOOLS = [
    ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": {}}) for name in ("read_file", "list_dir")
]
NAMES = list(SERVICES)
PAIRS = [*zip(NAMES, NAMES, strict=True), *zip(NAMES, NAMES[1:] + NAMES[:1], strict=True)]
"""Each provider with itself, and with the next one."""
FAMILIES = ("anthropic/claude-test", "google/gemini-test", "openai/gpt-test", "x-ai/grok-test")


@cache
def answer(wire: Wire, *parts: Part, cut: bool = False) -> Message:
    """The message that is kept of a provider's answer."""
    with ModelServer() as server:
        server.reply(wire.says(*parts, cut=cut))
        turn = put(wire.provider, server, ChatRequest(wire.model, ASKED, TOOLS)).turn
    assert (turn.error is None) is not cut
    return Message("assistant", turn.answer.text, turn.tool_calls, native=turn.answer.native)


def carried_out(said: Message, texts: Sequence[str] = TEXTS) -> list[Message]:
    """An answer and the results of its calls."""
    results = zip(said.tool_calls, texts, strict=True)
    return [said, *(Message("tool", text, (), call.id, call.name) for call, text in results)]


def build(wire: Wire, *messages: Message) -> Any:
    """The body of a provider's request in a conversation that began with a question."""
    return wire.provider.provider_build_request(ChatRequest(wire.model, (*ASKED, *messages), TOOLS), "key").body


def plain(messages: Sequence[Message]) -> list[Any]:
    """What messages say, but for what a service has or has not: ids, names of results, and blanks for no text."""
    return [
        (one.role, one.content.strip(), [(call.name, json.loads(call.arguments)) for call in one.tool_calls])
        for one in messages
    ]


def private_parts(body: Any) -> set[str]:
    """The fields of the thought that a request holds."""
    written = json.dumps(body, ensure_ascii=False)
    return {field for field in THOUGHT._fields if getattr(THOUGHT, field) in written}


@pytest.mark.parametrize("first", NAMES)
def test_every_other_provider_gets_calls_and_results_and_no_provider_specific_data(first: str) -> None:
    one = SERVICES[first]
    begun = carried_out(answer(one, THOUGHT, "Let me see.", *CALLS))
    ended = [*begun, answer(one, THOUGHT, "It is short."), NEXT]
    for second in set(NAMES) - {first}:
        other = SERVICES[second]
        for messages in (begun, ended):
            body = build(other, *messages)
            assert plain(other.heard(body)) == plain([*ASKED, *messages]), second
            assert private_parts(body) == set(), second
            assert set(other.offered(body)) == {tool.name for tool in TOOLS}, second


@pytest.mark.parametrize("name", SERVICES)
def test_a_provider_gets_its_own_data_back(name: str) -> None:
    wire = SERVICES[name]
    messages = carried_out(answer(wire, THOUGHT, "Let me see.", *CALLS))
    body = build(wire, *messages)
    assert plain(wire.heard(body)) == plain([*ASKED, *messages])
    assert private_parts(body) == set(wire.keeps)


@pytest.mark.parametrize("first", NAMES)
def test_a_provider_that_takes_over_again_gets_its_own_data_alone(first: str) -> None:
    """One begins, another continues in the middle of the round, the first takes over again."""
    one = SERVICES[first]
    between = Thought("Someone else's thought.", "c29tZW9uZQ==")
    for second in set(NAMES) - {first}:
        messages = [
            *carried_out(answer(one, THOUGHT, *CALLS)),
            *carried_out(answer(SERVICES[second], between, "Once more.", *CALLS), ("again", "the same")),
        ]
        body = build(one, *messages)
        assert plain(one.heard(body)) == plain([*ASKED, *messages]), second
        assert private_parts(body) == set(one.keeps), second
        assert not any(part in json.dumps(body) for part in between), second


@pytest.mark.parametrize("wrote", FAMILIES)
def test_reasoning_through_openrouter_stays_in_its_model_family(wrote: str) -> None:
    one = replace(SERVICES["openrouter"], model=wrote)
    messages = carried_out(answer(one, THOUGHT, "Let me see.", *CALLS))
    for asked in FAMILIES:
        other = replace(one, model=asked)
        body = build(other, *messages)
        assert plain(other.heard(body)) == plain([*ASKED, *messages]), asked
        assert private_parts(body) == (set(one.keeps) if wrote == asked else set()), asked


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_a_vendors_own_api_and_openrouter_exchange_no_provider_specific_data(name: str) -> None:
    for family in FAMILIES:
        through, vendor = replace(SERVICES["openrouter"], model=family), SERVICES[name]
        for one, other in ((through, vendor), (vendor, through)):
            body = build(other, *carried_out(answer(one, THOUGHT, "Let me see.", *CALLS)))
            other.heard(body)
            assert private_parts(body) == set()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_invalid_arguments_are_sent_as_an_empty_object(first: str, second: str) -> None:
    written = ('{"filepath": ', '{"a": 1}{"a": 2}', "", "[1]", '"x"', '{"a": NaN}')
    calls = [ToolCall(f"call_{i}", "read_file", text) for i, text in enumerate(written)]
    check_kept(first, second, THOUGHT, "Let me see.", *calls, CALLS[1]._replace(id="call_9"))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_repeated_and_invalid_call_ids_keep_results_with_their_calls(first: str, second: str) -> None:
    ids = ("functions.read_file:0", "functions/read_file:0", "a b/ü|\n", "x" * 100, "x" * 101, "call_1")
    calls = [CALLS[i % 2]._replace(id=call_id) for i, call_id in enumerate(ids)]
    check_kept(first, second, THOUGHT, *calls, rounds=2)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_invalid_tool_names_are_replaced_with_valid_ones(first: str, second: str) -> None:
    names = ("functions.read_file", "read file", "$lookup", "", "ĝi", "x" * 80, "2nd")
    calls = [ToolCall(f"call_{i}", name, '{"a": 1}') for i, name in enumerate(names)]
    check_kept(first, second, THOUGHT, *calls, CALLS[1]._replace(id="call_9"))


def check_kept(first: str, second: str, *parts: Part, rounds: int = 1) -> None:
    """Every call that the first one made, and every result behind it, is in the second one's request."""
    one, other = SERVICES[first], SERVICES[second]
    said = answer(one, *parts)
    assert len(said.tool_calls) == len([part for part in parts if isinstance(part, ToolCall)])
    messages: list[Message] = []
    for count in range(rounds):
        messages += carried_out(said, [f"result {count}.{i}" for i in range(len(said.tool_calls))])
    body = build(other, *messages)
    json.dumps(body, allow_nan=False)
    kept = other.heard(body)[2:]
    assert [len(message.tool_calls) for message in kept] == [len(message.tool_calls) for message in messages]
    assert [message.content for message in kept if message.role == "tool"] == [
        message.content for message in messages if message.role == "tool"
    ]
    for call, before in zip(kept[0].tool_calls, said.tool_calls, strict=True):
        written = arguments_of(before)
        assert call.name == before.name or before.name not in {tool.name for tool in TOOLS}
        assert json.loads(call.arguments) == (written if isinstance(written, dict) else {})


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_empty_results_are_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    body = build(other, *carried_out(answer(one, "Let me see.", *CALLS), ("", "")), NEXT)
    assert [result.content.strip() for result in other.results(body)] == ["", ""]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_an_incomplete_answer_is_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    cut = answer(one, THOUGHT, "It is sh", cut=True)
    body = build(other, cut, NEXT)
    assert [message.content for message in other.heard(body)[1:]] == [ASKED[1].content, "It is sh", NEXT.content]
    assert first == second or private_parts(body) == set()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_calls_of_an_incomplete_answer_are_not_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    cut = answer(one, THOUGHT, "Let me see.", *CALLS, cut=True)
    body = build(other, cut, NEXT)
    heard = other.heard(body)
    assert [message.role for message in heard] == ["system", "user", "assistant", "user"]
    assert heard[2].tool_calls == ()
