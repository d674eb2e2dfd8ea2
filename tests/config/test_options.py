"""The typed options of a run are those of the command, and reach another process unchanged."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.cli.ask import command
from ask.config.options import ROW_ARGUMENT, RunOptions
from ask.config.settings import SETTINGS, Settings
from tests.program import Ask

TEXT = st.text(st.characters(codec="utf-8")) | st.sampled_from(["\udcff", "a\nb", "\0"])


def test_the_options_are_those_of_the_command() -> None:
    options = {
        str(option.name)
        for option in command.params
        if isinstance(option, click.Option) and option.expose_value and not option.hidden
    }
    internal = {"is_row", "other_base_urls", "new_conversation", "read_only_tools", "mcp_servers"}
    internal.add("waits_for_collector")
    assert {*RunOptions._fields} == {*options, "words", *internal} - {"input_events"}


def test_an_option_that_is_not_given_has_the_default_of_the_record() -> None:
    with command.make_context("ask", []) as context:
        given_values = {name: value for name, value in context.params.items() if name in RunOptions._fields}
    assert RunOptions(**given_values) == RunOptions()


def test_each_setting_with_an_option_names_a_field() -> None:
    named = {setting.option for setting in SETTINGS.values()} - {""}
    assert named <= {*RunOptions._fields}
    assert {setting.field for setting in SETTINGS.values()} - {""} <= {*Settings._fields}


@given(words=st.lists(TEXT), key=st.none() | TEXT, cost=st.none() | st.floats(0, 1e9), safe=st.booleans())
def test_json_keeps_the_options(words: list[str], key: str | None, cost: float | None, safe: bool) -> None:
    options = RunOptions(words=tuple(words), key=key, max_cost=cost, safe=safe)
    assert RunOptions.from_json(options.to_json().encode()) == options


@pytest.mark.parametrize("text", ["", "{", "[]", '{"unknown": 1}'])
def test_the_argument_of_rows_reads_nothing_else(ask: Ask, text: str) -> None:
    assert ask(ROW_ARGUMENT, stdin=text.encode()).code == 2
