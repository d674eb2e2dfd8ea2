"""How ask was installed: the command that adds an optional package, and the launcher that belongs on PATH.

pipx and `uv tool` install ask into an environment of its own, where the shell's `pip` does not install, and link the
program into the user's `bin` folder.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask import __distribution__
from ask.errors import MissingDependencyError
from ask.parsing import parse_json, read_dict, read_list, read_str

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_QUOTE_REMOVAL = str.maketrans("", "", "\"' ")


def format_install_command(extra: str) -> str:
    """Return the shell command that adds an extra's packages to this installation."""
    from importlib.metadata import distribution
    from importlib.util import find_spec

    prefix, ask_distribution = Path(sys.prefix), distribution(__distribution__)
    if (prefix / "pipx_metadata.json").exists():
        return shlex.join(["pipx", "inject", prefix.name, *_find_extra_requirements(ask_distribution, extra)])
    if requirements := read_list(_read_uv_receipt(prefix).get("requirements")):
        return shlex.join(["uv", "tool", "install", *_format_uv_arguments(requirements, ask_distribution, extra)])
    installer = ["-m", "pip", "install"]
    installer = [sys.executable, *installer] if find_spec("pip") else ["uv", *installer[1:], "--python", sys.executable]
    return shlex.join([*installer, *_format_requirement(ask_distribution, [extra])])


def require_package(package: str, extra: str, purpose: str) -> None:
    """Check that a package of an extra is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingDependencyError(
            f"{purpose} needs the package {package}", f"{format_install_command(extra)} installs it"
        )


def _find_extra_requirements(ask_distribution: Distribution, extra: str) -> list[str]:
    """Return the requirements of an extra, without their markers."""
    requirements = [requirement.partition(";") for requirement in ask_distribution.requires or ()]
    return [name.strip() for name, _, marker in requirements if f"extra=={extra}" in marker.translate(_QUOTE_REMOVAL)]


def _read_uv_receipt(prefix: Path) -> dict[str, Any]:
    """Read the receipt of a `uv tool` environment; {} if the folder is not one."""
    import tomllib

    try:
        return read_dict(tomllib.loads((prefix / "uv-receipt.toml").read_text()).get("tool"))
    except (OSError, ValueError):
        return {}


def _format_uv_arguments(requirements: Iterable[Any], ask_distribution: Distribution, extra: str) -> list[str]:
    """Return the arguments of `uv tool install`. It removes every package that is not listed again."""
    from importlib.metadata import PackageNotFoundError, distribution

    arguments: list[str] = []
    for table in map(read_dict, requirements):
        name, extras, version = table.get("name"), read_list(table.get("extras")), read_str(table.get("specifier"))
        if name == __distribution__:
            arguments = [*_format_requirement(ask_distribution, dict.fromkeys([*extras, extra]), version), *arguments]
            continue
        with suppress(PackageNotFoundError, ValueError):
            *editable, requirement = _format_requirement(distribution(read_str(name)), extras, version)
            arguments += ["--with-editable" if editable else "--with", requirement]
    return arguments


def _format_requirement(package: Distribution, extras: Iterable[str], version: str = "") -> list[str]:
    """Return the requirement that reinstalls a package, after `--editable` if it is editable.

    The origin is in `direct_url.json`: https://packaging.python.org/specifications/direct-url-data-structure
    """
    from urllib.parse import unquote, urlsplit

    origin = read_dict(parse_json(package.read_text("direct_url.json") or ""))
    extras_suffix = f"[{','.join(map(str, extras))}]" if extras else ""
    name, url = package.metadata["Name"], read_str(origin.get("url"))
    if "dir_info" in origin:
        is_editable = read_dict(origin["dir_info"]).get("editable") is True
        return [*(["--editable"] if is_editable else []), unquote(urlsplit(url).path) + extras_suffix]
    if vcs_info := read_dict(origin.get("vcs_info")):
        url = f"{vcs_info.get('vcs')}+{url}@{vcs_info.get('requested_revision') or vcs_info.get('commit_id')}"
    if subdirectory := read_str(origin.get("subdirectory")):
        url = f"{url}#subdirectory={subdirectory}"
    return [f"{name}{extras_suffix} @ {url}" if url else f"{name}{extras_suffix}{version}"]


def find_launcher() -> Path:
    """Return the `ask` that should be on PATH. This is the script itself, or the link to it from pipx or `uv tool`."""
    import sysconfig

    scripts = Path(sysconfig.get_path("scripts"))
    launcher = Path(os.path.abspath(sys.argv[0]))
    if launcher.name != "ask":  # python -m ask
        launcher = scripts / "ask"
    if launcher.parent != scripts:
        return launcher
    entry_points = read_list(_read_uv_receipt(Path(sys.prefix)).get("entrypoints"))
    links = [Path(read_str(read_dict(entry_point).get("install-path"))) for entry_point in entry_points]
    links += [Path.home() / ".local/bin/ask", Path("/usr/local/bin/ask")]  # created by pipx
    return next((link for link in links if link.name == "ask" and link.exists() and link.samefile(launcher)), launcher)
