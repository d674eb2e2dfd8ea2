"""Tools are functions and are tested as such; `ToolContract` tests what the model and ask see of them."""

import os
from pathlib import Path

import pytest
from ask_tools_example import Unit, convert_temperature, count_words, remember

from ask import ToolContext, ToolError
from ask.testing import ToolContract, create_tool


class TestTools(ToolContract):
    tools = (convert_temperature, count_words, remember)
    calls = {
        "convert_temperature": [{"degrees": 451, "unit": "fahrenheit"}],
        "count_words": [{"files": ["a.txt"]}],
        "remember": [{"note": "milk"}],
    }
    wrong_calls = {"count_words": [{"files": ["missing.txt"]}]}

    def prepare(self, directory: Path) -> None:
        (directory / "a.txt").write_text("one two\nthree")


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext(tmp_path, dict(os.environ), 30, tmp_path / "results", print)


@pytest.mark.parametrize(
    ("degrees", "unit", "to", "result"),
    [(451, "fahrenheit", "celsius", 232.78), (0, "kelvin", "celsius", -273.15), (100, "celsius", "fahrenheit", 212)],
)
def test_temperatures_are_converted(degrees: float, unit: Unit, to: Unit, result: float) -> None:
    assert convert_temperature(degrees, unit, to) == result


def test_words_are_counted_and_missing_files_reported(context: ToolContext) -> None:
    (context.directory / "a.txt").write_text("one two\nthree")
    assert count_words(["a.txt"], context) == {"a.txt": 3}
    with pytest.raises(ToolError, match="txt cannot be counted"):
        count_words(["b.txt"], context)


def test_note_is_written(context: ToolContext) -> None:
    tool = create_tool(remember)
    assert tool.has_side_effects
    assert tool.run({"note": "milk"}, context).text == "noted"
    assert (context.directory / "notes.txt").read_text() == "milk\n"


def test_model_sees_the_parameters() -> None:
    spec = create_tool(convert_temperature).spec
    assert spec.description == "Convert a temperature."
    assert spec.parameters["required"] == ["degrees", "unit"]
    assert spec.parameters["properties"]["to"] == {
        "type": "string",
        "enum": ["celsius", "fahrenheit", "kelvin"],
        "description": "the unit that is wanted.",
        "default": "celsius",
    }
