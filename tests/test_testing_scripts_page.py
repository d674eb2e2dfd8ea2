"""docs/testing-scripts.md: all commands are run, in the order of the page, and print what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import wire
from tests.doc_pages import find_code_blocks, matches_documented_output, parse_console_steps
from tests.model_server import ModelServer
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[1] / "docs" / "testing-scripts.md").read_text()
(SCRIPT,) = find_code_blocks(PAGE, "sh")
(RECORD,) = find_code_blocks(PAGE, "json")


@pytest.mark.slow
def test_commands_print_the_documented_output(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "label.sh").write_text(SCRIPT)
    (home.work / "label.sh").chmod(0o755)
    server.reply(wire.says("bug"))
    steps = [step for block in find_code_blocks(PAGE, "console") for step in parse_console_steps(block)]
    (variables, _), *steps = steps
    for line, output in steps:
        result = ask.shell(f"{variables}; {line}")
        printed = result.text + result.stderr if "ask: " in output else result.text
        assert matches_documented_output(printed, output), f"{line}\n{result}"
    assert len(server.requests) == 1


def test_the_documented_record_is_replayed(ask: Ask, home: Home) -> None:
    (home.work / "answers.jsonl").write_text(RECORD)
    result = ask("--no-tools", "Hi", env={"ASK_REPLAY": "answers.jsonl", "ASK_MODEL": "openai/gpt-6-luna"})
    assert result.text == "Hello.\n"
