"""The file of remembered approvals."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ask.errors import FileError
from ask.safety.approval_scope import ApprovalScope, list_approvable
from ask.safety.approval_store import ApprovalDuration, ApprovalStore
from ask.safety.command_rules import RUNNERS, SHELLS, WRAPPERS
from ask.safety.scan_record import ScanRecord, write_scan_record
from ask.safety.tool_policy import PendingToolCall
from ask.tools.base import RunToolContext
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home

DAMAGED = ["", "{", "5", "{}", "[" * 100_000, "\x00"]


def pend(folder: Path, command: str, **fields: str) -> PendingToolCall:
    context = RunToolContext(folder, {}, 30, folder / "results", lambda text: None)
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
    store.add(pend(tmp_path, "cd x && sort | head"), ApprovalScope.PROGRAM, ApprovalDuration.ALWAYS)
    assert [approval.value for approval in store.read()] == ["cd", "sort", "head"]
    other_run = ApprovalStore(store.path)
    assert other_run.find(pend(tmp_path, "sort -u; head y"))
    assert not other_run.find(pend(tmp_path, "sort > x"))


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


LEVELS = ("", "files", "network", "sandbox")


@pytest.mark.parametrize("duration", ApprovalDuration)
@pytest.mark.parametrize("given", LEVELS)
def test_an_approval_applies_at_its_level_and_at_stricter_ones(
    store: ApprovalStore, tmp_path: Path, given: str, duration: ApprovalDuration
) -> None:
    store.add(pend(tmp_path, "cd x && true", level=given), ApprovalScope.COMMAND, duration)
    store.add(pend(tmp_path, "ls", level=given), ApprovalScope.PROGRAM, duration)
    store.add(pend(tmp_path, "", level=given, host="a.test"), ApprovalScope.HOST, duration)
    reader = store if duration is ApprovalDuration.RUN else ApprovalStore(store.path)
    expected = {level: LEVELS.index(level) >= LEVELS.index(given) for level in LEVELS}
    assert {level: bool(reader.find(pend(tmp_path, "cd x && true", level=level))) for level in LEVELS} == expected
    assert {level: bool(reader.find(pend(tmp_path, "ls -l", level=level))) for level in LEVELS} == expected
    assert {level: bool(reader.find(pend(tmp_path, "", level=level, host="a.test"))) for level in LEVELS} == expected


def test_an_approval_without_a_level_counts_as_given_in_safe_mode(store: ApprovalStore, tmp_path: Path) -> None:
    row = {"scope": "tool", "value": "bash", "folder": "", "time": 1.5}
    store.path.parent.mkdir()
    store.path.write_text(json.dumps([row, {**row, "level": "new"}, {**row, "level": []}, {**row, "level": ""}]))
    assert [one.level for one in store.read()] == ["sandbox", ""]
    store.remove([store.read()[1].id])
    assert [bool(store.find(pend(tmp_path, "x", level=level))) for level in LEVELS] == [False, False, False, True]


@pytest.mark.parametrize("program", sorted(WRAPPERS | SHELLS | RUNNERS))
def test_programs_that_run_others_are_not_approved_with_any_arguments(tmp_path: Path, program: str) -> None:
    for command in (f"{program} x", f"/usr/bin/{program} x", f"ls && {program} x"):
        assert ApprovalScope.PROGRAM not in list_approvable(pend(tmp_path, command))
    assert ApprovalScope.PROGRAM in list_approvable(pend(tmp_path, "ls x"))


def test_programs_that_may_mean_others_are_not_approved_with_any_arguments(tmp_path: Path) -> None:
    for command in ("cd x && ./build", "export X=1 && ls"):
        assert ApprovalScope.PROGRAM not in list_approvable(pend(tmp_path, command))
    assert ApprovalScope.PROGRAM in list_approvable(pend(tmp_path, f"cd {tmp_path} && ./build"))


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("answer", "command", "changed", "is_approved"),
    [
        (("program", "folder"), "./tool", "tool", False),
        pytest.param(("command", "always"), "./tool", "tool", False, marks=pytest.mark.slow),
        pytest.param(("program", "folder"), "cd . && bin/tool", "bin/tool", False, marks=pytest.mark.slow),
        pytest.param(("command", "always"), "cd bin && ./tool", "bin/tool", False, marks=pytest.mark.slow),
        pytest.param(("command", "always"), "sh bin/tool", "bin/tool", False, marks=pytest.mark.slow),
        pytest.param(("command", "always"), "python3 -m bin.tool", "bin/tool.py", False, marks=pytest.mark.slow),
        pytest.param(("command", "always"), "uv run bin/tool.py", "bin/tool.py", False, marks=pytest.mark.slow),
        pytest.param(("program", "always"), "awk -f bin/tool notes.txt", "bin/tool", False, marks=pytest.mark.slow),
        pytest.param(("program", "folder"), "./tool", "notes.txt", True, marks=pytest.mark.slow),
        (("program", "always"), "cat notes.txt", "notes.txt", True),
        pytest.param(("command", "folder"), "cat notes.txt", "notes.txt", True, marks=pytest.mark.slow),
    ],
)
def test_a_script_that_a_run_in_safe_mode_has_changed_is_asked_about_again(
    ask: Ask, home: Home, server: ModelServer, *, command: str, changed: str, is_approved: bool, answer: tuple[str, str]
) -> None:
    (home.work / "bin").mkdir()
    for name in ("tool", "bin/tool", "bin/tool.py", "notes.txt"):
        (home.work / name).write_text("#!/bin/sh\n")
        (home.work / name).chmod(0o755)
    options = ("-m", wire.MODEL)

    def call(*words: str, is_safe: bool = False) -> int:
        write = ("write_file", {"filepath": changed, "content": "#!/bin/sh\necho evil\n"})
        server.reply(wire.calls(write if is_safe else ("bash", {"command": command})), wire.says("done"))
        return ask(*options, *words, "go").code

    def approve() -> None:
        server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
        number = {"command": 0, "program": 3}[answer[0]] + {"folder": 2, "always": 3}[answer[1]]
        answers = [("Run this? ", "m"), ("Which? ", str(number))]
        assert ask.on_terminal(*options, "--confirm", "go", answers=answers).code == 0

    approve()
    assert call("--confirm") == 0
    assert call("--safe-files", is_safe=True) == 0
    assert "evil" in (home.work / changed).read_text()
    assert call("--confirm") == (0 if is_approved else 8)
    if not is_approved:
        approve()
        assert call("--confirm") == 0
    (home.data / "safe/scans.json").unlink()
    (home.work / changed).write_text("#!/bin/sh\necho mine\n")
    assert call("--confirm") == 0, "where no run in safe mode could write, the user has changed it"


@pytest.mark.parametrize(
    ("script", "is_found"),
    [
        ("touch bin/tool", True),
        ("mv bin/tool bin/x; cp bin/x bin/tool", True),
        ("cp -r bin b; mv bin c; mv b bin", True),
        ("mkdir b; cp bin/tool b; mv bin c; ln -s b bin", True),
        ("cp bin/tool x; ln -sf ../x bin/tool", True),
        ("touch -d 2001-01-01 bin/tool", True),
        ("mv bin b; mv prepared bin", True),
        ("touch other", False),
        ("touch bin/json.py", True),
    ],
)
def test_every_way_to_change_a_script_is_noticed(
    store: ApprovalStore, tmp_path: Path, *, script: str, is_found: bool
) -> None:
    work = tmp_path / "work"
    (work / "bin").mkdir(parents=True)
    (work / "bin/tool").write_text("x")
    (work / "prepared").mkdir()
    (work / "prepared/tool").symlink_to(work / "payload")
    (work / "payload").write_text("evil")
    write_scan_record(store.path.parent / "safe", [work], ScanRecord((), (), ()))
    store.add(pend(work, "bin/tool"), ApprovalScope.PROGRAM, ApprovalDuration.ALWAYS)
    later = ApprovalStore(store.path)
    assert later.find(pend(work, "bin/tool -v"))
    time.sleep(0.05)  # the clock of the file system is coarse
    subprocess.run(["sh", "-c", script], cwd=work, check=True)
    assert bool(later.find(pend(work, "bin/tool -v"))) is not is_found
    assert later.find(pend(work, "bin/tool -v", level="sandbox"))


@pytest.mark.parametrize(
    ("command", "changed", "is_found"),
    [
        ("elixir check.exs", "check.exs", True),
        ("swift check.swift", "check.swift", True),
        ("expect -f check", "check", True),
        ("psql -f check.sql", "check.sql", True),
        ("sqlite3 data.db", "data.db", False),
        ("bats --tap check.bats", "check.bats", True),
        ("gunicorn --reload web.app:create()", "web/app.py", True),
        ("uvicorn web:app", "web/__init__.py", True),
        ("python3 -m uvicorn web:app", "web/__init__.py", True),
        ("elixir -r check.exs", "check.exs", True),
        ("psql -fcheck.sql", "check.sql", True),
        ("tcsh check", "check", True),
        ("scp host:notes notes.txt", "notes.txt", False),
        ("psql shop < check", "check", True),
        ("sqlite3 shop.db <check", "check", True),
        ("cd . && mysql shop < check", "check", True),
        ("mysql -e 'select 1' shop < check", "check", True),
        ("sort < check", "check", False),
        ("psql shop < check", "notes", False),
        ("flask --app hello run", "hello.py", True),
        ("flask --app=web.app run", "web/app.py", True),
        ("FLASK_APP=hello flask run", "hello.py", True),
        ("celery -A web worker", "web/__init__.py", True),
        ("celery -A web worker", "worker", False),
        ("pytest -q web", "web/__init__.py", False),
        ("git log hello", "hello.py", False),
    ],
)
def test_a_script_of_any_language_and_a_module_are_noticed(
    store: ApprovalStore, tmp_path: Path, *, command: str, changed: str, is_found: bool
) -> None:
    work = tmp_path / "work"
    file = work / changed
    file.parent.mkdir(parents=True)
    file.write_text("x")
    write_scan_record(store.path.parent / "safe", [work], ScanRecord((), (), ()))
    store.add(pend(work, command), ApprovalScope.COMMAND, ApprovalDuration.ALWAYS)
    later = ApprovalStore(store.path)
    assert later.find(pend(work, command))
    time.sleep(0.05)  # the clock of the file system is coarse
    file.write_text("evil")
    assert bool(later.find(pend(work, command))) is not is_found


def test_an_approval_of_a_clock_that_was_ahead_does_not_outlive_a_change(store: ApprovalStore, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("x")
    store.add(pend(tmp_path, "./tool"), ApprovalScope.COMMAND, ApprovalDuration.ALWAYS)
    rows = json.loads(store.path.read_text())
    store.path.write_text(json.dumps([{**row, "time": row["time"] + 3600} for row in rows]))
    assert ApprovalStore(store.path).find(pend(tmp_path, "./tool")), "no run in safe mode could write here"
    write_scan_record(store.path.parent / "safe", [tmp_path], ScanRecord((), (), ()))
    (tmp_path / "tool").write_text("evil")
    assert not ApprovalStore(store.path).find(pend(tmp_path, "./tool"))


def test_a_program_on_path_that_a_run_in_safe_mode_could_change_is_asked_about_again(
    store: ApprovalStore, tmp_path: Path
) -> None:
    programs, work = tmp_path / "programs", tmp_path / "work"
    for folder in (programs, work / "env/bin", work / "tools"):
        folder.mkdir(parents=True)
    for program in ("env/bin/check", "tools/linked", "tools/data"):
        (work / program).write_text("#!/bin/sh\n")
        (work / program).chmod(0o755)
    write_scan_record(store.path.parent / "safe", [work], ScanRecord((), (), ()))
    (programs / "linked").symlink_to(work / "tools/linked")
    context = RunToolContext(work, {"PATH": f"/usr/bin:env/bin:{programs}"}, 30, tmp_path, lambda text: None)
    calls = {
        command: PendingToolCall("bash", {"command": command}, context)
        for command in ("check -v", "ls && linked", "che'ck' -v", "sort tools/data")
    }
    for call in calls.values():
        store.add(call, ApprovalScope.PROGRAM, ApprovalDuration.FOLDER)
    later = ApprovalStore(store.path)
    time.sleep(0.05)  # the clock of the file system is coarse
    (work / "env/new").touch()
    assert all(map(later.find, calls.values()))
    for program in ("env/bin/check", "tools/linked", "tools/data"):
        (work / program).write_text("#!/bin/sh\necho evil\n")
    assert [command for command, call in calls.items() if later.find(call)] == ["sort tools/data"]


def test_an_approval_of_writes_covers_the_projects_own_files(ask: Ask, home: Home, server: ModelServer) -> None:
    """Files elsewhere, also through a link, and those that other programs run are asked about."""
    (home.path / "elsewhere").mkdir()
    (home.work / "link").symlink_to(home.path / "elsewhere")
    asked = [
        "../elsewhere/b.txt",
        f"{home.path}/elsewhere/c.txt",
        "link/d.txt",
        ".git/hooks/pre-commit",
        ".bashrc",
        "Mise.toml",
    ]
    names = ["a.txt", *asked, "new/e.txt", f"{home.work}/f.txt"]
    server.reply(*(wire.calls(("write_file", {"filepath": name, "content": "x"})) for name in names), wire.says("done"))
    answers = [("Make this change? ", "m"), ("Which? ", "2"), *[("Make this change? ", "n")] * len(asked)]
    result = ask.on_terminal("-m", wire.MODEL, "--confirm", "go", answers=answers)
    assert result.code == 0, result.text
    assert "Allow write_file for files in the working directory in this folder" in result.text
    assert [name for name in names if not (home.work / name).exists()] == asked
    [approval] = json.loads(ask("tools", "approvals", "--json").text)
    assert (approval["approves"], approval["value"]) == ("files", "write_file")


def test_an_approval_of_writes_in_the_home_directory_covers_no_startup_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/nvim").mkdir(parents=True)

    def list_covered(folder: Path, *names: str) -> list[str]:
        context = pend(folder, "").context._replace(environment={"PATH": f"/usr/bin:{home}/bin:"})
        calls = {name: PendingToolCall("edit_file", {"filepath": str(home / name)}, context) for name in names}
        return [name for name, call in calls.items() if ApprovalScope.FILES in list_approvable(call)]

    names = ("notes.txt", ".bashrc", ".ssh/authorized_keys", ".config/nvim/init.lua", "bin/ls")
    assert list_covered(home, *names) == list_covered(tmp_path, *names) == ["notes.txt"]
    assert list_covered(home / ".config", *names) == [".config/nvim/init.lua"]
