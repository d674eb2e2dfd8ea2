"""Without a sandbox, or with one that leaks, `ask --safe` exits before anything is sent or run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ask.safety.folder_scan import find_private_paths
from tests.escapes.confined import bash, run
from tests.safety.ground import Ground
from tests.safety.installation import each_user_and

OTHER_PROGRAMS = """
mkdir -p "$1" && mount --rbind /usr/bin "$1" && mount -t tmpfs -o mode=755 tmpfs /usr/bin || exit 99
"$1/ln" -s "$1"/* /usr/bin && "$1/rm" /usr/bin/bwrap || exit 99
"""
"""Puts another folder in the place of /usr/bin, as a user with a namespace of their own; there is no bwrap in it."""
OTHER_ARGUMENTS = """#!@python@ -I
import os, sys

arguments = sys.argv[1:]

def replace(old, new):
    at = next(at for at in range(len(arguments)) if arguments[at : at + len(old)] == old)
    arguments[at : at + len(old)] = new

{change}
os.execv("@base@/temporary/bin/bwrap", ["bwrap", *arguments])
"""
"""In the place of bwrap: starts the real one with other arguments."""
OPEN = OTHER_ARGUMENTS.format(
    change='replace(["--remount-ro", "/"], ["--dev-bind", "/", "/"]); replace(["--unshare-net"], [])'
)
"""Confines nothing once everything is mounted."""
HASTY = """#!/bin/sh
rmdir @work@/sub/.git 2> /dev/null
exec @base@/temporary/bin/bwrap "$@"
"""
"""Another: takes away what was to be protected before it starts the real one."""
HIDDEN = OTHER_PROGRAMS
DISABLED = OTHER_PROGRAMS + 'cp "$1/bwrap" /usr/bin && echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n'
ANOTHER = OTHER_PROGRAMS + 'cp "$2" /usr/bin/bwrap && chmod 755 /usr/bin/bwrap || exit 99\n'


def on_machine(here: Ground, change: str, bubblewrap: str = OPEN) -> list[str]:
    """What stands before a command that finds the machine changed by this script; its user looks like root to it.

    `bubblewrap` is what `ANOTHER` puts in the place of bwrap.
    """
    stand_in = here.base / "stand-in"
    stand_in.write_text(here.fill(bubblewrap))
    script = change + 'shift 2\nexec "$@"\n'
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    return [*own, "sh", "-c", script, "sh", str(here.base / "temporary/bin"), str(stand_in)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (HIDDEN, ["bwrap", "install bubblewrap"]),
        (DISABLED, ["user.max_user_namespaces"]),
        (ANOTHER, [" (", "writing outside", "--safe"]),
    ],
    ids=["bubblewrap missing", "user namespaces off", "self-test failing"],
)
def test_run_exits_with_the_cause_and_the_fix_and_sends_nothing(here: Ground, change: str, words: list[str]) -> None:
    changed = on_machine(here, change)
    before = sorted(here.work.rglob("*"))
    done = run(here, bash("touch ran"), "--safe", before=changed)
    assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0)
    [line] = done.ended.stderr.splitlines()
    assert line.startswith("ask: ")
    assert all(word in line for word in words)
    assert sorted(here.work.rglob("*")) == before


def test_run_without_safe_mode_works_on_a_machine_without_bubblewrap(here: Ground) -> None:
    """Which shows that it is the missing program that ends the safe run, not the changed machine."""
    done = run(here, bash("touch ran"), before=on_machine(here, HIDDEN))
    assert (done.ended.code, (here.work / "ran").exists()) == (0, True), done.ended.stderr


def test_every_leak_of_a_sandbox_is_reported(here: Ground) -> None:
    done = run(here, [], "--safe", before=on_machine(here, ANOTHER))
    for way in ("writing outside", "changing what is protected", "reading ask's configuration", "reaching a server"):
        assert way in done.ended.stderr


def test_folder_that_changes_during_the_start_is_surveyed_again(here: Ground) -> None:
    (here.work / "sub/.git").mkdir(parents=True)
    here.hand_over()
    done = run(here, bash("echo x > @outside@/x"), "--safe", before=on_machine(here, ANOTHER, HASTY))
    assert (done.ended.code, done.rules) == (0, ["--safe"]), done.ended.stderr
    assert not (here.work / "sub/.git").exists()
    assert not (here.base / "outside/x").exists()


MOUNTS = {
    "another folder": 'replace(["@work@/pkg", "@work@/pkg"], ["@home@", "@work@/pkg"])',
    "another place": 'replace(["@work@/pkg", "@work@/pkg"], ["@work@/pkg", "/opt"])',
    "one more": 'replace(["--ro-bind", "/dev/null"], ["--ro-bind", "@home@", "/run/x", "--ro-bind", "/dev/null"])',
    "one more, writable": 'replace(["--file"], ["--bind", "@home@", "@work@/part", "--file"])',
    "one less": 'replace(["--ro-bind", "/dev/null", "@work@/.env"], [])',
    "protected, but writable": 'replace(["--ro-bind", "@work@/.git"], ["--bind", "@work@/.git"])',
}
if find_private_paths(Path("/etc"))[1]:
    MOUNTS["a folder that is not hidden"] = 'at = arguments.index("0555"); del arguments[at - 1 : at + 5]'
"""What bubblewrap may have mounted by mistake, where names have changed before it looked them up."""


COMMON_MOUNTS = ("another folder", "one more, writable")


@pytest.mark.parametrize(
    ("here", "name"),
    each_user_and(COMMON_MOUNTS, [name for name in MOUNTS if name not in COMMON_MOUNTS]),
    indirect=["here"],
)
def test_nothing_is_run_or_sent_if_the_mounts_are_not_as_requested(here: Ground, name: str) -> None:
    changed = on_machine(here, ANOTHER, OTHER_ARGUMENTS.format(change=MOUNTS[name]))
    done = run(here, bash("touch ran"), "--safe", before=changed)
    assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0), done.ended.stderr
    [line] = done.ended.stderr.splitlines()
    assert "changed while" in line
    assert not (here.work / "ran").exists()


@pytest.mark.parametrize("allowed", [False, True], ids=["started there", "--allow-dir"])
def test_folder_that_cannot_be_confined_is_refused(here: Ground, allowed: bool) -> None:
    """tests/safety/test_path_policy.py has all kinds of such folders."""
    folder = here.base / "home"
    options = ("--safe", "--allow-dir", str(folder)) if allowed else ("--safe",)
    done = run(here, bash("touch ran"), *options, directory=None if allowed else folder)
    assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0)
    assert str(folder) in done.ended.stderr


def test_folder_whose_dot_git_is_a_link_is_refused(here: Ground) -> None:
    os.rename(here.work / ".git", here.base / "outside/git")
    (here.work / ".git").symlink_to(here.base / "outside/git")
    done = run(here, bash("touch ran"), "--safe")
    assert (done.ended.code, done.requests) == (8, 0)
    assert ".git is a link" in done.ended.stderr


@pytest.mark.parametrize("how", [pytest.param("ASK_SAFE=1", marks=pytest.mark.slow), "configured"])
def test_nothing_in_a_project_and_no_variable_turns_it_off(here: Ground, how: str) -> None:
    """`safe = false` in a project, ASK_SAFE=0, and a bwrap of the project's first on PATH."""
    for name in (".ask/config.toml", "ask.toml", "config.toml", "ask/config.toml"):
        (here.work / name).parent.mkdir(exist_ok=True)
        (here.work / name).write_text("safe = false\n[safe]\nenabled = false\n")
    (here.work / ".envrc").write_text("export ASK_SAFE=0\n")
    program = here.work / "bwrap"
    program.write_text(f"#!/bin/sh\ntouch {here.base}/temporary/taken\n")
    program.chmod(0o755)
    env = {"PATH": f"{here.work}:{os.environ['PATH']}", "ASK_SAFE": "1" if how == "ASK_SAFE=1" else "0"}
    if how == "configured":
        with Path(here.base / "config/ask/config.toml").open("a") as config:
            config.write("enabled = true\n")
    here.hand_over()
    done = run(here, bash("echo x > @outside@/x; bwrap"), env=env)
    assert done.ended.code == 0, done.ended.stderr
    assert done.rules == ["--safe"]
    assert not (here.base / "outside/x").exists()
    assert not (here.base / "temporary/taken").exists()
    free = run(here, bash("echo y > @outside@/x; bwrap"), env={**env, "ASK_SAFE": ""}) if how == "ASK_SAFE=1" else None
    assert free is None or (here.base / "outside/x").exists()
