"""Reports about terminals and answers on them: an odd size, setting or answer costs nothing else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import ASK, TEST_KEY, Ask, Home, Running

MODEL = ("-p", "openrouter", "-m", "test/model", "-q")


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    """With a key for openrouter and no other provider."""
    return Ask({**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}, home.work)


@pytest.fixture
def demo(home: Home) -> Ask:
    return Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)


def run_in_size(size: tuple[int, int], demo: Ask, *args: str) -> bytes:
    """Run the command on a terminal that had this size before it started; return what it printed."""
    script = f"stty rows {size[0]} cols {size[1]}; exec {ASK} " + " ".join(f"'{arg}'" for arg in args)
    with Running(["bash", "-c", script], env=demo.env, cwd=demo.cwd, terminal=True) as running:
        result = running.finish(20)
    assert result.code == 0, result.text
    return result.stdout


# https://github.com/diazoxide/charter/issues/594: a terminal that reports 0 columns
# https://github.com/oamg/convert2rhel/pull/1498: an exception if the report is formatted for 0 columns
@pytest.mark.slow
@pytest.mark.parametrize("size", [(0, 0), (1, 1), (24, 1), (24, 2), (1, 80), (65_535, 65_535)])
def test_a_terminal_of_any_size(size: tuple[int, int], demo: Ask) -> None:
    for command in (["run echo ok"], ["--help"], ["map", "--help"], ["history"], ["templates"], ["models"], ["config"]):
        assert b"internal error" not in run_in_size(size, demo, *command), command


@pytest.mark.parametrize("columns", ["1", "2", "0", "-5", "many", ""])
def test_help_for_any_number_of_columns(columns: str, demo: Ask) -> None:
    result = demo("--help", env={"COLUMNS": columns})
    assert (result.code, "Usage:" in result.text) == (0, True)


# https://github.com/google-gemini/gemini-cli/pull/1388, https://github.com/oven-sh/bun/pull/31366 and
# https://github.com/unslothai/unsloth/issues/11376: answers whose Markdown takes minutes to render
HARD_ANSWERS = {
    "one long line": "x" * 1_000_000,
    "backslashes": "\\" * 100_000,
    "brackets": "[" * 30_000,
    "list in a list": "- " * 3_000 + "x",
    "nested list": "\n".join("  " * depth + "- x" for depth in range(300)),
    "quote in a quote": ">" * 5_000 + "x",
    "changing quotes": "\n".join(">" * (1 + line * 3 % 7) + " x" for line in range(500)),
    "wide table": f"|{'a|' * 500}\n|{'-|' * 500}\n|{'1|' * 500}\n",
    "emphasis": "*a **b " * 20_000,
    "unclosed fence": "```python\n" + "x = 1\n" * 2_000,
    "entities": "&#x41;" * 20_000,
    "links": "[a](http://x) " * 10_000,
    "combining": "e" + "\u0301" * 50_000,
    "joined emoji": "👨‍👩‍👧‍👦" * 5_000,
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd " * 5_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD_ANSWERS)
def test_a_hard_answer_is_shown_in_seconds(name: str, ask: Ask, server: ModelServer) -> None:
    text = HARD_ANSWERS[name]
    pieces = [text[start : start + len(text) // 200 + 1] for start in range(0, len(text), len(text) // 200 + 1)]
    stream = wire.sse(*map(wire.text, pieces), wire.finish())
    server.reply(Reply([stream], content_type="text/event-stream"))
    result = ask.on_terminal(*MODEL, "hi")
    assert (result.code, result.seconds < 10) == (0, True)


# https://github.com/jonigl/mcp-client-for-ollama/pull/251: lines appear twice if the terminal changes its size
@pytest.mark.slow
def test_a_size_that_changes_during_an_answer(ask: Ask, server: ModelServer) -> None:
    events = [wire.event(wire.text(f"word{number} ")) for number in range(150)]
    steps: Sequence[bytes | float] = [step for event in events for step in (event, 0.01)]
    server.reply(Reply([*steps, wire.sse(wire.finish())], content_type="text/event-stream"))
    with ask.start_on_terminal(*MODEL, "hi") as running:
        for columns in (80, 20, 1, 2, 200, 60):
            time.sleep(0.2)
            running.resize(24, columns)
        result = running.finish()
    assert (result.code, "internal error" in result.text) == (0, False)


# https://github.com/github/copilot-cli/issues/3372: a dumb terminal shows escape sequences
@pytest.mark.slow
@pytest.mark.parametrize("term", ["dumb", "", "no-such-terminal", "vt52"])
def test_any_terminal_type(term: str, demo: Ask) -> None:
    result = demo.on_terminal("run echo ok", env={"TERM": term})
    assert (result.code, "ok" in result.text) == (0, True)
    assert ("\x1b" in result.text) <= (term != "dumb")
    with demo.start_on_terminal("chat", env={"TERM": term}) as running:
        running.wait_for(">", after=running.wait_for("quits"))
        running.type_in("run echo one-two\r")
        running.wait_for("exit code")
        running.type_in("\x04")
        assert running.finish().code == 0


# https://github.com/vercel/vercel/issues/17528: a pipe whose reader has gone away, and the command does not end
@pytest.mark.slow
def test_a_reader_that_goes_away(demo: Ask, home: Home) -> None:
    for command in ("--help", "history list", "history export --all", "models", "config", "init bash", "'run echo ok'"):
        result = demo.shell(f"ask {command} 2> err | true; echo ${{PIPESTATUS[0]}}")
        assert result.text == "0\n", command
        assert "Traceback" not in Path(home.work, "err").read_text()


# https://github.com/openai/codex/issues/41559: the model removes its working folder, and the session is over
def test_a_working_folder_that_is_removed_during_a_run(ask: Ask, server: ModelServer) -> None:
    remove, write = ("bash", {"command": 'rmdir "$PWD"'}), ("write_file", {"filepath": "a.txt", "content": "x"})
    server.reply(wire.calls(remove, write), wire.says("Both done."))
    result = ask.on_terminal(*MODEL[:-1], "go")
    assert (result.code, "Both done." in result.text) == (0, True), result.text
    assert [message["role"] for message in server.requests[-1].json["messages"]][-2:] == ["tool", "tool"]


# A line that is not text ended the chat, while one that the provider refuses does not.
def test_an_odd_piped_line_does_not_end_a_chat(demo: Ask, home: Home) -> None:
    home.configure("stdin_limit = 100\n")
    lines = b"run echo one\n\0\0\n\xff\n" + b"x" * 1_000 + b"\nrun echo last\n"
    result = demo("chat", stdin=lines)
    assert (result.code, "\none\n" in result.text, "\nlast\n" in result.text) == (9, True, True)
    assert (result.stderr.count("binary"), result.stderr.count("longer than 100 bytes")) == (1, 1)


def test_a_notice_after_plain_text_begins_a_line(ask: Ask, server: ModelServer) -> None:
    call = '<tool_call>{"name": "bash", "arguments": {"command": "date"}}</tool_call>'
    server.reply(wire.says(call))
    lines = ask.on_terminal("-p", "openrouter", "-m", "test/model", "--plain", "--no-save", "hi").text.splitlines()
    number = lines.index(call)
    assert lines[number + 1].startswith("ask: this model wrote a tool call as text")
    assert "" not in lines[number:]
