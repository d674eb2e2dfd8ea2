"""How ask was installed: the command that adds an optional package, and the launcher that a shell should find.

pipx and `uv tool` keep ask in an environment of its own, which the `pip` of a shell does not install into, and link
the program into a folder for users.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.parsing import as_dict, as_list, as_text
from ask.version import DISTRIBUTION

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_QUOTE_REMOVAL = str.maketrans("", "", "\"' ")


def format_install_command(extra: str) -> str:
    """Return the shell command that installs what an extra needs beside this ask."""
    from importlib.metadata import distribution
    from importlib.util import find_spec

    prefix, own = Path(sys.prefix), distribution(DISTRIBUTION)
    if (prefix / "pipx_metadata.json").exists():
        return shlex.join(["pipx", "inject", prefix.name, *find_extra_requirements(own, extra)])
    if requirements := as_list(read_uv_receipt(prefix).get("requirements")):
        return shlex.join(["uv", "tool", "install", *format_uv_arguments(requirements, own, extra)])
    installer = ["-m", "pip", "install"]
    installer = [sys.executable, *installer] if find_spec("pip") else ["uv", *installer[1:], "--python", sys.executable]
    requirement, is_editable = format_requirement(own, [extra])
    return shlex.join([*installer, *(["--editable"] if is_editable else []), requirement])


def find_extra_requirements(ask_distribution: Distribution, extra: str) -> list[str]:
    """Return what an extra requires, without the markers."""
    required = [one.partition(";") for one in ask_distribution.requires or ()]
    return [name.strip() for name, _, marker in required if f"extra=={extra}" in marker.translate(_QUOTE_REMOVAL)]


def read_uv_receipt(prefix: Path) -> dict[str, Any]:
    """Return what `uv tool` noted about its environment in this folder; {} if it is none."""
    import tomllib

    try:
        return as_dict(tomllib.loads((prefix / "uv-receipt.toml").read_text()).get("tool"))
    except (OSError, ValueError):
        return {}


def format_uv_arguments(requirements: Iterable[Any], ask_distribution: Distribution, extra: str) -> list[str]:
    """Return the arguments of `uv tool install`, which removes every package that it is not given again."""
    from importlib.metadata import PackageNotFoundError, distribution

    arguments: list[str] = []
    for table in map(as_dict, requirements):
        name, extras, version = table.get("name"), as_list(table.get("extras")), as_text(table.get("specifier"))
        if name == DISTRIBUTION:
            requirement, is_editable = format_requirement(ask_distribution, dict.fromkeys([*extras, extra]), version)
            arguments = [*(["--editable"] if is_editable else []), requirement, *arguments]
            continue
        try:
            requirement, is_editable = format_requirement(distribution(as_text(name)), extras, version)
        except (PackageNotFoundError, ValueError):
            continue
        arguments += ["--with-editable" if is_editable else "--with", requirement]
    return arguments


def format_requirement(package: Distribution, extras: Iterable[str], version: str = "") -> tuple[str, bool]:
    """Return the requirement that installs a package from where it came, and whether it is editable.

    See https://packaging.python.org/specifications/direct-url-data-structure for `direct_url.json`.
    """
    import json
    from urllib.parse import unquote, urlsplit

    try:
        origin = as_dict(json.loads(package.read_text("direct_url.json") or "{}"))
    except ValueError:
        origin = {}
    listed = f"[{','.join(map(str, extras))}]" if extras else ""
    name, url = package.metadata["Name"], as_text(origin.get("url"))
    if "dir_info" in origin:
        return unquote(urlsplit(url).path) + listed, as_dict(origin["dir_info"]).get("editable") is True
    if revision := as_dict(origin.get("vcs_info")):
        url = f"{revision.get('vcs')}+{url}@{revision.get('requested_revision') or revision.get('commit_id')}"
    if folder := as_text(origin.get("subdirectory")):
        url = f"{url}#subdirectory={folder}"
    return f"{name}{listed} @ {url}" if url else f"{name}{listed}{version}", False


def find_launcher() -> Path:
    """Return the `ask` that should be on PATH: the program itself, or the link that pipx or `uv tool` made to it."""
    import sysconfig

    scripts = Path(sysconfig.get_path("scripts"))
    own = Path(os.path.abspath(sys.argv[0]))
    if own.name != "ask":  # python -m ask
        own = scripts / "ask"
    if own.parent != scripts:
        return own
    entry_points = as_list(read_uv_receipt(Path(sys.prefix)).get("entrypoints"))
    links = [Path(as_text(as_dict(one).get("install-path"))) for one in entry_points]
    links += [Path.home() / ".local/bin/ask", Path("/usr/local/bin/ask")]  # of pipx
    return next((link for link in links if link.name == "ask" and link.exists() and link.samefile(own)), own)
