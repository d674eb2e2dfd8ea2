"""Without a working sandbox, nothing is started, and the error names the cause and the fix."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
from pathlib import Path

import pytest

from ask.errors import SafetyError
from ask.safety.bubblewrap import explain_bubblewrap_failure
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.self_test import SelfTestHost, encode_pairs
from tests.safety.fake_host import FakeHost


def refusal(sandbox_config: SandboxConfig, *programs: str) -> SafetyError:
    with pytest.raises(SafetyError) as caught:
        Sandbox(sandbox_config, programs) if programs else Sandbox(sandbox_config)
    assert caught.value.exit_code == 8
    assert caught.value.hint
    assert list(sandbox_config.working_directory.iterdir()) == []
    return caught.value


@pytest.mark.needs("bwrap")
def test_all_checks_pass_on_this_machine(sandbox_config: SandboxConfig) -> None:
    with Sandbox(sandbox_config) as sandbox:
        findings = sandbox.self_test_results
    assert len(findings) >= 8
    assert [finding for finding in findings if not finding.passed] == []
    assert sorted(path.name for path in sandbox_config.working_directory.parent.iterdir()) == [
        "config",
        "data",
        "home",
        "work",
    ]
    assert list(sandbox_config.home.iterdir()) == []


def test_a_connection_that_cannot_be_accepted_does_not_pass(sandbox_config: SandboxConfig) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with SelfTestHost(sandbox_config) as host:
        report = encode_pairs([("an attempt", "")])
        assert all(result.passed for result in host.evaluate(report))
        with socket.create_connection(("127.0.0.1", int(dict(host.tasks)["port"]))):
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            try:
                with pytest.raises((SafetyError, OSError)):
                    host.evaluate(report)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_missing_bubblewrap_is_reported(sandbox_config: SandboxConfig) -> None:
    assert "which is not installed: install bubblewrap" in str(refusal(sandbox_config, "/missing/bwrap"))


@pytest.mark.parametrize("part", ["bin/bwrap", "bin"])
def test_a_program_that_others_can_change_is_not_trusted(
    sandbox_config: SandboxConfig, tmp_path: Path, part: str
) -> None:
    program, link = tmp_path / "bin/bwrap", tmp_path / "bwrap"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link.symlink_to(program)
    if os.geteuid() == 0:  # nobody else can own a program that is trusted
        assert "cannot open a sandbox" in str(refusal(sandbox_config, str(link)))
        os.chown(tmp_path / part, 12345, 12345)
    assert "users other than root can change it" in str(refusal(sandbox_config, str(link)))
    if os.geteuid() == 0:
        os.chown(tmp_path / part, 0, 0)
    for mode in (0o775, 0o757):
        (tmp_path / part).chmod(mode)
        assert "users other than root can change it" in str(refusal(sandbox_config, str(link)))


@pytest.mark.needs("bwrap")
def test_bubblewrap_on_path_is_ignored(host: FakeHost) -> None:
    program = host.work / "bwrap"
    program.write_text(f"#!/bin/sh\ntouch {host.base}/taken\n")
    program.chmod(0o755)
    environment = {**host.environment, "PATH": f"{host.work}:{os.environ['PATH']}"}
    subprocess.run(
        host.command, env=environment, cwd=host.work, input=host.build_request([]), check=True, capture_output=True
    )
    assert not (host.base / "taken").exists()


@pytest.mark.parametrize(
    ("version", "stderr", "message"),
    [
        (
            "0.6.1",
            "bwrap: Unknown option --disable-userns",
            "needs bubblewrap 0.8.0, and .* is 0.6.1: install a newer version",
        ),
        ("0.11.0", "bwrap: setting up uid map: Permission denied", "bwrap-userns-restrict"),
        ("0.8.0", "bwrap: Creating new namespace failed: No space left on device", "max_user_namespaces"),
        ("0.8.0", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("0.8.0", "Traceback:\nImportError: strange", "cannot open a sandbox .ImportError: strange."),
        ("", "", "no error message"),
    ],
)
def test_bubblewrap_errors_are_explained(tmp_path: Path, version: str, stderr: str, message: str) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
    program.chmod(0o755)
    error = explain_bubblewrap_failure(str(program), stderr)
    assert re.search(message, str(error))
    assert error.hint


def run_without_user_namespaces(host: FakeHost, request: bytes) -> bytes:
    """Run the driver in a user namespace that forbids further ones, and return its output."""
    script = 'echo ready; read go; echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    command = ["unshare", "--user", "--keep-caps", "sh", "-c", script, "sh", *host.command]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=host.environment, cwd=host.work, **pipes) as process:  # type: ignore[call-overload]
        # With users mapped while unshare starts the shell, the shell can lose its capabilities.
        assert process.stdout.readline() == b"ready\n"
        # Root's namespace can know all users; anybody else's has only its own, in which bwrap is nobody's.
        user, group, count = (0, 0, 100_000) if os.geteuid() == 0 else (os.geteuid(), os.getegid(), 1)
        if count == 1:
            Path(f"/proc/{process.pid}/setgroups").write_text("deny")
        Path(f"/proc/{process.pid}/uid_map").write_text(f"{user} {user} {count}")
        Path(f"/proc/{process.pid}/gid_map").write_text(f"{group} {group} {count}")
        output: bytes = process.communicate(b"go\n" + request, timeout=30)[0]
    return output


@pytest.mark.needs("bwrap", "unshare")
def test_missing_user_namespaces_are_reported(host: FakeHost) -> None:
    output = run_without_user_namespaces(host, host.build_request([("bash", {"command": "touch ran"})]))
    if os.geteuid() == 0:
        assert b"user namespaces are disabled" in output
        assert b"max_user_namespaces" in output
    assert b'"code": 8' in output
    assert not (host.work / "ran").exists()
    assert not (host.work / ".vscode").exists()


@pytest.mark.needs("bwrap")
def test_a_sandbox_that_exposes_ask_files_fails_the_self_test(sandbox_config: SandboxConfig) -> None:
    (sandbox_config.secret_folders[0] / "keys.toml").write_text("x")
    wide = sandbox_config._replace(
        readable_folders=(*sandbox_config.readable_folders, sandbox_config.secret_folders[0])
    )
    assert "reading ask's configuration and data: " in str(refusal(wide))


@pytest.mark.needs("bwrap")
def test_a_sandbox_that_allows_writing_outside_fails_the_self_test(sandbox_config: SandboxConfig) -> None:
    wide = sandbox_config._replace(secret_folders=(*sandbox_config.secret_folders, sandbox_config.working_directory))
    error = refusal(wide)
    assert "writing outside: " in str(error)
