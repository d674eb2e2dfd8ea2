"""docs/mcp.md is correct: its examples run, and its keys, numbers and links match the code."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from ask.cli.mcp import add_command as add
from ask.config.config_file import check_config
from ask.config.mcp_servers import SERVER_KEYS
from tests.doc_pages import (
    check_commands,
    find_code_blocks,
    find_code_spans,
    read_table,
)
from tests.mcp.setting import HERE
from tests.program import Ask, Home

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/mcp.md").read_text()


@pytest.mark.slow
def test_examples_print_the_documented_output(home: Home) -> None:
    program = home.path / "notes-server"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {HERE / 'notes_server.py'}\n")
    program.chmod(0o700)
    ask = Ask({**home.env, "PATH": f"{home.path}:{home.env['PATH']}"}, home.work)
    run = lambda line: ask.shell(f"{{ {line}; }} 2>&1", timeout=60)  # noqa: E731
    check_commands(run, find_code_blocks(PAGE, "console"))


def test_the_shown_configuration_is_understood_and_has_every_key() -> None:
    [text] = find_code_blocks(PAGE, "toml")
    values = tomllib.loads(text)
    assert check_config(Path("config.toml"), values) == []
    assert {key for server in values["mcp"]["servers"].values() for key in server} == set(SERVER_KEYS)


def test_exactly_the_existing_keys_are_documented() -> None:
    assert {name for row in read_table(PAGE, "key") for name in find_code_spans(row)} == set(SERVER_KEYS)


def test_the_options_in_the_examples_exist() -> None:
    for block in find_code_blocks(PAGE, "sh"):
        for line in block.splitlines():
            options = set(re.findall(r" (--[a-z]+)", line.partition("#")[0]))
            if "ask mcp add" in line:
                assert options <= {name for option in add.params for name in option.opts}


def test_every_link_has_a_target() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert targets
    assert all((ROOT / "docs" / target).exists() for target in targets)
