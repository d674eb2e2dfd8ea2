"""The benchmarks run, and what they tell is what they measured. How long anything takes is not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.cases import CASES, Case, Row
from benchmarks.measuring import Command, measure
from benchmarks.plot import Curve, draw, marks
from benchmarks.report import as_json, lines, markdown, table, write_between
from benchmarks.server import Server
from benchmarks.surroundings import Ground
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
    assert "one answer / bare" in result.text
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
def test_rounds_words_and_the_terminal_are_seen(tmp_path: Path) -> None:
    with Server() as server:
        ground = Ground(tmp_path, server.url)
        rounds = measure(ground.ask("rounds 7"), server)
        paced = measure(ground.bare("paced 20"), server)
        shown = measure(ground.ask("hi", terminal=True), server)
    assert {"round", "early", "recent"} <= set(rounds)
    assert 0 < paced["late"] <= paced["latest"] < paced["whole"]
    assert 0 < shown["request"] < shown["first"] < shown["whole"]


def test_a_program_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with Server() as server:
        ground = Ground(tmp_path, server.url)
        with pytest.raises(RuntimeError, match="No such option"):
            measure(ground.run_ask("--no-such-option"), server)
        with pytest.raises(RuntimeError, match="failed"):
            measure(Command(("/nowhere",), ground.environment("home"), terminal=True), server)


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
def test_what_makes_no_sense_is_refused(module: str, args: list[str]) -> None:
    assert benchmarks(*args, module=module).code == 2


def test_a_budget_is_met_up_to_itself_by_the_middle_value() -> None:
    name = "start"
    values = {name: [{one: {"whole": whole} for one in ("version", "help", "click")} for whole in (1.0, 2.0, 3.0)]}
    told = lines(values)
    assert [line.median for line in told] == [1.0, 1.0]
    assert {line.verdict for line in told} == {"met"}
    late = {name: [{"version": {"whole": 10.0}, "help": {"whole": 16.0}, "click": {"whole": 10.0}}]}
    assert [line.verdict for line in lines(late)] == ["met", "met"]
    late[name][0]["help"]["whole"] = 16.1
    assert [line.verdict for line in lines(late)] == ["met", "MISSED"]
    assert "MISSED" in table(late)
    assert "MISSED" in markdown(late)
    assert json.loads(as_json(late))["rows"][1]["met"] is False


def test_a_row_without_its_programs_is_left_out() -> None:
    bare = {"whole": 2.0, "request": 1.0, "first": 1.0, "exit": 1.0, "memory": 1.0, "bytes": 9.0}
    assert not [line for line in lines({"answer": [{"bare": bare, "ask": bare}]}) if "llm" in line.row.what]


def test_a_picture_is_xml_whatever_the_words(tmp_path: Path) -> None:
    picture = draw([Curve('<a & "b">', "x", (1, 10), {"ask": [0.5, 2.0], "bare": [1.0, 1.0]})])
    texts = [element.text for element in ET.fromstring(picture).iter() if element.text]
    assert '<a & "b">' in texts
    assert "10" in texts


@pytest.mark.parametrize("most", [0.02, 0.9, 1.15, 3, 7.7, 99, 1234])
def test_an_axis_has_a_few_round_marks(most: float) -> None:
    assert 2 <= len(marks(most)) <= 5
    assert marks(most)[-1] <= most


def test_a_page_without_a_place_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="no place for"):
        write_between(page, "measured", "text")
    assert page.read_text() == "nothing\n"


def test_every_case_has_rows() -> None:
    for case in CASES.values():
        assert isinstance(case, Case)
        assert all(isinstance(row, Row) for row in case.rows)
