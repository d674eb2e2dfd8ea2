"""A run as plain text: the answer on standard output, tool calls and notices on standard error."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import Ask

ECHO = ("bash", {"command": "echo out"})
FAIL = ("bash", {"command": "echo oops >&2; exit 3"})


def test_tool_calls_and_texts_start_on_new_lines(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(ECHO, ECHO, content="Looking."), wire.calls(ECHO, content="Again.\n"), wire.says("Done."))
    result = ask("hi")
    assert result.text == "Looking.\nAgain.\nDone.\n"
    assert result.stderr.splitlines()[:2] == ['· bash {"command": "echo out"}'] * 2


def test_the_output_is_the_same_without_streaming(ask: Ask, server: ModelServer) -> None:
    replies = [wire.calls(ECHO, content="Looking.", whole=True), wire.says("Done.", whole=True)]
    server.reply(*replies)
    result = ask("--no-stream", "hi")
    assert (result.text, result.stderr) == ("Looking.\nDone.\n", '· bash {"command": "echo out"}\n')
    assert server.requests[0].json.get("stream") is not True


def test_a_failed_call_shows_the_reason(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(FAIL, ("read_file", {"filepath": "no"}), ("nix", {})), wire.says("Done."))
    failed, no_file, no_tool = ask("hi").stderr.splitlines()[1::2]
    assert failed.startswith("· exit code: 3 ")
    assert "oops" in failed
    assert no_file.startswith("· Error: ")
    assert no_tool.startswith("· Error: there is no tool 'nix'")


def test_a_call_takes_one_line_however_long_it_is(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "true" + " \\\n" * 5000})), wire.says("Done."))
    (line,) = ask("hi").stderr.splitlines()
    assert len(line) < 120
    assert line.endswith("…")


def test_verbose_shows_results_reasoning_and_usage(ask: Ask, server: ModelServer) -> None:
    priced = wire.usage(100, 20, cost=0.0125, prompt_tokens_details={"cached_tokens": 60})
    priced["usage"]["completion_tokens_details"] = {"reasoning_tokens": 12}
    server.reply(
        wire.streams(wire.reasoning("I wonder"), *wire.stream(None, [ECHO])[:-1], wire.usage(10, 5, cost=0.001)),
        wire.streams(wire.reasoning("So.\n"), wire.text("Done."), wire.finish(), priced),
    )
    result = ask("-v", "hi")
    assert result.text == "Done.\n"
    lines = result.stderr.splitlines()
    assert lines[:2] == ["I wonder", '· bash {"command": "echo out"}']
    assert "out" in lines
    usage = "110 tokens in (60 from the cache), 25 out (12 for reasoning), $0.0135"
    assert lines[-2:] == ["So.", f"· 1 round of tool calls, {usage}"]


def test_usage_is_shown_as_far_as_it_is_known(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"), wire.streams(wire.text("yes"), wire.finish()))
    assert ask("-v", "-m", "test/model", "hi").stderr == "· no tool calls, 10 tokens in, 5 out, cost unknown\n"
    assert ask("-v", "hi").stderr == "· no tool calls, cost unknown\n"


def test_reasoning_is_shown_on_terminals_only(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.reasoning("I "), wire.reasoning("wonder"), wire.text("yes"), wire.finish()))
    result = ask("hi")
    assert (result.text, result.stderr) == ("yes\n", "")
    assert ask.on_terminal("--plain", "hi").text.endswith("I wonder\nyes\n")


def test_a_terminal_shows_a_commands_output_as_it_comes(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo first; sleep 60"})), wire.says("Done."))
    with ask.start_on_terminal("--plain", "hi") as running:
        running.wait_for("\nfirst\r\n")
    server.reply(wire.says("Done."))
    assert "first" not in ask("--command-timeout", "0.3", "hi").stderr.replace("echo first", "")


def test_output_without_a_newline_is_followed_by_one(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "printf part"})), wire.says("Done."))
    assert ask.on_terminal("--plain", "hi").text.endswith('"}\npart\nDone.\n')


def test_a_cut_answer_ends_its_line_before_the_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), DROP))
    result = ask.on_terminal("--plain", "--no-tools", "hi")
    answer, error = result.text.splitlines()
    assert (answer, result.code) == ("so far", 10)
    assert error.startswith("ask: ")


WARNING = "run commands"


def test_the_first_run_with_tools_on_a_terminal_warns_once(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert WARNING not in ask("hi").stderr
    assert WARNING in ask.on_terminal("hi").text
    assert WARNING not in ask.on_terminal("hi").text


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--no-tools", "-q"])
def test_no_warning_without_tools_or_when_quiet(option: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    assert WARNING not in ask.on_terminal(option, "hi").text
    assert WARNING in ask.on_terminal("hi").text, "it has not been shown yet"
