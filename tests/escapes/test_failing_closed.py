"""Without a sandbox, or with one that leaks, `ask --safe` exits before anything is sent or run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ask.errors import SafetyError
from ask.safety.folder_scan import find_private_paths
from ask.safety.refused_folders import check_case
from tests.escapes.case_insensitive import mount_case_insensitive
from tests.escapes.safe_runs import Call, bash, run
from tests.safety.fake_host import PLACEHOLDER_NAMES, TOKEN, FakeHost
from tests.safety.installation import each_user_and
from tests.slow_parameters import mark_others_slow

pytestmark = pytest.mark.needs("bwrap")

OTHER_PROGRAMS = """
mkdir -p "$1" && mount --rbind /usr/bin "$1" && mount -t tmpfs -o mode=755 tmpfs /usr/bin || exit 99
"$1/ln" -s "$1"/* /usr/bin && "$1/rm" /usr/bin/bwrap || exit 99
"""
"""Replaces /usr/bin in a new mount namespace with a folder that does not contain bwrap."""
OTHER_ARGUMENTS = """#!@python@ -I
import os, sys

arguments = sys.argv[1:]

def replace(old, new):
    at = next(at for at in range(len(arguments)) if arguments[at : at + len(old)] == old)
    arguments[at : at + len(old)] = new

{change}
os.execv("@base@/temporary/bin/bwrap", ["bwrap", *arguments])
"""
"""A replacement for bwrap that starts the real one with other arguments."""
OPEN = OTHER_ARGUMENTS.format(
    change='replace(["--remount-ro", "/"], ["--dev-bind", "/", "/"]); replace(["--unshare-net"], [])'
)
"""A sandbox that leaks once everything is mounted."""
HASTY = """#!/bin/sh
rmdir @work@/sub/.git 2> /dev/null
exec @base@/temporary/bin/bwrap "$@"
"""
"""A replacement for bwrap that removes a protected path before it starts the real one."""
HIDDEN = OTHER_PROGRAMS
DISABLED = OTHER_PROGRAMS + 'cp "$1/bwrap" /usr/bin && echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n'
ANOTHER = OTHER_PROGRAMS + 'cp "$2" /usr/bin/bwrap && chmod 755 /usr/bin/bwrap || exit 99\n'


def build_changed_host_command(host: FakeHost, change: str, bubblewrap: str = OPEN) -> list[str]:
    """Build a prefix that runs a command in a user namespace in which a script has changed the host.

    `bubblewrap` is the script that `ANOTHER` installs as bwrap.
    """
    stand_in = host.base / "stand-in"
    stand_in.write_text(host.fill(bubblewrap))
    script = change + 'shift 2\nexec "$@"\n'
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*own, "sh", "-c", script, "sh", str(host.base / "temporary/bin"), str(stand_in)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (HIDDEN, ["bwrap", "install bubblewrap", "--safe-files"]),
        (DISABLED, ["user.max_user_namespaces", "--safe-files"]),
        (ANOTHER, [" (", "writing outside", "--safe"]),
    ],
    ids=["bubblewrap missing", "user namespaces off", "self-test failing"],
)
def test_run_exits_with_the_cause_and_the_fix_and_sends_nothing(host: FakeHost, change: str, words: list[str]) -> None:
    changed = build_changed_host_command(host, change)
    before = sorted(host.work.rglob("*"))
    done = run(host, bash("touch ran"), "--safe", before=changed)
    assert (done.result.code, done.result.stdout, done.requests) == (8, b"", 0)
    [line] = done.result.stderr.splitlines()
    assert line.startswith("ask: ")
    assert all(word in line for word in words)
    assert sorted(host.work.rglob("*")) == before


def test_run_without_safe_mode_works_on_a_machine_without_bubblewrap(host: FakeHost) -> None:
    """This proves that the safe run fails because of the missing program, not because of the changed host."""
    done = run(host, bash("touch ran"), before=build_changed_host_command(host, HIDDEN))
    assert (done.result.code, (host.work / "ran").exists()) == (0, True), done.result.stderr


@pytest.mark.parametrize(
    "change", mark_others_slow([HIDDEN, DISABLED]), ids=["bubblewrap missing", "user namespaces off"]
)
def test_the_files_level_works_without_a_sandbox(host: FakeHost, change: str) -> None:
    calls: list[Call] = [
        ("write_file", {"filepath": "made", "content": "inside"}),
        ("read_file", {"filepath": "@outside@/secret"}),
        ("write_file", {"filepath": "@outside@/made", "content": "x"}),
        ("bash", {"command": "touch ran"}),
    ]
    done = run(host, calls, "--safe-files", before=build_changed_host_command(host, change))
    assert (done.result.code, (host.work / "made").read_text()) == (0, "inside"), done.result.stderr
    assert [output.startswith("Error: ") for output in done.outputs] == [False, True, True, True]
    assert not (host.base / "outside/made").exists()
    assert not (host.work / "ran").exists()


@pytest.mark.slow
def test_every_leak_of_a_sandbox_is_reported(host: FakeHost) -> None:
    done = run(host, [], "--safe", before=build_changed_host_command(host, ANOTHER))
    for way in ("writing outside", "changing protected files", "reading ask's configuration", "connecting to a server"):
        assert way in done.result.stderr


@pytest.mark.slow
def test_folder_that_changes_during_the_start_is_scanned_again(host: FakeHost) -> None:
    (host.work / "sub/.git").mkdir(parents=True)
    host.change_owner()
    done = run(host, bash("echo x > @outside@/x"), "--safe", before=build_changed_host_command(host, ANOTHER, HASTY))
    assert (done.result.code, done.rules) == (0, ["--safe"]), done.result.stderr
    assert not (host.work / "sub/.git").exists()
    assert not (host.base / "outside/x").exists()


MOUNTS = {
    "another folder": 'replace(["@work@/pkg", "@work@/pkg"], ["@home@", "@work@/pkg"])',
    "another place": 'replace(["@work@/pkg", "@work@/pkg"], ["@work@/pkg", "/opt"])',
    "one more": 'replace(["--ro-bind", "/dev/null"], ["--ro-bind", "@home@", "/run/x", "--ro-bind", "/dev/null"])',
    "one more, writable": 'replace(["--file"], ["--bind", "@home@", "@work@/part", "--file"])',
    "one less": 'replace(["--ro-bind", "/dev/null", "@work@/.env"], [])',
    "one folder less": 'replace(["--bind", "@work@/pkg", "@work@/pkg"], [])',
    "one protected folder less": 'replace(["--ro-bind", "@work@/.git", "@work@/.git"], [])',
    "protected, but writable": 'replace(["--ro-bind", "@work@/.git"], ["--bind", "@work@/.git"])',
}
if any(path.is_dir() for path in find_private_paths(Path("/etc"))):
    MOUNTS["a folder that is not hidden"] = 'at = arguments.index("0555"); del arguments[at - 1 : at + 5]'
"""What bubblewrap may have mounted by mistake, where names have changed before it looked them up."""


COMMON_MOUNTS = ("another folder", "one more, writable")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("host", "name"),
    each_user_and(COMMON_MOUNTS, [name for name in MOUNTS if name not in COMMON_MOUNTS]),
    indirect=["host"],
)
def test_nothing_is_run_or_sent_if_the_mounts_are_not_as_requested(host: FakeHost, name: str) -> None:
    changed = build_changed_host_command(host, ANOTHER, OTHER_ARGUMENTS.format(change=MOUNTS[name]))
    done = run(host, bash("touch ran"), "--safe", before=changed)
    assert (done.result.code, done.result.stdout, done.requests) == (8, b"", 0), done.result.stderr
    [line] = done.result.stderr.splitlines()
    assert "changed while" in line
    assert not (host.work / "ran").exists()


@pytest.mark.slow_after_first
@pytest.mark.parametrize("allowed", [False, True], ids=["started there", "--allow-dir"])
def test_folder_that_cannot_be_confined_is_refused(host: FakeHost, allowed: bool) -> None:
    """tests/safety/test_sandbox_folders.py tests all kinds of such folders."""
    folder = host.base / "home"
    options = ("--safe", "--allow-dir", str(folder)) if allowed else ("--safe",)
    done = run(host, bash("touch ran"), *options, directory=None if allowed else folder)
    assert (done.result.code, done.result.stdout, done.requests) == (8, b"", 0)
    assert str(folder) in done.result.stderr


@pytest.mark.slow_after_first
@pytest.mark.parametrize("place", ["@work@/pkg", "/opt"], ids=["in the folder", "in a system folder"])
def test_a_home_that_a_mount_shows_elsewhere_is_refused(host: FakeHost, place: str) -> None:
    mount = host.fill(f'mount --bind @home@ {place} || exit 99; exec "$@"')
    mounted = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    read = bash(f"cat {place}/.ssh/id_rsa")
    refused, unsafe = run(host, read, "--safe", before=mounted), run(host, read, before=mounted)
    assert (refused.result.code, refused.requests) == (8, 0), refused.result.stderr
    assert host.fill(place) in refused.result.stderr
    assert TOKEN in unsafe.outputs[0], "the attack does nothing"


@pytest.mark.slow
def test_a_folder_from_which_programs_load_libraries_is_refused(host: FakeHost) -> None:
    libraries = {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64:"}  # as after export LD_LIBRARY_PATH=DIR:$LD_LIBRARY_PATH
    call = bash("echo no library > libc.so.6")
    done = run(host, call, "--safe", env=libraries)
    assert (done.result.code, done.requests) == (8, 0)
    assert subprocess.run(["ls"], cwd=host.work, env=libraries, capture_output=True, check=False).returncode == 0
    run(host, call, env=libraries)
    assert subprocess.run(["ls"], cwd=host.work, env=libraries, capture_output=True, check=False).returncode != 0


def test_folder_whose_dot_git_is_a_link_is_refused(host: FakeHost) -> None:
    os.rename(host.work / ".git", host.base / "outside/git")
    (host.work / ".git").symlink_to(host.base / "outside/git")
    done = run(host, bash("touch ran"), "--safe")
    assert (done.result.code, done.requests) == (8, 0)
    assert ".git is a link" in done.result.stderr


@pytest.mark.parametrize("how", [pytest.param("ASK_SAFE=1", marks=pytest.mark.slow), "configured"])
def test_no_project_file_or_variable_turns_safe_mode_off(host: FakeHost, how: str) -> None:
    """`safe = false` in a project, ASK_SAFE=0, and a bwrap of the project's first on PATH."""
    for name in (".ask/config.toml", "ask.toml", "config.toml", "ask/config.toml"):
        (host.work / name).parent.mkdir(exist_ok=True)
        (host.work / name).write_text("safe = false\n[safe]\nenabled = false\n")
    (host.work / ".envrc").write_text("export ASK_SAFE=0\n")
    program = host.work / "bwrap"
    program.write_text(f"#!/bin/sh\ntouch {host.base}/temporary/taken\n")
    program.chmod(0o755)
    env = {"PATH": f"{host.work}:{os.environ['PATH']}", "ASK_SAFE": "1" if how == "ASK_SAFE=1" else "0"}
    if how == "configured":
        with Path(host.base / "config/ask/config.toml").open("a") as config:
            config.write("[safe]\nenabled = true\n")
    host.change_owner()
    done = run(host, bash("echo x > @outside@/x; bwrap"), env=env)
    assert done.result.code == 0, done.result.stderr
    assert done.rules == ["--safe"]
    assert not (host.base / "outside/x").exists()
    assert not (host.base / "temporary/taken").exists()
    free = run(host, bash("echo y > @outside@/x; bwrap"), env={**env, "ASK_SAFE": ""}) if how == "ASK_SAFE=1" else None
    assert free is None or (host.base / "outside/x").exists()


@pytest.mark.slow
def test_a_folder_that_ignores_case_is_refused(host: FakeHost, record_property: Callable[[str, object], None]) -> None:
    folder = host.base / "shared"
    folder.mkdir()
    names = (".git/HEAD", ".git/objects/x", ".git/refs/x", ".env", *(f"{name}/x" for name in PLACEHOLDER_NAMES))
    try:
        with mount_case_insensitive(folder, dict.fromkeys(names, b"canary")):
            unsafe = run(host, bash("cat .ENV"), directory=folder)
            confined = run(host, [("read_file", {"filepath": ".ENV"})], "--safe-files", directory=folder)
            refused = run(host, bash("cat .ENV"), "--safe", directory=folder)
        with mount_case_insensitive(folder, {".GIT/HEAD": b""}), pytest.raises(SafetyError):
            check_case([folder / ".git"])  # as is, the name is not in the listing
    except OSError as error:
        record_property("not tried here", f"{host.user}: a file system that ignores case ({error.strerror})")
        return
    assert "canary" in unsafe.outputs[0], "otherwise the file system does not ignore case"
    assert "hidden in safe mode" in confined.outputs[0]
    assert (refused.result.code, refused.requests) == (8, 0), refused
    assert "ignores case" in refused.result.stderr
