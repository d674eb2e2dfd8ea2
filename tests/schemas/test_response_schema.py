"""`--schema`: only JSON that matches the schema is printed; other answers are corrected or fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import Message, ToolCall
from ask.schemas.short_form import parse_short_form
from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.provider_wires import SERVICES

SHORT = "name, age int"
SCHEMA = parse_short_form(SHORT)
ADA = '{"name":"Ada","age":36}'
TOO_FEW = '{"name": "Ada"}'
PROBLEM = "$: 'age' is a required property"
SAID_AGAIN = f"Your answer is not valid: {PROBLEM}\n\nAnswer again with only a JSON value that matches the schema"
LOOK = ("bash", {"command": "echo 36"})


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}, ask.cwd)


def message_contents(server: ModelServer, request: int) -> list[str]:
    """Return the contents of a request's messages."""
    body = server.requests[request].json
    return [wire.asked(body, place) if one["content"] else "" for place, one in enumerate(body["messages"])]


# What is printed


@pytest.mark.parametrize(
    "answer",
    [
        '{"name": "Ada", "age": 36}',
        '```json\n{\n  "name": "Ada",\n  "age": 36\n}\n```\n',
        'Here is what you want:\n\n{"name": "Ada", "age": 36}\n\nI hope it helps.',
    ],
)
def test_only_the_value_is_printed_on_one_line(ask: Ask, server: ModelServer, answer: str) -> None:
    server.reply(wire.says(answer))
    result = ask("--schema", SHORT, "who was the first programmer?")
    assert (result.text, result.stderr, result.code) == (f"{ADA}\n", "", 0)
    system, _ = message_contents(server, 0)
    assert f"\n\n{json.dumps(SCHEMA)}\n\n" in system
    assert "{{" not in system


@pytest.mark.slow
def test_on_a_terminal_it_is_printed_on_several_lines(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says('{"name": "*Ada*\\u001b[31m\\n# One", "age": 36}'))
    result = ask.on_terminal("--schema", SHORT, "-q", "who?", env={"TERM": "dumb"})
    assert result.text == '{\n  "name": "*Ada*\\u001b[31m\\n# One",\n  "age": 36\n}\n'
    server.reply(wire.says(ADA))
    assert '{\n  "name": "Ada",\n  "age": 36\n}\n' in ask.on_terminal("--schema", SHORT, "-q", "who?").text


def test_json_output_has_the_value_as_text_and_as_data(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(f"```\n{ADA}\n```"), wire.says("I do not know.", whole=True))
    result = json.loads(ask("--json", "--schema", SHORT, "who?").text)
    assert (result["text"], result["data"], result["exit_code"]) == (ADA, json.loads(ADA), 0)
    server.reply(*[wire.says("No.")] * 3)
    result = json.loads(ask("--json", "--schema", SHORT, "who?").text)
    assert (result["text"], result["data"], result["exit_code"]) == ("", None, 10)
    assert "schema" in result["error"]


def test_events_have_the_value_once_it_matches(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(TOO_FEW), wire.says(ADA))
    events = [json.loads(line) for line in ask("--events", "--schema", SHORT, "who?").text.splitlines()]
    assert [event["type"] for event in events] == ["start", "usage", "notice", "usage", "text", "result"]
    assert (events[-2]["text"], events[-1]["data"]) == (ADA, json.loads(ADA))


def test_without_a_stream_it_is_the_same(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(TOO_FEW, whole=True), wire.says(ADA, whole=True))
    assert ask("--no-stream", "--schema", SHORT, "who?").text == f"{ADA}\n"


# Once more


def test_an_invalid_answer_is_requested_again_in_the_same_conversation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(TOO_FEW), wire.says("Sorry!"), wire.says(ADA))
    result = ask("--schema", SHORT, "who?")
    assert (result.text, result.code) == (f"{ADA}\n", 0)
    first, second = result.stderr.splitlines()
    assert PROBLEM in first
    assert "1 of 2" in first
    assert "JSON" in second
    assert "2 of 2" in second
    said = message_contents(server, 2)
    assert said[1:3] == ["who?", TOO_FEW]
    assert said[3].startswith(SAID_AGAIN)
    assert said[4] == "Sorry!"
    assert [request.json["tool_choice"] for request in server.requests] == ["auto", "none", "none"]


def test_after_two_retries_it_fails_and_prints_nothing(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says(TOO_FEW)] * 3)
    result = ask("--schema", SHORT, "-q", "who?")
    assert (result.stdout, result.code) == (b"", 10)
    assert PROBLEM in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(server.requests) == 3


def test_verbose_shows_the_raw_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("I would rather not.")] * 3)
    result = ask("--schema", SHORT, "-v", "who?")
    assert (result.stdout, result.code) == (b"", 10)
    assert result.stderr.count("I would rather not.\n") == 1


def test_a_cost_limit_prevents_a_retry(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text(TOO_FEW), wire.finish(), wire.usage(cost=0.5)))
    result = ask("--schema", SHORT, "--max-cost", "0.4", "who?")
    assert (result.stdout, result.code, len(server.requests)) == (b"", 10, 1)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (wire.streams(wire.text('{"name": "Ada", "age": 3'), DROP), 10),
        (wire.streams(wire.text(ADA), DROP), 10),
        (wire.says('{"name": "Ada", "age": 3', finish="length"), 10),
        (wire.says("", finish="stop"), 10),
        (wire.fails(401, "no such key"), 6),
    ],
)
def test_an_incomplete_answer_is_not_printed(ask: Ask, server: ModelServer, reply: Any, code: int) -> None:
    server.reply(reply)
    result = ask("--schema", SHORT, "who?")
    assert (result.stdout, result.code, len(server.requests)) == (b"", code, 1)
    assert result.stderr.count("\n") == 1


# With tools


def test_text_beside_tool_calls_is_not_the_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(LOOK, content='{"name": "Look", "age": 1}'), wire.says(ADA))
    result = ask("--schema", SHORT, "who?")
    assert (result.text, result.code) == (f"{ADA}\n", 0)
    assert "36" in message_contents(server, 1)[-1]


def test_at_the_round_limit_the_last_answer_must_match_too(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(LOOK), wire.says("Enough."), wire.says(ADA))
    result = ask("--schema", SHORT, "--max-rounds", "1", "who?")
    assert (result.text, result.code) == (f"{ADA}\n", 11)
    assert [request.json["tool_choice"] for request in server.requests] == ["auto", "none", "none"]


def test_a_tool_call_instead_of_a_correction_is_not_run(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("No."), wire.calls(LOOK, content=ADA))
    result = ask("--schema", SHORT, "who?")
    assert (result.text, result.code) == (f"{ADA}\n", 0)
    assert "echo" not in result.stderr


# Every provider

READ = ToolCall("call_read", "read_file", '{"filepath": "ada.txt"}')


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("deepseek", "lmstudio", "moonshot", "xai") else [])
        for name in SERVICES
    ],
)
def test_every_provider_gets_the_schema_and_a_retry(ask: Ask, home: Home, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    (home.work / "ada.txt").write_text("Ada, 36\n")
    server.reply(service.says(READ), service.says(TOO_FEW), service.says(f"```json\n{ADA}\n```"))
    root = server.base_url.removesuffix("/api/v1") + service.address
    env = {f"{name.upper()}_API_KEY": TEST_KEY, f"{name.upper()}_BASE_URL": root}
    result = ask("-p", name, "-m", service.model, "--schema", SHORT, "-q", "who?", env=env)
    assert (result.text, result.stderr, result.code) == (f"{ADA}\n", "", 0)
    first, second, third = (service.read_conversation(request.json) for request in server.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert third[0].content.count(json.dumps(SCHEMA)) == 1
    assert third[-2] == Message("assistant", TOO_FEW)
    assert third[-1].content.startswith(SAID_AGAIN)
    bodies = [json.dumps(request.json).replace('\\"', "") for request in server.requests]
    assert ('"age": {' in bodies[2]) == (name != "deepseek"), "the last request carries the schema itself"


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
def test_a_rejected_schema_is_sent_only_in_the_prompt(ask: Ask, server: ModelServer, whole: bool) -> None:
    refusal = "response_format of type json_schema is not supported with this model"
    server.reply(wire.fails(400, refusal), wire.says("No.", whole=whole), wire.says(ADA, whole=whole))
    result = ask("--no-tools", *(["--no-stream"] if whole else []), "--schema", SHORT, "who?")
    assert (result.text, result.code) == (f"{ADA}\n", 0)
    notice, again = result.stderr.splitlines()
    assert f"{refusal} (openrouter, 400)" in notice
    assert "1 of 2" in again
    assert ["response_format" in request.json for request in server.requests] == [True, False, False]
    assert message_contents(server, 0) == message_contents(server, 1)


def test_a_model_without_support_for_schema_and_tools_is_asked_without_both(ask: Ask, server: ModelServer) -> None:
    model = "openai/gpt-test"
    server.reply(wire.fails(400, "response_format is not supported"))
    server.reply(wire.fails(400, "this model does not support tools"), wire.says(ADA))
    result = ask("-m", model, "--schema", SHORT, "who?")
    assert (result.text, result.code, result.stderr.count("\n")) == (f"{ADA}\n", 0, 2)
    assert {"tools", "response_format"} & server.requests[2].json.keys() == set()


# The conversation


def test_all_attempts_are_saved_and_continuing_does_not_keep_the_schema(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(TOO_FEW), wire.says(ADA), wire.says("In London."), wire.says('{"city": "London"}'))
    ask("--schema", SHORT, "who?")
    assert ask("-c", "where?").text == "In London.\n"
    assert "JSON Schema" not in message_contents(server, 2)[0]
    assert "response_format" not in server.requests[2].json
    assert [text[:12] for text in message_contents(server, 2)[1:]] == [
        "who?",
        TOO_FEW[:12],
        "Your answer ",
        ADA[:12],
        "where?",
    ]
    assert ask("-c", "--schema", "city", "and as JSON?").text == '{"city":"London"}\n'
    shown = ask("history", "show").text
    assert "> Your answer is not valid" in shown
    assert json.loads(ask("history", "export", "--json").text)


@pytest.mark.slow
@pytest.mark.needs("jq")
def test_schema_works_with_stdin_and_options(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says('{"lines": ["a", "b"]}'))
    script = 'printf "a\\nb\\n" | ask --schema "lines [string]" -s "Be exact." --no-save which lines | jq -r ".lines[]"'
    assert ask.shell(script).text == "a\nb\n"
    system, asked = message_contents(server, 0)
    assert system.endswith("Be exact.")
    assert "<stdin>\na\nb\n</stdin>" in asked


# What --schema takes


@pytest.mark.parametrize("given", [json.dumps(SCHEMA), "person.json", "@person.json", "./person.json", "@short", SHORT])
def test_a_schema_may_be_inline_a_file_or_short_form(ask: Ask, server: ModelServer, given: str) -> None:
    (ask.cwd / "person.json").write_text(json.dumps(SCHEMA, indent=2))
    (ask.cwd / "short").write_text("name\nage int\n")
    server.reply(wire.says(ADA))
    assert ask("--schema", given, "who?").text == f"{ADA}\n"
    assert json.dumps(SCHEMA) in message_contents(server, 0)[0]


@pytest.mark.parametrize("uri", ["https://json-schema.org/draft/2020-12/schema", "a/b"])
def test_compact_json_is_never_a_file_name(ask: Ask, server: ModelServer, uri: str) -> None:
    schema = {"$id" if uri == "a/b" else "$schema": uri, "type": "object"}
    server.reply(wire.says("{}"))
    assert ask("--schema", json.dumps(schema, separators=(",", ":")), "who?").code == 0


def test_a_single_word_is_a_field_even_if_a_file_has_that_name(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "name").write_text("age int")
    server.reply(wire.says('{"name": "Ada"}'))
    assert ask("--schema", "name", "who?").text == '{"name":"Ada"}\n'


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        ("name, age itn", 2, ["--schema", "'itn'", "character 11", "did you mean int?"]),
        ("", 2, ["--schema", "fields"]),
        ('{"type": "object",}', 2, ["--schema", "JSON"]),
        ('{"type": "objekt"}', 2, ["--schema", "$.type: 'objekt'"]),
        ('{"name": "Ada"}', 2, ["--schema"]),
        ('{"type":"number","maximum":1e400}', 2, ["1e400"]),
        ('{"type":"number","maximum":NaN}', 2, ["NaN"]),
        ("[1]", 2, ["--schema", "object"]),
        ('{"$ref": "https://example.com/a.json"}', 2, ["https://example.com/a.json"]),
        ("none.json", 9, ["none.json"]),
        ("@none", 9, ["none"]),
    ],
)
def test_an_invalid_schema_is_an_error_before_anything_is_sent(
    ask: Ask, server: ModelServer, given: str, code: int, told: list[str]
) -> None:
    result = ask("--schema", given, "who?")
    assert (result.stdout, result.code) == (b"", code)
    assert all(text in result.stderr for text in told)
    assert result.stderr.count("\n") == 1
    assert not server.requests


@pytest.mark.parametrize("other", ["--cmd", "--code"])
def test_two_output_formats_are_rejected(ask: Ask, server: ModelServer, other: str) -> None:
    result = ask("--schema", SHORT, other, "who?")
    assert (result.code, server.requests) == (2, [])
    assert other in result.stderr
    assert "--schema" in result.stderr


# The demo


def test_the_demo_provider_fills_in_a_schema(ask: Ask) -> None:
    short = 'name, born date, tags [string], size "S"|"M", more {n int|null, ok? bool}'
    assert json.loads(ask("-p", "demo", "--schema", short, "Ada").text) == {
        "name": "Ada",
        "born": "2026-01-01",
        "tags": ["Ada"],
        "size": "S",
        "more": {"n": 0, "ok": True},
    }
    limits = '{"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 4.5}}'
    assert json.loads(ask("-p", "demo", "--schema", limits, "Ada").text) == [5, 5]
    constant = '{"properties": {"kind": {"const": "person"}}, "required": ["kind"]}'
    assert json.loads(ask("-p", "demo", "--schema", constant, "Ada").text) == {"kind": "person"}
    files = ask("-p", "demo", "--schema", "files [string]", "which files are here?")
    assert (files.code, files.stderr) == (0, "· list .\n")
