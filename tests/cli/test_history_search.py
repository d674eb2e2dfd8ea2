"""`ask history search`: an excerpt of each conversation that contains the words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ask.text import measure_width
from tests.history.saved import assistant, save, user
from tests.program import Ask, Home


@pytest.fixture
def history(home: Home) -> Path:
    path = home.data / "history.db"
    save(path, "b2", user("Is the disk full?"), ago=86_400)
    save(path, "a1", user("How is the\tdisk?"), assistant(f"{'before ' * 30}the disk is full{' after' * 30}"), ago=200)
    return path


def test_piped_output_has_a_row_for_each_conversation(ask: Ask, history: Path) -> None:
    result = ask("history", "search", "DISK", "ful*")
    first, second = (line.split("\t") for line in result.text.splitlines())
    assert first[:2] == ["a1", "How is the disk?"]
    assert first[3] == "assistant"
    assert "the disk is full after" in first[4]
    assert second[0::4] == ["b2", "Is the disk full?"]
    assert (result.stderr, result.code) == ("", 0)


def test_terminal_output_highlights_matches_and_fits_the_line(ask: Ask, history: Path) -> None:
    shown = ask.on_terminal("history", "search", "disk full").text.splitlines()
    assert shown[0].split() == ["b2", "1", "d", "Is", "the", "disk", "full?"]
    assert shown[1] == "\x1b[2m    user: \x1b[0mIs the \x1b[1mdisk full\x1b[0m?"
    (_, line, *_) = ask.on_terminal("history", "search", "full").text.splitlines()
    assert line.startswith("\x1b[2m    assistant: \x1b[0m…")
    assert " \x1b[1mfull\x1b[0m after" in line
    plain = ask.on_terminal("history", "search", "disk", env={"TERM": "dumb"}).text
    assert "\x1b" not in plain
    assert "the disk is full after" in plain
    assert max(map(len, plain.splitlines())) <= 80


def test_json_has_an_object_for_each_conversation(ask: Ask, history: Path) -> None:
    first, second = json.loads(ask("history", "search", "--json", "disk").stdout)
    assert list(first) == ["id", "title", "time", "role", "excerpt"]
    assert (first["id"], first["role"], second["id"]) == ("a1", "assistant", "b2")


def test_limit_bounds_the_number_of_results(ask: Ask, history: Path) -> None:
    for limit, count in {"1": 1, "0": 2}.items():
        assert len(ask("history", "search", "-n", limit, "disk").text.splitlines()) == count


def test_a_terminal_shows_20_results_and_says_so_and_a_pipe_gets_all(ask: Ask, home: Home) -> None:
    for number in range(21):
        save(home.data / "history.db", f"id{number}", user("disk"))
    assert len(ask("history", "search", "disk").text.splitlines()) == 21
    assert len(json.loads(ask("history", "search", "--json", "disk").stdout)) == 21
    shown = ask.on_terminal("history", "search", "disk").text
    assert (len(set(re.findall(r"id\d+", shown))), "-n 0" in shown) == (20, True)
    assert "-n 0" not in ask.on_terminal("history", "search", "-n", "20", "disk").text


@pytest.mark.parametrize("words", [["?!"], ["", "*"]])
def test_queries_without_a_letter_or_digit_are_a_usage_error(words: list[str], ask: Ask) -> None:
    result = ask("history", "search", *words)
    assert (result.code, result.stdout) == (2, b"")


def test_special_characters_are_searched_literally(ask: Ask, history: Path) -> None:
    for word in ("it's", 'a"b', "NEAR(", "title:disk", "disk AND", "(disk", "-", "--", "\udcff"):
        result = ask("history", "search", "--", word, "disk")
        assert (result.code, result.stderr) in ((0, ""), (0, "ask: no matches\n")), word
        assert bool(result.text) != bool(result.stderr), word


@pytest.mark.parametrize("word", ["C++", "c++", "learn c++", "C#"])
def test_names_with_symbols_are_found_as_written(ask: Ask, home: Home, word: str) -> None:
    for number, text in enumerate(["vitamin C", "learn C", "learn C++ or C#", "learn C, later"], start=1):
        save(home.data / "history.db", f"a{number}", user(text))
    rows = json.loads(ask("history", "search", "--json", word).stdout)
    assert [row["id"] for row in rows] == ["a3"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_search_without_a_match_reports_it_on_stderr(options: list[str], ask: Ask, history: Path) -> None:
    for words in (["nowhere"], ["数据库"], ["天気"], ["🎉"]):
        result = ask("history", "search", *options, *words)
        assert (result.text, result.stderr, result.code) == ("[]\n" if options else "", "ask: no matches\n", 0)
    assert "'*nowhere*'" in ask.on_terminal("history", "search", "nowhere").text


def test_matches_inside_of_long_texts_are_highlighted(ask: Ask, home: Home) -> None:
    text = f"{'前文' * 100}请备份数据库。{'后文' * 100}"
    save(home.data / "history.db", "a1", user(text), title="备份")
    (line,) = ask("history", "search", "数据").text.splitlines()
    assert "备份数据库" in line
    (_, line, *_) = ask.on_terminal("history", "search", "数据库").text.splitlines()
    assert "备份\x1b[1m数据库\x1b[0m。" in line
    assert measure_width(re.sub(r"\x1b\[\d*m", "", line)) <= 80


def test_long_message_gives_a_short_excerpt(ask: Ask, home: Home) -> None:
    save(home.data / "history.db", "a1", user(f"{'x' * 1_000_000} disk {'y' * 1_000_000}"), title="long")
    assert len(ask("history", "search", "disk").text) < 500
    assert len(ask.on_terminal("history", "search", "disk").text.splitlines()) == 2
