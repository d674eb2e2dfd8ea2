"""The file of remembered approvals."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from ask.errors import FileError
from ask.safety.approval_store import ApprovalDuration, ApprovalScope, ApprovalStore
from ask.safety.policy import PendingToolCall
from ask.tools.base import ToolContext

DAMAGED = ["", "{", "5", "{}", "[" * 100_000, "\x00"]


def pend(folder: Path, command: str, **fields: str) -> PendingToolCall:
    context = ToolContext(folder, {}, 30, folder / "results", lambda text: None)
    return PendingToolCall("bash", {"command": command}, context, **fields)


@pytest.fixture
def store(tmp_path: Path) -> ApprovalStore:
    return ApprovalStore(tmp_path / "data" / "approvals.json")


def test_an_approval_is_written_once_to_a_private_file(store: ApprovalStore, tmp_path: Path) -> None:
    for _ in range(2):
        store.add(pend(tmp_path, "cd x && make \ud800"), ApprovalScope.COMMAND, ApprovalDuration.FOLDER)
    [approval] = ApprovalStore(store.path).read()
    assert approval[:3] == ("command", "cd x && make \ud800", str(tmp_path))
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_every_program_of_a_compound_command_is_approved(store: ApprovalStore, tmp_path: Path) -> None:
    store.add(pend(tmp_path, "cd x && make | head"), ApprovalScope.PROGRAM, ApprovalDuration.ALWAYS)
    assert [approval.value for approval in store.read()] == ["cd", "make", "head"]
    other_run = ApprovalStore(store.path)
    assert other_run.find(pend(tmp_path, "make -j; head y"))
    assert not other_run.find(pend(tmp_path, "make > x"))


def test_hosts_are_approved_apart_from_tools(store: ApprovalStore, tmp_path: Path) -> None:
    store.add(pend(tmp_path, "", host="a.test"), ApprovalScope.HOST, ApprovalDuration.RUN)
    store.add(pend(tmp_path, "x"), ApprovalScope.TOOL, ApprovalDuration.RUN)
    assert store.find(pend(tmp_path, "", host="a.test")) == "host a.test"
    assert not store.find(pend(tmp_path, "", host="b.test"))
    assert store.read() == []


def test_approvals_are_removed_by_id(store: ApprovalStore, tmp_path: Path) -> None:
    for command in ("a", "b", "c"):
        store.add(pend(tmp_path, command), ApprovalScope.COMMAND, ApprovalDuration.ALWAYS)
    [first, second, third] = store.read()
    assert store.remove([second.id, "unknown"]) == 1
    assert store.read() == [first, third]


def test_parallel_runs_lose_no_approval(store: ApprovalStore, tmp_path: Path) -> None:
    def add(command: str) -> None:
        ApprovalStore(store.path).add(pend(tmp_path, command), ApprovalScope.COMMAND, ApprovalDuration.ALWAYS)

    threads = [threading.Thread(target=add, args=[f"make {number}"]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {approval.value for approval in store.read()} == {f"make {number}" for number in range(20)}


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_an_error_and_not_replaced(store: ApprovalStore, tmp_path: Path, content: str) -> None:
    store.path.parent.mkdir()
    store.path.write_text(content)
    with pytest.raises(FileError):
        store.find(pend(tmp_path, "x"))
    with pytest.raises(FileError):
        store.add(pend(tmp_path, "x"), ApprovalScope.TOOL, ApprovalDuration.ALWAYS)
    assert store.path.read_text() == content


def test_other_keys_are_ignored(store: ApprovalStore) -> None:
    store.path.parent.mkdir()
    row = {"scope": "tool", "value": "say", "folder": "", "time": 1, "more": 2}
    store.path.write_text(json.dumps([row]))
    assert [approval.value for approval in store.read()] == ["say"]
