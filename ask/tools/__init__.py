"""What a tool is, and the tools that come with `ask`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ask.messages import ToolSpec


class ToolError(Exception):
    """A call that could not be carried out; the text is written for the model, which gets it as the result."""


class ToolContext(NamedTuple):
    """What a tool may use of the run it works for.

    Attributes:
        directory: relative paths start here, and commands run here.
        environment: the environment of child processes, without the providers' keys.
        command_timeout: seconds that a command may take at most.
        spill_directory: where an output too long for a result is kept whole.
        on_output: takes a running command's output, as it comes.
    """

    directory: Path
    environment: Mapping[str, str]
    command_timeout: float
    spill_directory: Path
    on_output: Callable[[str], None]


class ToolResult(NamedTuple):
    """What a call gave: the text for the model, and whether it failed.

    `exit_status` is a command's, None for anything else.
    """

    text: str
    failed: bool = False
    exit_status: int | None = None


class Tool(NamedTuple):
    """A tool: what the model sees, and the function that does the work.

    Attributes:
        run: takes the arguments, which fit the specification's schema; raises `ToolError` where it cannot.
        changes: whether it runs or writes something, so that `--confirm` asks first.
        origin: the distribution it comes from.
    """

    spec: ToolSpec
    run: Callable[[Mapping[str, Any], ToolContext], ToolResult]
    changes: bool = False
    origin: str = "ask"


def builtin_tools() -> list[Tool]:
    """The tools that come with `ask`, in the order in which they are offered."""
    from ask.tools.files import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
    from ask.tools.shell import BASH

    return [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR, BASH]
