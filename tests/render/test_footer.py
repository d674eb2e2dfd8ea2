"""The lines below an answer and about the project's instructions: only for a person on a terminal."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Running
from tests.slow_parameters import mark_others_slow

FOOTER = "· conversation "
INSTRUCTIONS = "· project instructions: "


@pytest.fixture(autouse=True)
def reply(server: ModelServer) -> None:
    server.reply(wire.says("hello"))


def show(ask: Ask, command: Sequence[str]) -> str:
    """Run a command on a terminal; return all that is shown, with the footer."""
    with Running(command, env=ask.env, cwd=ask.cwd, terminal=True) as running:
        result = running.finish()
        assert result.code == 0, result.text
        return bytes(running.stdout).decode()


@pytest.mark.parametrize(
    "script", mark_others_slow(["exec ask hi", "exec ask hi < /dev/null", "exec ask --plain hi"], ["exec ask hi"])
)
def test_a_person_on_a_terminal_gets_the_id(ask: Ask, script: str) -> None:
    shown = show(ask, ["bash", "-c", script])
    assert FOOTER in shown
    assert show(ask, ["bash", "-c", "ask history | cut -f2"]).strip() == shown.split(FOOTER)[1].split()[0]


PLACES_WITHOUT = {
    "data on stdin": "exec ask hi < data",
    "a pipe": "cat data | ask hi",
    "a pager": "ask hi | cat",
    "a file": "exec ask hi > answer",
    "an error log": "exec ask hi 2> log",
    "quiet": "exec ask -q hi",
    "a script": "ask hi; true",
    "make": "make --no-print-directory",
    "xargs": "echo hi | xargs ask",
    "an editor": "(ask hi) < data > answer 2>&1",
}
"""How ask is started where nobody needs the id."""


@pytest.mark.slow_after_first
@pytest.mark.parametrize("place", mark_others_slow(PLACES_WITHOUT, ["a pipe", "a file", "a script"]))
def test_elsewhere_nothing_is_added_and_the_conversation_is_found(place: str, ask: Ask, home: Home) -> None:
    (home.work / "data").write_text("b\na\n")
    (home.work / "Makefile").write_text("all:\n\t@ask hi\n")
    shown = show(ask, ["bash", "-c", PLACES_WITHOUT[place]])
    written = "".join(path.read_text() for name in ("answer", "log") if (path := home.work / name).exists())
    assert FOOTER not in shown + written
    assert "hello" in shown + written
    assert len(ask("history").text.splitlines()) == 1
    assert ask("-c", "and now?").code == 0


@pytest.mark.slow
def test_the_setting_overrides_this(ask: Ask, home: Home) -> None:
    home.configure('footer = "always"\n')
    assert ask.shell("ask hi 2>&1 >/dev/null | cat > log; grep -c conversation log").text == "1\n"
    home.configure('footer = "never"\n')
    assert FOOTER not in show(ask, ["ask", "hi"])
    home.configure('footer = "sometimes"\n')
    assert ask("hi").code == 4


@pytest.mark.needs("vim")
def test_vim_filters_a_buffer(ask: Ask, home: Home) -> None:
    (home.work / "list.txt").write_text("b\na\n")
    vim = ["vim", "-u", "NONE", "-N", "-n", "-c", "%!ask sort", "-c", "wq", "list.txt"]
    with Running(vim, env=ask.env, cwd=ask.cwd, terminal=True) as running:
        assert running.finish().code == 0
    assert (home.work / "list.txt").read_text() == "hello\n"


@pytest.mark.slow
def test_script_records_what_the_terminal_shows(ask: Ask) -> None:
    shown = show(ask, ["script", "-qc", "exec ask hi", "typescript"])
    assert FOOTER in shown
    assert FOOTER in (ask.cwd / "typescript").read_text()


@pytest.fixture
def projects(ask: Ask, home: Home) -> Callable[..., int]:
    """Make two projects; return a function that counts how often a run in a folder names the instructions."""
    for name in ("one", "two"):
        (home.work / name / "sub").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", home.work / name], check=True)
        (home.work / name / "AGENTS.md").write_text("Use tabs.")
        (home.work / name / "sub" / "AGENTS.md").write_text("Use spaces.")

    def count(folder: str, *options: str) -> int:
        return show(ask, ["bash", "-c", f"cd {folder}; exec ask --context {shlex.join(options)} hi"]).count(
            INSTRUCTIONS
        )

    return count


@pytest.mark.slow
def test_instructions_are_named_once_and_only_on_a_terminal(ask: Ask, projects: Callable[..., int]) -> None:
    assert [projects("one"), projects("one")] == [1, 0]
    assert INSTRUCTIONS not in ask("--context", "hi").stderr


@pytest.mark.slow
def test_instructions_are_named_once_per_day_and_project(projects: Callable[..., int], home: Home) -> None:
    count = projects
    assert [count("one"), count("one"), count("two"), count("two")] == [1, 0, 1, 0]
    assert [count("one/sub"), count("one/sub"), count("one")] == [1, 0, 0], "further files are named"
    assert count("one", "-v") == 1
    cache = Path(home.env["XDG_CACHE_HOME"], "ask", "reported-instructions.json")
    cache.write_text(cache.read_text().replace('{"2', '{"1'))  # another day
    assert [count("one"), count("one")] == [1, 0]
    cache.write_text("damaged")
    assert count("one") == 1
