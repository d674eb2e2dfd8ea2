"""`--code`: prints only the code of the answer."""

from __future__ import annotations

import json

import pytest

from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import Ask

ANSWER = "Here it is:\n\n```python\nprint(1)\n\nprint(2)\n```\n\nIt prints two numbers."
CODE = "print(1)\n\nprint(2)"


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}, ask.cwd)


def test_only_the_first_code_block_is_printed_and_the_model_is_instructed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(ANSWER))
    result = ask("--code", "two", "numbers")
    assert (result.text, result.stderr, result.code) == (f"{CODE}\n", "", 0)
    system = server.requests[0].json["messages"][0]["content"]
    assert "\n\nThe user wants code." in system
    assert "{{" not in system


def test_answers_without_a_code_block_are_printed_completely(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(f"{CODE}\n"))
    assert ask("--code", "two", "numbers").text == f"{CODE}\n"


def test_code_blocks_in_messages_with_tool_calls_are_not_printed(ask: Ask, server: ModelServer) -> None:
    call = ("bash", {"command": "true"})
    server.reply(wire.calls(call, content="Let me look:\n```sh\ntrue\n```"), wire.says(ANSWER))
    result = ask("--code", "two", "numbers")
    assert result.text == f"{CODE}\n"
    assert result.stderr == "· bash: true\n"


def test_truncated_answers_print_the_code_received_so_far(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("Here:\n```python\nprint(1)\npri"), DROP))
    result = ask("--code", "two", "numbers")
    assert (result.text, result.code) == ("print(1)\npri\n", 10)
    assert result.stderr.count("\n") == 1


def test_json_and_events_contain_the_code(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(ANSWER))
    assert json.loads(ask("--json", "--code", "two", "numbers").text)["text"] == CODE
    events = [json.loads(line) for line in ask("--events", "--code", "two", "numbers").text.splitlines()]
    assert [event["text"] for event in events if event["type"] == "text"] == [CODE]
    assert events[-1]["text"] == CODE


@pytest.mark.slow
def test_code_works_with_files_stdin_and_options(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "spec").write_text("two numbers\n")
    server.reply(wire.says(ANSWER))
    result = ask.shell(
        'echo data | ask --code -f spec -s "In Python." -o temperature=0 --no-stream "write it" -q | wc -l'
    )
    assert result.text.strip() == "3"
    body = server.requests[0].json
    assert body["temperature"] == 0
    assert body["messages"][0]["content"].endswith("In Python.")
    assert "two numbers" in body["messages"][1]["content"]
    assert "<stdin>\ndata\n</stdin>" in body["messages"][1]["content"]


def test_the_complete_answer_is_saved_and_continuing_does_not_repeat_the_instruction(
    ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.says(ANSWER), wire.says("Two."))
    ask("--code", "two", "numbers")
    assert ask("-c", "how many?").text == "Two.\n"
    system, _, assistant_message, _ = server.requests[1].json["messages"]
    assert assistant_message["content"] == ANSWER
    assert "The user wants code" not in system["content"]


@pytest.mark.parametrize("flags", [("--code", "--cmd"), ("--cmd", "--code", "--json")])
def test_code_and_cmd_cannot_be_combined(flags: tuple[str, ...], ask: Ask, server: ModelServer) -> None:
    result = ask(*flags, "hi")
    assert (result.code, result.stdout) == (2, b"")
    assert "--cmd" in result.stderr
    assert "--code" in result.stderr
    assert not server.requests


def test_the_demo_provider_answers_with_code(ask: Ask) -> None:
    assert ask("-p", "demo", "--code", "hello", "world", "in", "Python").text == 'print("Hello, world!")\n'
    assert ask("-p", "demo", "--code", "a", "compiler").text.startswith("# I am the embedded demo")
