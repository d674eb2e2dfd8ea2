"""Identifying the terminal: each test asks a real one, in its own process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.program import Home, Running, run

NAME = "import os; from ask.process import terminal_identity as t; print('<' + t.identify_terminal(os.environ) + '>')"
PYTHON = f'{sys.executable} -c "{NAME}"'
WITHOUT_PROC = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/proc", "--"]


def names_on_terminal(home: Home, *command: str) -> list[str]:
    with Running(command, env=home.env, cwd=home.work, terminal=True) as running:
        shown = running.finish().text
    return [line.strip("<>") for line in shown.splitlines() if line.startswith("<")]


def test_name_is_the_same_for_all_processes_of_a_shell(home: Home) -> None:
    one, two, three = names_on_terminal(home, "bash", "-c", f"{PYTHON}; ({PYTHON}); {PYTHON} | cat")
    assert one == two == three
    assert one.startswith("terminal:")


def test_name_differs_between_terminals(home: Home) -> None:
    one, two = (names_on_terminal(home, "sh", "-c", f"{PYTHON}; true")[0] for _ in range(2))
    assert one != two


def test_shell_with_special_characters_in_its_name(home: Home) -> None:
    odd = home.path / "a) S 1 2 (b"
    odd.symlink_to("/bin/bash")
    one, two = names_on_terminal(home, str(odd), "-c", f"{PYTHON}; {PYTHON}")
    assert one == two
    assert one.count(":") == 4


def test_without_a_terminal_there_is_no_name(home: Home) -> None:
    assert run([sys.executable, "-c", NAME], env=home.env).text == "<>\n"
    [name] = names_on_terminal(home, "bash", "-c", f"setsid -w {PYTHON}; true")
    assert name == ""


@pytest.mark.parametrize(("session", "name"), [("one", "session:one"), ("a\udcffb", "session:a\ufffdb")])
def test_name_from_the_environment(home: Home, session: str, name: str) -> None:
    assert run([sys.executable, "-c", NAME], env={**home.env, "ASK_SESSION": session}).text == f"<{name}>\n"


@pytest.mark.needs("bwrap")
def test_name_without_a_proc_file_system(home: Home) -> None:
    one, two = names_on_terminal(home, *WITHOUT_PROC, "sh", "-c", f"{PYTHON}; {PYTHON}")
    assert one == two
    assert one.startswith("terminal:")
    assert run([*WITHOUT_PROC, sys.executable, "-c", NAME], env=home.env).text == "<>\n"
    assert run([*WITHOUT_PROC, "/usr/bin/env", f"PATH={Path(sys.executable).parent}", "python", "-c", NAME]).text
