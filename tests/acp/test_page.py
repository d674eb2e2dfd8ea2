"""docs/editors.md: each configuration starts the server, and its modes and options are those of the code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ask.cli.acp import command
from tests.acp.editor import start_raw
from tests.doc_pages import find_code_blocks, find_code_spans, read_section, read_table
from tests.program import Ask, Home

PAGE = (Path(__file__).parents[2] / "docs" / "editors.md").read_text()
STRING = r'"([^"]*)"'


def find_commands(language: str) -> list[list[str]]:
    """Return the command lines of the configurations in a language."""
    found: list[list[str]] = []
    for block in find_code_blocks(PAGE, language):
        if language == "json":
            servers: dict[str, Any] = json.loads(block)["agent_servers"]
            found += [[server["command"], *server["args"]] for server in servers.values()]
            continue
        lists = re.findall(r"default = \{(.*?)\}|(command = .*?)\benv|(:command .*?)\)", block, re.DOTALL)
        found += [re.findall(STRING, "".join(parts)) for parts in lists]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("language", "count"), [("json", 2), ("lua", 2), ("elisp", 1)])
def test_each_configuration_starts_the_server(ask: Ask, home: Home, language: str, count: int) -> None:
    commands = find_commands(language)
    assert len(commands) == count == len(find_code_blocks(PAGE, language))
    for program, *arguments in commands:
        assert (Path(program).name, arguments[0]) == ("ask", "acp")
        with start_raw(ask, *arguments[1:]) as (editor, running):
            assert editor.request(1, "initialize", protocolVersion=1)["result"]["agentInfo"]["name"] == "ask"
            editor.close()
            assert running.finish().code == 0


def test_brackets_are_balanced() -> None:
    pairs = {")": "(", "}": "{", "]": "["}
    for language in ("lua", "elisp"):
        for block in find_code_blocks(PAGE, language):
            opened: list[str] = []
            for character in re.sub(STRING, "", block):
                if character in pairs.values():
                    opened.append(character)
                elif character in pairs:
                    assert opened.pop() == pairs[character]
            assert not opened


@pytest.mark.slow
def test_modes_and_options_are_those_of_the_code() -> None:
    from ask.acp.session import MODES  # which imports the SDK

    assert [mode.strip("`") for mode in read_table(PAGE, "mode")] == list(MODES)
    documented = {span for span in find_code_spans(read_section(PAGE, "## Options")) if span.startswith("-")}
    for parameter in command.params:
        assert documented & {*parameter.opts}, parameter.opts
        documented -= {*parameter.opts}
    assert not documented
