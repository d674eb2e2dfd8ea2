"""The command of a hook: run by `sh`, in the sandbox in safe mode, with its input on standard input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import SEEK_END
from subprocess import Popen, TimeoutExpired
from tempfile import TemporaryFile
from typing import IO, Any

from ask.messages import ToolSpec
from ask.process.process_tree import describe_exit, kill_process_tree, mark_environment, wait_for_exit
from ask.text import format_size
from ask.tools.base import RunToolContext, Tool, ToolError, ToolResult
from ask.tools.shell import UNATTENDED_VARIABLES

NESTED_VARIABLE = "ASK_IN_HOOK"
"""Set for commands of hooks, so that an `ask` in one runs no hooks itself, which would never end."""
MAX_OUTPUT_BYTES = 1_000_000
_NOT_STARTED = (126, 127)
"""The exit statuses of a shell that could not start a program."""


def _run_hook_command(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Run `command` with `input` on stdin; return its stdout and stderr as a JSON object.

    Files rather than pipes take the output: a process that the command leaves in the background cannot block them.

    Raises:
        ToolError: the command cannot be started, takes longer than the context's time limit, or prints too much JSON.
    """
    try:
        status, stdout, stderr = _run_with_files(arguments, context)
    except (OSError, ValueError) as error:
        raise ToolError(f"it cannot be started ({getattr(error, 'strerror', None) or error})") from None
    if status in _NOT_STARTED:
        lines = stderr.strip().splitlines() or [describe_exit(status)]
        raise ToolError(f"it cannot be started ({lines[0]})")
    output = {"stdout": stdout, "stderr": stderr}
    return ToolResult(json.dumps(output), status != 0, status if status >= 0 else 128 - status)


def _run_with_files(arguments: Mapping[str, Any], context: RunToolContext) -> tuple[int, str, str]:
    """Run the command with files as its standard streams; return its exit status, stdout and stderr."""
    environment, mark = mark_environment({**context.environment, **UNATTENDED_VARIABLES, NESTED_VARIABLE: "1"})
    with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
        stdin.write(arguments["input"].encode("utf-8", "replace"))
        stdin.seek(0)
        process = None
        try:
            process = Popen(
                ["sh", "-c", "--", arguments["command"]],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=context.directory,
                env=environment,
                start_new_session=True,
            )
            status = process.wait(context.command_timeout)
        except BaseException as error:
            kill_process_tree(process.pid if process else None, mark)
            if process:
                wait_for_exit(process)
            if isinstance(error, TimeoutExpired):
                raise ToolError(f"it timed out after {context.command_timeout:g} s") from None
            raise
        return status, _read_output(stdout), _read_output(stderr)


def _read_output(file: IO[bytes]) -> str:
    """Return what a file has collected, without a byte order mark.

    Raises:
        ToolError: it is a JSON object of which the decision may be in the part that would not be read.
    """
    size = file.seek(0, SEEK_END)
    file.seek(0)
    text = file.read(MAX_OUTPUT_BYTES).decode("utf-8-sig", "replace")
    if size > MAX_OUTPUT_BYTES and text.lstrip().startswith("{"):
        raise ToolError(f"it printed more than {format_size(MAX_OUTPUT_BYTES)} of JSON")
    return text


HOOK_COMMAND = Tool(ToolSpec("hook_command", "Run the command of a hook.", {}), _run_hook_command)
"""The tool by which the sandbox runs the commands of hooks. No model is offered it."""
