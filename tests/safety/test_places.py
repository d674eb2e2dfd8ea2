"""What a run may write: where it may not start, what is guarded, and what of the user's programs is shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ask.errors import SafetyError
from ask.safety.guards import PROTECTED, find_guarded, private_in
from ask.safety.places import confine
from ask.safety.profile import Confinement


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("home/work", "home/.config/ask", "home/.local/share/ask", "home/.local/bin"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


def confined(home: Path, directory: Path, *allowed: Path, path: str = "/usr/bin", **more: Any) -> Confinement:
    return confine(
        directory,
        allowed,
        config=home / ".config/ask",
        data=home / ".local/share/ask",
        spill=home / ".local/share/ask/results",
        environment={"HOME": str(home), "PATH": path, "TERM": "xterm", "KEY": "1", "CI": "2"},
        **more,
    )


def test_names_are_resolved_once(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home / "work")
    (tmp_path / "more").mkdir()
    found = confined(home, tmp_path / "link", tmp_path / "link/../../more")
    assert found.directory == home / "work"
    assert found.allowed == (tmp_path / "more",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/", "holds the system"),
        ("/usr", "holds the system"),
        ("/etc", "holds the system"),
        ("/proc/self", "belongs to the kernel"),
        ("/dev/shm", "belongs to the kernel"),
        ("HOME", "holds your home directory"),
        ("HOME/..", "holds your home directory"),
        ("HOME/.config", "ask's own configuration"),
        ("HOME/.config/ask", "ask's own configuration"),
        ("HOME/.local/share", "ask's own data"),
        ("HOME/.local/share/ask/results", "ask's own data"),
        (str(Path(__file__).parents[2]), "ask's own code|Python takes ask's modules"),
        (str(Path(__file__).parents[2] / "ask/tools"), "ask's own code"),
        (str(Path(__file__).parents[2] / "providers"), "ask's own code"),
        (str(Path(os.__file__).parent), "ask's own code|Python takes ask's modules"),
        (sys.prefix, "ask's own code|Python takes ask's modules"),
        ("HOME/missing", "there is no folder"),
        ("HOME/file", "is no folder"),
    ],
)
def test_where_it_cannot_hold_it_does_not_start(home: Path, name: str, why: str) -> None:
    (home / "file").touch()
    (home / ".local/share/ask/results").mkdir()
    folder = Path(name.replace("HOME", str(home)))
    for directory, allowed in ((folder, []), (home / "work", [folder])):
        with pytest.raises(SafetyError, match=why) as caught:
            confined(home, directory, *allowed)
        assert caught.value.exit_code == 8
        assert caught.value.advice


def test_a_link_to_such_a_place_is_no_way_round(home: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(home)
    with pytest.raises(SafetyError, match="home directory"):
        confined(home, tmp_path / "link")


def test_the_environment_is_what_is_needed_and_what_is_admitted(home: Path) -> None:
    environment = confined(home, home / "work", admitted=["CI", "MISSING"]).environment
    assert environment == {
        "PATH": "/usr/bin",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "CI": "2",
        "HOME": str(home),
        "TMPDIR": "/tmp",
    }


def test_of_the_user_s_programs_whole_toolchains_are_shown_but_nothing_private(home: Path, tmp_path: Path) -> None:
    (home / "bin").mkdir()
    (home / "lib").mkdir()
    (home / ".local/lib").mkdir()
    for name in ("node/bin", "node/lib", ".cargo/bin", ".pyenv/shims"):
        (home / name).mkdir(parents=True)
    (tmp_path / "closed").mkdir(mode=0)
    search = [
        f"{home}/{name}" for name in ("node/bin", ".cargo/bin", ".pyenv/shims", ".local/bin", "bin", ".", "missing")
    ]
    shown = confined(
        home, home / "work", path=":".join([*search, "relative", "", str(tmp_path / "closed/bin")])
    ).readable
    under_home = {str(path.relative_to(home)) for path in shown if path.is_relative_to(home)}
    assert under_home == {"node", ".cargo/bin", ".pyenv", ".local/bin", "bin"}


def test_a_folder_in_which_the_kernel_s_files_are_mounted_is_refused(
    home: Path, record_property: Callable[[str, object], None]
) -> None:
    place = home / "work/an image/proc"
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "proc", "proc", str(place)], capture_output=True, check=False).returncode:
        record_property("not tried here", "a proc mounted in the folder (the kernel or a container forbids it)")
        return
    try:
        with pytest.raises(SafetyError, match="an image/proc is: it belongs to the kernel"):
            confined(home, home / "work")
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("name", PROTECTED)
def test_a_link_in_the_place_of_what_is_protected_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to("elsewhere")
    with pytest.raises(SafetyError, match="is a link, which --safe cannot protect"):
        find_guarded(tmp_path)


def test_what_is_guarded_is_found_at_any_depth(tmp_path: Path) -> None:
    for name in (".git/hooks", "a/b/.git", "a/.vscode", "node_modules/x", ".git/.vscode"):
        (tmp_path / name).mkdir(parents=True)
    for name in (".env", ".env.local", ".envrc", "a/b/.env", "node_modules/x/.env", "real", "a/.git"):
        (tmp_path / name).touch()
    (tmp_path / "a/.env.link").symlink_to("../real")
    (tmp_path / "a/.env.loop").symlink_to(".env.loop")
    (tmp_path / "a/.env.out").symlink_to("/etc/passwd")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/.idea").symlink_to("b")
    guards = find_guarded(tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in guards.protected} == {
        *(".git", ".envrc", "a/.git", "a/.vscode", "a/b/.git"),
    }
    assert {str(path.relative_to(tmp_path)) for path in guards.hidden} == {".env", ".env.local", "a/b/.env", "real"}
    assert guards.whole


def test_a_large_folder_is_searched_from_the_top_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "deep/deeper").mkdir(parents=True)
    (tmp_path / ".env").touch()
    (tmp_path / "deep/deeper/.env").touch()
    for number in range(3_100):
        (tmp_path / f"deep/{number}").touch()
    guards = find_guarded(tmp_path)
    assert guards.hidden == (tmp_path / ".env",)
    assert not guards.whole


def test_private_is_what_not_everybody_can_read(tmp_path: Path) -> None:
    for name, mode in (("open", 0o644), ("group", 0o640), ("own", 0o600)):
        (tmp_path / name).touch(mode)
        (tmp_path / name).chmod(mode)
    for name, mode in (("public", 0o755), ("closed", 0o710)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inner").touch()
        (tmp_path / name / "inner").chmod(0o600)
        (tmp_path / name).chmod(mode)
    files, folders = private_in(tmp_path)
    assert sorted(files) == [tmp_path / "group", tmp_path / "own", tmp_path / "public/inner"]
    assert folders == [tmp_path / "closed"]


@pytest.mark.parametrize(
    ("git", "config"),
    [
        (b"gitdir: \0x", b""),
        (b"gitdir: " + b"x/" * 3_000, b""),
        (b"\xff\xfe", b""),
        (b"gitdir: .", b""),
        (b"gitdir: ../..", b""),
        (b"gitdir: bare", b"[core]\n hooksPath = \0\n hooksPath = \xff\n hooksPath = ~nobody/x\n hooksPath = ..\n"),
        (b"gitdir: bare", b"hooksPath = .\nhooksPath = /\nhooksPath = x/../../y\n"),
    ],
)
def test_what_a_repository_names_can_hide_and_lock_nothing_else(tmp_path: Path, git: bytes, config: bytes) -> None:
    work = tmp_path / "work"
    (work / "sub/bare").mkdir(parents=True)
    (work / "sub/.git").write_bytes(git)
    (work / "sub/bare/config").write_bytes(config)
    os.mkfifo(work / "sub/bare/commondir")
    assert set(find_guarded(work).protected) <= {work / "sub/.git", work / "sub/bare"}
