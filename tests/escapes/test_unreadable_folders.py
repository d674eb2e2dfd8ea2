"""A call can make a folder unreadable for the scan, and readable again once the scan has passed over it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

import pytest

from tests import wire
from tests.escapes.safe_runs import Call, Run, bash, run, start_ask
from tests.model_server import ModelServer, Reply, Request
from tests.safety.fake_host import TOKEN, FakeHost
from tests.scenarios.sent_requests import read_tool_results

pytestmark = pytest.mark.needs("bwrap", "pkill")
HOOK = "backend/.git/hooks/pre-commit"
MANY_LINKS = "mkdir many; t=$(printf '\\001%.0s' $(seq 2000)); for i in $(seq 1000); do ln -s $t many/$i; done"
"""Makes a folder whose list, in JSON, is longer than a frame of the worker."""
READ_AND_WRITE = f"chmod 755 backend; cat backend/.env; echo x > {HOOK}"


@pytest.fixture(autouse=True)
def backend(host: FakeHost) -> None:
    """Create a nested repository with a secret."""
    subprocess.run(["git", "init", "-q", str(host.work / "backend")], check=True)
    (host.work / "backend/.env").write_text(TOKEN)
    host.change_owner()


def check_protected(host: FakeHost, *runs: Run) -> None:
    (host.work / "backend").chmod(0o755)
    assert not (host.work / HOOK).exists()
    assert not any(TOKEN in output for each in runs for output in each.outputs)


def list_large_folder() -> Sequence[Call]:
    return [("list_dir", {"dirpath": "many"})]


def test_the_attack_works_without_safe_mode(host: FakeHost) -> None:
    outputs = run(host, bash("chmod 000 backend", READ_AND_WRITE)).outputs
    assert (TOKEN in outputs[1], (host.work / HOOK).exists()) == (True, True)


MODES = ["000", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("600", "300"))]


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_folder_stays_protected_after_a_large_reply(host: FakeHost, mode: str) -> None:
    calls = [*bash(f"chmod {mode} backend", MANY_LINKS), *list_large_folder(), *bash(READ_AND_WRITE, "ls many | wc -l")]
    done = run(host, calls, "--safe")
    assert "1000" in done.outputs[4]
    assert "restarted" not in "".join(done.outputs)
    check_protected(host, done)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_folder_stays_protected_after_a_restart(host: FakeHost, mode: str) -> None:
    with ModelServer() as server:

        def kill_sandbox(_: Request) -> Reply:
            subprocess.run(["pkill", "-KILL", "-P", str(running.process.pid), "bwrap"], check=True)
            time.sleep(1)  # until the worker has died with its parent
            return wire.calls(("bash", {"command": "true"}), ("bash", {"command": READ_AND_WRITE}))

        server.reply(wire.calls(("bash", {"command": f"chmod {mode} backend"})), kill_sandbox, wire.says("Done."))
        with start_ask(host, server, "--safe") as running:
            result = running.finish(60)
        outputs = read_tool_results(server.requests[-1].json)
    assert (result.code, len(outputs)) == (0, 2), result.stderr
    assert "restarted" in outputs[0]
    (host.work / "backend").chmod(0o755)
    assert not (host.work / HOOK).exists()
    assert TOKEN not in "".join(outputs)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_folder_stays_protected_in_the_next_run(host: FakeHost, mode: str) -> None:
    first = run(host, bash(f"chmod {mode} backend"), "--safe")
    second = run(host, bash(READ_AND_WRITE), "--safe")
    check_protected(host, first, second)


@pytest.mark.parametrize("folder", [".", "@base@/work_evil"])
def test_a_writable_folder_that_cannot_be_listed_is_refused(host: FakeHost, folder: str) -> None:
    if os.geteuid() == 0 and host.user == "root":
        pytest.skip("root can list every folder")
    allowed = ("--allow-dir", host.fill(folder)) if folder != "." else ()
    (host.base / "work_evil").mkdir(exist_ok=True)
    host.change_owner()
    first = run(host, bash(f"chmod 300 {host.fill(folder)}"), "--safe", *allowed)
    assert first.result.code == 0
    second = run(host, bash(READ_AND_WRITE), "--safe", *allowed)
    assert (second.result.code, second.requests) == (8, 0)
    assert "cannot be listed" in second.result.stderr
    check_protected(host, second)


@pytest.mark.slow
def test_the_target_of_a_link_and_a_folder_of_hooks_stay_protected(host: FakeHost) -> None:
    (host.work / "secrets").mkdir()
    (host.work / "secrets/values").write_text(TOKEN)
    (host.work / "prod.env").symlink_to("secrets/values")
    (host.work / "tools/hooks").mkdir(parents=True)
    config = str(host.work / ".git/config")
    subprocess.run(["git", "config", "--file", config, "core.hooksPath", "tools/hooks"], check=True)
    host.change_owner()
    first = run(host, bash("chmod 0 secrets tools"), "--safe")
    write = "chmod 755 secrets tools; cat secrets/values prod.env; echo x > tools/hooks/pre-commit"
    second = run(host, bash(write), "--safe")
    for name in ("secrets", "tools"):
        (host.work / name).chmod(0o755)
    assert not (host.work / "tools/hooks/pre-commit").exists()
    check_protected(host, first, second)
