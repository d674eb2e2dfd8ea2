"""Any provider can continue any other's conversation: calls and results stay, provider-specific data does not.

The conversations are built by reading each provider's own responses. Provider-specific data is looked for in all pairs.
Everything else becomes neutral messages first, so each provider's response is sent back to itself and to the next
provider: each reads once and writes twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from ask import ChatRequest, Message, ToolCall, ToolSpec
from tests.host_requests import prepare_request
from tests.model_server import ModelServer
from tests.provider_wires import SERVICES, Part, Reasoning, Wire, decode_arguments
from tests.recorded_exchanges import send_request

ASKED = (Message("system", "Be kind."), Message("user", "What is in a.txt, and what lies beside it?"))
NEXT = Message("user", "And what follows from that?")
THOUGHT = Reasoning("Pondering in private.", "cHJpdmF0ZQ==")
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
    """Return the message that is stored for a provider's response."""
    with ModelServer() as server:
        server.reply(wire.says(*parts, cut=cut))
        turn = send_request(wire.provider, server, ChatRequest(wire.model, ASKED), TOOLS).result
    assert (turn.error is None) is not cut
    return Message("assistant", turn.answer.text, turn.tool_calls, provider_state=turn.answer.provider_state)


def add_results(message: Message, texts: Sequence[str] = TEXTS) -> list[Message]:
    """Return an assistant message and the results of its calls."""
    results = zip(message.tool_calls, texts, strict=True)
    return [message, *(Message("tool", text, (), call.id, call.name) for call, text in results)]


def build(wire: Wire, *messages: Message) -> Any:
    """Build a provider's request body for a conversation that starts with a question."""
    request = prepare_request(wire.provider, wire.model, (*ASKED, *messages), TOOLS)
    return wire.provider.provider_build_request(request, "key").body


def plain(messages: Sequence[Message]) -> list[Any]:
    """Return messages without what differs between services: ids, names of results, and blanks for missing text."""
    return [
        (one.role, one.content.strip(), [(call.name, json.loads(call.arguments)) for call in one.tool_calls])
        for one in messages
    ]


def private_parts(body: Any) -> set[str]:
    """Return the fields of a request that contain the thinking."""
    written = json.dumps(body, ensure_ascii=False)
    return {field for field in THOUGHT._fields if getattr(THOUGHT, field) in written}


@pytest.mark.parametrize("first", NAMES)
def test_every_other_provider_gets_calls_and_results_and_no_provider_specific_data(first: str) -> None:
    one = SERVICES[first]
    begun = add_results(answer(one, THOUGHT, "Let me see.", *CALLS))
    ended = [*begun, answer(one, THOUGHT, "It is short."), NEXT]
    for second in set(NAMES) - {first}:
        other = SERVICES[second]
        for messages in (begun, ended):
            body = build(other, *messages)
            assert plain(other.read_conversation(body)) == plain([*ASKED, *messages]), second
            assert private_parts(body) == set(), second
            assert set(other.offered(body)) == {tool.name for tool in TOOLS}, second


@pytest.mark.parametrize("name", SERVICES)
def test_a_provider_gets_its_own_data_back(name: str) -> None:
    wire = SERVICES[name]
    messages = add_results(answer(wire, THOUGHT, "Let me see.", *CALLS))
    body = build(wire, *messages)
    assert plain(wire.read_conversation(body)) == plain([*ASKED, *messages])
    assert private_parts(body) == set(wire.required_reasoning_fields)


@pytest.mark.parametrize("first", NAMES)
def test_provider_that_takes_over_again_gets_only_its_own_data(first: str) -> None:
    """One provider starts, another continues in the middle of the round, and the first takes over again."""
    one = SERVICES[first]
    between = Reasoning("Someone else's thought.", "c29tZW9uZQ==")
    for second in set(NAMES) - {first}:
        messages = [
            *add_results(answer(one, THOUGHT, *CALLS)),
            *add_results(answer(SERVICES[second], between, "Once more.", *CALLS), ("again", "the same")),
        ]
        body = build(one, *messages)
        assert plain(one.read_conversation(body)) == plain([*ASKED, *messages]), second
        assert private_parts(body) == set(one.required_reasoning_fields), second
        assert not any(part in json.dumps(body) for part in between), second


@pytest.mark.parametrize("wrote", FAMILIES)
def test_reasoning_through_openrouter_stays_in_its_model_family(wrote: str) -> None:
    one = replace(SERVICES["openrouter"], model=wrote)
    messages = add_results(answer(one, THOUGHT, "Let me see.", *CALLS))
    for asked in FAMILIES:
        other = replace(one, model=asked)
        body = build(other, *messages)
        assert plain(other.read_conversation(body)) == plain([*ASKED, *messages]), asked
        assert private_parts(body) == (set(one.required_reasoning_fields) if wrote == asked else set()), asked


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_a_vendors_own_api_and_openrouter_exchange_no_provider_specific_data(name: str) -> None:
    for family in FAMILIES:
        through, vendor = replace(SERVICES["openrouter"], model=family), SERVICES[name]
        for one, other in ((through, vendor), (vendor, through)):
            body = build(other, *add_results(answer(one, THOUGHT, "Let me see.", *CALLS)))
            other.read_conversation(body)
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
    """Check that all calls of the first request, and the results after them, are in the second one."""
    one, other = SERVICES[first], SERVICES[second]
    assistant = answer(one, *parts)
    assert len(assistant.tool_calls) == len([part for part in parts if isinstance(part, ToolCall)])
    messages: list[Message] = []
    for count in range(rounds):
        messages += add_results(assistant, [f"result {count}.{i}" for i in range(len(assistant.tool_calls))])
    body = build(other, *messages)
    json.dumps(body, allow_nan=False)
    kept = other.read_conversation(body)[2:]
    assert [len(message.tool_calls) for message in kept] == [len(message.tool_calls) for message in messages]
    assert [message.content for message in kept if message.role == "tool"] == [
        message.content for message in messages if message.role == "tool"
    ]
    for call, before in zip(kept[0].tool_calls, assistant.tool_calls, strict=True):
        written = decode_arguments(before)
        assert call.name == before.name or before.name not in {tool.name for tool in TOOLS}
        assert json.loads(call.arguments) == (written if isinstance(written, dict) else {})


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_empty_results_are_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    body = build(other, *add_results(answer(one, "Let me see.", *CALLS), ("", "")), NEXT)
    assert [result.content.strip() for result in other.results(body)] == ["", ""]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_an_incomplete_answer_is_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    cut = answer(one, THOUGHT, "It is sh", cut=True)
    body = build(other, cut, NEXT)
    assert [message.content for message in other.read_conversation(body)[1:]] == [
        ASKED[1].content,
        "It is sh",
        NEXT.content,
    ]
    assert first == second or private_parts(body) == set()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_calls_of_an_incomplete_answer_are_not_sent(first: str, second: str) -> None:
    one, other = SERVICES[first], SERVICES[second]
    cut = answer(one, THOUGHT, "Let me see.", *CALLS, cut=True)
    body = build(other, cut, NEXT)
    heard = other.read_conversation(body)
    assert [message.role for message in heard] == ["system", "user", "assistant", "user"]
    assert heard[2].tool_calls == ()
