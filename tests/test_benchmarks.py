"""The benchmarks run and report what they measured. Durations are not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result, run

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
def test_a_curve_is_measured_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- curves -->\n<!-- end of curves -->\n")
    result = benchmarks("distributions", "--runs", "1", "--page", str(page), module="benchmarks.curves")
    assert result.code == 0, result.stderr
    assert "0: 1.00x, 100: " in page.read_text()
    assert ET.parse(page.with_suffix(".svg")).getroot().tag.endswith("svg")


def test_generated_results_are_those_of_a_job(ask: Ask, server: ModelServer, home: Home) -> None:
    rows = home.work / "rows.jsonl"
    rows.write_text("".join(json.dumps({"id": number}) + "\n" for number in range(5)))
    server.reply(wire.whole_reply(wire.answer("hello")))
    command = ("map", "-p", "openrouter", "-m", "vendor/model", "row {{id}}", "rows.jsonl")
    assert ask(*command, "--limit", "1").code == 0
    generated = benchmarks(str(home.data / "map.db"), str(rows), "5", module="benchmarks.ledger_generator")
    assert generated.code == 0, generated.stderr
    assert len(ask(*command).text.splitlines()) == 5
    assert len(server.requests) == 1
