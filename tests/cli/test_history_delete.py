"""`ask history delete`: permanent deletion after confirmation."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ask.history.search_index import list_indexes
from ask.history.store import Store
from ask.messages import Attachment, Message
from tests.history.saved import assistant, called, result, save, user
from tests.program import CTRL_C, Ask, Home

DAY = 86_400


@pytest.fixture
def history(home: Home) -> Path:
    path = home.data / "history.db"
    call = called('{"command": "marzipan"}')
    file = user("")._replace(message=Message("user", "gingerbread", attachments=(Attachment("f", "", b"caramel"),)))
    save(path, "old1", file, assistant("", call), result(call, "nougat"), ago=60 * DAY, title="old")
    save(path, "mid2", user("middle"), ago=20 * DAY)
    save(path, "new3", user("newest"), ago=DAY)
    return path


def ids(ask: Ask) -> list[str]:
    return [row.split("\t")[1] for row in ask("history").text.splitlines()]


def test_named_conversations_are_deleted_and_listed(ask: Ask, history: Path) -> None:
    result = ask("history", "delete", "--yes", "old", "1", "new3")
    assert (result.code, result.stdout) == (0, b"")
    assert [line.split()[1:] for line in result.stderr.splitlines()] == [["old1", "old"], ["new3", "newest"]]
    assert ids(ask) == ["mid2"]


def test_deleted_text_is_gone_from_the_files_and_search_still_works(ask: Ask, home: Home, history: Path) -> None:
    words = [b"gingerbread", b"caramel", b"nougat", b"marzipan"]
    before = b"".join(file.read_bytes() for file in home.data.iterdir())
    assert all(word in before for word in words)
    assert ask("history", "delete", "-y", "old1").code == 0
    after = b"".join(file.read_bytes() for file in home.data.iterdir())
    assert not [word for word in words if word in after]
    with Store(history) as store:
        for index, _ in list_indexes():
            store.fetch_rows(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
        assert [tuple(row) for row in store.fetch_rows("PRAGMA foreign_key_check")] == []
    assert ask("history", "search", "nougat").text == ""
    assert ask("history", "search", "middle").text.startswith("mid2\t")


def test_long_results_of_tools_are_deleted_with_their_conversation(ask: Ask, home: Home) -> None:
    command = "run seq 100000"
    kept, deleted = (json.loads(ask("--json", "-p", "demo", command).stdout)["conversation"] for _ in range(2))
    files = sorted(home.data.glob("results/*/*"))
    assert [file.parent.name for file in files] == sorted((kept, deleted))
    assert ask("history", "delete", "-y", deleted).code == 0
    assert [file.parent.name for file in home.data.glob("results/*/*")] == [kept]


@pytest.mark.parametrize(
    "options", [(), pytest.param(("--safe",), marks=[pytest.mark.slow, pytest.mark.needs("bwrap")])]
)
def test_long_results_of_a_run_that_is_not_saved_are_deleted_at_its_end(
    ask: Ask, home: Home, options: tuple[str, ...]
) -> None:
    command = (*options, "-p", "demo", "run seq 100000")
    assert ask("--no-save", *command).code == 0
    assert not list(home.data.glob("results/*"))
    assert ask(*command).code == 0
    [kept] = home.data.glob("results/*/*")
    assert ask("--no-save", "-c", *command).code == 0
    assert kept in home.data.glob("results/*/*")


@pytest.mark.slow
def test_folders_in_folders_of_a_tool_are_deleted(ask: Ask, home: Home) -> None:
    conversation = json.loads(ask("--json", "-p", "demo", "hello").stdout)["conversation"]
    results = home.data / "results" / conversation
    results.mkdir(parents=True)
    folder = os.open(results, os.O_RDONLY)
    for _ in range(1_200):  # deeper than Python's recursion limit
        os.mkdir("a", dir_fd=folder)
        inner = os.open("a", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert ask("-p", "demo", "run date").code == 0  # it also removes old results
        assert (ask("history", "delete", "-y", conversation).code, results.exists()) == (0, False)
    finally:
        subprocess.run(["rm", "-rf", results], check=True)  # pytest cannot remove it, either


def test_the_file_shrinks_when_most_of_it_is_deleted(ask: Ask, home: Home, history: Path) -> None:
    size = history.stat().st_size
    save(history, "large", user("random " + os.urandom(500_000).hex()), ago=2 * DAY)
    with Store(history, create=False) as other:  # another process, such as a chat
        assert ask("history", "delete", "-y", "large").code == 0
        assert sum(path.stat().st_size for path in home.data.glob("history.db*")) < size + 100_000
        assert len(other.fetch_rows("SELECT * FROM conversations")) == 3
    assert ask("history", "search", "conversation").code == 0


@pytest.mark.parametrize(("age", "left"), [("1y", 3), ("2mo", 2), ("30d", 2), ("2w", 1), ("10min", 0), ("0h", 0)])
def test_older_than_deletes_conversations_by_their_last_run(age: str, left: int, ask: Ask, history: Path) -> None:
    result = ask("history", "delete", "--older-than", age, "-y")
    assert result.code == 0
    assert ids(ask) == ["new3", "mid2", "old1"][:left]
    assert len(result.stderr.splitlines()) == (3 - left or 1), "those that went, or that there was none"


def test_deletion_is_confirmed_on_a_terminal(ask: Ask, history: Path) -> None:
    asked = ask.on_terminal("history", "delete", "mid2", "old1", answers=[("Delete these 2 conversations?", "y\n")])
    assert asked.code == 0
    assert "mid2  middle" in asked.text
    assert ids(ask) == ["new3"]


@pytest.mark.parametrize(("answer", "code"), [("\n", 130), (CTRL_C, 130)])
def test_only_yes_deletes(answer: str, code: int, ask: Ask, history: Path) -> None:
    asked = ask.on_terminal("history", "delete", "mid2", answers=[("Delete this conversation?", answer)])
    assert asked.code == code
    assert "Traceback" not in asked.text
    assert len(ids(ask)) == 3


def test_yes_is_required_without_a_terminal(ask: Ask, history: Path) -> None:
    result = ask("history", "delete", "mid2", stdin=b"y\n")
    assert result.code == 2
    assert "--yes" in result.stderr
    assert len(ids(ask)) == 3


@pytest.mark.parametrize(
    "words", [["new3", "nothere"], [], ["--older-than", "soon"], ["--older-than", "-1d"], ["--older-than", "6m"]]
)
def test_nothing_is_deleted_if_one_argument_is_invalid(words: list[str], ask: Ask, history: Path) -> None:
    result = ask("history", "delete", "-y", *words)
    assert (result.code, len(result.stderr.splitlines())) == (2, 1)
    assert len(ids(ask)) == 3


def test_json_lists_the_deleted_conversations(ask: Ask, history: Path) -> None:
    result = ask("history", "delete", "-y", "--json", "old1")
    assert json.loads(result.stdout) == [{"id": "old1", "title": "old"}]
    assert result.stderr == ""
    assert json.loads(ask("history", "delete", "--json", "--older-than", "9y").stdout) == []


def test_missing_history_is_not_created(ask: Ask, home: Home) -> None:
    assert ask("history", "delete", "-y", "1").code == 2
    assert ask("history", "delete", "-y", "--older-than", "1d").code == 0
    assert not home.data.exists()
