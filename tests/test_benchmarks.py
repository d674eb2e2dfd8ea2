"""The benchmarks run and report what they measured. Durations are not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.cases import CASES, Case, Row
from benchmarks.environment import BenchmarkEnvironment
from benchmarks.measurement import Command, measure
from benchmarks.plot import Curve, choose_ticks, draw_curves
from benchmarks.report import compute_lines, format_json, format_markdown, format_table, write_between
from benchmarks.server import Server
from tests.program import Result, run

ROOT = Path(__file__).parents[1]


def benchmarks(*args: str, module: str = "benchmarks") -> Result:
    return run([sys.executable, "-m", module, *args], cwd=ROOT, timeout=120)


@pytest.mark.slow
def test_a_case_is_measured_and_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- measured -->\nold\n<!-- end of measured -->\nAfter.\n")
    result = benchmarks("answer", "chat", "--runs", "1", "--json", str(tmp_path / "json"), "--page", str(page))
    assert result.code == 0, result.stderr
    assert "one short answer: total time, ask vs. bare script" in result.text
    found = json.loads((tmp_path / "json").read_text())
    assert all(row["low"] <= row["median"] <= row["high"] for row in found["rows"])
    ours = found["figures"]["answer"]["ask"]
    assert 0 < ours["request"] < ours["first"] < ours["whole"]
    assert 0 < ours["exit"] < ours["whole"]
    assert ours["bytes"] > found["figures"]["answer"]["bare"]["bytes"] > 0
    assert {"turn 2", "turn 50"} <= set(found["figures"]["chat"]["ask"])
    written = page.read_text()
    assert written.startswith("Before.\n<!-- measured -->\n| What |")
    assert written.endswith("<!-- end of measured -->\nAfter.\n")


@pytest.mark.slow
def test_rounds_text_and_terminal_output_are_measured(tmp_path: Path) -> None:
    with Server() as server:
        ground = BenchmarkEnvironment(tmp_path, server.url)
        rounds = measure(ground.ask("rounds 7"), server)
        paced = measure(ground.bare("paced 20"), server)
        shown = measure(ground.ask("hi", terminal=True), server)
    assert {"round", "early", "recent"} <= set(rounds)
    assert 0 < paced["late"] <= paced["latest"] < paced["whole"]
    assert 0 < shown["request"] < shown["first"] < shown["whole"]


def test_a_failing_program_is_an_error(tmp_path: Path) -> None:
    with Server() as server:
        ground = BenchmarkEnvironment(tmp_path, server.url)
        with pytest.raises(RuntimeError, match="No such option"):
            measure(ground.run_ask("--no-such-option"), server)
        with pytest.raises(RuntimeError, match="failed"):
            measure(Command(("/nowhere",), ground.create_environment("home"), terminal=True), server)


@pytest.mark.slow
def test_a_curve_is_measured_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- curves -->\n<!-- end of curves -->\n")
    result = benchmarks("distributions", "--runs", "1", "--page", str(page), module="benchmarks.curves")
    assert result.code == 0, result.stderr
    assert "0: 1.00x, 100: " in page.read_text()
    assert ET.parse(page.with_suffix(".svg")).getroot().tag.endswith("svg")


@pytest.mark.parametrize("module", ["benchmarks", "benchmarks.curves"])
@pytest.mark.parametrize("args", [["no-such-case"], ["--runs", "0"]])
def test_invalid_arguments_are_rejected(module: str, args: list[str]) -> None:
    assert benchmarks(*args, module=module).code == 2


def test_the_median_may_equal_the_budget() -> None:
    name = "start"
    values = {name: [{one: {"whole": whole} for one in ("version", "help", "click")} for whole in (1.0, 2.0, 3.0)]}
    result_lines = compute_lines(values)
    assert [line.median for line in result_lines] == [1.0, 1.0]
    assert {line.verdict for line in result_lines} == {"met"}
    late = {name: [{"version": {"whole": 10.0}, "help": {"whole": 16.0}, "click": {"whole": 10.0}}]}
    assert [line.verdict for line in compute_lines(late)] == ["met", "met"]
    late[name][0]["help"]["whole"] = 16.1
    assert [line.verdict for line in compute_lines(late)] == ["met", "MISSED"]
    assert "MISSED" in format_table(late)
    assert "MISSED" in format_markdown(late)
    assert json.loads(format_json(late))["rows"][1]["met"] is False


def test_a_budget_may_be_a_minimum() -> None:
    turns = [{"ask": {"whole": 1000.0}, "llm": {"whole": seconds * 1000.0}} for seconds in (6.3, 6.5)]
    for turn, verdict in zip(turns, ("MISSED", "met"), strict=True):
        [line] = compute_lines({"xargs": [turn]})
        assert (round(line.median), line.verdict) == (round(turn["llm"]["whole"] / 64), verdict)
        assert f"at least 100x ({verdict})" in format_markdown({"xargs": [turn]})


def test_measured_rows_replace_those_of_the_page_and_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- measured -->\n| What |\n|---|\n| a | 1 |\n| b | 2 |\n<!-- end of measured -->\n")
    write_between(page, "measured", "| What |\n|---|\n| b | 3 |\n| c | 4 |", keep_rows=True)
    rows = page.read_text().splitlines()[1:-1]
    assert rows == ["| What |", "|---|", "| a | 1 |", "| b | 3 |", "| c | 4 |"]


def test_rows_without_measured_programs_are_omitted() -> None:
    bare = {"whole": 2.0, "request": 1.0, "first": 1.0, "exit": 1.0, "memory": 1.0, "bytes": 9.0}
    assert not [line for line in compute_lines({"answer": [{"bare": bare, "ask": bare}]}) if "llm" in line.row.what]


def test_the_chart_is_valid_xml_for_any_label(tmp_path: Path) -> None:
    picture = draw_curves([Curve('<a & "b">', "x", (1, 10), {"ask": [0.5, 2.0], "bare": [1.0, 1.0]})])
    texts = [element.text for element in ET.fromstring(picture).iter() if element.text]
    assert '<a & "b">' in texts
    assert "10" in texts


@pytest.mark.parametrize("most", [0.02, 0.9, 1.15, 3, 7.7, 99, 1234])
def test_the_axis_has_a_few_round_ticks(most: float) -> None:
    assert 2 <= len(choose_ticks(most)) <= 5
    assert choose_ticks(most)[-1] <= most


def test_a_page_without_markers_is_not_changed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="no place for"):
        write_between(page, "measured", "text")
    assert page.read_text() == "nothing\n"


def test_every_case_has_rows() -> None:
    for case in CASES.values():
        assert isinstance(case, Case)
        assert all(isinstance(row, Row) for row in case.rows)
