"""`ask history list`: conversations, newest first, with the numbers that --resume accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import wire
from tests.history.saved import save, user
from tests.model_server import ModelServer
from tests.program import Ask, Home

DAY = 86_400


@pytest.fixture
def history(home: Home) -> Path:
    """Three conversations; the oldest was continued after the second."""
    path = home.data / "history.db"
    save(path, "aaaa1", user("first question"), ago=40 * DAY)
    save(path, "aabb2", user("second\x1b[31m question"), ago=3 * DAY, provider="demo", model="demo", rounds=2, cost=0.5)
    save(path, "aaaa1", user("more"), ago=2 * DAY, rounds=1, cost=0.25, directory=str(home.work), model="vendor/large")
    save(path, "cccc3", user("third question"), ago=200)
    return path


def test_piped_output_has_all_conversations_as_tab_separated_rows(ask: Ask, history: Path) -> None:
    result = ask("history", "list")
    rows = [line.split("\t") for line in result.text.splitlines()]
    assert [row[:3] for row in rows] == [
        ["1", "cccc3", "third question"],
        ["2", "aaaa1", "first question"],
        ["3", "aabb2", "second\x1b[31m question"],
    ]
    assert [row[4:] for row in rows] == [
        ["openrouter:test/model", "0", ""],
        ["openrouter:vendor/large", "1", "0.25"],
        ["demo:demo", "2", "0.5"],
    ]
    assert all(len(row[3]) == len("2026-01-01T00:00:00Z") for row in rows)
    assert (result.stderr, result.code) == ("", 0)
    assert ask("history").stdout == result.stdout


def test_terminal_shows_ages_and_no_control_characters(ask: Ask, history: Path) -> None:
    heading, *lines = ask.on_terminal("history").text.splitlines()
    assert heading.split() == ["N", "ID", "TITLE", "AGE", "MODEL", "ROUNDS", "COST"]
    assert [" ".join(line.split()) for line in lines] == [
        "1 cccc3 third question 3 min model 0",
        "2 aaaa1 first question 2 d large 1 $0.2500",
        "3 aabb2 second\\x1b[31m question 3 d demo:demo 2 $0.5000",
    ]


def test_resume_accepts_the_listed_numbers(ask: Ask, history: Path, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    number, identity, *_ = ask("history").text.splitlines()[2].split("\t")
    result = json.loads(ask("--resume", number, "--json", "-p", "openrouter", "go on").stdout)
    assert result["conversation"] == identity == "aabb2"


def test_json_has_all_fields(ask: Ask, history: Path) -> None:
    listed = json.loads(ask("history", "list", "--json").stdout)
    assert [one["id"] for one in listed] == ["cccc3", "aaaa1", "aabb2"]
    assert listed[1] == listed[1] | {
        "number": 2,
        "title": "first question",
        "provider": "openrouter",
        "model": "vendor/large",
        "runs": 2,
        "rounds": 1,
        "usage": {
            "input_tokens": None,
            "output_tokens": None,
            "cached_tokens": None,
            "reasoning_tokens": None,
            "cache_write_tokens": None,
            "cache_write_1h_tokens": None,
            "cache_write_12h_tokens": None,
            "service_tier": None,
            "cost": 0.25,
        },
    }
    assert listed[1]["created"] < listed[1]["updated"]
    assert json.loads(ask("history", "--json").stdout) == listed


def test_piped_rows_have_the_values_of_the_json(ask: Ask, home: Home) -> None:
    odd = ["tab\there", "line\nbreak", "  wide\u2003gaps  ", "日本語", "nul\0 and \x1b[31m"]
    for number, (title, cost) in enumerate(zip(odd, [None, 0.0, 1e-7, 0.1 + 0.2, 123456789.0], strict=True)):
        save(
            home.data / "history.db",
            f"c{number}",
            user("?"),
            title=title,
            cost=cost,
            model=f"m {number}\n",
            rounds=number,
        )
    listed = json.loads(ask("history", "list", "--json").stdout)
    assert [one["title"] for one in reversed(listed)] == odd
    for one, line in zip(listed, ask("history", "list").text.removesuffix("\n").split("\n"), strict=True):
        cost = one["usage"]["cost"]
        assert line.split("\t") == [
            *(str(one["number"]), one["id"], " ".join(one["title"].split()), one["updated"]),
            f"{one['provider']}:{one['model'].strip()}",
            *(str(one["rounds"]), "" if cost is None else f"{cost:g}"),
        ]


def test_here_keeps_the_numbers_of_the_complete_list(ask: Ask, history: Path) -> None:
    assert [row.split("\t")[:2] for row in ask("history", "--here").text.splitlines()] == [["2", "aaaa1"]]


def test_limit_keeps_the_newest(ask: Ask, history: Path) -> None:
    for limit, count in {"1": 1, "2": 2, "0": 3, "9": 3}.items():
        listed = [row.split("\t")[1] for row in ask("history", "list", "-n", limit).text.splitlines()]
        assert listed == ["cccc3", "aaaa1", "aabb2"][:count]


def test_terminal_shows_the_newest_and_how_to_see_more(ask: Ask, home: Home) -> None:
    for number in range(21):
        save(home.data / "history.db", f"c{number:02}x", user(f"question {number}"), ago=number)
    lines = ask.on_terminal("history", env={"TERM": "dumb"}).text.splitlines()
    assert len(lines) == 1 + 20 + 1
    assert "-n 0 lists all" in lines[-1]
    assert len(ask.on_terminal("history", "-n", "0").text.splitlines()) == 1 + 21
    assert len(ask("history").text.splitlines()) == 21


@pytest.mark.parametrize("command", ["list", "stats", "search"])
def test_missing_history_is_empty_and_not_created(command: str, ask: Ask, home: Home) -> None:
    words = ["word"] if command == "search" else []
    result = ask("history", command, *words)
    expected = "ask: no matches\n" if command == "search" else ""
    assert (result.stdout, result.stderr, result.code) == (b"", expected, 0)
    assert ask.on_terminal("history", command, *words).text.startswith("ask: ")
    assert not list(home.data.parent.rglob("*"))
    empty = json.loads(ask("history", command, "--json", *words).stdout)
    assert empty == [] or (empty["total"]["runs"], empty["days"]) == (0, [])


def test_damaged_history_is_a_one_line_error(ask: Ask, home: Home) -> None:
    home.data.mkdir()
    (home.data / "history.db").write_bytes(b"no database at all, but long enough to be looked at" * 99)
    result = ask("history")
    assert result.code == 9
    assert len(result.stderr.splitlines()) == 1
    assert str(home.data / "history.db") in result.stderr


@pytest.mark.parametrize("words", [["of", "rome"], ["list", "of", "kings"], ["stats", "for", "rome"]])
def test_unknown_words_suggest_a_question(words: list[str], ask: Ask) -> None:
    result = ask("history", *words)
    assert result.code == 2
    assert f"ask -- history {' '.join(words)}" in result.stderr


def test_each_subcommand_has_help(ask: Ask) -> None:
    overview = ask("history", "--help").text
    for command in ("list", "show", "search", "export", "import", "delete", "stats"):
        assert f"\n  {command} " in overview
        helped = ask("history", command, "--help")
        assert (helped.code, helped.stderr) == (0, "")
        assert f"Usage: ask history {command} " in helped.text
