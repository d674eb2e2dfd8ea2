"""`ask undo`: preview, confirmation, all-or-nothing restore, and redo."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import CTRL_C, NO_COMPILED_FILES, Ask, Home, Result, Running


def write(name: str, content: str) -> wire.Call:
    return "write_file", {"filepath": name, "content": content}


def edit(name: str, old: str, new: str) -> wire.Call:
    return "edit_file", {"filepath": name, "old_text": old, "new_text": new}


class Model:
    """Makes the model write files."""

    def __init__(self, ask: Ask, server: ModelServer) -> None:
        self._ask = ask
        self._server = server

    def __call__(self, *calls: wire.Call, options: tuple[str, ...] = (), env: dict[str, str] | None = None) -> str:
        """Run the calls; return the id of the conversation."""
        self._server.reply(wire.calls(*calls), wire.says("Done."))
        result = self._ask("--json", *options, "go", env=env)
        assert result.code == 0, result.stderr
        return str(json.loads(result.stdout)["conversation"])


@pytest.fixture
def model(ask: Ask, server: ModelServer) -> Model:
    return Model(ask, server)


def last_line(result: Result) -> str:
    return result.stderr.splitlines()[-1]


# What is restored


def test_a_run_is_undone_after_its_diff_is_shown(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "f").write_text("one\ntwo\n")
    conversation = model(edit("f", "two", "2"), write("new/g", "hello\n"))
    result = ask("undo", "--yes")
    assert result.text == (
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-2\n+two\n--- new/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-hello\n"
    )
    chosen, done = result.stderr.splitlines()
    assert re.search(rf"\b{conversation}\b.* \d{{4}}-\d\d-\d\d \d\d:\d\d$", chosen)
    assert re.search(r"\brestored 1 file\b.*\bremoved 1 file\b.*\bask undo --redo\b", done)
    assert result.code == 0
    assert [(path.name, path.read_text()) for path in home.work.iterdir()] == [("f", "one\ntwo\n")]


def test_repeated_undo_goes_back_run_by_run_and_redo_reverts_the_last_undo(ask: Ask, home: Home, model: Model) -> None:
    file = home.work / "f"
    for content in ("1", "2", "3"):
        model(write("f", content))
    seen = []
    for arguments in (("-y",), ("-y",), ("--redo", "-y"), ("--redo", "-y"), ("-y",), ("-y",), ("-y",)):
        assert ask("undo", *arguments).code == 0
        seen.append(file.read_text() if file.exists() else None)
    assert seen == ["2", "1", "2", "3", "2", "1", None]
    result = ask("undo", "-y")
    assert result.code == 2
    assert "ask undo --redo" in last_line(result)
    assert ask("undo", "--redo", "-y").code == 0
    assert file.read_text() == "1"


def test_a_run_from_when_the_clock_was_ahead_is_not_the_last_one(ask: Ask, home: Home, model: Model) -> None:
    model(write("ahead", "1"))
    [folder] = (home.data / "originals").glob("0*")
    folder.rename(folder.with_name(f"{time.time_ns() + 3_600 * 10**9:020d}-{folder.name.partition('-')[2]}"))
    model(write("last", "2"))
    assert ask("undo", "--yes").code == 0
    assert os.listdir(home.work) == ["ahead"]


def test_a_conversation_with_nothing_to_undo_names_the_next_step(ask: Ask, model: Model) -> None:
    changing = model(write("f", "1"))
    idle = model(("list_dir", {"dirpath": "."}))
    nothing_undone = ask("undo", "--redo", "-n")
    assert (nothing_undone.code, "ask undo -n" in last_line(nothing_undone)) == (2, True)
    assert ask("undo", "-y", changing).code == 0
    for conversation, hint in ((changing, f"ask undo --redo {changing}"), (idle, "another conversation")):
        result = ask("undo", "-n", conversation)
        assert (result.code, hint in last_line(result)) == (2, True)


def test_yes_does_not_undo_an_older_run_if_the_last_one_changed_nothing(ask: Ask, home: Home, model: Model) -> None:
    changing = model(write("f", "1"))
    idle = model(("list_dir", {"dirpath": "."}))
    for options in (("-y",), ("-y", "--all")):
        result = ask("undo", *options)
        assert result.code == 2
        assert idle in result.stderr
        assert changing in result.stderr
    assert (home.work / "f").exists()
    for options in (("-n", "-y"), ("--list", "-y")):
        result = ask("undo", *options)
        assert result.code == 0
        assert idle in result.stderr.splitlines()[0]
    assert ask("undo", "-y", changing).code == 0
    assert not (home.work / "f").exists()
    model(write("f", "1"))
    model(("list_dir", {"dirpath": "."}), options=("-c",))
    assert ask("undo", "-y").code == 2
    assert ask("undo", "-y", "--all").code == 0
    assert not (home.work / "f").exists()


@pytest.mark.slow
def test_undoing_an_older_run_is_confirmed_on_a_terminal(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(write("f", "1")), wire.says("Done."), wire.says("Hi."))
    script = "ask go; ask hi; ask undo"
    with Running(["bash", "-c", script], env=dict(ask.env), cwd=ask.cwd, terminal=True) as running:
        running.wait_for("[y/N]")
        running.type_in("y\n")
        result = running.finish()
    assert result.code == 0
    idle, changing = (str(row["id"]) for row in json.loads(ask("history", "list", "--json").stdout))
    undo_output = result.text.partition("Hi.")[2]
    notice, chosen, _ = [line for line in undo_output.splitlines() if line.startswith("ask: ")]
    assert idle in notice
    assert changing in chosen
    assert not (home.work / "f").exists()


def test_all_runs_of_a_conversation_given_by_id_prefix_or_number_are_undone(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "f").write_text("0")
    first = model(write("f", "1"))
    model(write("f", "2"), write("g", "2"), options=("-c",))
    other = model(write("h", "x"))
    assert ask("undo", "-y", first[:8]).code == 0
    assert (home.work / "f").read_text() == "1"
    assert not (home.work / "g").exists()
    assert ask("undo", "-y", "--redo", first).code == 0
    assert ask("undo", "-y", "--all", "2").code == 0
    assert (home.work / "f").read_text() == "0"
    assert sorted(os.listdir(home.work)) == ["f", "h"]
    (home.data / "history.db").unlink()
    assert ask("undo", "-y", other).code == 0
    assert os.listdir(home.work) == ["f"]


def test_all_without_an_id_means_the_conversation_of_the_last_run(ask: Ask, home: Home, model: Model) -> None:
    model(write("other", "1"))
    model(write("f", "1"))
    model(write("f", "2"), options=("-c",))
    result = ask("undo", "--all", "-y")
    assert "2 runs" in result.stderr.splitlines()[0]
    assert os.listdir(home.work) == ["other"]
    assert ask("undo", "--redo", "-y").code == 0
    assert (home.work / "f").read_text() == "2"


def test_backups_are_deleted_with_their_conversation(ask: Ask, home: Home, model: Model) -> None:
    deleted = model(write("f", "1"))
    kept = model(write("g", "1"))
    assert ask("history", "delete", "--yes", deleted).code == 0
    assert ask("undo", "-y", deleted).code == 2
    assert ask("undo", "-y", kept).code == 0
    assert os.listdir(home.work) == ["f"]


@pytest.mark.slow
def test_backups_are_kept_if_their_conversation_cannot_be_deleted(ask: Ask, home: Home, model: Model) -> None:
    conversation = model(write("f", "1"))
    with closing(sqlite3.connect(home.data / "history.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ask("history", "delete", "--yes", conversation).code == 9
    assert ask("history", "show", conversation).code == 0
    assert ask("undo", "-y", conversation).code == 0
    assert os.listdir(home.work) == []


def test_undo_applies_to_the_current_terminal_or_else_the_directory(ask: Ask, home: Home, model: Model) -> None:
    one, two = {"ASK_SESSION": "1"}, {"ASK_SESSION": "2"}
    model(write("one", "1"), env=one)
    model(write("two", "2"), env=two)
    assert ask("undo", "-y", env=one).code == 0
    assert os.listdir(home.work) == ["two"]
    again = ask("undo", "-y", env=one)
    assert (again.code, "ask undo --redo reverses" in again.stderr, "elsewhere" in again.stderr) == (2, True, False)
    elsewhere = Ask(ask.env, home.path)
    refused = elsewhere("undo", "-y")
    named = re.search(r"ask (undo \w+) undoes it", refused.stderr)
    assert refused.code == 2
    assert named
    assert elsewhere(*named[1].split(), "-y").code == 0
    assert os.listdir(home.work) == []


def test_an_undo_of_another_terminal_is_named_and_can_be_reversed(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "1"), env={"ASK_SESSION": "1"})
    assert ask("undo", "--redo", env={"ASK_SESSION": "2"}).stderr.count("--redo") == 0
    assert ask("undo", "-y", env={"ASK_SESSION": "1"}).code == 0
    result = ask("undo", "--redo", "-y", env={"ASK_SESSION": "2"})
    assert result.code == 2
    named = re.search(r"ask (undo --redo \w+)", result.stderr)
    assert named
    assert ask(*named[1].split(), "-y", env={"ASK_SESSION": "2"}).code == 0
    assert (home.work / "f").read_text() == "1"


def test_links_and_modes_are_restored(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "real").write_text("one")
    (home.work / "real").chmod(0o750)
    (home.work / "link").symlink_to("real")
    model(write("link", "two"))
    (home.work / "real").chmod(0o600)
    assert ask("undo", "-y").code == 0
    assert (home.work / "link").readlink() == Path("real")
    assert (home.work / "real").read_text() == "one"
    assert (home.work / "real").stat().st_mode & 0o7777 == 0o750


# What is not restored


def test_nothing_is_restored_if_a_file_has_changed_since(ask: Ask, home: Home, model: Model) -> None:
    for name in ("f", "g"):
        (home.work / name).write_text("old\n")
    model(write("f", "new\n"), write("g", "new\n"))
    (home.work / "g").write_text("mine\n")
    for arguments in (["-y"], ["-n"], ["-y", "--all"]):
        result = ask("undo", *arguments)
        assert result.code == 9
        assert " g (changed since)" in last_line(result)
        assert "--force" in last_line(result)
        assert "-mine\n+old\n" in result.text
        assert (home.work / "f").read_text() == "new\n"
    assert ask("undo", "--list").text == "f\trestore\ng\tchanged since\n"
    assert ask("undo", "-y", "--force").code == 0
    assert [(home.work / name).read_text() for name in ("f", "g")] == ["old\n", "old\n"]
    assert ask("undo", "-y", "--redo").code == 0
    assert [(home.work / name).read_text() for name in ("f", "g")] == ["new\n", "mine\n"]


def test_force_restores_the_rest_and_skips_unrestorable_files(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "f").write_text("old")
    model(write("f", "new"), write("g", "new"))
    (home.work / "g").unlink()
    (home.work / "g").mkdir()
    assert ask("undo", "-y").code == 9
    result = ask("undo", "-y", "--force")
    assert result.code == 0
    assert ": g (" in result.stderr
    assert (home.work / "f").read_text() == "old"


def test_a_dry_run_changes_nothing(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "new\n"))
    for arguments in (["-n"], ["--dry-run", "-y"], ["--list"], ["--list", "--yes"]):
        assert ask("undo", *arguments).code == 0
    assert (home.work / "f").read_text() == "new\n"
    assert ask("undo", "--list").text == "f\tremove\n"


def test_unchanged_files_are_reported_and_their_run_is_skipped_afterwards(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "1"))
    model(write("f", "2"))
    (home.work / "f").write_text("1")
    second, first = (str(row["id"]) for row in json.loads(ask("history", "list", "--json").stdout))
    shown = [ask("undo", second, option).stderr.splitlines()[-1] for option in ("-n", "--list")]
    result = ask("undo")
    assert (result.code, result.stdout) == (0, b"")
    chosen, done = result.stderr.splitlines()
    assert second in chosen
    assert shown == [done, done]
    assert not re.search(r"\d|--redo", done), "nothing was counted, and there is nothing to take back"
    result = ask("undo", "-y")
    assert result.code == 0
    assert first in result.stderr.splitlines()[0]
    assert not (home.work / "f").exists()


def test_runs_that_are_not_saved_have_no_backups(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.calls(write("f", "1")), wire.says("Done."))
    assert ask("--no-save", "go").code == 0
    assert (home.work / "f").read_text() == "1"
    assert not (home.data / "originals").exists()
    assert ask("undo", "-y").code == 2


def test_an_unusable_data_folder_is_a_warning_and_the_file_is_written(
    ask: Ask, home: Home, server: ModelServer
) -> None:
    home.data.mkdir()
    (home.data / "originals").write_text("")
    server.reply(wire.calls(write("f", "1"), write("f", "2")), wire.says("Done."))
    result = ask("go")
    assert (result.code, result.text) == (0, "Done.\n")
    assert (home.work / "f").read_text() == "2"
    [line] = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    assert str(home.work / "f") in line
    assert "(Not a directory)" in line
    assert "Error" not in wire.asked(server.requests[1].json)
    undo = ask("undo", "-y")
    assert (undo.code, undo.stderr.count("\n")) == (9, 1)
    assert f"{home.data / 'originals'} (Not a directory)" in undo.stderr


def test_unrestorable_files_are_a_one_line_error(ask: Ask, home: Home, model: Model) -> None:
    (home.work / "d").mkdir()
    (home.work / "d/f").write_text("old")
    (home.work / "g").write_text("old")
    model(write("d/f", "new"), write("g", "new"))
    (next((home.data / "originals").glob("0*")) / "1").write_text("damaged")
    result = ask("undo", "-y")
    assert result.code == 9
    assert str(home.work / "d/f") in last_line(result)
    assert "damaged" in last_line(result)
    assert (home.work / "g").read_text() == "new"
    journal = next((home.data / "originals").glob("0*")) / "journal"
    journal.write_text("garbage\n")
    result = ask("undo", "-y")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert f"ask: {journal} " in result.stderr
    assert f"remove {journal.parent}," in result.stderr


@pytest.mark.slow
def test_undo_can_be_resumed_after_a_full_disk(ask: Ask, home: Home, model: Model) -> None:
    originals = {"f": "old", "g": "old" * 10_000, "h": "old"}
    for name, content in originals.items():
        (home.work / name).write_text(content)
    model(*(write(name, "new") for name in originals))
    result = ask.shell("ulimit -f 0; ask undo -y", NO_COMPILED_FILES)
    assert result.code == 9
    assert "(File too large)" in last_line(result)
    assert {(home.work / name).read_text() for name in originals} == {"new"}
    result = ask.shell("ulimit -f 4; ask undo -y", NO_COMPILED_FILES)
    assert result.code == 9
    assert "1 of 3 files" in last_line(result)
    assert f"{home.work / 'g'} (File too large)" in last_line(result)
    assert [(home.work / name).read_text() for name in originals] == ["old", "new", "new"]
    assert ask("undo", "-y").code == 0
    assert {name: (home.work / name).read_text() for name in os.listdir(home.work)} == originals
    assert ask("undo", "-y", "--redo").code == 0
    assert {(home.work / name).read_text() for name in originals} == {"new"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing", "at", "all"], "ask -- undo nothing at all"),
        (["everything"], "ask -- undo everything"),
        (["--all", "--redo"], "--all"),
        (["--nonsense"], "ask undo --help"),
        ([], "ask undo ID"),
        (["--redo"], "ask undo -n"),
        (["--redo", "--yes"], "ask undo -n"),
    ],
)
def test_invalid_arguments_are_a_usage_error(ask: Ask, home: Home, arguments: list[str], expected: str) -> None:
    result = ask("undo", *arguments)
    assert (result.code, result.stdout, result.stderr.count("\n")) == (2, b"", 1)
    assert expected in result.stderr
    assert not home.data.exists()


# Confirmation


@pytest.mark.parametrize(("typed", "undone"), [("yes\n", True), ("\n", False)])
def test_undo_is_confirmed_on_a_terminal(ask: Ask, home: Home, model: Model, typed: str, undone: bool) -> None:
    session = {"ASK_SESSION": "1"}
    model(write("f", "1\n"), env=session)
    result = ask.on_terminal("undo", answers=[("[y/N] ", typed)], env=session)
    assert result.code == (0 if undone else 130)
    assert re.search(r"Remove 1 file\b.*\[y/N\] ", result.text)
    assert (home.work / "f").exists() != undone
    assert "\x1b[31m-1\x1b[0m" in result.text or "\x1b[31m-1\n\x1b[0m" in result.text


def test_ctrl_c_restores_nothing(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "1\n"), env={"ASK_SESSION": "1"})
    result = ask.on_terminal("undo", answers=[("[y/N] ", CTRL_C)], env={"ASK_SESSION": "1", "TERM": "dumb"})
    assert result.code == 130
    assert (home.work / "f").exists()
    assert "\n-1\n" in result.text


def test_yes_is_required_without_a_terminal(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "1"))
    result = ask("undo", stdin=b"y\n")
    assert result.code == 2
    assert all(option in last_line(result) for option in ("--yes", "--dry-run"))
    assert (home.work / "f").exists()


def test_changes_made_during_the_confirmation_are_detected(ask: Ask, home: Home, model: Model) -> None:
    session = {"ASK_SESSION": "1"}
    model(write("f", "1"), env=session)
    with ask.start_on_terminal("undo", env=session) as running:
        running.wait_for("[y/N] ")
        (home.work / "f").write_text("mine")
        running.type_in("y\n")
        result = running.finish()
    assert result.code == 9
    assert (home.work / "f").read_text() == "mine"


# Diffs


def test_diffs_are_shown_without_control_characters(ask: Ask, home: Home, model: Model) -> None:
    name, session = "a\n\x1b[2Jb", {"ASK_SESSION": "1"}
    (home.work / name).write_text("old\x1b[2K\u202e\r\n")
    model(write(name, "new\x07\n"), env=session)
    shown = ask.on_terminal("undo", "-n", env={**session, "TERM": "dumb"}).text
    assert "--- a\\n\\x1b[2Jb\n" in shown
    assert "-new\\x07\n+old\\x1b[2K\\u202e\n" in shown
    assert "\x1b" not in shown
    assert ask("undo", "--list", env=session).text == "a\\n\\x1b[2Jb\trestore\n"


def test_binary_and_large_files_are_summarized_in_a_line(ask: Ask, home: Home, model: Model) -> None:
    lines = [f"{number}\n" for number in range(3_000)]
    (home.work / "binary").write_bytes(b"\0" * 1_000)
    (home.work / "different").write_text("".join(lines))
    (home.work / "empty").touch()
    (home.work / "large").write_text("x" * 2_000_001)
    (home.work / "same").write_text("".join(lines))
    turned = "".join(reversed(lines))
    small = [write(name, "1\n") for name in ("binary", "large")]
    model(*small, write("different", turned), write("empty", ""), write("same", "".join(lines)), write("created", ""))
    binary, *created, different, large = ask("undo", "-n").text.splitlines()
    assert re.fullmatch(r"binary \(binary\): 2 bytes .* 1,000 bytes .*", binary)
    assert created == ["--- created", "+++ /dev/null"]
    assert re.fullmatch(r"different \(.*\bdifferent\b.*\): 13,890 bytes .* 13,890 bytes .*", different)
    assert re.fullmatch(r"large \(.*\blarge\b.*\): 2 bytes .* 2,000,001 bytes .*", large)


def test_long_diffs_are_truncated_on_a_terminal(ask: Ask, home: Home, model: Model) -> None:
    session = {"ASK_SESSION": "1"}
    model(write("f", "".join(f"{number}\n" for number in range(1_000))), env=session)
    assert ask("undo", "-n", env=session).text.count("\n") == 1_003
    shown = ask.on_terminal("undo", "-n", env=session).text
    assert re.search(r"\b801 more\b", shown)
    assert shown.count("\n") == 204


def test_long_lines_are_cut_on_a_terminal_and_begin_before_their_difference(ask: Ask, home: Home, model: Model) -> None:
    session = {"ASK_SESSION": "1"}
    (home.work / "f").write_text("x" * 9_000 + "old" + "y" * 9_000)
    model(write("f", "x" * 9_000 + "new" + "y" * 9_000), env=session)
    shown = ask.on_terminal("undo", "-n", env={**session, "TERM": "dumb"}).text
    assert "xnewyy" in shown
    assert "xoldyy" in shown
    assert len(shown) < 6_000
    assert len(ask("undo", "-n", env=session).text) > 36_000


def test_applying_the_shown_diff_with_patch_equals_undo(ask: Ask, home: Home, model: Model) -> None:
    before = "".join(f"{number}\n" for number in range(100)) + "no newline"
    (home.work / "f").write_text(before)
    model(edit("f", "50\n", "fifty\n"), edit("f", "no newline", "newline\n"))
    patch = ask("undo", "-n").stdout
    subprocess.run(["git", "apply", "-p0", "-"], input=patch, cwd=home.work, check=True, timeout=10)
    assert (home.work / "f").read_text() == before


@pytest.mark.slow
def test_a_closed_output_pipe_does_not_prevent_the_restore(ask: Ask, home: Home, model: Model) -> None:
    model(write("f", "x\n" * 100_000))
    result = ask.shell("ask undo --yes | head -1")
    assert result.text == "--- f\n"
    assert not (home.work / "f").exists()


# Killed and parallel runs


def test_killed_runs_are_undone(ask: Ask, home: Home, server: ModelServer) -> None:
    (home.work / "f").write_text("old")
    holding = threading.Event()
    server.reply(wire.calls(write("f", "new"), write("g", "new")), Reply((b"", holding)))
    with ask.start("go") as running:
        server.wait_for_requests(2)
        waiting = ask("undo", "-y")
        running.signal(signal.SIGKILL)
        running.finish()
    holding.set()
    assert waiting.code == 9
    assert waiting.stderr.count("\n") == 1
    assert "try again" in waiting.stderr
    assert (home.work / "f").read_text() == "new"
    assert ask("undo", "-y").code == 0
    assert [(path.name, path.read_text()) for path in home.work.iterdir()] == [("f", "old")]


@pytest.mark.slow
def test_parallel_runs_are_undone_one_by_one(ask: Ask, home: Home, server: ModelServer) -> None:
    def script(request: object) -> Reply:
        body = request.json  # type: ignore[attr-defined]
        if body["messages"][-1]["role"] == "tool":
            return wire.says("Done.")
        return wire.calls(write(wire.asked(body).strip(), "new"))

    server.reply(script)
    assert ask.shell("seq 3 | xargs -P 3 -I{} ask --no-stdin -q file{}").code == 0
    assert len(os.listdir(home.work)) == 3
    for left in (2, 1, 0):
        assert ask("undo", "-y").code == 0
        assert len(os.listdir(home.work)) == left
