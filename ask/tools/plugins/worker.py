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
from ask.tools.plugins.functions import as_result
from ask.tools.plugins.loader import Target, load, reason
from ask.worker_channel import DONE, READY, TEXT, FrameReader, encode

PIECE = 1 << 18
"""Characters of a result in one frame."""
LARGEST_CALL = 1 << 28
READ_SIZE = 1 << 20
OUTPUT = 1


def main(requests: int, replies: int) -> None:
    """Serve until there are no more calls. The arguments are the two ends of the channel."""
    for end in (requests, replies):
        os.set_inheritable(end, False)
        os.register_at_fork(after_in_child=partial(close, end))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    calls = Calls(requests)
    start = next(calls)
    sys.path[:] = start["path"]
    tools: dict[str, Tool] = {}
    problem = ""
    try:
        tools = {tool.spec.name: tool for tool in load(Target(*target) for target in start["targets"])}
    except BaseException as fault:  # noqa: BLE001 - also sys.exit, and whatever else there is
        problem = reason(fault)
    told = [[*tool.spec[:2], dict(tool.spec.parameters), bool(tool.changes)] for tool in tools.values()]
    calls.busy = False
    send(replies, READY, json.dumps({"tools": told, "problem": problem}).encode())
    for call in calls:
        text, rest = carry_out(tools[call["tool"]], call["arguments"], context_of(call))
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # whatever the plugin has put in its place
                stream.flush()
        calls.busy = False
        for begin in range(0, len(text), PIECE):
            send(replies, TEXT, text[begin : begin + PIECE].encode("utf-8", "backslashreplace"))
        send(replies, DONE, json.dumps(rest).encode())


def close(descriptor: int) -> None:
    """Close it, if it is open."""
    with suppress(OSError):
        os.close(descriptor)


class Calls(Iterator[dict[str, Any]]):
    """What ask sends, read by a thread, so that the end of ask is heard while a call runs.

    Attributes:
        busy: whether a call is being carried out: its end is then not waited for.
    """

    def __init__(self, requests: int) -> None:
        self.busy = False
        self._requests = requests
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def __next__(self) -> dict[str, Any]:
        call = self._waiting.get()
        if call is None:
            raise StopIteration
        return call

    def _read(self) -> None:
        reader = FrameReader(LARGEST_CALL)
        with suppress(OSError):
            while data := os.read(self._requests, READ_SIZE):
                for _, payload in reader.feed(data):
                    self.busy = True
                    self._waiting.put(json.loads(payload))
        if self.busy:
            os.killpg(0, signal.SIGKILL)
        self._waiting.put(None)


def context_of(call: Mapping[str, Any]) -> ToolContext:
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
        on_output=show,
        restrict_hosts=None if hosts is None else frozenset(hosts),
    )


def show(text: str) -> None:
    """Pass on output, after what was printed before it."""
    with suppress(Exception):
        sys.stdout.flush()
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    while data:
        data = data[os.write(OUTPUT, data) :]


def carry_out(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> tuple[str, dict[str, Any]]:
    """The text that a call came to, and whether that is an error, or the result of something that failed."""
    try:
        result = as_result(tool.run(arguments, context))
    except ToolError as error:
        return str(error), {"error": True}
    except SystemExit as end:
        return f"the tool called sys.exit({'' if end.code is None else end.code!r})", {"error": True}
    except BaseException as fault:  # noqa: BLE001 - nothing of it must end the process
        return f"the tool failed: {reason(fault)}", {"error": True}
    status = result.exit_status
    rest = {"failed": bool(result.failed), "exit_status": status if type(status) is int else None}
    return str(result.text), rest


def send(replies: int, kind: bytes, payload: bytes) -> None:
    """Send a frame, whole."""
    data = memoryview(encode(kind, payload))
    while data:
        data = data[os.write(replies, data) :]
