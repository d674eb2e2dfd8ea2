"""Tables: aligned with a heading on a terminal, tab-separated in a pipe, or JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ask.project.trust_decisions import TrustStore
from ask.text import format_one_line, measure_width
from tests import wire
from tests.cli.test_tools import save_approvals
from tests.mcp.setting import RAW, configure, program
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home, run_on_terminal
from tests.project.projects import write, write_skill
from tests.screen import render_lines
from tests.slow_parameters import mark_others_slow


def models(*entries: dict[str, Any]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


MODELS = models(
    {"id": "b/two", "name": "Größe\t\n 2\x1b[31m"},
    {"id": "a/one", "name": "One", "context_length": 200_000, "pricing": {"prompt": "0.000003", "completion": "0"}},
)


def test_a_pipe_gets_tab_separated_rows_without_a_heading(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    result = ask("models")
    assert result.stdout == "a/one\tOne\t200000\t\t3\t0\tprovider\t\t\nb/two\tGröße 2\x1b[31m\t\t\t\t\t\t\t\n".encode()
    assert (result.stderr, result.code) == ("", 0)
    assert result.stdout == ask.shell("ask models > file; cat file").stdout


def test_a_terminal_gets_aligned_columns_under_a_heading(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    assert ask.on_terminal("models").text.splitlines() == [
        "ID     TITLE            CONTEXT  TOOLS  INPUT PRICE  OUTPUT PRICE  PRICE SOURCE",
        "a/one  One              200000          3            0             provider",
        "b/two  Größe 2\\x1b[31m",
    ]


LISTS = (
    *("config", "context", "history list", "keys list", "map --list", "mcp", "mcp list --tools", "models", "providers"),
    *("skills", "templates", "tools", "tools approvals", "undo --list"),
)
LONG = "words that make a long cell " * 6


def fill_lists(ask: Ask, home: Home, server: ModelServer) -> None:
    """Let each list have rows, some with long cells."""
    (home.work / "AGENTS.md").write_text("Use tabs.")
    write_skill(home.config / "skills" / "a-skill-with-a-long-name", LONG)
    write(home.config / "templates" / "mine.md", f'+++\ndescription = "{LONG}"\n+++\nSay it.\n')
    configure(home, {"raw": program(RAW, "good")}, options={"stop": LONG}, aliases={"short" * 5: f"demo:{LONG}"})
    server.reply(wire.calls(("write_file", {"filepath": "漢字.txt", "content": "x"})), wire.says("done"))
    assert ask(LONG).code == 0
    server.reply(wire.says("done"))
    assert ask("map", f"{LONG} {{{{line}}}}", "AGENTS.md").code == 0
    TrustStore(home.data / "trusted-projects.json").remember(home.work, trusted=True)
    save_approvals(home, "make " + LONG, "pwd")
    server.reply(MODELS)


@pytest.mark.parametrize("columns", mark_others_slow([30, 80, 200], [80]))
def test_lists_have_one_line_for_each_row(columns: int, ask: Ask, home: Home, server: ModelServer) -> None:
    ask = Ask({**ask.env, "ASK_SESSION": "lists"}, ask.cwd)
    fill_lists(ask, home, server)
    for command in LISTS:
        rows = [line.split("\t") for line in ask(*command.split(), timeout=60).text.splitlines()]
        assert len(rows[0]) > 1, f"{command} is empty"
        result = ask.on_terminal(*command.split(), env={"COLUMNS": str(columns)})
        shown = [line for line in render_lines(result.stdout, 500, 100) if line and not line.startswith("ask: ")]
        too_wide = [line for line in shown if measure_width(line) > columns]
        if columns > 30:
            assert len(shown) == len(rows) + 1, command
            assert not [line for line in too_wide if not line.startswith("/")], command
        assert not [line for line in too_wide if " " in line.strip()], command
        text = "\n".join(shown)
        for row in rows:
            assert columns == 30 or format_one_line(row[0]) in text, f"{command} lacks {row[0]}"


@pytest.mark.slow
@pytest.mark.parametrize("columns", [30, 80])
def test_what_has_to_be_read_is_wrapped(columns: int, ask: Ask) -> None:
    shown = ask.on_terminal("doctor", "--offline", env={"COLUMNS": str(columns)}).text
    for line in shown.splitlines():
        assert measure_width(line) <= columns or max(map(measure_width, line.split())) > columns // 2, line
    words = "".join(shown.split())
    assert "packages" not in words
    for row in json.loads(ask("doctor", "--offline", "--json").text):
        assert row["check"].split()[0] in words or row["check"] == "packages"
    states = [row["state"] for row in json.loads(ask("doctor", "--offline", "--json").text)]
    assert states == sorted(states, key=("problem", "warning", "note", "ok").index)
    assert "packages" in ask("doctor", "--offline", "-v").text


@pytest.mark.parametrize("columns", [80, 200])
def test_columns_are_left_out_by_priority(columns: int, ask: Ask) -> None:
    heading = ask.on_terminal("providers", env={"COLUMNS": str(columns)}).text.splitlines()[0]
    expected = {
        80: ["NAME", "DEFAULT MODEL", "KEY"],
        200: ["NAME", "TITLE", "DEFAULT MODEL", "KEY", "BASE URL", "FROM"],
    }
    assert re.split(r"  +", heading) == expected[columns]


def test_a_narrow_terminal_keeps_what_identifies_a_row(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    assert ask.on_terminal("models", env={"COLUMNS": "30"}).text.splitlines() == [
        "ID     INPUT PRICE",
        "a/one  3",
        "b/two",
    ]


def test_json_is_an_array_of_objects(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    result = ask("models", "--json")
    first, second = json.loads(result.stdout)
    assert first == {
        "id": "a/one",
        "title": "One",
        "context": 200_000,
        "tools": None,
        "input_price": 3.0,
        "output_price": 0.0,
        "price_source": "provider",
        "deprecated": None,
        "retires": None,
    }
    assert second["title"] == "Größe\t\n 2\x1b[31m"
    assert "Größe" in result.text


EMPTY_LISTS = {
    "context": "ask context trust",
    "history list": "no saved conversations",
    "keys list": "ask keys set",
    "map --list": "ask map",
    "mcp": "ask mcp add",
    "mcp prompts": "ask mcp add",
    "mcp resources": "ask mcp add",
    "skills": "SKILL.md",
    "tools approvals": "--confirm",
}


@pytest.mark.slow
def test_an_empty_list_says_how_to_fill_it_on_a_terminal(ask: Ask) -> None:
    env = {"OPENROUTER_API_KEY": ""}
    for command, hint in EMPTY_LISTS.items():
        shown = ask.on_terminal(*command.split(), env=env).text
        assert shown.startswith("ask: "), command
        assert hint in " ".join(shown.split()), command
        piped = ask(*command.split(), env=env)
        assert (piped.text, piped.stderr, piped.code) == ("", "", 0), command
        assert ask(*command.split(), "--json", env=env).text == "[]\n"


@pytest.mark.slow
def test_a_list_cut_short_by_its_reader_ends_quietly(ask: Ask, server: ModelServer) -> None:
    server.reply(models(*({"id": f"a/{number:05}", "name": "x" * 99} for number in range(1000))))
    result = ask.shell("ask models | head -n1 | cut -f1; echo ${PIPESTATUS[0]}")
    assert (result.text, result.stderr) == ("a/00000\n0\n", "")
    paged = run_on_terminal(["bash", "-c", "ask models | head -n1 | cut -f1"], env=ask.env, cwd=ask.cwd)
    assert paged.text == "a/00000\n"
