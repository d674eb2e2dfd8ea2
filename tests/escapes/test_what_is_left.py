"""A run leaves nothing on the host, however it ended, and two runs in one folder do not weaken each other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import wire
from tests.escapes.confined import bash, environment, run, started
from tests.model_server import ModelServer, Reply, Request
from tests.program import CTRL_C
from tests.program import run as execute
from tests.safety.ground import HELD, Ground
from tests.safety.installation import as_user, installation
from tests.safety.traces import processes
from tests.scenarios.sent import results, sent

HOLD = "touch {began}; while [ ! -e {go} ]; do sleep 0.02; done"


def traces(here: Ground) -> dict[str, object]:
    """What could tell that a run took place, and should not."""
    return {
        "folder": {path: path.lstat().st_mode for path in here.work.rglob("*")},
        "beside": sorted(path.name for path in here.base.iterdir()),
        "outside": sorted(here.base.glob("outside/*")),
        "home": sorted(here.base.glob("home/**/*")),
        "temporary files": sorted(here.base.glob("temporary/*")),
        "long results": sorted(here.base.glob("data/ask/results/*")),
        "notes": sorted(here.base.glob("data/ask/safe/*.note")),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "processes": processes(here.work),
    }


def wait_until(done: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done()


def test_run_leaves_nothing(here: Ground) -> None:
    before = traces(here)
    other = str(here.base / "outside")
    calls = bash("cat notes.txt", "mkdir -p .vscode; echo x > .vscode/x", "setsid sleep 600 > /dev/null 2>&1 &")
    assert run(here, calls, "--safe", "--allow-dir", other).ended.code == 0
    assert traces(here) == before


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["Ctrl-C", pytest.param("TERM", marks=pytest.mark.slow), "KILL"])
def test_run_that_was_stopped_leaves_nothing(here: Ground, ending: str) -> None:
    """After KILL, a moment later: the cleaner sees that the run is gone."""
    before = traces(here)
    with ModelServer() as server:
        server.reply(wire.calls(*bash("touch own; setsid sleep 600 & sleep 600")))
        with started(here, server, "--safe", terminal=ending == "Ctrl-C") as running:
            wait_until((here.work / "own").exists)
            assert (here.work / ".vscode").is_dir()
            if ending == "Ctrl-C":
                running.type_in(CTRL_C)
            else:
                running.signal(getattr(signal, f"SIG{ending}"))
            running.finish()
    (here.work / "own").unlink()
    wait_until(lambda: not processes(here.work))
    if ending == "KILL":
        wait_until(lambda: not list(here.base.glob("data/ask/safe/*.note")))
    assert traces(here) == before


@pytest.mark.slow
def test_a_run_that_ends_does_not_unprotect_the_folder_of_another(here: Ground) -> None:
    before = traces(here)
    poison = "; ".join(f"mkdir -p {name}; echo x > {name}/x; echo x > {name}" for name in HELD)
    with ModelServer() as server:
        server.reply(wire.calls(*bash(HOLD.format(began="own", go="go"), poison)), wire.says("Done."))
        with started(here, server, "--safe") as running:
            wait_until((here.work / "own").exists)
            assert run(here, bash(poison), "--safe").ended.code == 0
            assert (here.work / ".vscode").is_dir()
            (here.work / "go").touch()
            assert running.finish().code == 0
    for name in ("own", "go"):
        (here.work / name).unlink()
    assert traces(here) == before


@pytest.mark.slow
def test_files_that_the_user_creates_meanwhile_stay(here: Ground) -> None:
    with ModelServer() as server:
        server.reply(wire.calls(*bash(HOLD.format(began="own", go="go"))), wire.says("Done."))
        with started(here, server, "--safe") as running:
            wait_until((here.work / "own").exists)
            (here.work / ".vscode/settings.json").write_text("{}")
            (here.work / "go").touch()
            assert running.finish().code == 0
    assert (here.work / ".vscode/settings.json").read_text() == "{}"
    assert not os.path.lexists(here.work / ".idea")


def test_placeholders_are_not_shown_by_list_dir_git_or_undo(here: Ground) -> None:
    """One file in the folder is one entry, and the model is told about what `ls -a` shows."""
    outer = here.work / "one"
    outer.mkdir()
    (outer / "only.txt").write_text("x")
    git = ["git", "-c", "safe.directory=*", "-C", str(outer)]
    subprocess.run([*git, "add", "."], check=True)
    here.hand_over()
    listed = ("list_dir", {"dirpath": "."})
    status = [*git, "status", "--porcelain", "--", "."]
    with ModelServer() as server:
        during: list[str] = []

        def look(request: Request) -> Reply:
            during.append(subprocess.run(status, capture_output=True, text=True, check=True).stdout)
            during.extend(sorted(path.name for path in outer.iterdir()))
            return wire.calls(listed, ("read_file", {"filepath": "missing"}), *bash("ls -A", "echo y > only.txt"))

        server.reply(look, wire.says("Done."))
        with started(here, server, "--safe", directory=outer) as running:
            assert running.finish().code == 0
        bodies = sent(server)
        command = [*as_user(here.user), installation(here.user).ask, "undo", "--yes"]
        undone = execute(command, env=environment(here, server), cwd=outer)
    system = next(message["content"] for message in bodies[0]["messages"] if message["role"] == "system")
    entries, missing, shown, _ = results(bodies[1])
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
