"""docs/mcp.md says what the program does: its examples are run, its keys, numbers and links compared with the code."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ask.cli.mcp import add_command as add
from ask.mcp.limited_stream import UNASKED_LIMIT
from ask.mcp.process import MESSAGE_LIMIT
from ask.mcp.server_config import DEFAULT_START_TIMEOUT
from ask.mcp.tool_list_cache import MAX_AGE
from ask.mcp.tool_listing import DESCRIPTION_LIMIT, NAME_LIMIT, SCHEMA_LIMIT, TOOLS_LIMIT
from ask.mcp_settings import SERVER_KEYS
from ask.settings import check_config
from tests.pages import blocks, is_shown, quoted, steps, table
from tests.program import Ask, Home

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/mcp.md").read_text()


@pytest.mark.slow
def test_the_example_prints_what_is_shown(home: Home) -> None:
    ask = Ask(home.env, home.work)
    [block] = blocks(PAGE, "console")
    for line, output in steps(block):
        result = ask.shell(f"({line}) 2>&1", timeout=60)
        assert (result.code, is_shown(result.text, output)) == (0, True), result.text


def test_the_shown_configuration_is_understood_and_has_every_key() -> None:
    [text] = blocks(PAGE, "toml")
    values = tomllib.loads(text)
    assert check_config(Path("config.toml"), values) == []
    assert {key for server in values["mcp"]["servers"].values() for key in server} == set(SERVER_KEYS)


def test_exactly_the_existing_keys_are_documented() -> None:
    assert {name for row in table(PAGE, "key") for name in quoted(row)} == set(SERVER_KEYS)


def test_numbers_are_those_of_the_code() -> None:
    assert f"at most {TOOLS_LIMIT}" in PAGE or f"more than {TOOLS_LIMIT} tools" in PAGE
    assert f"more than {DESCRIPTION_LIMIT:,} characters" in PAGE
    assert f"more than {SCHEMA_LIMIT:,} characters" in PAGE
    assert f"more than {MESSAGE_LIMIT // 1_000_000} MB, or {UNASKED_LIMIT:,} messages" in PAGE
    assert f"over {NAME_LIMIT} characters" in PAGE
    assert f"{DEFAULT_START_TIMEOUT:g} by default" in PAGE
    assert "is kept for a day" in PAGE
    assert MAX_AGE == 24 * 60 * 60


def test_the_options_in_the_examples_exist() -> None:
    for block in blocks(PAGE, "sh"):
        for line in block.splitlines():
            options = set(re.findall(r" (--[a-z]+)", line.partition("#")[0]))
            if "ask mcp add" in line:
                assert options <= {name for option in add.params for name in option.opts}


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert targets
    assert all((ROOT / "docs" / target).exists() for target in targets)
