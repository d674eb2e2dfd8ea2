"""Reports about tool calls: names and arguments as models and gateways really write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ask import ToolSpec
from ask.plugin_api.tool_schemas import normalize_tool
from ask.tools.arguments import parse_arguments
from ask.tools.base import ToolError
from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Result
from tests.provider_wires import SERVICES
from tests.providers import gemini_wire
from tests.providers import test_ollama as ollama_wire

DONE = wire.says("done")
FILE = '{"filepath": "a.txt"}'
SPEC = ToolSpec(
    "pick",
    "",
    {
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "share": {"type": "number"},
            "deep": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "box": {"type": "object"},
            "text": {"type": "string"},
            "either": {"type": ["string", "integer"]},
            "few": {"type": ["integer", "null"]},
        },
    },
)


@pytest.fixture(autouse=True)
def file(ask: Ask) -> Path:
    path = ask.cwd / "a.txt"
    path.write_text("alpha\nbeta\n")
    return path


def call_once(ask: Ask, server: ModelServer, name: str, arguments: Any, *options: str) -> list[str]:
    """Let the model make one call; return the results that it gets."""
    server.reply(wire.calls((name, arguments)), DONE)
    assert ask(*options, "go").text == "done\n"
    return read_results(server)


def read_results(server: ModelServer, service: str = "openrouter") -> list[str]:
    messages = SERVICES[service].read(server.requests[-1].json)
    return [message.content for message in messages if message.role == "tool"]


# Arguments that are not a JSON object, but have only one meaning


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps(FILE),  # https://github.com/quarkiverse/quarkus-langchain4j/pull/2642
        '{"filepath": "a.txt",}',  # https://github.com/dataelement/Clawith/pull/212
        "{'filepath': 'a.txt', 'limit': None}",  # https://github.com/waybarrios/vllm-mlx/pull/64
        f"```json\n{FILE}\n```",
    ],
    ids=["encoded twice", "trailing comma", "Python", "fenced"],
)
def test_arguments_with_one_meaning_are_repaired_and_sent_back_valid(
    ask: Ask, server: ModelServer, arguments: str
) -> None:
    assert call_once(ask, server, "read_file", arguments) == ["alpha\nbeta\n"]
    sent = server.requests[-1].json["messages"][-2]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"filepath": "a.txt"}
    server.reply(DONE)
    assert ask("-c", "and now?").code == 0  # the saved call is valid, too
    assert server.requests[-1].json["messages"][2]["tool_calls"][0]["function"]["arguments"] == sent


def test_line_breaks_in_arguments_are_line_breaks(ask: Ask, server: ModelServer) -> None:
    # https://github.com/MoonshotAI/kimi-cli/pull/1580
    call_once(ask, server, "write_file", '{"filepath": "b.txt", "content": "one\n\ttwo\n"}', "--yes")
    assert (ask.cwd / "b.txt").read_text() == "one\n\ttwo\n"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"text": "a\\$b"}',  # a backslash or an escaped dollar? https://github.com/anthropics/claude-code/issues/87251
        '{"text": "cut of',  # https://github.com/Yeachan-Heo/gajae-code/pull/1025
        '{"text": "a"',
        '{"text": "a"}{"text": "b"}',
        '{"text": a}',  # https://github.com/NousResearch/hermes-agent/pull/83229
        "{'text': {1, 2}}",
        "{'text': b'x'}",
        "{'text': 'it\\$'}",
        "{'text': open('a.txt')}",
        '"text"',
        '"[1]"',
        "{'count': 1e999}",
        "{'text': " + "[" * 5_000 + "]" * 5_000 + "}",
    ],
)
def test_arguments_with_more_than_one_meaning_are_refused(arguments: str) -> None:
    with pytest.raises(ToolError):
        parse_arguments(SPEC, arguments)


def test_commas_in_text_are_kept() -> None:
    assert parse_arguments(SPEC, '{"text": ",}", "names": ["a,]", ",",],\n}') == {"text": ",}", "names": ["a,]", ","]}


# Values of another type


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"count": "2"}, {"count": 2}),  # https://github.com/cline/cline/pull/12641
        ({"count": "2.0"}, {"count": 2}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"deep": "true"}, {"deep": True}),  # https://github.com/moltis-org/moltis/pull/1136
        ({"names": '["a", "b"]'}, {"names": ["a", "b"]}),  # https://github.com/anthropics/claude-code/issues/22394
        ({"names": "a"}, {"names": ["a"]}),  # https://github.com/anthropics/claude-code/issues/71927
        ({"box": '{"a": 1}'}, {"box": {"a": 1}}),  # https://github.com/anomalyco/opencode/pull/32812
        ({"few": "null"}, {"few": None}),
        # Where text is allowed, it stays text: https://github.com/dust-tt/dust/pull/27777
        ({"text": "007"}, {"text": "007"}),
        ({"text": '{"a": 1}'}, {"text": '{"a": 1}'}),
        ({"either": "5"}, {"either": "5"}),
    ],
)
def test_text_is_converted_where_no_text_is_allowed(arguments: Any, expected: Any) -> None:
    assert parse_arguments(SPEC, json.dumps(arguments)) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": "2.5"},
        {"count": "two"},
        {"count": "NaN"},
        {"share": "1e999"},
        {"count": ["2"]},
        {"deep": "yes"},
        {"deep": 1},
        {"names": ""},
        {"names": 5},
        {"names": {"0": "a"}},
        {"box": "a"},
        {"text": 1.1},  # its digits may be lost: https://github.com/agentscope-ai/QwenPaw/pull/6936
    ],
)
def test_other_values_of_a_wrong_type_are_refused(arguments: Any) -> None:
    with pytest.raises(ToolError):
        parse_arguments(SPEC, json.dumps(arguments))


# Schemas


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        # https://github.com/can1357/oh-my-pi/issues/2652
        ({"anyOf": [{"type": "string", "enum": ["A"]}, {"type": "null", "enum": ["A"]}]}, "A"),
        ({"type": "array", "enum": [0, 1], "items": {"type": "integer"}}, [0]),
        # https://github.com/mongodb-js/mongodb-mcp-server/issues/715
        ({"type": "string", "enum": [256, 512]}, "256"),
        ({"type": "integer", "enum": [1.0, 2.0, "3"]}, 2),
        ({"type": "string", "enum": []}, "x"),
        ({"type": "int"}, 1),  # https://github.com/Kuadrant/mcp-gateway/pull/689
    ],
)
def test_a_contradictory_schema_costs_neither_the_tool_nor_the_others(schema: Any, value: Any) -> None:
    spec = ToolSpec("pick", "", {"type": "object", "properties": {"a": schema}})
    sent = normalize_tool(spec).parameters["properties"]["a"]
    assert find_contradictions(sent) == []
    Draft202012Validator.check_schema(sent)
    assert parse_arguments(spec, json.dumps({"a": value})) == {"a": value}


def find_contradictions(schema: Any) -> list[Any]:
    """Return the values of enums that do not match the type beside them."""
    if not isinstance(schema, dict):
        return [found for part in schema for found in find_contradictions(part)] if isinstance(schema, list) else []
    checker = Draft202012Validator({"type": schema["type"]} if "type" in schema else {})
    wrong = [value for value in schema.get("enum", []) if not checker.is_valid(value)]
    return wrong + [found for part in schema.values() for found in find_contradictions(part)]


# Names


@pytest.mark.parametrize(
    "name",
    [
        "Read_File",  # https://github.com/Tencent/AI-Infra-Guard/pull/360
        "read_file<|channel|>commentary",  # https://github.com/vllm-project/vllm/issues/32587
        "functions.read_file<|channel|>json",
        "functions.read_file:0",  # https://github.com/fw-ai/fireconnect/issues/16
        "default_api.read_file",  # https://github.com/juspay/clairvoyance/pull/1030
        "default_api:read_file",
        " read_file\n",
    ],
)
def test_a_tool_is_found_by_a_decorated_name(ask: Ask, server: ModelServer, name: str) -> None:
    assert call_once(ask, server, name, FILE) == ["alpha\nbeta\n"]


@pytest.mark.parametrize("name", ["github.read_file", "read_file_v2", "<|channel|>read_file", "read", ""])
def test_another_tool_is_not_run_instead_of_an_unknown_one(ask: Ask, server: ModelServer, name: str) -> None:
    [result] = call_once(ask, server, name, FILE)
    assert "there is no tool" in result


# Several calls


def test_one_bad_call_does_not_stop_the_others(ask: Ask, server: ModelServer) -> None:
    # https://github.com/XpressAI/xaibo/pull/33
    server.reply(
        wire.calls(("read_file", FILE), ("read_file", '{"filepath": '), ("nope", {}), ("list_dir", {"dirpath": "."})),
        DONE,
    )
    assert ask("go").code == 0
    first, second, third, fourth = read_results(server)
    assert (first, fourth) == ("alpha\nbeta\n", "file 11 a.txt")
    assert "not JSON" in second
    assert "no tool 'nope'" in third


def test_ids_that_repeat_in_an_answer_are_told_apart(ask: Ask, server: ModelServer) -> None:
    # https://github.com/can1357/oh-my-pi/issues/2055
    answer = wire.answer(None, [("read_file", FILE), ("list_dir", {"dirpath": "."})])
    for call in answer["choices"][0]["message"]["tool_calls"]:
        call["id"] = "same"
    server.reply(wire.whole_reply(answer), DONE)
    ask("--no-stream", "go")
    calls, *results = server.requests[-1].json["messages"][-3:]
    ids = [call["id"] for call in calls["tool_calls"]]
    assert len(set(ids)) == 2
    assert [result["tool_call_id"] for result in results] == ids


@pytest.mark.parametrize(
    "chunks",
    [
        [wire.call(0, id="call_1", name="bash", arguments='{"command": "echo x >> ran"}')] * 2,
        [wire.call(i, id="call_1", name="bash", arguments='{"command": "echo x >> ran"}') for i in range(2)],
    ],
    ids=["same index", "other index"],
)
def test_a_call_that_is_sent_twice_runs_once(ask: Ask, server: ModelServer, chunks: list[Any]) -> None:
    # https://github.com/OpenRouterTeam/ai-sdk-provider/pull/489, https://github.com/QwenLM/qwen-code/pull/9436
    server.reply(wire.streams(*chunks, wire.finish("tool_calls")), DONE)
    assert ask("--yes", "go").text == "done\n"
    assert (ask.cwd / "ran").read_text() == "x\n"


def test_a_call_without_name_and_arguments_is_left_out(ask: Ask, server: ModelServer) -> None:
    # https://github.com/farion1231/cc-switch/pull/4159
    phantoms = [wire.call(1, id="call_2", name="", arguments=""), wire.chunk({"tool_calls": [None]})]
    calls = [wire.call(0, id="call_1", name="read_file", arguments=FILE), *phantoms]
    server.reply(wire.streams(*calls, wire.finish("tool_calls")), DONE)
    ask("go")
    assert read_results(server) == ["alpha\nbeta\n"]


def test_a_call_without_its_wrapper_runs(ask: Ask, server: ModelServer) -> None:
    answer = wire.answer(None, [("read_file", FILE)])
    answer["choices"][0]["message"]["tool_calls"] = [{"id": "call_1", "name": "read_file", "arguments": FILE}]
    server.reply(wire.whole_reply(answer), DONE)
    ask("--no-stream", "go")
    assert read_results(server) == ["alpha\nbeta\n"]


@pytest.mark.parametrize("cut", [0, 8])
def test_a_streamed_call_without_its_wrapper_runs(ask: Ask, server: ModelServer, cut: int) -> None:
    fragments: list[dict[str, object]] = [
        {"index": 0, "id": "call_1", "name": "read_file", "arguments": FILE[:cut]},
        {"index": 0, "arguments": FILE[cut:]},
    ]
    chunks = [wire.chunk({"tool_calls": [fragment]}) for fragment in fragments]
    server.reply(wire.streams(*chunks, wire.finish("tool_calls")), DONE)
    ask("go")
    assert read_results(server) == ["alpha\nbeta\n"]


@pytest.mark.parametrize("service", ["openai", "anthropic"])
def test_ids_that_repeat_in_a_later_round_are_told_apart(ask: Ask, server: ModelServer, service: str) -> None:
    # https://github.com/openclaw/openclaw/issues/84730; a conversation that Moonshot began
    for limit in (1, 2):
        arguments = json.dumps({"filepath": "a.txt", "limit": limit})
        server.reply(wire.streams(wire.call(0, id="read_file:0", name="read_file", arguments=arguments), wire.finish()))
    server.reply(DONE, SERVICES[service].says("done"))
    ask("-p", "moonshot", "go")
    ask("-p", service, "-m", SERVICES[service].model, "-c", "more")
    calls = [call for message in SERVICES[service].read(server.requests[-1].json) for call in message.tool_calls]
    assert [json.loads(call.arguments)["limit"] for call in calls] == [1, 2]
    assert len({call.id for call in calls}) == 2


def test_a_cut_off_call_is_not_run_although_it_is_valid(ask: Ask, server: ModelServer) -> None:
    # https://github.com/jaseci-labs/jac/pull/6766
    command = ("bash", {"command": "touch ran"})
    server.reply(wire.streams(*wire.stream(None, [command], finish="length")))
    assert ask("--yes", "go").code == 10
    assert not (ask.cwd / "ran").exists()


def test_calls_run_whatever_the_finish_reason_says(ask: Ask, server: ModelServer) -> None:
    # https://github.com/vercel/workflow/issues/1387
    server.reply(wire.streams(*wire.stream("I look.", [("read_file", FILE)], finish="other")), DONE)
    ask("go")
    assert read_results(server) == ["alpha\nbeta\n"]


# Responses


def responses_stream(*events: Any) -> Reply:
    done = responses_wire.streams(*responses_wire.events(responses_wire.response(responses_wire.message("done"))))
    return responses_wire.streams(*events) if events else done


ADDED: dict[str, Any] = {
    "type": "response.output_item.added",
    "output_index": 0,
    "item": {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file", "arguments": ""},
}
ARGUMENTS_DONE = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": FILE}
ARGUMENTS_DELTA = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": FILE}


def completed(*output: Any) -> Any:
    return {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": list(output)}}


@pytest.mark.parametrize(
    "events",
    [
        # https://github.com/NousResearch/hermes-agent/issues/92764
        [ADDED, ARGUMENTS_DELTA, completed()],
        # https://github.com/Wei-Shaw/sub2api/pull/6629
        [ADDED, ARGUMENTS_DONE, completed()],
        [ADDED, ARGUMENTS_DELTA, completed(ADDED["item"])],
        [ADDED, ARGUMENTS_DONE, ADDED | {"type": "response.output_item.done"}, completed()],
        # https://github.com/OpenRouterTeam/ai-sdk-provider/pull/336
        [ADDED, ARGUMENTS_DONE | {"arguments": ""}, completed(responses_wire.call("read_file", FILE))],
        [ADDED, ARGUMENTS_DELTA, completed(responses_wire.message("I look."))],
    ],
    ids=["no item done", "only done", "blank at the end", "blank item", "only at the end", "missing at the end"],
)
def test_arguments_are_found_wherever_they_are(ask: Ask, server: ModelServer, events: list[Any]) -> None:
    server.reply(responses_stream(*events), responses_stream())
    assert ask("-p", "openai", "go").code == 0
    assert read_results(server, "openai") == ["alpha\nbeta\n"]


@pytest.mark.parametrize("index", [{"output_index": 0}, {}], ids=["one index", "no index"])
def test_items_that_share_an_index_are_told_apart(ask: Ask, server: ModelServer, index: Any) -> None:
    # https://github.com/decolua/9router/issues/2611
    text_added = {"type": "response.output_item.added", "item": responses_wire.message(id="msg_1")}
    text = {"type": "response.output_text.delta", "delta": "I look."}
    list_added = ADDED | {"item": ADDED["item"] | {"id": "fc_2", "call_id": "call_2", "name": "list_dir"}}
    list_delta = ARGUMENTS_DELTA | {"delta": '{"dirpath": "."}'}
    events: list[dict[str, Any]] = [text_added, text, ADDED, ARGUMENTS_DELTA, list_added, list_delta]
    plain = [{name: value for name, value in event.items() if name != "output_index"} for event in events]
    server.reply(responses_stream(*(event | index for event in plain), completed()), responses_stream())
    assert ask("-p", "openai", "go").text == "I look.\ndone\n"
    assert read_results(server, "openai") == ["alpha\nbeta\n", "file 11 a.txt"]


def test_a_call_that_cannot_be_answered_is_not_sent_back(ask: Ask, server: ModelServer) -> None:
    # https://github.com/diegosouzapw/OmniRoute/issues/8946
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "bash", "input": "ls"}
    answer = responses_wire.response(responses_wire.reasoning("Look."), custom, responses_wire.call("read_file", FILE))
    server.reply(responses_wire.whole_reply(answer), responses_stream())
    ask("-p", "openai", "--no-stream", "go")
    assert read_results(server, "openai") == ["alpha\nbeta\n"]
    types = [item.get("type") for item in server.requests[-1].json["input"]]
    assert types[-3:] == ["reasoning", "function_call", "function_call_output"]


# Gemini and Ollama


def test_a_decorated_name_does_not_cost_the_signature(ask: Ask, server: ModelServer) -> None:
    # https://github.com/juspay/clairvoyance/pull/1030
    call = gemini_wire.call("default_api:read_file", signature="c2ln", filepath="a.txt")
    server.reply(gemini_wire.streamed(*gemini_wire.chunks(call)), SERVICES["gemini"].says("done"))
    ask("-p", "gemini", "-m", gemini_wire.MODEL, "go")
    sent, results = server.requests[-1].json["contents"][-2:]
    assert sent["parts"][0]["thoughtSignature"] == "c2ln"
    assert sent["parts"][0]["functionCall"]["name"] == results["parts"][0]["functionResponse"]["name"]
    assert read_results(server, "gemini") == ["alpha\nbeta\n"]


def run_ollama(ask: Ask, server: ModelServer, *lines: Any) -> Result:
    done = ollama_wire.streams(ollama_wire.text_line("done"), ollama_wire.done(prompt_eval_count=9_999))
    server.reply(ollama_wire.streams(*lines), done)
    return ask("-p", "ollama", "-m", ollama_wire.MODEL, "go")


@pytest.mark.parametrize(
    "calls",
    [
        [{"function": {"name": "read_file", "arguments": FILE}}],
        {"function": {"name": "read_file", "arguments": {"filepath": "a.txt"}}},
    ],
    ids=["arguments as text", "one call without a list"],
)
def test_ollama_calls_in_other_forms_run(ask: Ask, server: ModelServer, calls: Any) -> None:
    line = ollama_wire.line(message={"tool_calls": calls})
    assert run_ollama(ask, server, line, ollama_wire.done(prompt_eval_count=9_999)).code == 0
    assert read_results(server, "ollama") == ["alpha\nbeta\n"]


def test_a_call_that_ollama_cannot_parse_is_tried_again(ask: Ask, server: ModelServer) -> None:
    # https://github.com/ollama/ollama/issues/12884
    result = run_ollama(ask, server, {"error": "error parsing tool call: raw='{', err=unexpected end of JSON input"})
    assert (result.text, result.code, len(server.requests)) == ("done\n", 0, 2)


@pytest.mark.parametrize("status", [200, 500])
def test_a_call_that_ollama_never_can_parse_is_requested_twice(status: int, ask: Ask, server: ModelServer) -> None:
    error = {"error": "error parsing tool call: raw='{', err=unexpected end of JSON input"}
    server.reply(*[ollama_wire.streams(error) if status == 200 else wire.whole_reply(error, status)] * 4)
    assert ask("-p", "ollama", "-m", ollama_wire.MODEL, "go").code == 6
    assert len(server.requests) == 2


def test_calls_with_the_same_index_are_told_apart(ask: Ask, server: ModelServer) -> None:
    # https://github.com/ollama/ollama/issues/15457
    calls = [
        {"function": {"index": 0, "name": "read_file", "arguments": {"filepath": "a.txt"}}},
        {"function": {"index": 0, "name": "list_dir", "arguments": {"dirpath": "."}}},
    ]
    run_ollama(ask, server, ollama_wire.line(message={"tool_calls": calls}), ollama_wire.done(prompt_eval_count=9_999))
    assert read_results(server, "ollama") == ["alpha\nbeta\n", "file 11 a.txt"]
