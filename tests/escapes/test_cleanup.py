"""A run leaves nothing on the host, however it ends, and two runs in one folder do not weaken each other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.escapes.safe_runs import bash, build_environment, run, start_ask
from tests.model_server import ModelServer, Reply, Request
from tests.program import CTRL_C
from tests.program import run as execute
from tests.safety.fake_host import PLACEHOLDER_NAMES, FakeHost
from tests.safety.installation import as_user, installation
from tests.safety.traces import processes
from tests.scenarios.sent_requests import check_sent_requests, read_tool_results

pytestmark = pytest.mark.needs("bwrap")

HOLD = "touch {began}; while [ ! -e {go} ]; do sleep 0.02; done"


def traces(host: FakeHost) -> dict[str, object]:
    """Collect everything on the host that a run might change."""
    return {
        "folder": {path: path.lstat().st_mode for path in host.work.rglob("*")},
        "beside": sorted(path.name for path in host.base.iterdir()),
        "outside": sorted(host.base.glob("outside/*")),
        "home": sorted(host.base.glob("home/**/*")),
        "temporary files": sorted(host.base.glob("temporary/*")),
        "long results": sorted(host.base.glob("data/ask/results/*")),
        "notes": sorted(host.base.glob("data/ask/safe/*.note")),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "processes": processes(host.work),
    }


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done()


def test_run_leaves_nothing(host: FakeHost) -> None:
    before = traces(host)
    other = str(host.base / "outside")
    calls = bash("cat notes.txt", "mkdir -p .vscode; echo x > .vscode/x", "setsid sleep 600 > /dev/null 2>&1 &")
    assert run(host, calls, "--safe", "--allow-dir", other).result.code == 0
    assert traces(host) == before


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["Ctrl-C", "TERM", "KILL"])
def test_run_that_was_stopped_leaves_nothing(host: FakeHost, ending: str) -> None:
    """After SIGKILL, the cleaner needs a moment to notice that the run has ended."""
    before = traces(host)
    with ModelServer() as server:
        server.reply(wire.calls(*bash("touch own; setsid sleep 600 & sleep 600")))
        with start_ask(host, server, "--safe", terminal=ending == "Ctrl-C") as running:
            wait_until((host.work / "own").exists)
            assert (host.work / ".vscode").is_dir()
            if ending == "Ctrl-C":
                running.type_in(CTRL_C)
            else:
                running.signal(getattr(signal, f"SIG{ending}"))
            running.finish()
    (host.work / "own").unlink()
    wait_until(lambda: not processes(host.work))
    if ending == "KILL":
        wait_until(lambda: not list(host.base.glob("data/ask/safe/*.note")))
    assert traces(host) == before


@pytest.mark.slow
def test_a_run_that_ends_does_not_unprotect_the_folder_of_another(host: FakeHost) -> None:
    before = traces(host)
    poison = "; ".join(f"mkdir -p {name}; echo x > {name}/x; echo x > {name}" for name in PLACEHOLDER_NAMES)
    with ModelServer() as server:
        server.reply(wire.calls(*bash(HOLD.format(began="own", go="go"), poison)), wire.says("Done."))
        with start_ask(host, server, "--safe") as running:
            wait_until((host.work / "own").exists)
            assert run(host, bash(poison), "--safe").result.code == 0
            assert (host.work / ".vscode").is_dir()
            (host.work / "go").touch()
            assert running.finish().code == 0
    for name in ("own", "go"):
        (host.work / name).unlink()
    assert traces(host) == before


@pytest.mark.slow
def test_files_that_the_user_creates_during_a_run_are_kept(host: FakeHost) -> None:
    with ModelServer() as server:
        server.reply(wire.calls(*bash(HOLD.format(began="own", go="go"))), wire.says("Done."))
        with start_ask(host, server, "--safe") as running:
            wait_until((host.work / "own").exists)
            (host.work / ".vscode/settings.json").write_text("{}")
            (host.work / "go").touch()
            assert running.finish().code == 0
    assert (host.work / ".vscode/settings.json").read_text() == "{}"
    assert not os.path.lexists(host.work / ".idea")


@pytest.mark.slow
def test_placeholders_are_not_shown_by_list_dir_git_or_undo(host: FakeHost) -> None:
    """The folder has one visible entry, and the system prompt explains what `ls -a` shows."""
    outer = host.work / "one"
    outer.mkdir()
    (outer / "only.txt").write_text("x")
    git = ["git", "-c", "safe.directory=*", "-C", str(outer)]
    subprocess.run([*git, "add", "."], check=True)
    host.change_owner()
    listed = ("list_dir", {"dirpath": "."})
    status = [*git, "status", "--porcelain", "--", "."]
    with ModelServer() as server:
        during: list[str] = []

        def look(request: Request) -> Reply:
            during.append(subprocess.run(status, capture_output=True, text=True, check=True).stdout)
            during.extend(sorted(path.name for path in outer.iterdir()))
            return wire.calls(listed, ("read_file", {"filepath": "missing"}), *bash("ls -A", "echo y > only.txt"))

        server.reply(look, wire.says("Done."))
        with start_ask(host, server, "--safe", directory=outer) as running:
            assert running.finish().code == 0
        bodies = check_sent_requests(server)
        command = [*as_user(host.user), installation(host.user).ask, "undo", "--yes"]
        undone = execute(command, env=build_environment(host, server), cwd=outer)
    system = next(message["content"] for message in bodies[0]["messages"] if message["role"] == "system")
    entries, missing, shown, _ = read_tool_results(bodies[1])
    placeholders = {name for name in during[1:] if name != "only.txt"}
    assert placeholders >= {".git", ".vscode"}
    assert during[0] == "A  one/only.txt\n"
    assert entries == "file 1 only.txt"
    assert not [name for name in placeholders if name in missing]
    assert {name for name in shown.split() if name.startswith(".")} == placeholders
    [line] = [line for line in system.splitlines() if "placeholder" in line or "holds the place" in line]
    assert all(name in line for name in placeholders)
    assert "only.txt" in undone.text + undone.stderr
    assert not [name for name in placeholders if name in undone.text + undone.stderr]
    assert (outer / "only.txt").read_text() == "x"
    assert sorted(path.name for path in outer.iterdir()) == ["only.txt"]
