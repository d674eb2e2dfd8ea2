"""The benchmarks run and report what they measured. Durations are not tested."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

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
def test_a_curve_is_measured_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- curves -->\n<!-- end of curves -->\n")
    result = benchmarks("distributions", "--runs", "1", "--page", str(page), module="benchmarks.curves")
    assert result.code == 0, result.stderr
    assert "0: 1.00x, 100: " in page.read_text()
    assert ET.parse(page.with_suffix(".svg")).getroot().tag.endswith("svg")
