"""Python and ask as another user may run them: a copy in hard links, since a checkout may be somebody's own."""

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
"""The kinds of users that the tests can be."""
EACH_USER = [USERS[0], *(pytest.param(user, marks=pytest.mark.slow) for user in USERS[1:])]
"""The same as parameters of a test: the normal run takes the first."""


def each_user_and(common: Sequence[Any], further: Sequence[Any]) -> list[Any]:
    """Parameters of a test: all of these for the first user, for others the common ones; the normal run takes those."""
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
    """Where Python, the folder of the package `ask`, and the program `ask` are."""

    python: str
    root: Path
    ask: str


@cache
def installation(user: str) -> Installation:
    """What is installed; for another user a copy, which is gone when the tests end."""
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
    own, *others = _needed(distribution("ask-gents"))
    about = packages / "ask_gents.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(own.read_text("METADATA") or own.read_text("PKG-INFO") or "")
    (about / "entry_points.txt").write_text(own.read_text("entry_points.txt") or "")
    for one in others:
        _link_files(one, packages)
    (copy / "bin").mkdir()
    its_python, its_ask = copy / "bin" / python.name, copy / "bin" / "ask"
    its_python.write_bytes(_with_own_library(python))
    its_python.chmod(0o755)
    its_ask.write_text(START.format(python=its_python, packages=str(packages)))
    its_ask.chmod(0o755)
    return Installation(str(its_python), packages, str(its_ask))


def link(source: str, target: str) -> None:
    """A second name for a file; where that cannot be, a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _with_own_library(python: Path) -> bytes:
    """The interpreter as it looks for libpython beside itself, not where that is installed."""
    place = str(python.parents[1] / "lib").encode() + b"\0"
    beside = b"$ORIGIN/../lib\0"
    data = python.read_bytes()
    return data.replace(place, beside.ljust(len(place), b"\0")) if len(beside) <= len(place) else data


def _needed(one: Distribution, known: frozenset[str] = frozenset()) -> Iterator[Distribution]:
    """A distribution and all that it works with."""
    yield one
    for line in one.requires or ():
        name = re.split(r"[^\w.-]", line)[0]
        if "extra ==" not in line and name not in known:
            known |= {name}
            yield from _needed(distribution(name), known)


def _link_files(one: Distribution, packages: Path) -> None:
    for file in one.files or ():
        source, target = Path(str(one.locate_file(file))), packages / file
        if ".." not in file.parts and not target.exists() and source.is_file() and len(file.parts) > 1:
            target.parent.mkdir(parents=True, exist_ok=True)
            link(str(source), str(target))


@cache
def ordinary() -> int:
    """The id of a user without privileges: one made for these tests, or whoever runs them."""
    if os.geteuid() != 0:
        return os.geteuid()
    name = f"ask-test-{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--home-dir", "/nonexistent", name], check=True)
    atexit.register(subprocess.run, ["userdel", "--force", name], check=True)
    said = subprocess.run(["id", "-u", name], check=True, capture_output=True, text=True)
    return int(said.stdout)


def as_user(user: str) -> list[str]:
    """What to put before a command so that the user runs it."""
    if user == "root" or os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={ordinary()}", f"--regid={ordinary()}", "--clear-groups"]
