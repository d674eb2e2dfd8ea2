"""docs/tools.md, followed literally: its files are written, its commands run, its package installed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ask import ToolContext
from tests import wire
from tests.doc_pages import find_code_blocks, find_code_spans, parse_console_steps, read_table
from tests.model_server import ModelServer
from tests.program import Ask, Home, run
from tests.scenarios.sent_requests import check_sent_requests, read_tool_results
from tests.test_docs import PYTEST
from tests.third_party_plugins import install

PAGE = (Path(__file__).parents[1] / "docs" / "tools.md").read_text()
WEATHER, REGISTERED, TESTS = find_code_blocks(PAGE, "python")
(PROJECT,) = (tomllib.loads(text)["project"] for text in find_code_blocks(PAGE, "toml"))
COMMANDS = [line for block in find_code_blocks(PAGE, "console") for line, _ in parse_console_steps(block)]
ASKING = [line for line in COMMANDS if "Bergen" in line]


@pytest.fixture
def weather(ask: Ask) -> Ask:
    (ask.cwd / "weather.py").write_text(WEATHER)
    return replace(ask, env={**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL})


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            line, marks=[pytest.mark.slow] * (line != ASKING[0]) + [pytest.mark.needs("bwrap")] * ("--safe" in line)
        )
        for line in ASKING
    ],
)
def test_the_documented_function_is_called(line: str, weather: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("rainfall", {"city": "Bergen"})), wire.says("4 mm."))
    answered = weather.shell(line)
    assert (answered.text, answered.code) == ("4 mm.\n", 0), answered.stderr
    assert read_tool_results(check_sent_requests(server)[-1]) == ['{"city": "Bergen", "millimetres": 4}']


def test_the_tool_is_listed(weather: Ask) -> None:
    (line,) = [line for line in COMMANDS if line not in ASKING]
    (row,) = [row for row in json.loads(weather.shell(line).text) if row["from"] == "weather.py"]
    described = [part["description"] for part in row["parameters"]["properties"].values()]
    assert described == ["the city's name, without the country.", "how many days to add up, today included."]


@pytest.mark.slow
def test_the_documented_tests_pass(weather: Ask) -> None:
    (weather.cwd / "test_weather.py").write_text(TESTS)
    tested = run([*PYTEST, "test_weather.py"], env=weather.env, cwd=weather.cwd, timeout=60)
    assert tested.code == 0, tested.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param(WEATHER, ["rainfall"], id="marked"),
        pytest.param(REGISTERED, ["umbrella_bergen", "umbrella_seattle"], id="registered", marks=pytest.mark.slow),
    ],
)
def test_the_package_is_listed_loads_and_answers(
    source: str, names: list[str], ask: Ask, home: Home, server: ModelServer
) -> None:
    entry_points = PROJECT["entry-points"]["ask.tools"]
    (module,) = entry_points.values()
    packages = install(home.path / "packages", PROJECT["name"], entry_points, {module: source}, "ask.tools")
    ask = replace(ask, env={**ask.env, "PYTHONPATH": str(packages)})
    rows = [row.split("\t") for row in ask("tools").text.splitlines()]
    assert [(row[0], row[3]) for row in rows if row[-1] == PROJECT["name"]] == [(name, "no") for name in names]
    assert f"{PROJECT['name']}\ttools: {', '.join(names)}" in ask("doctor", "--offline").text
    arguments = {"city": "Bergen"} if source == WEATHER else {"people": 2}
    server.reply(wire.calls((names[0], arguments)), wire.says("Wet."))
    assert ask("-m", wire.MODEL, "how wet?").text == "Wet.\n"
    assert not read_tool_results(check_sent_requests(server)[-1])[0].startswith("Error")


def test_the_page_lists_exactly_the_attributes_of_the_context() -> None:
    documented = [name.partition("(")[0] for row in read_table(PAGE, "attribute") for name in find_code_spans(row)]
    assert tuple(documented) == ToolContext._fields
