"""Undo puts back what a run changed."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import Call
from tests.program import Ask, Home


def write(path: str, content: str) -> Call:
    return Call("write_file", {"filepath": path, "content": content})


def test_changed_and_new_files_are_put_back_and_the_change_can_be_redone(ask: Ask, model: Model, home: Home) -> None:
    old = home.work / "old.txt"
    old.write_text("before")
    model.say("", write("old.txt", "after"), write("new.txt", "new"))
    model.say("Done.")
    assert ask("change it").code == 0
    assert ask("undo", "-y").code == 0
    assert old.read_text() == "before"
    assert not (home.work / "new.txt").exists()
    assert ask("undo", "--redo", "-y").code == 0
    assert old.read_text() == "after"
    assert (home.work / "new.txt").read_text() == "new"


def test_without_yes_and_a_terminal_nothing_is_changed(ask: Ask, model: Model, home: Home) -> None:
    model.say("", write("a.txt", "after"))
    model.say("Done.")
    ask("change it")
    assert ask("undo").code != 0
    assert (home.work / "a.txt").read_text() == "after"


def test_no_save_keeps_nothing_to_undo(ask: Ask, model: Model, home: Home) -> None:
    model.say("", write("a.txt", "after"))
    model.say("Done.")
    ask("--no-save", "change it")
    ask("undo", "-y")
    assert (home.work / "a.txt").read_text() == "after"


@pytest.mark.needs("bwrap")
def test_what_a_command_of_a_safe_run_changed_is_put_back(ask: Ask, model: Model, home: Home) -> None:
    (home.work / "keep.txt").write_text("keep")
    model.say("", Call("bash", {"command": "rm keep.txt; echo x > made.txt"}))
    model.say("Done.")
    assert ask("--safe", "change it").code == 0
    assert sorted(path.name for path in home.work.iterdir()) == ["made.txt"]
    assert ask("undo", "-y").code == 0
    assert (home.work / "keep.txt").read_text() == "keep"
    assert not (home.work / "made.txt").exists()
