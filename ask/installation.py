"""How ask was installed: the command that adds an optional package, and the launcher that belongs on PATH.

pipx and `uv tool` install ask into an environment of its own, where the shell's `pip` does not install, and link the
program into the user's `bin` folder.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

from ask.version import DISTRIBUTION


def format_install_command(extra: str) -> str:
    """Return the shell command that adds an extra's packages to this installation."""
    from importlib.metadata import requires
    from importlib.util import find_spec

    marker = re.compile(rf"; *extra *== *['\"]{extra}['\"]")
    requirements = [text.partition(";")[0].strip() for text in requires(DISTRIBUTION) or () if marker.search(text)]
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        command = ["pipx", "inject", prefix.name]
    elif find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install"]
    else:  # as in environments made by uv
        command = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*command, *requirements])


def find_launcher() -> Path:
    """Return the `ask` that should be on PATH. This is the script itself, or the link to it from pipx or `uv tool`."""
    import sysconfig
    import tomllib

    scripts = Path(sysconfig.get_path("scripts"))
    launcher = Path(os.path.abspath(sys.argv[0]))
    if launcher.name != "ask":  # python -m ask
        launcher = scripts / "ask"
    if launcher.parent != scripts:
        return launcher
    links = [Path.home() / ".local/bin/ask", Path("/usr/local/bin/ask")]  # created by pipx
    try:
        receipt = tomllib.loads((Path(sys.prefix) / "uv-receipt.toml").read_text())
        links += [Path(entry_point["install-path"]) for entry_point in receipt["tool"]["entrypoints"]]
    except (OSError, ValueError, KeyError):
        pass  # not installed by uv
    return next((link for link in links if link.name == "ask" and link.exists() and link.samefile(launcher)), launcher)
