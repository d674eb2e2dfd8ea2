"""What `ask undo` after a safe run cannot put back, or take away: it is said, and the exit code tells."""

from __future__ import annotations

import os

import pytest

from ask.undo.trees import MAX_DEPTH
from tests import wire
from tests.cli.test_undo_safe import Model, bash, last_line
from tests.model_server import ModelServer
from tests.needed import need
from tests.program import Ask, Home, Result

MOUNTED = """
mount -t tmpfs none here && mount -t tmpfs none shut && echo old > here/f || exit 99
chmod 750 here && mount -o remount,ro shut || exit 99
"""
"""Mounts two file systems, the second read-only, as a user who looks like root to it."""


def deep(levels: int) -> str:
    """A command that makes so many folders within each other, with a file in the first and the last."""
    return f"mkdir -p $(printf 'd/%.0s' {{1..{levels}}}); touch d/f $(printf 'd/%.0s' {{1..{levels}}})/f"


def mounted(ask: Ask, script: str) -> Result:
    """Run a script where something is mounted."""
    need("unshare", "mount")
    for name in ("here", "shut"):
        (ask.cwd / name).mkdir()
    whole = f"unshare --user --map-root-user --mount bash -c '{MOUNTED}{script}'"
    return ask.shell(whole)


def test_folders_that_are_not_too_deep_are_removed(ask: Ask, home: Home, server: ModelServer) -> None:
    Model(ask, server).bash(deep(MAX_DEPTH - 1))
    result = ask("undo", "-y")
    assert result.code == 0
    assert f"2 files and {MAX_DEPTH - 1} folders" in last_line(result)
    assert os.listdir(home.work) == []


def test_folders_that_are_too_deep_are_not_and_that_is_said(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "f").write_text("old\n")
    Model(ask, server).bash("echo new > f", deep(MAX_DEPTH + 3))
    assert f": d/ (over {MAX_DEPTH} " in last_line(ask("undo", "-n"))
    result = ask("undo", "-y")
    left, done, error = result.stderr.splitlines()[1:]
    assert result.code == 9
    assert "put back 1 file, remove 1 file" in done
    assert all(f": d/ (over {MAX_DEPTH} " in line for line in (left, error))
    assert (home.work / "f").read_text() == "old\n"
    assert home.work.joinpath(*["d"] * (MAX_DEPTH + 3), "f").exists()
    assert ask("undo", "--redo", "-y").code == 0
    assert (home.work / "d/f").exists()


@pytest.mark.slow
def test_undo_that_can_only_leave_such_a_folder_fails(ask: Ask, home: Home, server: ModelServer) -> None:
    script = f"mkdir -p {'d/' * (MAX_DEPTH + 3)}"
    Model(ask, server).bash(script)
    result = ask("undo", "-y")
    assert result.code == 9
    assert ": d/ (" in result.stderr
    assert (home.work / "d").exists()


def test_a_folder_of_the_run_stays_where_the_user_put_something_in_it(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    Model(ask, server).bash("mkdir -p made/in; touch made/in/f")
    (home.work / "made/mine").touch()
    listed = "made/\tsomething else is in it\nmade/in/\tremove\nmade/in/f\tremove\n"
    assert ask("undo", "--list").text == listed
    result = ask("undo", "-y")
    left, done = result.stderr.splitlines()[1:]
    assert result.code == 0
    assert ": made/ (" in left
    assert "remove 1 file and 1 folder" in done
    assert os.listdir(home.work / "made") == ["mine"]


def test_of_what_is_too_deep_to_be_copied_it_is_said_before_and_after(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    last = home.work.joinpath(*["d"] * (MAX_DEPTH + 1), "f")
    last.parent.mkdir(parents=True)
    last.touch()
    folder = f"{'d/' * MAX_DEPTH} ("
    ran = Model(ask, server).bash(f"rm {last}; touch g")
    assert ran.stderr.count(folder) == 1
    result = ask("undo", "-y")
    assert folder in result.stderr
    assert (result.code, os.listdir(home.work), last.exists()) == (0, ["d"], False)


@pytest.mark.slow
def test_what_is_mounted_below_is_not_copied_and_that_is_said(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(bash("rm here/f; chmod 700 here; touch g")), wire.says("Done."))
    script = "ask --safe go && [[ -e g && ! -e here/f ]] && ask undo --list && ask undo -y && ls -A here"
    result = mounted(ask, script)
    assert (result.code, result.text.splitlines()[:2]) == (0, ["Done.", "g\tremove"]), result.stderr
    assert result.stderr.count(" here/ (") == 3, "by the run, by the list, and by undo"
    assert "shut" not in result.stderr, "nobody can change what is in there"
    assert sorted(os.listdir(home.work)) == ["here", "shut"]


@pytest.mark.slow
def test_a_file_system_that_comes_or_goes_is_taken_for_no_change(ask: Ask, home: Home, server: ModelServer) -> None:
    """After a kill, what there is now tells what the run did."""
    (home.work / "comes").mkdir()
    (home.work / "comes/under").write_text("old")
    server.reply(wire.calls(bash("touch g; sleep 60")))
    killed = "ask --safe go & until [[ -e g ]]; do sleep 0.1; done; kill -KILL $!; wait; "
    result = mounted(ask, killed + "umount here; mount -t tmpfs -o mode=711 none comes; ask undo --list")
    assert (result.code, result.text) == (0, "g\tremove\n"), result.stderr
