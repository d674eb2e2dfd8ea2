"""docs/events.md: its tables are those of the schema, and its examples are run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ask.render.event_schema import EVENTS, INPUTS
from tests import wire
from tests.doc_pages import (
    find_code_blocks,
    find_code_spans,
    matches_documented_output,
    parse_console_steps,
    read_table,
)
from tests.model_server import ModelServer
from tests.program import PROGRAMS, Ask, Home

PAGE = (Path(__file__).parents[1] / "docs" / "events.md").read_text()
(CLIENT,) = find_code_blocks(PAGE, "bash")


def list_names(heading: str) -> list[str]:
    return [name for row in read_table(PAGE, heading) for name in find_code_spans(row)]


def test_the_tables_are_those_of_the_schema() -> None:
    assert list_names("event") == list(EVENTS)
    assert list_names("line") == list(INPUTS)
    assert list_names("field of the event") == list(EVENTS["approval"][1])
    assert {"id", *list_names("field of the answer")} == set(INPUTS["approval"][1])


@pytest.mark.needs("jq")
def test_the_examples_print_what_the_page_shows(ask: Ask, home: Home) -> None:
    (example,) = find_code_blocks(PAGE, "console")
    env = {**ask.env, "PATH": f"{PROGRAMS}:{ask.env['PATH']}"}
    for line, output in parse_console_steps(example):
        done = subprocess.run(["bash", "-c", line], env=env, cwd=home.work, capture_output=True, text=True, check=False)
        assert matches_documented_output(done.stdout, output)


@pytest.mark.slow
@pytest.mark.needs("jq")
def test_a_shell_script_drives_it(ask: Ask, server: ModelServer, home: Home) -> None:
    server.reply(
        wire.calls(("bash", {"command": "echo one > made"}), ("bash", {"command": "rm made"})),
        wire.says("First."),
        wire.says("Second."),
    )
    env = {**ask.env, "PATH": f"{PROGRAMS}:{ask.env['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", CLIENT],
        env=env,
        cwd=home.work,
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [
        *("allow: echo one > made", "deny: rm made", "First.", "Second.", "exit code 0"),
    ]
    assert (home.work / "made").read_text() == "one\n"
