"""Checks of the program itself: versions, packages, and which `ask` a shell finds."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, PROBLEM, WARNING, Finding
from ask.installation import find_launcher, format_install_command
from ask.version import DISTRIBUTION, VERSION

REQUIREMENT = re.compile(r"""([\w.-]+)[^;]*(?:;.*extra == ["'](\w+)["'])?""")
"""The name of a package that is required, and the extra that requires it."""


def check_versions(_: Workspace) -> Iterator[Finding]:
    """The versions of what a report of a fault should name."""
    import platform
    import sqlite3

    yield Finding(OK, "ask", f"{VERSION}, in {Path(__file__).parents[2]}")
    yield Finding(OK, "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    except sqlite3.Error:
        fix = "use a Python whose SQLite has it"
        yield Finding(PROBLEM, "sqlite", f"{sqlite3.sqlite_version} has no full text search (FTS5)", fix)
    else:
        yield Finding(OK, "sqlite", sqlite3.sqlite_version)
    finally:
        connection.close()


def check_program(_: Workspace) -> Iterator[Finding]:
    """Check that a shell finds this `ask`."""
    own, found = find_launcher(), shutil.which("ask")
    if found is None:
        fix = f"add {own.parent} to it"
        yield Finding(WARNING, "PATH", "there is no ask in the folders of PATH", fix)
    elif own.exists() and not Path(found).samefile(own):
        yield Finding(WARNING, "PATH", f"ask is {found}, and this one is {own}", "put the folder of yours first")
    else:
        yield Finding(OK, "PATH", f"ask is {found}")


def check_packages(_: Workspace) -> Iterator[Finding]:
    """The packages that it works with."""
    from importlib.metadata import requires

    asked = [match.groups() for match in map(REQUIREMENT.match, requires(DISTRIBUTION) or ()) if match]
    needed, web = (versions(name for name, extra in asked if extra == wanted) for wanted in (None, "web"))
    missing = [name for name, found in needed.items() if not found]
    if missing:
        yield Finding(PROBLEM, "packages", f"missing: {', '.join(missing)}", "install ask again")
    else:
        yield Finding(OK, "packages", ", ".join(f"{name} {found}" for name, found in needed.items()))
    if all(web.values()):
        yield Finding(OK, "web pages", "read with the extra web: tables too")
    else:
        yield Finding(OK, "web pages", "read without tables", f"{format_install_command('web')} reads these too")


def versions(names: Iterable[str]) -> dict[str, str]:
    """The installed version of each distribution; "" where it is missing."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found
