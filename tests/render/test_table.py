"""Tables: aligned with a heading on a terminal, tab-separated in a pipe, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ask.render.text_layout import measure_width
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, run_on_terminal


def models(*entries: dict[str, Any]) -> Reply:
    return wire.whole_reply({"data": list(entries)})


MODELS = models(
    {"id": "b/two", "name": "Größe\t\n 2\x1b[31m"},
    {"id": "a/one", "name": "One", "context_length": 200_000, "pricing": {"prompt": "0.000003", "completion": "0"}},
)


def test_a_pipe_gets_tab_separated_rows_without_a_heading(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    result = ask("models")
    assert result.stdout == "a/one\tOne\t200000\t\t3\t0\tprovider\nb/two\tGröße 2\x1b[31m\t\t\t\t\t\n".encode()
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
    *("config", "doctor --offline", "history list", "history stats", "keys list", "models", "providers"),
    *("templates", "tools"),
)


@pytest.mark.parametrize(
    ("columns", "command"),
    [
        *((30, command) for command in LISTS),
        *(pytest.param(80, command, marks=[pytest.mark.slow] * (command != "models")) for command in LISTS),
    ],
)
def test_lists_fit_the_terminal_and_lose_no_word(columns: int, command: str, ask: Ask, server: ModelServer) -> None:
    server.reply(*[MODELS] * 2 if command == "models" else [wire.says("a")])
    if command.startswith("history"):
        ask("a question of several words")
    shown = ask.on_terminal(*command.split(), env={"COLUMNS": str(columns)}).text
    for line in shown.splitlines():
        assert measure_width(line) <= columns or max(map(measure_width, line.split())) > columns // 2, line
    words = {word.strip("();:,") for word in ask(*command.split()).text.split() if word.isprintable()}
    if not command.startswith("history"):  # whose numbers are formatted for a terminal
        assert words <= {word.strip("();:,") for word in shown.split()}


def test_a_narrow_terminal_gets_a_list_of_facts_for_each_row(ask: Ask, server: ModelServer) -> None:
    server.reply(MODELS)
    assert ask.on_terminal("models", env={"COLUMNS": "30"}).text.splitlines() == [
        "a/one",
        "  title: One; context: 200000;",
        "  input price: 3; output",
        "  price: 0; price source:",
        "  provider",
        "b/two",
        "  title: Größe 2\\x1b[31m",
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
    }
    assert second["title"] == "Größe\t\n 2\x1b[31m"
    assert "Größe" in result.text


def test_an_empty_list_is_empty_in_each_form(ask: Ask) -> None:
    outputs: Sequence[str] = [
        ask("keys", "list", env={"OPENROUTER_API_KEY": ""}).text,
        ask.on_terminal("keys", "list", env={"OPENROUTER_API_KEY": ""}).text,
        ask("keys", "list", "--json", env={"OPENROUTER_API_KEY": ""}).text,
    ]
    assert outputs == ["", "", "[]\n"]


@pytest.mark.slow
def test_a_list_cut_short_by_its_reader_ends_quietly(ask: Ask, server: ModelServer) -> None:
    server.reply(models(*({"id": f"a/{number:05}", "name": "x" * 99} for number in range(3000))))
    result = ask.shell("ask models | head -n1 | cut -f1; echo ${PIPESTATUS[0]}")
    assert (result.text, result.stderr) == ("a/00000\n0\n", "")
    paged = run_on_terminal(["bash", "-c", "ask models | head -n1 | cut -f1"], env=ask.env, cwd=ask.cwd)
    assert paged.text == "a/00000\n"
