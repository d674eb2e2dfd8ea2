"""A run as plain text: the answer on standard output, tool calls and notices on standard error."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import Ask
from tests.screen import render_lines

ECHO = ("bash", {"command": "echo out"})
FAIL = ("bash", {"command": "echo oops >&2; exit 3"})


def test_tool_calls_and_texts_start_on_new_lines(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(ECHO, ECHO, content="Looking."), wire.calls(ECHO, content="Again.\n"), wire.says("Done."))
    result = ask("hi")
    assert result.text == "Looking.\nAgain.\nDone.\n"
    assert result.stderr.splitlines()[:2] == ["· bash: echo out"] * 2


def test_the_output_is_the_same_without_streaming(ask: Ask, server: ModelServer) -> None:
    replies = [wire.calls(ECHO, content="Looking.", whole=True), wire.says("Done.", whole=True)]
    server.reply(*replies)
    result = ask("--no-stream", "hi")
    assert (result.text, result.stderr) == ("Looking.\nDone.\n", "· bash: echo out\n")
    assert server.requests[0].json.get("stream") is not True


def test_a_failed_call_shows_the_reason(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(FAIL, ("read_file", {"filepath": "no"}), ("nix", {})), wire.says("Done."))
    lines = ask("hi").stderr.splitlines()
    assert lines[:2] == ["· bash: echo oops >&2; exit 3", "  oops"]
    assert lines[2].startswith("· exit 3, 1 line, ")
    assert lines[3] == "· read no"
    assert lines[4].startswith("  failed: no: no such file")
    assert lines[5] == "· nix · not run"
    assert lines[6].startswith("  there is no tool 'nix'")


def test_an_edit_is_one_line_in_a_log_and_a_diff_with_verbose(ask: Ask, server: ModelServer) -> None:
    replies = [wire.calls(("write_file", {"filepath": "x", "content": "a\nb\n"})), wire.says("Done.")]
    server.reply(*replies, wire.calls(("write_file", {"filepath": "x", "content": "a\nc\n"})), wire.says("Done."))
    assert ask("hi").stderr == "· write x +2\n"
    lines = ask("-v", "hi").stderr.splitlines()
    assert lines[:-1] == ["· write x +1 \u22121", "  @@ -1,2 +1,2 @@", "   a", "  -b", "  +c"]


def test_calls_are_shown_in_plain_words(ask: Ask, server: ModelServer) -> None:
    calls = {
        "· list .": ("list_dir", {"dirpath": "."}),
        "· read x, lines 10 to 59": ("read_file", {"filepath": "x", "offset": 10, "limit": 50}),
        "· read x, from line 10": ("read_file", {"filepath": "x", "offset": 10}),
        "· bash: true # only a ↵ echo b": ("bash", {"command": "true # only a\n\n  echo b\n"}),
        "· nix a: b c, d: [1] · not run": ("nix", {"a": "b c", "d": [1]}),
        "· nix · not run": ("nix", {}),
    }
    (ask.cwd / "x").write_text("1\n" * 60)
    server.reply(wire.calls(*calls.values()), wire.says("Done."))
    assert [line for line in ask("hi").stderr.splitlines() if line.startswith("· ")] == list(calls)


def test_a_call_takes_one_line_however_long_it_is(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "true" + " \\\n" * 5000})), wire.says("Done."))
    (line,) = ask("hi").stderr.splitlines()
    assert len(line) < 120
    assert line.endswith("…")


def test_verbose_shows_a_long_call_completely(ask: Ask, server: ModelServer) -> None:
    command = "true " + "x" * 300 + " the end"
    replies = [wire.calls(("bash", {"command": command})), wire.says("Done.")]
    server.reply(*replies, *replies)
    assert ask("-v", "hi").stderr.splitlines()[0] == f"· bash: {command}"
    assert f"· bash: {command}" in "".join(render_lines(ask.on_terminal("-v", "hi").stdout))


def test_verbose_shows_results_reasoning_and_usage(ask: Ask, server: ModelServer) -> None:
    priced = wire.usage(100, 20, cost=0.0125, prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 30})
    priced["usage"]["completion_tokens_details"] = {"reasoning_tokens": 12}
    server.reply(
        wire.streams(wire.reasoning("I wonder"), *wire.stream(None, [ECHO])[:-1], wire.usage(10, 5, cost=0.001)),
        wire.streams(wire.reasoning("So.\n"), wire.text("Done."), wire.finish(), priced),
    )
    result = ask("-v", "hi")
    assert result.text == "Done.\n"
    lines = result.stderr.splitlines()
    assert lines[:2] == ["I wonder", "· bash: echo out"]
    assert lines[2] == "  out"
    assert lines[3].startswith("· exit 0, 1 line, ")
    usage = "110 tokens in (60 from the cache, 30 written to it), 25 out (12 for reasoning), $0.0135"
    assert lines[-2:] == ["So.", f"· 1 round of tool calls, {usage}"]


def test_usage_is_shown_as_far_as_it_is_known(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"), wire.streams(wire.text("yes"), wire.finish()))
    assert ask("-v", "-m", "test/model", "hi").stderr == "· no tool calls, 10 tokens in, 5 out, cost unknown\n"
    assert ask("-v", "hi").stderr == "· no tool calls, cost unknown\n"


@pytest.mark.slow
def test_reasoning_is_shown_with_verbose_only(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.reasoning("I "), wire.reasoning("wonder"), wire.text("yes"), wire.finish()))
    result = ask("hi")
    assert (result.text, result.stderr) == ("yes\n", "")
    assert "wonder" not in ask.on_terminal("--plain", "hi").text
    assert "I wonder\nyes\n" in ask.on_terminal("--plain", "-v", "hi").text
    assert "I wonder\n" in ask("-v", "hi").stderr


def test_a_terminal_shows_a_commands_output_as_it_comes(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo first; sleep 60"})))
    with ask.start_on_terminal("--plain", "hi") as running:
        running.wait_for("  first\r\n")
    server.reply(wire.calls(("bash", {"command": "echo first"})), wire.says("Done."))
    assert ask("hi").stderr == "· bash: echo first\n"


def test_output_without_a_newline_is_followed_by_one(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "printf part"})), wire.says("Done."))
    assert ask.on_terminal("--plain", "hi").text.endswith(" s\nDone.\n")


def test_a_cut_answer_ends_its_line_before_the_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("so far"), DROP))
    result = ask.on_terminal("--plain", "--no-tools", "hi")
    answer, error = result.text.splitlines()
    assert (answer, result.code) == ("so far", 10)
    assert error.startswith("ask: ")


WARNING = "run commands"


@pytest.mark.slow
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
