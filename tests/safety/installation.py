"""A copy of Python and ask that another user can run, made of hard links, since a checkout may be private."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.program import ASK

ROOT = Path(__file__).parents[2]
USERS = ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]
"""The kinds of users that the tests can run as."""
EACH_USER = [USERS[0], *(pytest.param(user, marks=pytest.mark.slow) for user in USERS[1:])]
"""`USERS` as parameters of a test; a normal test run uses only the first."""


def each_user_and(common: Sequence[Any], further: Sequence[Any]) -> list[Any]:
    """Build test parameters: `common` for each user, `further` for the first one.

    A normal run uses only the common ones of the first user.
    """
    slow = [(USERS[0], one) for one in further] + [(user, one) for user in USERS[1:] for one in common]
    return [*((USERS[0], one) for one in common), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in slow)]


START = """#!{python} -I
import sys
sys.path.append({packages!r})
from ask.__main__ import main
sys.exit(main())
"""
_UNNEEDED = shutil.ignore_patterns("test", "site-packages", "idlelib", "tkinter", "ensurepip", "config-*")


class Installation(NamedTuple):
    """The paths of Python, the folder of the package `ask`, and the program `ask`."""

    python: str
    root: Path
    ask: str


@cache
def installation(user: str) -> Installation:
    """Return the installation for a user. For other users, it is a copy that is deleted at the end of the tests."""
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    if os.geteuid() != 0 or user == "root":
        return Installation(str(python), ROOT, ASK)
    copy = Path(tempfile.mkdtemp(prefix="ask-installed-"))
    atexit.register(shutil.rmtree, copy)
    copy.chmod(0o755)
    library = Path(os.__file__).parent
    shutil.copytree(library, copy / "lib" / library.name, ignore=_UNNEEDED, copy_function=link)
    for shared in python.parents[1].glob("lib/libpython*.so*"):
        link(str(shared), str(copy / "lib" / shared.name))
    packages = copy / "lib" / library.name / "site-packages"
    for name, folder in (("ask", "ask"), ("ask_providers", "providers"), ("ask_prompts", "prompts")):
        shutil.copytree(ROOT / folder, packages / name)
    own, *others = _list_dependencies(distribution("ask-gents"))
    dist_info = packages / "ask_gents.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(own.read_text("METADATA") or own.read_text("PKG-INFO") or "")
    (dist_info / "entry_points.txt").write_text(own.read_text("entry_points.txt") or "")
    for one in others:
        _link_files(one, packages)
    (copy / "bin").mkdir()
    copied_python, copied_ask = copy / "bin" / python.name, copy / "bin" / "ask"
    copied_python.write_bytes(_with_own_library(python))
    copied_python.chmod(0o755)
    copied_ask.write_text(START.format(python=copied_python, packages=str(packages)))
    copied_ask.chmod(0o755)
    return Installation(str(copied_python), packages, str(copied_ask))


def link(source: str, target: str) -> None:
    """Create a hard link, or a copy if that fails."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _with_own_library(python: Path) -> bytes:
    """Return the interpreter, patched to look for libpython relative to itself."""
    place = str(python.parents[1] / "lib").encode() + b"\0"
    beside = b"$ORIGIN/../lib\0"
    data = python.read_bytes()
    return data.replace(place, beside.ljust(len(place), b"\0")) if len(beside) <= len(place) else data


def _list_dependencies(one: Distribution, known: frozenset[str] = frozenset()) -> Iterator[Distribution]:
    """Yield a distribution and its dependencies."""
    yield one
    for line in one.requires or ():
        name = re.split(r"[^\w.-]", line)[0]
        if "extra ==" not in line and name not in known:
            known |= {name}
            yield from _list_dependencies(distribution(name), known)


def _link_files(one: Distribution, packages: Path) -> None:
    for file in one.files or ():
        source, target = Path(str(one.locate_file(file))), packages / file
        if ".." not in file.parts and not target.exists() and source.is_file() and len(file.parts) > 1:
            target.parent.mkdir(parents=True, exist_ok=True)
            link(str(source), str(target))


@cache
def find_unprivileged_uid() -> int:
    """Return the id of an unprivileged user: one created for these tests, or the current user."""
    if os.geteuid() != 0:
        return os.geteuid()
    name = f"ask-test-{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--home-dir", "/nonexistent", name], check=True)
    atexit.register(subprocess.run, ["userdel", "--force", name], check=True)
    output = subprocess.run(["id", "-u", name], check=True, capture_output=True, text=True)
    return int(output.stdout)


def as_user(user: str) -> list[str]:
    """Return the prefix that runs a command as the user."""
    if user == "root" or os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={find_unprivileged_uid()}", f"--regid={find_unprivileged_uid()}", "--clear-groups"]
