"""`ask undo` after a safe run restores all changes in the run's folders and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home, Result, run, run_on_terminal
from tests.undo.runs import tree

pytestmark = pytest.mark.needs("bwrap")


def bash(command: str) -> wire.Call:
    return "bash", {"command": command}


class Model:
    """Makes the model run commands in safe mode."""

    def __init__(self, ask: Ask, server: ModelServer) -> None:
        self._ask = ask
        self._server = server

    def __call__(self, *calls: wire.Call, options: tuple[str, ...] = ()) -> Result:
        self._server.reply(wire.calls(*calls), wire.says("Done."))
        result = self._ask("--safe", *options, "go")
        assert (result.code, result.text) == (0, "Done.\n"), result.stderr
        return result

    def bash(self, *commands: str, options: tuple[str, ...] = ()) -> Result:
        return self(*map(bash, commands), options=options)


@pytest.fixture
def model(ask: Ask, server: ModelServer) -> Model:
    return Model(ask, server)


def last_line(result: Result) -> str:
    return result.stderr.splitlines()[-1]


def list_backups(home: Home) -> list[str]:
    """List the folder of backups."""
    try:
        return [name for name in os.listdir(home.data / "originals") if not name.startswith(".")]
    except FileNotFoundError:
        return []


# What is restored


def test_all_changes_of_commands_are_undone_and_redone(ask: Ask, home: Home, model: Model) -> None:
    work = home.work
    for name in ("gone/a", "gone/deep/b", "moved/c", "kept/d"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name * 10)
    for name in ("overwritten", "renamed", "tool", "swapped", "linked"):
        (work / name).write_text(f"{name}\n")
    (work / "tool").chmod(0o755)
    (work / "private").mkdir(mode=0o700)
    (work / "empty").mkdir()
    (work / "link").symlink_to("kept/d")
    (work / "dangling").symlink_to("/nowhere")
    os.link(work / "linked", work / "twin")
    os.utime(work / "gone/a", ns=(1_000_000_007, 1_000_000_007))
    was = tree(work)
    model.bash(
        "rm gone/a gone/deep/b; rmdir gone/deep gone empty; echo new > overwritten",
        "mv renamed name; mv moved kept/moved; chmod 600 tool; chmod 755 private; rm link; ln -s kept link",
        "rm swapped; mkdir -p swapped/in; echo x > swapped/in/file; rm dangling; echo y > dangling",
        "rm twin; echo more >> linked; mkdir -m 555 made; ln -s /etc/passwd made2; mkfifo pipe",
    )
    became = tree(work)
    assert became != was
    result = ask("undo", "-y")
    assert result.code == 0, result.stderr
    assert tree(work) == was
    assert (work / "gone/a").stat().st_mtime_ns == 1_000_000_007
    assert (work / "linked").stat().st_ino == (work / "twin").stat().st_ino
    redone = ask("undo", "--redo", "-y")
    assert redone.code == 0
    assert ": pipe (" in redone.stderr
    os.mkfifo(work / "pipe")
    assert tree(work) == became
    assert ask("undo", "-y").code == 0
    assert tree(work) == was


def test_the_preview_shows_the_current_and_the_restored_state(ask: Ask, home: Home, model: Model) -> None:
    work = home.work
    (work / "f").write_text("old\n")
    (work / "both").write_text("one\n")
    (work / "mode").write_text("")
    (work / "link").symlink_to("f")
    (work / "folder").mkdir()
    (work / "folder/in").write_text("in\n")
    model.bash(
        "echo new > f; echo two > both; chmod 600 both; chmod 755 mode; ln -sfn both link; rm -r folder",
        "mkdir made; echo x > made/x",
    )
    shown = r"""--- both
\+\+\+ both
@@ -1 \+1 @@
-two
\+one
both: .*\bfile\b.*\b600\b.*\bfile\b.*\b644\b.*
--- f
\+\+\+ f
@@ -1 \+1 @@
-new
\+old
folder/: .*\bnothing\b.*\bfolder\b.*\b755\b.*
--- /dev/null
\+\+\+ folder/in
@@ -0,0 \+1 @@
\+in
link: .*\blink\b.*\bboth\b.*\blink\b.*\bf\b.*
made/: .*\bfolder\b.*\b755\b.*\bnothing\b.*
--- made/x
\+\+\+ /dev/null
@@ -1 \+0,0 @@
-x
mode: .*\bfile\b.*\b755\b.*\bfile\b.*\b644\b.*
"""
    became = tree(work)
    assert re.fullmatch(shown, ask("undo", "-n").text)
    listed = "both\trestore\nf\trestore\nfolder/\trestore\nfolder/in\trestore\nlink\trestore\n"
    assert ask("undo", "--list").text == f"{listed}made/\tremove\nmade/x\tremove\nmode\trestore\n"
    assert tree(work) == became
    done = last_line(ask("undo", "-y"))
    assert re.search(r"\brestored 5 files and 1 folder\b.*\bremoved 1 file and 1 folder\b", done)


@pytest.mark.slow
def test_terminal_previews_are_truncated_and_confirmed(ask: Ask, home: Home, model: Model) -> None:
    for number in range(80):
        (home.work / f"{number}").write_text("x\n")
    model.bash("find . -name '[0-9]*' -delete")
    result = ask.on_terminal("undo", conversation(home), answers=[("[y/N] ", "y\n")])
    assert result.code == 0
    assert re.search(r"\b30 more\b.*\bask undo --list\b", result.text)
    assert re.search(r"Restore 80 files\b.*\[y/N\] ", result.text)
    assert len(os.listdir(home.work)) == 80


@pytest.mark.slow
def test_only_a_dry_run_prints_all_differences_without_a_terminal(ask: Ask, home: Home, model: Model) -> None:
    for number in range(80):
        (home.work / f"{number}").write_text("x\n")
    model.bash("find . -name '[0-9]*' -delete")
    assert ask("undo", "--dry-run", conversation(home)).text.count("+++ ") == 80
    assert ask("undo", "--yes", conversation(home)).text.count("+++ ") == 50
    assert len(os.listdir(home.work)) == 80


def test_progress_is_printed_once_in_a_pipe_and_continuously_on_a_terminal(ask: Ask, home: Home) -> None:
    code = (
        "import time; from ask.app import AppContext; from ask.cli import undo\n"
        "undo.PROGRESS_DELAY_SECONDS = 0; report = undo.ProgressLine(AppContext())"
    )
    reports = "\n".join(f"report('comparing', {done}, 2000); time.sleep(0.15)" for done in (0, 1000))
    script = f"{code}\n{reports}\nreport.clear()"
    piped = run([sys.executable, "-c", script], env=ask.env, cwd=home.work)
    [line] = piped.stderr.splitlines()
    assert "0 of 2,000 files" in line
    shown = run_on_terminal([sys.executable, "-c", script], env=ask.env, cwd=home.work).text
    assert " 0 of 2,000 files" in shown
    assert " 1,000 of 2,000 files" in shown


def conversation(home: Home) -> str:
    """Return the conversation of the newest backup record."""
    journal = home.data / "originals" / max(list_backups(home)) / "journal"
    return str(json.loads(journal.read_text().splitlines()[0])["conversation"])


@pytest.mark.slow
def test_files_written_by_tools_and_all_runs_of_a_conversation_are_undone(ask: Ask, home: Home, model: Model) -> None:
    was = tree(home.work)
    model(("write_file", {"filepath": "new/f", "content": "1"}), bash("echo 1 > g"))
    first = tree(home.work)
    model(("edit_file", {"filepath": "new/f", "old_text": "1", "new_text": "2"}), options=("-c",))
    model.bash("echo 3 > g; mv new moved", options=("-c",))
    assert ask("undo", "-y").code == 0
    assert (home.work / "new/f").read_text() == "2"
    assert ask("undo", "-y").code == 0
    assert tree(home.work) == first
    assert ask("undo", "--redo", "-y").code == 0
    assert ask("undo", "--redo", "-y").code == 0
    assert (home.work / "moved/f").read_text() == "2"
    assert ask("undo", "--all", "-y").code == 0
    assert tree(home.work) == was


def test_each_writable_folder_is_copied_once(ask: Ask, home: Home, model: Model) -> None:
    other, inner = home.path / "other", home.work / "deep/inner"
    for folder in (other, inner):
        folder.mkdir(parents=True)
        (folder / "f").write_text("old")
    was = tree(other), tree(home.work)
    both = ("--allow-dir", str(other), "--allow-dir", str(inner))
    model.bash(f"echo new > deep/inner/f; echo new > {other}/f; rm deep/inner/f", options=both)
    copies = home.data / "originals" / list_backups(home)[0]
    assert sorted(os.listdir(copies)) == ["1", "2", "journal", "manifest"]
    assert ask("undo", "-y").code == 0
    assert (tree(other), tree(home.work)) == was


def test_protected_paths_are_neither_copied_nor_changed(ask: Ask, home: Home, model: Model) -> None:
    for name in (".git", "sub/.git"):
        (home.work / name).mkdir(parents=True)
        (home.work / name / "config").write_text("mine")
    model.bash("mv sub renamed; echo 1 > f")
    was = (home.work / ".git").stat().st_mtime_ns
    start = (home.data / "originals" / list_backups(home)[0] / "manifest").read_text().splitlines()
    copied = [os.path.relpath(json.loads(line)[0], home.work) for line in start[1:]]
    assert copied == [".", "sub"]
    (home.work / ".git/config").write_text("changed since")
    assert ask("undo", "-y").code == 0
    assert (home.work / "sub/.git/config").read_text() == "mine"
    assert (home.work / ".git/config").read_text() == "changed since"
    assert (home.work / ".git").stat().st_mtime_ns == was
    assert sorted(os.listdir(home.work)) == [".git", "sub"]


# What is not restored


def test_later_changes_of_the_user_are_not_overwritten_without_force(ask: Ask, home: Home, model: Model) -> None:
    for name in ("mine", "theirs", "other"):
        (home.work / name).write_text("old\n")
    model.bash("echo new > mine; echo new > theirs; rm -f gone; mkdir made; echo 1 > made/f")
    (home.work / "mine").write_text("edited\n")
    (home.work / "other").write_text("not theirs\n")
    (home.work / "made/g").write_text("mine\n")
    for flag in ("-y", "-n"):
        result = ask("undo", flag)
        assert result.code == 9
        assert " mine (changed since)" in last_line(result)
        assert "--force" in last_line(result)
    assert (home.work / "theirs").read_text() == "new\n"
    assert ask("undo", "-y", "--force").code == 0
    files = {path.name: path.read_text() for path in home.work.rglob("*") if path.is_file()}
    assert files == {"mine": "old\n", "theirs": "old\n", "other": "not theirs\n", "g": "mine\n"}
    assert ask("undo", "-y", "--redo").code == 0
    assert (home.work / "mine").read_text() == "edited\n"


def replace_with_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("other")


def replace_with_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


LATER_CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "mode": (lambda f: f.chmod(0o600), "changed since"),
    "link": (replace_with_link, "changed since"),
    "folder": (replace_with_folder, "changed since"),
    "gone": (lambda f: f.unlink(), "changed since"),
    "time": (lambda f: os.utime(f, ns=(1, 1)), "restore"),
    "old content": (lambda f: f.write_text("old"), "unchanged"),
}


def test_every_kind_of_later_change_is_detected(ask: Ask, home: Home, model: Model) -> None:
    for name in LATER_CHANGES:
        (home.work / name).write_text("old")
    model.bash('for file in *; do echo new > "$file"; done')
    for name, (change, _) in LATER_CHANGES.items():
        change(home.work / name)
    listed = dict(line.split("\t") for line in ask("undo", "--list").text.splitlines())
    assert listed == {name: state for name, (_, state) in LATER_CHANGES.items()}


def test_a_folder_with_other_content_is_not_removed(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "f").write_text("old")
    model.bash("rm f; mkdir f; echo 1 > f/theirs")
    (home.work / "f/mine").write_text("mine")
    result = ask("undo", "-y", "--force")
    assert ": f (" in result.stderr
    assert os.listdir(home.work / "f") == ["mine"]


@pytest.mark.slow
def test_undo_does_not_follow_links_out_of_the_folder(ask: Ask, home: Home, model: Model) -> None:
    outside = home.path / "outside"
    outside.mkdir()
    (outside / "f").write_text("outside")
    (home.work / "d").mkdir()
    (home.work / "d/f").write_text("old")
    was = tree(home.work)
    model.bash(f"rm -r d; ln -s {outside} d")
    assert ask("undo", "-y").code == 0
    assert tree(home.work) == was
    model.bash("rm d/f")
    (home.work / "d").rmdir()
    (home.work / "d").symlink_to(outside)
    assert ask("undo", "-y", "--force").code == 9
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"f": "outside"}


def test_runs_without_changes_leave_no_backup(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "f").write_text("old")
    model.bash("cat f; echo old > g; rm g; printf old > f; touch f")
    assert list_backups(home) == []
    assert ask("undo", "-y").code == 2


@pytest.mark.slow
def test_read_only_calls_and_unsaved_runs_copy_nothing(ask: Ask, home: Home, model: Model) -> None:
    model(("list_dir", {"path": "."}))
    model.bash("echo 1 > f", options=("--no-save",))
    assert list_backups(home) == []
    assert (home.work / "f").exists()


def test_denied_calls_copy_nothing(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(bash("echo 1 > f")), wire.says("Done."))
    assert ask("--safe", "--confirm", "go").code == 8
    assert list_backups(home) == []


# Limits


def test_folders_that_are_too_large_are_not_copied_and_a_warning_is_printed(ask: Ask, home: Home, model: Model) -> None:
    for name in ("one", "two"):
        with (home.work / name).open("wb") as file:
            file.truncate(130_000_000)
    result = model.bash("echo 1 > new", "echo 2 > new")
    [line] = [line for line in result.stderr.splitlines() if "ask undo" in line]
    assert f"{home.work} (more than 256 MB)" in line
    assert (home.work / "new").read_text() == "2\n"
    assert list_backups(home) == []
    assert ask("undo", "-y").code == 2


@pytest.mark.slow
def test_a_full_disk_during_the_copy_is_one_line_and_leaves_no_files(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "large").write_bytes(b"x" * 2_000_000)
    server.reply(wire.calls(bash("echo 1 > new")), wire.says("Done."))
    result = ask.shell("ulimit -f 1000; ask --safe go", {"PYTHONDONTWRITEBYTECODE": "1"})
    assert (result.code, result.text) == (0, "Done.\n")
    [line] = [line for line in result.stderr.splitlines() if "ask undo" in line]
    assert "(File too large)" in line
    assert list_backups(home) == []


def test_files_too_large_for_redo_are_reported(ask: Ask, home: Home, model: Model) -> None:
    model.bash("truncate -s 101M large; echo 1 > small")
    result = ask("undo", "-y")
    assert any("--redo" in line and " 1 " in line for line in result.stderr.splitlines())
    assert os.listdir(home.work) == []
    refused = ask("undo", "--redo", "-y")
    assert refused.code == 9
    assert " large (" in last_line(refused)
    assert ask("undo", "--redo", "-y", "--force").code == 0
    assert os.listdir(home.work) == ["small"]


# Ctrl-C and kills


def stop_copying(ask: Ask, home: Home, server: ModelServer, number: signal.Signals) -> Result:
    """Send a signal to a run while it copies; try again if the signal came too late."""
    for size in range(3_000):
        (home.work / str(size)).write_text("x" * size)
    for _ in range(20):
        server.reply(wire.calls(bash("echo 1 > new; sleep 60")))
        with ask.start("--safe", "go") as running:
            wait_until(lambda: list(home.data.glob("originals/*/manifest*")))
            running.signal(number)
            result = running.finish()
        if not (home.work / "new").exists():
            return result
        assert ask("undo", "-y").code == 0
        shutil.rmtree(home.data / "originals")
    raise AssertionError("it is always too late")


def wait_until(happened: Callable[[], object]) -> None:
    late = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < late


@pytest.mark.slow
def test_ctrl_c_during_the_copy_ends_the_run_without_the_call(ask: Ask, home: Home, server: ModelServer) -> None:
    assert stop_copying(ask, home, server, signal.SIGINT).code == 130
    assert list_backups(home) == []
    assert "not run: the run was interrupted first" in ask("history", "show", "--tools").text


@pytest.mark.slow
def test_undo_ignores_copies_interrupted_by_a_kill(ask: Ask, home: Home, server: ModelServer, model: Model) -> None:
    assert stop_copying(ask, home, server, signal.SIGKILL).code == -signal.SIGKILL
    assert len(list_backups(home)) == 1
    assert ask("undo", "-y").code == 2
    (home.data / "originals/.pruned").unlink()
    model.bash("rm 1*")
    assert len(list_backups(home)) == 1, "what the kill left is gone"
    assert ask("undo", "-y").code == 0
    assert sorted(map(int, os.listdir(home.work))) == list(range(3_000))


@pytest.mark.slow
def test_undo_after_a_kill_restores_differences_and_reports_uncertainty(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    (home.work / "f").write_text("old")
    was = tree(home.work)
    server.reply(wire.calls(bash("echo new > f; mkdir d; echo 1 > d/g; sleep 60")))
    with ask.start("--safe", "go") as running:
        wait_until((home.work / "d/g").exists)
        running.signal(signal.SIGKILL)
        running.finish()
    result = ask("undo", "-y")
    assert result.code == 0
    assert result.stderr.count("\nask: ") == 2, "that it was killed, and what is done"
    server.reply(wire.says("Done."))
    assert ask("--safe", "take what the kill left away").code == 0
    assert tree(home.work) == was
