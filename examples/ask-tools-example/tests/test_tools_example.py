"""Tools are functions, and are tested as such; `as_tool` shows them as a model sees them."""

import os
from pathlib import Path

import pytest
from ask_tools_example import Unit, convert_temperature, count_words, remember

from ask import ToolContext, ToolError
from ask.testing import create_tool


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path, dict(os.environ), 30, tmp_path / "results", print)


@pytest.mark.parametrize(
    ("degrees", "unit", "to", "result"),
    [(451, "fahrenheit", "celsius", 232.78), (0, "kelvin", "celsius", -273.15), (100, "celsius", "fahrenheit", 212)],
)
def test_temperatures_are_converted(degrees: float, unit: Unit, to: Unit, result: float) -> None:
    assert convert_temperature(degrees, unit, to) == result


def test_words_are_counted_and_what_is_no_file_is_told(context: ToolContext) -> None:
    (context.directory / "a.txt").write_text("one two\nthree")
    assert count_words(["a.txt"], context) == {"a.txt": 3}
    with pytest.raises(ToolError, match="txt cannot be counted"):
        count_words(["b.txt"], context)


def test_a_note_is_kept(context: ToolContext) -> None:
    tool = create_tool(remember)
    assert tool.has_side_effects
    assert tool.run({"note": "milk"}, context).text == "noted"
    assert (context.directory / "notes.txt").read_text() == "milk\n"


def test_a_model_sees_what_it_may_give() -> None:
    spec = create_tool(convert_temperature).spec
    assert spec.description == "Convert a temperature."
    assert spec.parameters["required"] == ["degrees", "unit"]
    assert spec.parameters["properties"]["to"] == {
        "type": "string",
        "enum": ["celsius", "fahrenheit", "kelvin"],
        "description": "the unit that is wanted.",
        "default": "celsius",
    }
