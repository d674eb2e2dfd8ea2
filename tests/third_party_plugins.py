"""Installs third-party packages as an installer would: modules with a `*.dist-info` folder."""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tests.program import run

ROOT = Path(__file__).parents[1]

CHAT_PROVIDER = """
from ask import ChatCompletions
provider = ChatCompletions(name="{name}", base_url="http://127.0.0.1:9/v1", needs_key=False, default_model="{name}-1")
"""


def install(
    folder: Path,
    distribution: str,
    entry_points: Mapping[str, str],
    modules: Mapping[str, str],
    group: str = "ask.providers",
) -> Path:
    """Install a distribution in a folder; return the folder, to be added to PYTHONPATH.

    The folder may contain other distributions. `entry_points` maps names to "module:attribute", `modules` maps names to
    source. Use the group "ask.tools" for tools.
    """
    lines = [f"{name} = {target}" for name, target in entry_points.items()]
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(dedent(source))
    return folder


def install_provider(folder: Path, name: str, source: str = "", attribute: str = ":provider") -> Path:
    """Install the distribution `ask-NAME` with a provider in the module `ask_NAME`, by default a working one."""
    module = f"ask_{name}"
    return install(
        folder, f"ask-{name}", {name: module + attribute}, {module: source or CHAT_PROVIDER.format(name=name)}
    )


def install_tools(folder: Path, name: str, source: str, attribute: str = "") -> Path:
    """Install the distribution `ask-NAME` with the tools of the module `ask_NAME`, or its attribute."""
    module = f"ask_{name}"
    return install(folder, f"ask-{name}", {name: module + attribute}, {module: source}, "ask.tools")


def install_example(folder: Path, name: str) -> Path:
    """Install one of the examples with pip from a copy of its source; return the folder for PYTHONPATH.

    Processes that pass the same folder share one installation.
    """
    site, source = folder / f"{name}-site", folder / f"{name}-source"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not site.exists():
            shutil.copytree(ROOT / "examples" / name, source)
            options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
            command = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(source)]
            installed = run(command, timeout=120)
            assert installed.code == 0, installed.stderr
    return site
