"""docs/hooks.md: its example and its recipes are run, and its tables are those of the code."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ask.config.hooks import Hook
from ask.hooks.claude_code import CLAUDE_EVENTS, CLAUDE_TOOLS
from tests import wire
from tests.doc_pages import find_code_blocks, find_code_spans, parse_console_steps, read_table
from tests.hooks.test_hook_runner import HookBench
from tests.model_server import ModelServer
from tests.program import Home

PAGE = (Path(__file__).parents[1] / "docs" / "hooks.md").read_text()
FIRST, FORMAT, REFUSE, LOG, LIMIT, NOTIFY, JUDGE = find_code_blocks(PAGE, "toml")
PROGRAMS = {
    "ruff": '#!/bin/sh\nfor file; do :; done\n[ "$1" = format ] && echo formatted >> "$file"\n[ "$1" = format ]\n',
    "notify-send": '#!/bin/sh\necho "$@" > notified\n',
}


@pytest.fixture
def bench(home: Home, server: ModelServer) -> HookBench:
    bench = HookBench(home, server)
    folder = home.path / "programs"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{bench.ask.env['PATH']}"
    bench.ask = replace(bench.ask, env={**bench.ask.env, "PATH": path})
    return bench


def test_the_tables_are_those_of_the_code() -> None:
    assert [key.strip("`") for key in read_table(PAGE, "key")] == list(Hook._fields)
    events = PAGE.partition("## Events")[2]
    assert [event.strip("`") for event in read_table(events, "event")] == list(CLAUDE_EVENTS)
    assert {*CLAUDE_EVENTS.values(), *CLAUDE_TOOLS.values()} <= set(find_code_spans(PAGE))


def test_the_example_prints_what_the_page_shows(bench: HookBench) -> None:
    bench.configure(more=FIRST)
    for line, output in parse_console_steps(find_code_blocks(PAGE, "console")[0]):
        result = bench.ask(*shlex.split(line)[1:])
        assert (result.text + result.stderr).strip() == output.strip()


@pytest.mark.needs("jq")
def test_files_are_formatted(bench: HookBench) -> None:
    bench.configure(more=FORMAT)
    bench.call("", tool="write_file", filepath="a.py", content="x = 1\n")
    assert (bench.home.work / "a.py").read_text() == "x = 1\nformatted\n"
    bench.call("", tool="write_file", filepath="a.txt", content="x")
    assert (bench.home.work / "a.txt").read_text() == "x"


@pytest.mark.needs("jq")
def test_pushes_and_migrations_are_refused(bench: HookBench) -> None:
    bench.configure(more=REFUSE)
    assert "I review first" in bench.call("git push")
    assert "by hand" in bench.call("", tool="write_file", filepath="migrations/1.sql", content="x")
    assert not (bench.home.work / "migrations").exists()
    bench.call("", tool="write_file", filepath="a", content="x")
    assert (bench.home.work / "a").exists()


@pytest.mark.needs("jq")
def test_answers_are_logged(bench: HookBench) -> None:
    bench.configure(more=LOG)
    bench.call("true")
    logged = json.loads((Path(bench.ask.env["HOME"]) / "ask-answers.jsonl").read_text())
    assert (logged["answer"], logged["exit_code"]) == ("Done.", 0)


@pytest.mark.needs("jq")
def test_a_command_is_limited(bench: HookBench) -> None:
    bench.configure(more=LIMIT)
    (bench.home.work / "long").write_text("x" * 10_000)
    assert 4_000 <= bench.call("cat long").count("x") < 4_100


@pytest.mark.needs("jq")
def test_a_question_that_waits_is_shown(bench: HookBench) -> None:
    bench.configure(more=NOTIFY)
    assert bench.ask("hooks", "test", "notification").code == 0
    assert "a test" in (bench.home.work / "notified").read_text()


@pytest.mark.slow
@pytest.mark.needs("jq")
def test_another_model_judges(bench: HookBench) -> None:
    bench.configure(more=JUDGE)
    bench.server.reply(wire.calls(("bash", {"command": "touch made"})), wire.says("Yes."), wire.says("Done."))
    assert bench.ask.process("go", timeout=60).code == 0
    assert not (bench.home.work / "made").exists()
    assert "destructive" in bench.messages[-1]["content"]
