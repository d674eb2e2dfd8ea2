"""Failing closed: where there is no sandbox, or it does not hold, nothing is opened, and cause and fix are told."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from ask.errors import SafetyError
from ask.safety.bubblewrap import explain_bubblewrap_failure
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from tests.safety.ground import Ground


def refusal(confinement: SandboxConfig, *programs: str) -> SafetyError:
    with pytest.raises(SafetyError) as caught:
        Sandbox(confinement, programs) if programs else Sandbox(confinement)
    assert caught.value.exit_code == 8
    assert caught.value.advice
    assert list(confinement.working_directory.iterdir()) == []
    return caught.value


def test_all_of_it_holds_here(confinement: SandboxConfig) -> None:
    with Sandbox(confinement) as sandbox:
        findings = sandbox.self_test_results
    assert len(findings) >= 9
    assert [finding for finding in findings if not finding.passed] == []
    assert sorted(path.name for path in confinement.working_directory.parent.iterdir()) == [
        "config",
        "data",
        "home",
        "work",
    ]
    assert list(confinement.home.iterdir()) == []


def test_a_missing_bubblewrap_is_named(confinement: SandboxConfig) -> None:
    assert "which is not installed: install bubblewrap" in str(refusal(confinement, "/missing/bwrap"))


def test_a_program_that_others_can_change_is_not_trusted(confinement: SandboxConfig, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)
    assert "others than root can change it" in str(refusal(confinement, str(program)))
    program.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(program, 12345, 12345)
    assert "others than root can change it" in str(refusal(confinement, str(program)))


def test_one_on_the_search_path_is_not_taken(here: Ground) -> None:
    program = here.work / "bwrap"
    program.write_text(f"#!/bin/sh\ntouch {here.base}/taken\n")
    program.chmod(0o755)
    environment = {**here.environment, "PATH": f"{here.work}:{os.environ['PATH']}"}
    subprocess.run(
        here.command, env=environment, cwd=here.work, input=here.request([]), check=True, capture_output=True
    )
    assert not (here.base / "taken").exists()


@pytest.mark.parametrize(
    ("version", "complaint", "told"),
    [
        (
            "0.6.1",
            "bwrap: Unknown option --disable-userns",
            "needs bubblewrap 0.8.0, and .* is 0.6.1: install a newer one",
        ),
        ("0.11.0", "bwrap: setting up uid map: Permission denied", "bwrap-userns-restrict"),
        ("0.8.0", "bwrap: Creating new namespace failed: No space left on device", "max_user_namespaces"),
        ("0.8.0", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("0.8.0", "Traceback:\nImportError: strange", "no sandbox can be opened .ImportError: strange."),
        ("", "", "it said nothing"),
    ],
)
def test_what_it_complains_of_is_explained(tmp_path: Path, version: str, complaint: str, told: str) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
    program.chmod(0o755)
    error = explain_bubblewrap_failure(str(program), complaint)
    assert re.search(told, str(error))
    assert error.advice


def run_without_user_namespaces(here: Ground, request: bytes) -> bytes:
    """What the driver says in a user namespace in which there can be no further one."""
    script = 'read go; echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "--user", "--keep-caps", "sh", "-c", script, "sh", *here.command]
    own = os.readlink("/proc/self/ns/user")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=here.environment, cwd=here.work, **pipes) as process:  # type: ignore[call-overload]
        while os.readlink(f"/proc/{process.pid}/ns/user") == own:
            time.sleep(0.01)
        # Root's namespace can know all users; anybody else's has only its own, in which bwrap is nobody's.
        user, group, count = (0, 0, 100_000) if os.geteuid() == 0 else (os.geteuid(), os.getegid(), 1)
        if count == 1:
            Path(f"/proc/{process.pid}/setgroups").write_text("deny")
        Path(f"/proc/{process.pid}/uid_map").write_text(f"{user} {user} {count}")
        Path(f"/proc/{process.pid}/gid_map").write_text(f"{group} {group} {count}")
        said: bytes = process.communicate(b"go\n" + request, timeout=30)[0]
    return said


def test_without_user_namespaces_it_is_refused(here: Ground) -> None:
    said = run_without_user_namespaces(here, here.request([("bash", {"command": "touch ran"})]))
    if os.geteuid() == 0:
        assert b"user namespaces are switched off" in said
        assert b"max_user_namespaces" in said
    assert b'"code": 8' in said
    assert not (here.work / "ran").exists()
    assert not (here.work / ".vscode").exists()


def test_a_sandbox_that_shows_ask_s_own_files_is_not_opened(confinement: SandboxConfig) -> None:
    (confinement.secret_folders[0] / "keys.toml").write_text("x")
    wide = confinement._replace(readable_folders=(*confinement.readable_folders, confinement.secret_folders[0]))
    assert "reading ask's configuration and data: " in str(refusal(wide))


def test_a_sandbox_that_lets_write_outside_is_not_opened(confinement: SandboxConfig) -> None:
    wide = confinement._replace(secret_folders=(*confinement.secret_folders, confinement.working_directory))
    error = refusal(wide)
    assert "writing outside: " in str(error)
