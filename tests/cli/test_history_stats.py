"""`ask history stats`: usage by day, model and tool."""

from __future__ import annotations

import json
import re
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ask.history.store import Store
from tests.export.test_usage_html import ReportParser
from tests.history.saved import NOW, assistant, called, result, save, user
from tests.program import Ask, Home
from tests.slow_parameters import mark_others_slow

DAY = 86_400


@pytest.fixture
def history(home: Home) -> Path:
    path = home.data / "history.db"
    calls = [called(str(n), started=NOW, seconds=2.0, failed=n == 0) for n in range(3)]
    entries = [assistant("", *calls, called("x", "read_file"))]
    cached: Any = {"cached_tokens": 900, "cache_write_tokens": 200}
    save(path, "a1", user("q"), *entries, input_tokens=1500, output_tokens=500, cost=0.5, **cached)
    save(path, "a1", user("q"), input_tokens=1000, output_tokens=None, cost=None, provider="demo", model="demo")
    save(path, "b2", user("q"), ago=2 * DAY, input_tokens=100, output_tokens=None)
    save(path, "c3", user("q"), ago=50 * DAY, input_tokens=7)
    return path


def days() -> tuple[str, str]:
    """Return today and the day before yesterday."""
    now = time.time()
    return tuple(time.strftime("%Y-%m-%d", time.localtime(now - ago)) for ago in (0, 2 * DAY))  # type: ignore[return-value]


def test_piped_rows_name_their_category(ask: Ask, history: Path) -> None:
    result = ask("history", "stats")
    today, earlier = days()
    assert [line.split("\t") for line in result.text.splitlines()] == [
        ["day", earlier, "1", "100", "", "", "", ""],
        ["day", today, "2", "2500", "500", "0.5", "900", "200"],
        ["model", "openrouter:test/model", "2", "1600", "500", "0.5", "900", "200"],
        ["model", "demo:demo", "1", "1000", "", "", "", ""],
        ["tool", "bash", "3", "1", "6"],
        ["tool", "read_file", "1", "0", "0"],
    ]
    assert (result.stderr, result.code) == ("", 0)


def test_json_has_the_same_numbers_and_the_total(ask: Ask, history: Path) -> None:
    stats = json.loads(ask("history", "stats", "--json", "--days", "90").stdout)
    tokens = {"input_tokens": 2607, "output_tokens": 500, "cached_tokens": 900, "reasoning_tokens": None}
    tokens |= {"cache_write_tokens": 200, "cache_write_1h_tokens": None, "cache_write_12h_tokens": None}
    tokens["service_tier"] = None
    usage = {**tokens, "cost": 0.5, "cost_source": "reported", "cost_complete": False}
    assert stats["total"] == {
        "conversations": 3,
        "runs": 4,
        "usage": usage,
        "response_seconds": {"median": 0.0, "p95": 0.0},
        "tool_calls": 4,
        "tool_failures": 1,
    }
    assert [(model["model"], model["tool_calls"]) for model in stats["models"]] == [
        ("openrouter:test/model", 4),
        ("demo:demo", 0),
    ]
    assert [day["runs"] for day in stats["days"]] == [1, 1, 2]
    assert stats["tools"][0] == {"name": "bash", "calls": 3, "failures": 1, "seconds": 6.0}
    assert stats["since"] == (date.today() - timedelta(days=89)).isoformat()


def test_days_excludes_older_runs(ask: Ask, history: Path) -> None:
    assert [line for line in ask("history", "stats", "--days", "1").text.splitlines() if line.startswith("day")] == [
        f"day\t{days()[0]}\t2\t2500\t500\t0.5\t900\t200"
    ]


@pytest.mark.parametrize("columns", mark_others_slow([40, 80]))
def test_terminal_charts_fit_the_width(columns: int, ask: Ask, home: Home, history: Path) -> None:
    long: dict[str, Any] = {"model": "漢字" * 40, "provider": "openrouter"}
    save(history, "d4", user("q"), assistant("", called("x", "a_tool_with_a_name_that_is_long" * 3)), **long)
    shown = ask.on_terminal("history", "stats", env={"COLUMNS": str(columns)}).text
    assert shown.startswith("Since ")
    lines = shown.splitlines()
    assert max(map(wide, lines)) <= columns
    today = next(line for line in lines if line.startswith(days()[0]))
    assert today.split()[1:3] == ["3", "3.0k"]
    assert ("900" in today.split(), "$0.5000+" in today.split()) == (columns >= 60, True)
    if columns >= 60:
        assert lines[lines.index(today) - 2].split() == ["DAY", "RUNS", "TOKENS", "CACHED", "WRITTEN", "COST"]
        earlier = next(line for line in lines if line.startswith(days()[1]))
        assert today.count("█") > earlier.count("█") > 0


def test_a_long_bar_does_not_shorten_a_name(ask: Ask, history: Path) -> None:
    model: dict[str, Any] = {"provider": "openai", "model": "gpt-6.1-terra-2026"}
    save(history, "d4", user("q"), input_tokens=1000, output_tokens=10, **model)
    [line] = [line for line in ask.on_terminal("history", "stats").text.splitlines() if "terra" in line]
    assert line.startswith("openai:gpt-6.1-terra-2026 ")
    assert "█" in line


def wide(line: str) -> int:
    return len(line) + sum(character in "漢字" for character in line)


def test_invalid_number_of_days_is_a_usage_error(ask: Ask) -> None:
    assert [ask("history", "stats", "--days", number).code for number in ("0", "-1", "x", "99999999999")] == [2] * 4


def test_the_largest_number_of_days_includes_everything(ask: Ask, history: Path) -> None:
    assert json.loads(ask("history", "stats", "--json", "--days", "100000").stdout)["total"]["runs"] == 4


def test_response_times_exclude_tools_and_incomplete_answers(ask: Ask, home: Home) -> None:
    path = home.data / "history.db"
    call = called("x")
    save(path, "a", user("q"), assistant("", call), result(call, "done"), assistant("answer"))
    save(path, "b", user("q"), assistant("cut off", complete=False))
    with Store(path) as store, store.write_transaction() as connection:
        for number, seconds in enumerate((0, 2, 60, 64, 0, 500), 1):
            connection.execute("UPDATE messages SET time = ? WHERE number = ?", (NOW + seconds, number))
    stats = json.loads(ask("history", "stats", "--json").stdout)
    for row in (stats["total"], stats["days"][0], stats["models"][0]):
        assert row["response_seconds"] == {"median": 2.0, "p95": 4.0}


# The HTML report


def test_the_report_has_the_same_numbers_as_json(ask: Ask, history: Path) -> None:
    ask("history", "stats", "--html", "report.html")
    stats = json.loads(ask("history", "stats", "--json").stdout)
    cells = ReportParser((ask.cwd / "report.html").read_text()).rows
    for category in ("day", "model"):
        for row in stats[f"{category}s"]:
            [shown] = [cell for cell in cells if cell[0] == row[category]]
            usage = row["usage"]
            names = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")
            tokens = ["-" if usage[name] is None else f"{usage[name]:,}" for name in names]
            assert shown[1:6] == [str(row["runs"]), *tokens]
            assert shown[-2:] == [str(row["tool_calls"]), str(row["tool_failures"])]
            assert shown[6] == ("-" if usage["cost"] is None and usage["cost_complete"] else shown[6])
            assert usage["cost"] is None or f"${usage['cost']:.4f}" in shown[6]
    for tool in stats["tools"]:
        assert [tool["name"], str(tool["calls"]), str(tool["failures"])] in [cell[:3] for cell in cells]


def test_the_report_needs_nothing_else(ask: Ask, history: Path) -> None:
    text = ask("history", "stats", "--html", "-").text
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?:|//|<script|<link|url\(", text)


def test_an_empty_history_makes_a_report(ask: Ask) -> None:
    result = ask("history", "stats", "--html", "-")
    assert (result.code, result.stderr) == (0, "")
    assert ReportParser(result.text).rows == []


def test_the_report_replaces_a_file_or_leaves_it_unchanged(ask: Ask, history: Path) -> None:
    report = ask.cwd / "report.html"
    report.write_text("old")
    assert ask("history", "stats", "--html", "report.html").code == 0
    assert report.read_text().endswith("</html>\n")
    assert ask("history", "stats", "--html", "missing/report.html").code == 9
    assert ask("history", "stats", "--html", "report.html", "--json").code == 2
    assert sorted(file.name for file in ask.cwd.iterdir()) == ["report.html"]
