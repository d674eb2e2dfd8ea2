"""A run as JSON: one object at the end with --json, or a line per event with --events."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from ask.client.cost import UNKNOWN_COST
from tests import wire
from tests.model_server import DROP, HOLD, ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home, Result

ECHO = ("bash", {"command": "echo größe"})
FIELDS = (
    *("conversation", "provider", "model", "saved", "text", "reasoning", "files", "tool_calls"),
    *("server_calls", "citations", "rounds", "finish"),
    *("usage", "exit_code", "error"),
)
TYPES = {"start", "usage", "retry", "text", "reasoning", "tool_call", "tool_output", "tool_result", "notice", "result"}


def read_object(result: Result) -> Any:
    """Read the single object on standard output."""
    assert result.text.count("\n") == 1
    assert result.text.endswith("}\n")
    return json.loads(result.stdout.decode())


def read_events(result: Result) -> list[Any]:
    """Read the events; check that only the last one is the result."""
    assert result.text.endswith("}\n")
    lines = [json.loads(line) for line in result.stdout.decode().removesuffix("\n").split("\n")]
    assert [line["type"] for line in lines].index("result") == len(lines) - 1
    assert {line["type"] for line in lines} <= TYPES
    return lines


def join_texts(lines: list[Any], kind: str) -> str:
    return "".join(line["text"] for line in lines if line["type"] == kind)


def test_an_answer_is_one_object_with_every_field(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.reasoning("hm"), wire.text("grüße "), wire.text("🎉"), wire.finish(), wire.usage()))
    result = ask("--json", "-m", "test/model", "hi")
    value = read_object(result)
    assert (result.code, result.stderr, tuple(value)) == (0, "", FIELDS)
    assert "grüße 🎉" in result.text
    assert len(value.pop("conversation")) > 5
    assert value == {
        "saved": True,
        "provider": "openrouter",
        "model": "test/model",
        "text": "grüße 🎉",
        "reasoning": "hm",
        "files": [],
        "tool_calls": [],
        "server_calls": [],
        "citations": [],
        "rounds": 0,
        "finish": "stop",
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "cached_tokens": None,
            "reasoning_tokens": None,
            "cache_write_tokens": None,
            "cache_write_1h_tokens": None,
            "cache_write_12h_tokens": None,
            "service_tier": None,
            **UNKNOWN_COST.to_dict(),
        },
        "exit_code": 0,
        "error": None,
    }


def test_tool_calls_have_their_results(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(ECHO, ("nix", "{broken"), content="Looking."), wire.says("Done.\n"))
    for flag in ("--json", "--events"):
        result = ask(flag, "hi")
        value = read_object(result) if flag == "--json" else read_events(result)[-1]
        assert (result.code, result.stderr) == (0, "")
        assert (value["text"], value["rounds"], value["usage"]["input_tokens"]) == ("Looking.\nDone.\n", 1, 20)
        good, bad = value["tool_calls"]
        assert good.pop("seconds") >= 0
        assert "größe" in good.pop("result")
        assert json.loads(good.pop("arguments")) == ECHO[1]
        assert good == {
            "id": "call_0", "name": "bash", "failed": False, "decision": "allow", "exit_status": 0,
            "attachments": [], "diff": None,
        }  # fmt: skip
        assert (bad["name"], bad["arguments"], bad["failed"], bad["exit_status"]) == ("nix", "{broken", True, None)
        server.reply(wire.calls(ECHO, ("nix", "{broken"), content="Looking."), wire.says("Done.\n"))


def test_events_come_in_the_order_of_the_run(ask: Ask, server: ModelServer) -> None:
    first = wire.stream("Let me look.", [ECHO])
    server.reply(wire.streams(wire.reasoning("h"), wire.reasoning("m"), *first), wire.says("All is\u2028 done 🎉"))
    lines = read_events(ask("--events", "hi"))
    order = list(dict.fromkeys(line["type"] for line in lines))
    assert order == [
        *("start", "reasoning", "text", "usage", "tool_call", "tool_output", "tool_result", "result"),
    ]
    result = lines[-1]
    assert join_texts(lines, "text") == result["text"] == "Let me look.\nAll is\u2028 done 🎉"
    assert join_texts(lines, "reasoning") == result["reasoning"] == "hm"
    assert join_texts(lines, "tool_output") == "größe\n"
    (call,) = (line for line in lines if line["type"] == "tool_call")
    assert (call["id"], call["name"], json.loads(call["arguments"])) == ("call_0", *ECHO)
    (tool_result,) = (line for line in lines if line["type"] == "tool_result")
    assert {**tool_result, "type": None} == {**result["tool_calls"][0], "type": None}
    assert tuple(result) == ("type", *FIELDS)


FAILURES = [
    (wire.streams(wire.text("so "), wire.text("far 🎉"), DROP), "", 10, "cut", "so far 🎉"),
    (wire.says("so far", finish="length"), "", 10, "length", "so far"),
    (wire.says("so far", finish="content_filter"), "", 10, "filter", "so far"),
    (wire.says(""), "", 10, "empty", ""),
    (wire.fails(401, f"bad key {TEST_KEY}"), "", 6, "error", ""),
    (wire.fails(400, "seed must be odd"), "-o seed=2", 7, "error", ""),
    (wire.streams(wire.text("so far"), wire.error("overloaded")), "", 6, "error", "so far"),
    (wire.streams(0.5), "--timeout 0.1", 5, "cut", ""),
    (wire.calls(ECHO), "--max-rounds 1", 11, "tool_calls", ""),
    (wire.calls(ECHO), "--confirm --max-rounds 1", 8, "tool_calls", ""),
]
Failure = tuple[Reply, str, int, str, str]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("flag", ["--json", "--events"])
def test_a_failure_sets_the_result_the_error_and_the_exit_code(
    flag: str, failure: Failure, ask: Ask, server: ModelServer, home: Home
) -> None:
    reply, options, code, finish, text = failure
    home.configure("[network]\nbackoff = 0.01\ntries = 1\n")
    server.reply(reply)
    result = ask(flag, *options.split(), "hi")
    lines = [read_object(result)] if flag == "--json" else read_events(result)
    value = lines[-1]
    assert (result.code, value["exit_code"]) == (code, code)
    assert (value["finish"], value["text"]) == (finish, text)
    assert f"ask: {value['error']}\n" in result.stderr
    assert TEST_KEY not in result.text + result.stderr
    if flag == "--events":
        assert join_texts(lines, "text") == text


def test_a_notice_is_an_event_and_a_line_on_standard_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(503, "busy", headers={"Retry-After": "0"}), wire.says("yes"))
    result = ask("--events", "hi")
    (notice,) = (line for line in read_events(result) if line["type"] == "notice")
    assert "busy" in notice["text"]
    assert result.stderr == f"ask: {notice['text']}\n"


@pytest.mark.parametrize("flag", ["--json", "--events", "--plain"])
def test_an_echoed_key_is_redacted_everywhere(flag: str, ask: Ask, server: ModelServer, home: Home) -> None:
    home.configure("[network]\nbackoff = 0.01\n")
    half = len(TEST_KEY) // 2
    server.reply(
        wire.fails(401, f"{TEST_KEY} is used up"),
        wire.fails(503, f"{TEST_KEY} is busy", headers={"Retry-After": "0"}),
        wire.streams(
            wire.reasoning(f"it is {TEST_KEY[:half]}"),
            wire.reasoning(f"{TEST_KEY[half:]}, s"),
            *wire.stream(calls=[("bash", {"command": f"true {'x' * 60}; echo {TEST_KEY}"}), ("nix", {TEST_KEY: 1})]),
        ),
        wire.fails(400, f"no good: {TEST_KEY}"),
    )
    result = ask(flag, "hi", env={"OPENROUTER_API_KEY": f"{TEST_KEY}|sk-another-0123456789"})
    assert result.code == 6
    assert TEST_KEY[:half] not in result.text + result.stderr
    if flag == "--plain":
        return
    lines = [read_object(result)] if flag == "--json" else read_events(result)
    assert lines[-1]["reasoning"] == "it is [key removed], s"
    assert "[key removed]" in lines[-1]["error"]
    for call in lines[-1]["tool_calls"]:
        assert "[key removed]" in call["arguments"]
    if flag == "--events":
        assert {line["type"] for line in lines if "[key removed]" in json.dumps(line)} == TYPES - {
            "start",
            "text",
            "usage",
        }
        assert join_texts(lines, "reasoning") == lines[-1]["reasoning"]


SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


INTERRUPTED = [
    (flag, signal_number, state)
    for flag, signal_number in [*(("--json", one) for one in SIGNALS), ("--events", signal.SIGTERM)]
    for state in ("waiting", "pausing", "running")
]
REPRESENTATIVE = [("--json", signal.SIGINT, "pausing"), ("--events", signal.SIGTERM, "running")]


@pytest.mark.parametrize(
    ("flag", "signal_number", "state"),
    [case if case in REPRESENTATIVE else pytest.param(*case, marks=pytest.mark.slow) for case in INTERRUPTED],
)
def test_the_result_is_printed_after_a_signal(
    flag: str, signal_number: signal.Signals, state: str, ask: Ask, server: ModelServer
) -> None:
    replies = {
        "waiting": wire.streams(HOLD),
        "pausing": wire.fails(503, "busy", headers={"Retry-After": "50"}),
        "running": wire.calls(("bash", {"command": "touch begun; sleep 60"})),
    }
    server.reply(replies[state])
    with ask.start(flag, "hi") as running:
        server.wait_for_requests(1)
        if state == "pausing":
            running.wait_for("retrying")
        while state == "running" and not (ask.cwd / "begun").exists():
            assert running.process.poll() is None
        running.signal(signal_number)
        result = running.finish()
    value = read_object(result) if flag == "--json" else read_events(result)[-1]
    assert (result.code, value["exit_code"], value["error"]) == (
        SIGNALS[signal_number],
        SIGNALS[signal_number],
        "interrupted",
    )
    assert value["finish"] == ("tool_calls" if state == "running" else "cut")
    assert [call["failed"] for call in value["tool_calls"]] == [True] * (state == "running")
    assert result.stderr.splitlines()[-1].startswith("ask: ")


def test_split_surrogate_pairs_do_not_break_the_json(ask: Ask, server: ModelServer) -> None:
    piece = '{"choices": [{"index": 0, "delta": {"content": "%s", "reasoning": "%s"}}]}'
    halves = [piece % (half, half) for half in ("a\\ud83c", "\\udf89b", "c\\ud83c")]
    server.reply(wire.streams(*halves, wire.finish()))
    value = read_object(ask("--json", "hi"))
    assert (value["text"][:3], value["reasoning"][:3]) == ("a🎉b", "a🎉b")
    lines = read_events(ask("--events", "hi"))
    assert join_texts(lines, "text") == lines[-1]["text"]
    assert join_texts(lines, "reasoning") == lines[-1]["reasoning"]


def test_control_characters_are_escaped_by_json_itself(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("a\x1b]52;c;aGk=\x07\r\n\x9bb"))
    result = ask("--json", "hi")
    assert b"\x1b" not in result.stdout
    assert read_object(result)["text"] == "a\x1b]52;c;aGk=\x07\r\n\x9bb"
    assert "\x9b" not in ask.on_terminal("--json", "--no-tools", "hi").text
