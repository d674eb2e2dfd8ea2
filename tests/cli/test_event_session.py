"""`--events` is a protocol: every line matches its schema, every run ends with a result, and a program can answer."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ask.render.event_schema import EVENTS, build_event_schema
from ask.safety.approval_scope import ApprovalScope
from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import TEST_KEY, Ask, Home

pytestmark = pytest.mark.usefixtures("quick_retries")

CALL = wire.calls(("bash", {"command": "touch made; echo hi"}))
SCHEMA = build_event_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
INPUT_VALIDATOR = VALIDATOR.evolve(schema=SCHEMA["$defs"]["input"])


def read_events(output: bytes | str) -> list[Any]:
    """Read the events of an output; check that each matches its schema and has only the fields that it names."""
    text = output.decode() if isinstance(output, bytes) else output
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        VALIDATOR.validate(event)
        assert event.keys() <= {"type", *EVENTS[event["type"]][1]}
    return events


def send(*lines: Any) -> bytes:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()


def say(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "text": text, **fields}


def allow(**fields: Any) -> dict[str, Any]:
    return {"type": "approval", "id": "approval_1", "decision": "allow", **fields}


def test_all_events_of_a_run_match_the_schema(ask: Ask, server: ModelServer) -> None:
    write = ("write_file", {"filepath": "a", "content": "x\n"})
    busy = wire.fails(503, "busy")
    server.reply(busy, wire.calls(("bash", {"command": "echo hi"}), write), wire.says("Done."))
    events = read_events(ask("--events", "go").stdout)
    start, *_, result = events
    assert (start["type"], start["version"], result["type"]) == ("start", 1, "result")
    assert start["conversation"] == result["conversation"]
    assert "bash" in start["tools"]
    types = [event["type"] for event in events]
    assert types.count("usage") == 2
    [retry] = [event for event in events if event["type"] == "retry"]
    assert (retry["attempt"], "busy" in retry["reason"]) == (1, True)
    written = [event for event in events if event["type"] == "tool_result"][1]
    assert "+x" in written["diff"]


@pytest.mark.parametrize(
    ("arguments", "env", "code"),
    [
        (("--events", "-p", "openai", "hi"), {}, 4),
        (("--events", "-p", "opena", "hi"), {}, 4),
        (("--events", "--no-such-option", "hi"), {}, 2),
        (("--events", "--max-rounds", "-1", "hi"), {}, 2),
        (("--events",), {}, 2),
        (("--events", "-f", "missing", "hi"), {}, 9),
        (("--output-format", "stream-json", "-f", "missing", "hi"), {}, 9),
        (("--events", "--resume", "missing", "hi"), {}, 2),
        (("--events", "--json", "hi"), {}, 2),
        (("--input-events", "--schema", "a int", "hi"), {}, 2),
        (("--input-events", "-p", "opena", "hi"), {}, 4),
    ],
)
def test_a_run_that_cannot_start_ends_with_a_result(
    ask: Ask, arguments: tuple[str, ...], env: dict[str, str], code: int
) -> None:
    result = ask(*arguments, env=env, stdin=b"")
    *others, event = read_events(result.stdout)
    assert "result" not in [each["type"] for each in others]
    assert (event["type"], event["exit_code"], result.code) == ("result", code, code)
    assert event["error"]
    assert event["error"].split(":")[0] in result.stderr


def test_a_failed_or_interrupted_run_has_one_result(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, f"bad key {TEST_KEY}"))
    failed = ask("--events", "hi")
    assert [event["type"] for event in read_events(failed.stdout)].count("result") == 1
    assert TEST_KEY not in failed.text
    server.reply(wire.calls(("bash", {"command": "sleep 60"})))
    with ask.start("--events", "hi") as running:
        running.wait_for("tool_call")
        running.signal(signal.SIGINT)
        interrupted = running.finish()
    results = [event for event in read_events(interrupted.stdout) if event["type"] == "result"]
    assert [result["exit_code"] for result in results] == [130]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_two_runs_adds_no_result(ask: Ask, server: ModelServer, number: signal.Signals) -> None:
    server.reply(wire.says("One."))
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb"), ask.start("--input-events", "hi", stdin=reading) as running:
        os.close(reading)
        running.wait_for('"result"')
        time.sleep(0.2)  # until it reads stdin
        running.signal(number)
        ended = running.finish()
    assert [event["type"] for event in read_events(ended.stdout)].count("result") == 1
    assert ended.code == 128 + number


def test_a_question_about_events_is_no_stream_of_them(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "no"))
    assert ask("--", "what", "does", "--events", "print").text == ""


def test_messages_on_stdin_continue_the_conversation(ask: Ask, server: ModelServer, home: Home) -> None:
    (home.work / "notes").write_text("some notes")
    server.reply(wire.says("One."), wire.says("Two."), wire.says("Three."))
    result = ask("--input-events", "first", stdin=send(say("second"), "", say("third", files=["notes"])))
    events = read_events(result.stdout)
    results = [event for event in events if event["type"] == "result"]
    assert ([each["text"] for each in results], result.code) == (["One.", "Two.", "Three."], 0)
    assert len({each["conversation"] for each in results}) == 1
    messages = server.requests[-1].json["messages"]
    assert [message["role"] for message in messages] == ["system", *("user", "assistant") * 2, "user"]
    assert "some notes" in json.dumps(messages[-1])


def test_the_exit_code_is_that_of_the_last_message(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(401, "no"), wire.says("Two."), wire.fails(401, "no"))
    result = ask("--input-events", stdin=send(say("a"), say("b")))
    assert ([e["exit_code"] for e in read_events(result.stdout) if e["type"] == "result"], result.code) == ([6, 0], 0)
    assert ask("--input-events", stdin=send(say("a"))).code == 6
    assert ask("--input-events", stdin=send(say("a", files=["missing"]))).code == 9


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "null",
        '"text"',
        {"text": "no type"},
        {"type": "mesage", "text": "a"},
        {"type": "m" * 1000},
        {"type": "message"},
        {"type": "message", "text": " "},
        {"type": "message", "text": 3},
        {"type": "message", "text": "a", "files": "b"},
        '{"type": "message", "text": "a", "files": ["\\ud800"]}',
        {"type": "approval", "id": "approval_1", "decision": "maybe"},
        {"type": ["message"], "text": "a"},
        allow(),
        "\xff",
        "[" * 100_000,
    ],
)
def test_an_invalid_line_is_reported_and_left_out(ask: Ask, server: ModelServer, line: Any) -> None:
    server.reply(wire.says("Done."))
    data = b"\xff\n" + send(say("go")) if line == "\xff" else send(line, say("go"))
    result = ask("--input-events", stdin=data)
    events = read_events(result.stdout)
    assert [event["type"] for event in events].count("input_error") == 1
    assert (events[-1]["text"], result.code) == ("Done.", 0)


def test_a_program_approves_a_call(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(CALL, wire.says("Done."))
    answer = allow(reason=None, scope=None, duration=None, command=None)
    result = ask("--input-events", "--confirm", "go", stdin=send(answer))
    events = read_events(result.stdout)
    [approval] = [event for event in events if event["type"] == "approval"]
    assert (approval["name"], json.loads(approval["arguments"])) == ("bash", {"command": "touch made; echo hi"})
    assert "touch made" in approval["description"]
    assert {"command", "program", "tool"} == approval["scopes"].keys()
    assert (home.work / "made").exists()
    assert (events[-1]["text"], result.code) == ("Done.", 0)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (allow(decision="deny"), "declined"),
        (allow(decision="deny", reason="use ls"), "use ls"),
        (None, "no terminal"),
    ],
)
def test_a_call_that_is_not_approved_does_not_run(
    ask: Ask, server: ModelServer, home: Home, answer: Any, told: str
) -> None:
    server.reply(CALL, wire.says("Done."))
    result = ask("--input-events", "--confirm", "go", stdin=send(answer) if answer else b"")
    assert not (home.work / "made").exists()
    assert told in json.dumps(server.requests[-1].json["messages"][-1])
    assert result.code == (0 if answer else 8)


def test_a_program_changes_a_command_or_approves_similar_calls(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(CALL, wire.says("Done."))
    ask("--input-events", "--confirm", "go", stdin=send(allow(command="touch other")))
    assert [path.name for path in home.work.iterdir()] == ["other"]
    server.reply(CALL, wire.calls(("bash", {"command": "echo again"})), wire.says("Done."))
    result = ask("--input-events", "--confirm", "go", stdin=send(allow(scope="tool", duration="run")))
    assert [event["type"] for event in read_events(result.stdout)].count("approval") == 1
    assert result.code == 0


def test_what_is_not_the_awaited_approval_is_kept_or_reported(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(CALL, wire.says("One."), wire.says("Two."))
    lines = (say("second"), allow(id="approval_7"), allow(scope="host"), allow(command="true", scope="tool"), allow())
    result = ask("--input-events", "--confirm", "go", stdin=send(*lines))
    events = read_events(result.stdout)
    assert [event["type"] for event in events].count("input_error") == 3
    assert [event["text"] for event in events if event["type"] == "result"] == ["One.", "Two."]
    assert (home.work / "made").exists()


def test_a_dangerous_command_is_asked_about_once_each(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "mkfs /dev/null"})), wire.says("Done."))
    result = ask("--input-events", "go", stdin=send(allow(scope="tool"), allow(decision="deny")))
    [approval] = [event for event in read_events(result.stdout) if event["type"] == "approval"]
    assert (approval["danger"], approval["scopes"]) == ("mkfs", {})


def test_a_write_is_approved_for_the_file_that_was_shown(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(wire.calls(("write_file", {"filepath": "a", "content": "new\n"})), wire.says("Done."))
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe, ask.start("--input-events", "--confirm", "go", stdin=reading) as running:
        os.close(reading)
        running.wait_for('"approval"')
        (home.work / "a").write_text("changed meanwhile")
        pipe.write(send(allow()))
        pipe.close()
        running.finish()
    assert (home.work / "a").read_text() == "changed meanwhile"


def test_the_schema_is_printed(ask: Ask) -> None:
    assert json.loads(ask("events", "--schema").text) == SCHEMA
    listed = ask("events")
    assert all(name in listed.text for name in EVENTS)
    scopes = [allow(scope=scope.value, duration="always", command="") for scope in ApprovalScope]
    for line in (say("a"), say("a", files=["b"]), allow(), *scopes):
        INPUT_VALIDATOR.validate(line)


def test_an_answer_that_was_cut_is_in_the_result(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so "), DROP))
    result = ask("--input-events", "hi", stdin=b"")
    assert (read_events(result.stdout)[-1]["text"], result.code) == ("so ", 10)
