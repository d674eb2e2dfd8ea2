"""The worker: process 1 of the sandbox, which runs calls of the built-in tools.

Outside, its messages are not trusted. It runs on `python -I -S` and imports the tools only after the self-test, because
ask sends no prompt before it has the results, and there is no call before the model has answered.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ask import worker_channel
from ask.safety.self_test import clean_up_self_test, run_self_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ask.safety.limit_monitor import LimitMonitor
    from ask.tools.base import ApprovedFile, Tool, ToolContext

_REQUESTS_FD, _REPLIES_FD, _STDERR_FD = 0, 1, 2
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_MAX_CHARACTER_SIZE = 4
"""Maximum number of bytes of a character in UTF-8."""
_KILLED_NOTE = "[background processes were killed: in safe mode, no process outlives its call]"
_TRUNCATED_NOTE = b"\n[more output is not shown]\n"

FrameSender = Callable[[bytes, bytes], None]


def main() -> None:
    """Serve calls until the request pipe is closed."""
    _protect_memory()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # ask blocks some while it starts this process
    # So that no call can send it: the kernel drops signals that process 1 has no handler for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    requests, replies = _isolate_channel()
    frames = worker_channel.read_frames(requests)
    start_message = json.loads(next(frames)[1])
    send_frame = partial(worker_channel.write_frame, replies)
    send_frame(worker_channel.READY, json.dumps(run_self_test(start_message["tasks"])).encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDERR_FD)
    os.close(null)
    _serve_calls(start_message, (json.loads(payload) for _, payload in frames), send_frame)


def _serve_calls(start_message: Mapping[str, Any], calls: Iterator[Any], send_frame: FrameSender) -> None:
    from pathlib import Path

    import ask.tools.files
    import ask.tools.shell  # noqa: F401 - loaded before the first call, while ask waits for the model
    from ask.safety.limit_monitor import NICENESS, LimitMonitor, set_limits
    from ask.safety.sandbox_config import Limits
    from ask.tools.base import ToolContext
    from ask.tools.builtin import BUILTIN_TOOLS

    limits = Limits(*start_message["limits"])
    set_limits(limits)
    monitor = LimitMonitor(limits)
    tools = {tool.spec.name: tool for tool in BUILTIN_TOOLS}
    for number, call in enumerate(calls):
        if number == 0:  # ask sends the first call after it has evaluated the self-test
            clean_up_self_test(start_message["tasks"])
        context = ToolContext(
            directory=Path(start_message["directory"]),
            environment=dict(os.environ),
            command_timeout=call["timeout"],
            overflow_directory=Path(start_message["overflow_directory"]),
            on_output=_OutputForwarder(send_frame, limits.output_size),
            max_result_length=limits.output_size // _MAX_CHARACTER_SIZE,  # ask shortens it, and saves the rest
            niceness=NICENESS,
            placeholders=frozenset(map(Path, start_message["placeholders"])),
            approved_file=_parse_approved_file(call["approved_file"]),
            keep_hard_links=False,  # another name of the file may be outside the writable folders
        )
        result = _execute_call(tools.get(call["tool"]), call["arguments"], context, monitor)
        send_frame(worker_channel.DONE, json.dumps(result).encode())


def _parse_approved_file(fields: Sequence[Any] | None) -> ApprovedFile | None:
    from ask.tools.base import ApprovedFile

    if fields is None:
        return None
    path, ids, digest = fields
    return ApprovedFile(path, tuple(ids), digest)


def _protect_memory() -> None:
    """Prevent other processes in the sandbox from reading this one's memory, descriptors and environment.

    Raises:
        OSError: the kernel refuses.
    """
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("cannot protect the worker from other processes")


def _isolate_channel() -> tuple[int, int]:
    """Move the pipes to descriptors that children do not inherit, and close all others."""
    os.closerange(_STDERR_FD + 1, 1024)
    requests, replies = os.dup(_REQUESTS_FD), os.dup(_REPLIES_FD)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _REQUESTS_FD)
    os.dup2(null, _REPLIES_FD)
    os.close(null)
    return requests, replies


def _execute_call(
    tool: Tool | None, arguments: Mapping[str, Any], context: ToolContext, monitor: LimitMonitor
) -> dict[str, Any]:
    """Run a call and return the result message, a text or an error."""
    from ask.safety.limit_monitor import kill_all_processes
    from ask.tools.base import ToolError

    if tool is None:
        return {"error": "nothing was run: the sandbox does not have this tool"}
    with monitor:
        try:
            result = tool.run(arguments, context)
            message = {"text": result.text, "failed": result.failed, "exit_status": result.exit_status}
        except ToolError as error:
            message = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - a bug in a tool must not end the worker
            message = {"error": f"the tool failed: {type(error).__name__}: {error}"}
    note = _KILLED_NOTE if kill_all_processes() else ""
    if monitor.exceeded_limit:
        note = f"[the command and its children were killed: {monitor.exceeded_limit}]"
    if note:
        key = "text" if "text" in message else "error"
        message[key] = str(message[key]).removesuffix("\n") + f"\n{note}"
    return message


class _OutputForwarder:
    """Forwards the output of a command while it runs, up to a limit in bytes."""

    def __init__(self, send_frame: FrameSender, limit: int) -> None:
        self._send_frame = send_frame
        self._remaining = limit

    def __call__(self, text: str) -> None:
        if self._remaining > 0:
            data = text.encode("utf-8", "backslashreplace")[: self._remaining]
            self._remaining -= len(data)
            self._send_frame(worker_channel.OUTPUT, data if self._remaining else data + _TRUNCATED_NOTE)
