"""The man page and the options page match the code, render without warnings, and are part of the wheel."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ask.cli.ask import command
from ask.cli.commands import COMMANDS
from ask.config.settings import SETTINGS
from tests import roff
from tests.cli.chat.chat_session import PROMPT
from tests.command_line import is_documented_option, list_subcommands
from tests.manual import EXAMPLES, FILES, MAN_PAGE, OPTIONS_PAGE
from tests.program import Ask, Home, run
from tests.project.projects import commit, make_repository, write_skill
from tests.recipes import PAGE as RECIPES_PAGE

ROOT = Path(__file__).parents[1]
TRUST_QUESTION = "in later runs?"
APPROVAL_QUESTION = "Run this? "
EXTENT_QUESTION = "Which? "


@pytest.mark.parametrize("page", [MAN_PAGE, OPTIONS_PAGE], ids=lambda page: page.name)
def test_every_option_command_and_config_key_is_documented(page: Path) -> None:
    text = page.read_text().replace("\\fB", "").replace("\\fR", "").replace("\\-", "-")
    options = [name for option in command.params if is_documented_option(option) for name in option.opts]
    for name in (*options, *(f"ask {name}" for name in COMMANDS), *SETTINGS):
        assert name in text, name


def test_subcommands_of_groups_are_listed() -> None:
    names = [one.name for one in list_subcommands()]
    assert len(names) == len(set(names))
    assert {"ask keys", "ask keys set", "ask history", "ask history import", "ask undo"} <= set(names)


def test_every_listed_command_exists(ask: Ask) -> None:
    for one in list_subcommands():
        if one.name.count(" ") == 1:  # one process per command is enough
            assert f"Usage: {one.name} " in ask(*one.name.split()[1:], "--help").text


@pytest.mark.needs("mandoc")
def test_mandoc_reports_no_problems() -> None:
    linted = run(["mandoc", "-Tlint", "-W", "style", str(MAN_PAGE)])
    assert (linted.code, linted.text) == (0, "")


@pytest.mark.needs("man", "groff")
def test_man_prints_the_page_without_warnings(home: Home) -> None:
    shown = run(["man", "--warnings", "-E", "ascii", "-l", str(MAN_PAGE)], env={**home.env, "MANWIDTH": "80"})
    assert (shown.code, shown.stderr) == (0, "")
    assert "--max-rounds N" in shown.text
    assert "    ask -p demo" in shown.text
    assert max(map(len, shown.text.splitlines())) <= 80


@pytest.mark.needs("groff")
def test_any_text_is_rendered_unchanged_by_man(tmp_path: Path) -> None:
    odd = ["a \\fB b", ".SH x", "'no request", "-x --y", 'a "q"', "~ ^ \u00b4 \u00e9 \u20ac", "\\"]
    page = roff.section("TEXT", roff.paragraphs([*odd, "`a -b` and **c** and [d](e)"]), roff.lines(".x\n'y\n\\e\n-z"))
    (tmp_path / "page").write_text(roff.page("x", "2000-01-01", "x 1", [page]))
    shown = run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", str(tmp_path / "page")])
    assert shown.stderr == ""
    lines = [line.strip() for line in shown.text.splitlines()]
    wanted = [*odd, "a -b and c and d", ".x", "'y", "\\e", "-z"]
    assert [line for line in lines if line and "x(1)" not in line.lower() and "x 1" not in line][1:] == wanted


def test_the_wheel_installs_the_man_page() -> None:
    data_files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    assert [ROOT / name for name in data_files["share/man/man1"]] == [MAN_PAGE]


@pytest.mark.slow
def test_documented_file_locations_are_correct(home: Home) -> None:
    at_home = {name: value for name, value in home.env.items() if not name.startswith("XDG_")}
    ask = Ask(at_home, home.work)
    ask("keys", "set", "openrouter", stdin=b"sk-1")
    ask("config", "set", "provider", "demo")
    (home.work / "a.txt").write_text("1\n" * 100_000)
    (home.work / "AGENTS.md").write_text("Be brief.\n")
    assert ask("--context", "write b.txt with b").code == 0
    assert ask.on_terminal("write c.txt with c", answers=[(TRUST_QUESTION, "y\n")]).code == 0
    approval = [(APPROVAL_QUESTION, "m"), (EXTENT_QUESTION, "3")]
    assert ask.on_terminal("--confirm", "run cat a.txt", answers=approval).code == 0
    write_skill(make_repository(home.path / "skills"))
    commit(home.path / "skills")
    assert ask("skills", "add", str(home.path / "skills"), "--yes").code == 0
    assert ask.on_terminal("chat", answers=[(PROMPT, "hello\r"), ("embedded", ""), (PROMPT, "exit\r")]).code == 0
    for name in FILES:
        assert Path(home.env["HOME"], name.removeprefix("~/")).exists(), name


@pytest.mark.slow
def test_examples_work(home: Home) -> None:
    ask = Ask({**home.env, "ASK_PROVIDER": "demo"}, home.work)
    for line in EXAMPLES.values():
        shown = ask.shell(f"{line} 2>error && ! grep ^ask: error")
        assert shown.code == 0, shown
        assert shown.text


@pytest.mark.parametrize("page", [OPTIONS_PAGE, RECIPES_PAGE], ids=lambda page: page.name)
def test_link_targets_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
