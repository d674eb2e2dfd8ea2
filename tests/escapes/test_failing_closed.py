"""Where there is no sandbox, or one that does not hold, `ask --safe` ends before anything is sent: never without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ask.safety.survey import find_private
from tests.escapes.confined import bash, machine, run
from tests.safety.ground import Ground
from tests.safety.installation import USERS

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


@pytest.fixture(params=USERS)
def here(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with machine(request.param) as one:
        yield one


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
    ("change", "cause", "fix"),
    [
        (HIDDEN, "bubblewrap (bwrap), which is not installed", "apt, dnf or pacman install bubblewrap"),
        (DISABLED, "user namespaces are switched off", "user.max_user_namespaces"),
        (ANOTHER, "the sandbox does not hold here (", "go on without --safe only if you trust the model"),
    ],
    ids=["bubblewrap missing", "user namespaces off", "self-test failing"],
)
def test_it_ends_with_the_cause_and_the_fix_and_nothing_is_sent(
    here: Ground, change: str, cause: str, fix: str
) -> None:
    changed = on_machine(here, change)
    before = sorted(here.work.rglob("*"))
    without = run(here, bash("touch ran-without"), before=changed)
    assert (without.ended.code, (here.work / "ran-without").exists()) == (0, True), without.ended.stderr
    (here.work / "ran-without").unlink()
    done = run(here, bash("touch ran"), "--safe", before=changed)
    assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0)
    [line] = done.ended.stderr.splitlines()
    assert line.startswith("ask: ")
    assert cause in line
    assert fix in line
    assert sorted(here.work.rglob("*")) == before


def test_the_stand_in_of_the_test_would_let_everything_out(here: Ground) -> None:
    done = run(here, [], "--safe", before=on_machine(here, ANOTHER))
    for way in ("writing outside", "changing what is protected", "reading ask's configuration", "reaching a server"):
        assert way in done.ended.stderr


def test_what_changes_while_it_starts_is_looked_at_once_more(here: Ground) -> None:
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
if find_private(Path("/etc"))[1]:
    MOUNTS["a folder that is not hidden"] = 'at = arguments.index("0555"); del arguments[at - 1 : at + 5]'
"""What bubblewrap may have mounted by mistake, where names have changed before it looked them up."""


@pytest.mark.parametrize("change", MOUNTS.values(), ids=MOUNTS)
def test_where_something_else_is_mounted_nothing_is_run_or_sent(here: Ground, change: str) -> None:
    changed = on_machine(here, ANOTHER, OTHER_ARGUMENTS.format(change=change))
    done = run(here, bash("touch ran"), "--safe", before=changed)
    assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0), done.ended.stderr
    [line] = done.ended.stderr.splitlines()
    assert "changed while the sandbox was being opened" in line
    assert not (here.work / "ran").exists()


PLACES = {
    "home": "it holds your home directory",
    ".": "it holds your home directory",
    "config": "ask's own configuration is there",
    "data/ask": "ask's own data is there",
    "/": "it holds the system",
    "/usr": "it holds the system",
    "/proc/sys": "it belongs to the kernel",
}
"""Folders in which nothing can be confined, and why."""


@pytest.mark.parametrize("allowed", [False, True], ids=["started there", "--allow-dir"])
def test_where_nothing_can_be_confined_it_does_not_start(here: Ground, allowed: bool) -> None:
    for place, reason in PLACES.items():
        folder = here.base / place
        options = ("--safe", "--allow-dir", str(folder)) if allowed else ("--safe",)
        done = run(here, bash("touch ran"), *options, directory=None if allowed else folder)
        assert (done.ended.code, done.ended.stdout, done.requests) == (8, b"", 0), place
        assert reason in done.ended.stderr


def test_a_link_in_the_place_of_git_is_no_place_to_start(here: Ground) -> None:
    os.rename(here.work / ".git", here.base / "outside/git")
    (here.work / ".git").symlink_to(here.base / "outside/git")
    done = run(here, bash("touch ran"), "--safe")
    assert (done.ended.code, done.requests) == (8, 0)
    assert ".git is a link, which --safe cannot protect" in done.ended.stderr


@pytest.mark.parametrize("how", ["ASK_SAFE=1", "configured"])
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
