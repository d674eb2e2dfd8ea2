"""The process that a plugin lives in: loads its tools, tells of them, and carries out calls, one after the other.

What anything in here prints goes to a pipe that ask reads. It ends when ask does.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ask.tools.base import Tool, ToolContext, ToolError
from ask.tools.plugins.functions import to_tool_result
from ask.tools.plugins.loader import ToolTarget, format_plugin_error, load_tools
from ask.worker_channel import DONE, READY, TEXT, FrameReader, encode_frame

CHUNK_SIZE = 1 << 18
"""Characters of a result in one frame."""
MAX_CALL_SIZE = 1 << 28
READ_SIZE = 1 << 20
STDOUT_FD = 1


def main(requests_fd: int, replies_fd: int) -> None:
    """Serve until there are no more calls. The arguments are the two ends of the channel."""
    for end in (requests_fd, replies_fd):
        os.set_inheritable(end, False)
        os.register_at_fork(after_in_child=partial(close_descriptor, end))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    calls = CallQueue(requests_fd)
    start = next(calls)
    sys.path[:] = start["path"]
    tools: dict[str, Tool] = {}
    problem = ""
    try:
        tools = {tool.spec.name: tool for tool in load_tools(ToolTarget(*target) for target in start["targets"])}
    except BaseException as fault:  # noqa: BLE001 - also sys.exit, and whatever else there is
        problem = format_plugin_error(fault)
    told = [[*tool.spec[:2], dict(tool.spec.parameters), bool(tool.changes)] for tool in tools.values()]
    calls.is_busy = False
    send_frame(replies_fd, READY, json.dumps({"tools": told, "problem": problem}).encode())
    for call in calls:
        text, rest = execute_call(tools[call["tool"]], call["arguments"], make_tool_context(call))
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # whatever the plugin has put in its place
                stream.flush()
        calls.is_busy = False
        for begin in range(0, len(text), CHUNK_SIZE):
            send_frame(replies_fd, TEXT, text[begin : begin + CHUNK_SIZE].encode("utf-8", "backslashreplace"))
        send_frame(replies_fd, DONE, json.dumps(rest).encode())


def close_descriptor(descriptor: int) -> None:
    """Close it, if it is open."""
    with suppress(OSError):
        os.close(descriptor)


class CallQueue(Iterator[dict[str, Any]]):
    """What ask sends, read by a thread, so that the end of ask is heard while a call runs.

    Attributes:
        is_busy: whether a call is being carried out: its end is then not waited for.
    """

    def __init__(self, requests_fd: int) -> None:
        self.is_busy = False
        self._requests_fd = requests_fd
        self._pending: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read_requests, daemon=True).start()

    def __next__(self) -> dict[str, Any]:
        call = self._pending.get()
        if call is None:
            raise StopIteration
        return call

    def _read_requests(self) -> None:
        reader = FrameReader(MAX_CALL_SIZE)
        with suppress(OSError):
            while data := os.read(self._requests_fd, READ_SIZE):
                for _, payload in reader.feed(data):
                    self.is_busy = True
                    self._pending.put(json.loads(payload))
        if self.is_busy:
            os.killpg(0, signal.SIGKILL)
        self._pending.put(None)


def make_tool_context(call: Mapping[str, Any]) -> ToolContext:
    """What a tool may use of the run."""
    directory = Path(call["directory"])
    with suppress(OSError):  # the folder is gone, which is the tool's to find out
        os.chdir(directory)
    hosts = call["hosts"]
    return ToolContext(
        directory=directory,
        environment=dict(os.environ),
        command_timeout=call["timeout"],
        spill_directory=Path(call["spill"]),
        on_output=write_output,
        restrict_hosts=None if hosts is None else frozenset(hosts),
    )


def write_output(text: str) -> None:
    """Pass on output, after what was printed before it."""
    with suppress(Exception):
        sys.stdout.flush()
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    while data:
        data = data[os.write(STDOUT_FD, data) :]


def execute_call(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, dict[str, Any]]:
    """The text that a call came to, and whether that is an error, or the result of something that failed."""
    try:
        result = to_tool_result(tool.run(arguments, context))
    except ToolError as error:
        return str(error), {"error": True}
    except SystemExit as end:
        return f"the tool called sys.exit({'' if end.code is None else end.code!r})", {"error": True}
    except BaseException as fault:  # noqa: BLE001 - nothing of it must end the process
        return f"the tool failed: {format_plugin_error(fault)}", {"error": True}
    status = result.exit_status
    rest = {"failed": bool(result.failed), "exit_status": status if type(status) is int else None}
    return str(result.text), rest


def send_frame(replies_fd: int, kind: bytes, payload: bytes) -> None:
    """Send a frame, whole."""
    data = memoryview(encode_frame(kind, payload))
    while data:
        data = data[os.write(replies_fd, data) :]
