"""The worker process of a plugin: loads its tools, reports them, and runs calls one at a time.

Output of the plugin goes to a pipe that ask reads. The worker exits when ask does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ask.process.worker_channel import DONE, READY, read_frames, write_frame
from ask.tools.base import Tool, ToolContext, ToolError
from ask.tools.plugins.functions import to_tool_result
from ask.tools.plugins.tool_loading import ExplainedError, ToolTarget, format_plugin_error, load_tools

UNEXPECTED_ERROR_PREFIX = "the tool failed: "
"""The beginning of a result for any exception other than `ToolError`."""
STDIN_FD, STDOUT_FD, STDERR_FD = 0, 1, 2


def main() -> None:
    """Serve calls until the request pipe is closed."""
    # Descriptors that child processes do not inherit; the plugin gets an empty stdin, and stderr for all its output.
    requests_fd, replies_fd = os.dup(STDIN_FD), os.dup(STDOUT_FD)
    os.dup2(os.open(os.devnull, os.O_RDONLY), STDIN_FD)
    os.dup2(STDERR_FD, STDOUT_FD)
    for descriptor in (requests_fd, replies_fd):
        os.register_at_fork(after_in_child=partial(os.closerange, descriptor, descriptor + 1))  # ignores errors
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    is_busy = threading.Event()
    is_busy.set()  # until the plugin is loaded
    threading.Thread(target=_kill_when_abandoned, args=(requests_fd, is_busy), daemon=True).start()
    messages = (json.loads(payload) for _, payload in read_frames(requests_fd))
    settings = next(messages)
    sys.path[:] = settings["path"]
    tools: dict[str, Tool] = {}
    problem, skipped = "", list[str]()
    targets = [ToolTarget(*target) for target in settings["targets"]]
    try:
        valid, problems = load_tools(targets)
        tools, skipped = {tool.spec.name: tool for tool in valid}, [*map(str, problems)]
    except BaseException as error:  # noqa: BLE001 - sys.exit and everything else
        problem = format_plugin_error(error)
        if targets[0].distribution and not isinstance(error, ExplainedError):
            problem += f"; report it to the authors of {targets[0].distribution}, or uninstall it"
    specs = [[*tool.spec[:2], dict(tool.spec.parameters), bool(tool.has_side_effects)] for tool in tools.values()]
    is_busy.clear()
    write_frame(replies_fd, READY, json.dumps({"tools": specs, "problem": problem, "skipped": skipped}).encode())
    pid = os.getpid()
    for call in messages:
        is_busy.set()
        outcome = _execute_call(tools[call["tool"]], call["arguments"], _make_tool_context(call))
        if os.getpid() != pid:  # a child that the plugin forked has returned, too
            os._exit(os.EX_OK)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the plugin may have replaced it
                stream.flush()
        is_busy.clear()
        write_frame(replies_fd, DONE, json.dumps(outcome).encode())


def _kill_when_abandoned(requests_fd: int, is_busy: threading.Event) -> None:
    """Wait until ask closes the request pipe; if a call is running then, kill the process group."""
    poll = select.poll()
    poll.register(requests_fd, select.POLLHUP)
    poll.poll()
    is_busy.wait()  # without a call, `main` ends at the end of the requests, and this thread with it
    os.killpg(0, signal.SIGKILL)


def _make_tool_context(call: Mapping[str, Any]) -> ToolContext:
    """Create the context of a call and change to its directory."""
    directory = Path(call["directory"])
    with suppress(OSError):  # the folder may be gone; the tool will report that
        os.chdir(directory)
    return ToolContext(
        directory=directory,
        environment=dict(os.environ),
        command_timeout=call["timeout"],
        overflow_directory=Path(call["overflow_directory"]),
        on_output=_write_output,
    )


def _write_output(text: str) -> None:
    """Write output to stdout, after flushing what was printed before."""
    with suppress(Exception):  # the plugin may have replaced it
        sys.stdout.flush()
    with open(STDOUT_FD, "wb", closefd=False) as output:
        output.write(text.encode("utf-8", "backslashreplace"))


def _execute_call(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    """Run a call; return its text and files, and whether it raised an error or reported a failure."""
    try:
        result = to_tool_result(tool.run(arguments, context))
    except ToolError as error:
        return {"text": str(error), "is_error": True}
    except BaseException as error:  # noqa: BLE001 - no tool may end the process
        return {"text": f"{UNEXPECTED_ERROR_PREFIX}{format_plugin_error(error)}", "is_error": True}
    status = result.exit_status
    return {
        "text": str(result.text),
        "is_error": False,
        "failed": bool(result.failed),
        "exit_status": status if type(status) is int else None,
        "attachments": [[str(file.name), file.base64] for file in result.attachments],
    }
