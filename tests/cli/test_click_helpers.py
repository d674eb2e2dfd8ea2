"""The help of every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from ask.cli.commands import COMMANDS, load_command
from tests.program import Ask


def list_command_names() -> Iterator[tuple[str, ...]]:
    yield ()
    for name in COMMANDS:
        yield (name,)
        command = load_command([name])
        yield from ((name, sub_name) for sub_name in (command.commands if isinstance(command, click.Group) else ()))


@pytest.mark.parametrize("columns", [30, pytest.param(80, marks=pytest.mark.slow)])
def test_help_fits_the_terminal(columns: int, ask: Ask) -> None:
    for names in list_command_names():
        wide, narrow = (ask(*names, "--help", env={"COLUMNS": str(size)}).text for size in (200, columns))
        too_wide = [line.strip() for line in narrow.splitlines() if len(line) > columns]
        assert not [line for line in too_wide if " " in line], names
        assert "".join(narrow.split()) == "".join(wide.split()), names


def test_help_does_not_become_a_column_of_letters(ask: Ask) -> None:
    narrow, narrowest = (ask("--help", env={"COLUMNS": size}).text for size in ("20", "1"))
    assert narrow == narrowest


def test_ranges_are_described_in_words(ask: Ask) -> None:
    for names in list_command_names():
        assert "x>" not in ask(*names, "--help").text
    for arguments in (("--max-rounds", "0", "hi"), ("--max-rounds", "many", "hi"), ("history", "stats", "--days", "0")):
        result = ask(*arguments)
        assert result.code == 2
        assert "whole number" in result.stderr
        assert "x>=" not in result.stderr
