"""What `ask undo` after a safe run cannot restore or remove is reported, also by the exit code."""

from __future__ import annotations

import os

import pytest

from ask.undo.backup_scope import MAX_DEPTH
from tests import wire
from tests.cli.test_undo_safe import Model, bash, last_line
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result

MOUNTED = """
mount -t tmpfs none here && mount -t tmpfs none shut && echo old > here/f || exit 99
chmod 750 here && mount -o remount,ro shut || exit 99
"""
"""Mounts two file systems, the second read-only, in a user namespace with root privileges."""


def nested_folders_command(levels: int) -> str:
    """Return a command that creates nested folders, with a file in the first and the last."""
    return f"mkdir -p $(printf 'd/%.0s' {{1..{levels}}}); touch d/f $(printf 'd/%.0s' {{1..{levels}}})/f"


def run_with_mounts(ask: Ask, script: str) -> Result:
    """Run a script in a folder with mounted file systems."""
    for name in ("here", "shut"):
        (ask.cwd / name).mkdir()
    whole = f"unshare --user --map-root-user --mount bash -c '{MOUNTED}{script}'"
    return ask.shell(whole)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_folders_within_the_depth_limit_are_removed(ask: Ask, home: Home, server: ModelServer) -> None:
    Model(ask, server).bash(nested_folders_command(MAX_DEPTH - 1))
    result = ask("undo", "-y")
    assert result.code == 0
    assert f"2 files and {MAX_DEPTH - 1} folders" in last_line(result)
    assert os.listdir(home.work) == []


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_folders_beyond_the_depth_limit_are_left_and_reported(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "f").write_text("old\n")
    Model(ask, server).bash("echo new > f", nested_folders_command(MAX_DEPTH + 3))
    assert f": d/ (more than {MAX_DEPTH} " in last_line(ask("undo", "-n"))
    result = ask("undo", "-y")
    left, done, error = result.stderr.splitlines()[1:]
    assert result.code == 9
    assert "restored 1 file, removed 1 file" in done
    assert all(f": d/ (more than {MAX_DEPTH} " in line for line in (left, error))
    assert (home.work / "f").read_text() == "old\n"
    assert home.work.joinpath(*["d"] * (MAX_DEPTH + 3), "f").exists()
    assert ask("undo", "--redo", "-y").code == 0
    assert (home.work / "d/f").exists()


@pytest.mark.slow
def test_undo_fails_if_nothing_can_be_removed(ask: Ask, home: Home, server: ModelServer) -> None:
    script = f"mkdir -p {'d/' * (MAX_DEPTH + 3)}"
    Model(ask, server).bash(script)
    result = ask("undo", "-y")
    assert result.code == 9
    assert ": d/ (" in result.stderr
    assert (home.work / "d").exists()


@pytest.mark.needs("bwrap")
def test_folders_with_files_of_the_user_are_not_removed(ask: Ask, home: Home, server: ModelServer) -> None:
    Model(ask, server).bash("mkdir -p made/in; touch made/in/f")
    (home.work / "made/mine").touch()
    listed = "made/\tcontains something else\nmade/in/\tremove\nmade/in/f\tremove\n"
    assert ask("undo", "--list").text == listed
    result = ask("undo", "-y")
    left, done = result.stderr.splitlines()[1:]
    assert result.code == 0
    assert ": made/ (" in left
    assert "removed 1 file and 1 folder" in done
    assert os.listdir(home.work / "made") == ["mine"]


@pytest.mark.needs("bwrap")
def test_folders_too_deep_to_copy_are_reported_before_and_after_the_run(
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
@pytest.mark.needs("bwrap", "unshare", "mount")
def test_mounted_file_systems_are_not_copied_and_reported(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(bash("rm here/f; chmod 700 here; touch g")), wire.says("Done."))
    script = "ask --safe go && [[ -e g && ! -e here/f ]] && ask undo --list && ask undo -y && ls -A here"
    result = run_with_mounts(ask, script)
    assert (result.code, result.text.splitlines()[:2]) == (0, ["Done.", "g\tremove"]), result.stderr
    assert result.stderr.count(" here/ (") == 3, "by the run, by the list, and by undo"
    assert "shut" not in result.stderr, "nobody can change what is in there"
    assert sorted(os.listdir(home.work)) == ["here", "shut"]


@pytest.mark.slow
@pytest.mark.needs("bwrap", "unshare", "mount")
def test_mounting_and_unmounting_is_not_a_change(ask: Ask, home: Home, server: ModelServer) -> None:
    """After a kill, undo derives the changes of the run from the current state."""
    (home.work / "comes").mkdir()
    (home.work / "comes/under").write_text("old")
    server.reply(wire.calls(bash("touch g; sleep 60")))
    killed = "ask --safe go & until [[ -e g ]]; do sleep 0.1; done; kill -KILL $!; wait; "
    result = run_with_mounts(ask, killed + "umount here; mount -t tmpfs -o mode=711 none comes; ask undo --list")
    assert (result.code, result.text) == (0, "g\tremove\n"), result.stderr
