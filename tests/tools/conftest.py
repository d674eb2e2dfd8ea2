"""Fixtures for the tool tests: a run's context, and a process without privileges."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ask.tools.base import RunToolContext, Tool, ToolError

ROOT = Path(__file__).parents[2]
NOBODY = 65534

Run = Callable[..., str]
"""Runs a tool with named arguments, in the directory `work`."""
Unprivileged = Callable[[str, dict[str, object]], str]

# Import everything before dropping privileges: the user nobody may not be able to read the interpreter's folder.
UNPRIVILEGED = """
import ask.tools.files, difflib, os, sys
from pathlib import Path
from ask.tools.base import RunToolContext, ToolError; from ask.tools.definitions import BUILTIN_TOOLS
tools = {{tool.spec.name: tool for tool in BUILTIN_TOOLS}}
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
folder = Path(sys.argv[1])
context = RunToolContext(folder, os.environ, 10, folder / "spill", lambda text: None)
try:
    print(tools[sys.argv[2]].run(eval(sys.argv[3]), context).text)
except ToolError as error:
    print("ToolError:", error)
"""


@pytest.fixture
def command_output() -> list[str]:
    """Output that commands reported while they were running."""
    return []


@pytest.fixture
def context(tmp_path: Path, command_output: list[str]) -> RunToolContext:
    work = tmp_path / "work"
    work.mkdir()
    return RunToolContext(work, dict(os.environ), 20, tmp_path / "data" / "spill", command_output.append)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter and read, unlike pytest's own."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def unprivileged(public_folder: Path) -> Unprivileged:
    """Run a tool as a user without privileges in the public folder, and return its result."""

    def run(tool: str, arguments: dict[str, object]) -> str:
        code = UNPRIVILEGED.format(nobody=NOBODY)
        command = [sys.executable, "-c", code, str(public_folder), tool, repr(arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.strip()

    return run


@pytest.fixture
def work(context: RunToolContext) -> Path:
    return context.directory


@pytest.fixture
def run(context: RunToolContext) -> Run:
    def call(tool: Tool, **arguments: object) -> str:
        return tool.run(arguments, context).text

    return call


@pytest.fixture
def refusal(run: Run) -> Run:
    def call(tool: Tool, **arguments: object) -> str:
        with pytest.raises(ToolError) as caught:
            run(tool, **arguments)
        return str(caught.value)

    return call
