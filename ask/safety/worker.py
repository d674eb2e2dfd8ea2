"""The part of ask that runs inside the sandbox, as its process 1, and carries out calls with ask's own tools.

Nothing that it says is believed outside. It starts on `python -I -S`, and loads the tools after the self-test, since
ask sends no question before it knows what was found, and no call before there is an answer.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from io import RawIOBase
from pathlib import Path
from typing import Any

from ask import worker_channel
from ask.safety.self_test import clean_up_self_test, run_self_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ask.safety.limit_monitor import LimitMonitor
    from ask.safety.sandbox_config import Limits
    from ask.tools.base import Tool, ToolContext

_REQUESTS_FD, _REPLIES_FD, _STDERR_FD = 0, 1, 2
_MAX_CALL_SIZE = 1 << 28
_READ_SIZE = 1 << 20
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_KILLED_NOTE = "[what still ran was ended: in safe mode nothing outlives its call]"
_TRUNCATED_NOTE = "\n[more output is not shown]\n"


def main() -> None:
    """Serve calls until there are no more."""
    _protect_memory()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # ask has some blocked as it starts this
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so that no call can send it: process 1 gets what it handles only
    requests, replies = _isolate_channel()
    asked = _read_frames(requests)
    start = json.loads(next(asked)[1])
    send = _FrameSender(replies)
    send(worker_channel.READY, json.dumps(run_self_test(start["tasks"])).encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDERR_FD)
    os.close(null)
    _serve_calls(start, (json.loads(payload) for _, payload in asked), send)


def _serve_calls(start_message: Mapping[str, Any], calls: Iterator[Any], send_frame: _FrameSender) -> None:
    from ask.safety.limit_monitor import LimitMonitor, set_limits
    from ask.safety.sandbox_config import Limits
    from ask.tools.builtin import list_builtin_tools

    limits = Limits(*start_message["limits"])
    set_limits(limits)
    watch = LimitMonitor(limits)
    tools = {tool.spec.name: tool for tool in list_builtin_tools()}
    for number, call in enumerate(calls):
        if number == 0:  # ask sends no call before it has judged
            clean_up_self_test(start_message["tasks"])
        told = _execute_call(
            tools.get(call["tool"]), call["arguments"], _make_context(start_message, call, limits, send_frame), watch
        )
        send_frame(worker_channel.DONE, json.dumps(told).encode())


def _make_context(
    start_message: Mapping[str, Any], call: Mapping[str, Any], limits: Limits, send_frame: _FrameSender
) -> ToolContext:
    from ask.safety.limit_monitor import NICENESS
    from ask.tools.base import ApprovedFile, ToolContext

    return ToolContext(
        directory=Path(start_message["directory"]),
        environment=dict(os.environ),
        command_timeout=call["timeout"],
        spill_directory=Path(start_message["spill"]),
        on_output=_OutputForwarder(send_frame, limits.output_size),
        open_spill=lambda path: _OverflowWriter(send_frame, path, limits.output_size),
        niceness=NICENESS,
        placeholders=frozenset(map(Path, start_message["placeholders"])),
        approved_file=ApprovedFile(*call["approved_file"]) if call["approved_file"] else None,
        keep_hard_links=False,  # one may lead to a file outside
    )


def _protect_memory() -> None:
    """Keep everybody else in here out of this process: its memory, its descriptors, its environment.

    Raises:
        OSError: the kernel does not do it.
    """
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("the worker cannot be closed to others")


def _isolate_channel() -> tuple[int, int]:
    """The two ends of the channel under numbers that no child inherits; everything else that is open is closed."""
    os.closerange(_STDERR_FD + 1, 1024)
    requests, replies = os.dup(_REQUESTS_FD), os.dup(_REPLIES_FD)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _REQUESTS_FD)
    os.dup2(null, _REPLIES_FD)
    os.close(null)
    return requests, replies


def _read_frames(requests_fd: int) -> Iterator[tuple[bytes, bytes]]:
    reader = worker_channel.FrameReader(_MAX_CALL_SIZE)
    while data := os.read(requests_fd, _READ_SIZE):
        yield from reader.feed(data)


def _execute_call(
    tool: Tool | None, arguments: Mapping[str, Any], context: ToolContext, monitor: LimitMonitor
) -> dict[str, Any]:
    """What became of a call, in the form in which it is told."""
    from ask.safety.limit_monitor import kill_all_processes
    from ask.tools.base import ToolError

    if tool is None:
        return {"error": "nothing was run: the sandbox does not have this tool"}
    with monitor:
        try:
            result = tool.run(arguments, context)
            told = {"text": result.text, "failed": result.failed, "exit_status": result.exit_status}
        except ToolError as error:
            told = {"error": str(error)}
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the worker
            told = {"error": f"the tool failed: {type(fault).__name__}: {fault}"}
    left = kill_all_processes()
    note = (
        f"[all of it was ended: {monitor.exceeded_limit}]" if monitor.exceeded_limit else _KILLED_NOTE if left else ""
    )
    if note:
        key = "text" if "text" in told else "error"
        text = str(told[key])
        told[key] = text + ("" if text.endswith("\n") else "\n") + note
    return told


class _FrameSender:
    """Sends frames, each whole."""

    def __init__(self, replies_fd: int) -> None:
        self._replies_fd = replies_fd

    def __call__(self, kind: bytes, payload: bytes) -> None:
        data = memoryview(worker_channel.encode_frame(kind, payload))
        while data:
            data = data[os.write(self._replies_fd, data) :]


class _OutputForwarder:
    """Takes a command's output as it comes and sends on the first of it."""

    def __init__(self, send_frame: Callable[[bytes, bytes], None], limit: int) -> None:
        self._send_frame = send_frame
        self._remaining = limit

    def __call__(self, text: str) -> None:
        if self._remaining <= 0:
            return
        piece = text.encode("utf-8", "backslashreplace")[: self._remaining]
        self._remaining -= len(piece)
        more = b"" if self._remaining else _TRUNCATED_NOTE.encode()
        self._send_frame(worker_channel.OUTPUT, piece + more)


class _OverflowWriter(RawIOBase):
    """A file that ask writes, outside; what is over the limit is not taken."""

    def __init__(self, send_frame: Callable[[bytes, bytes], None], path: Path, limit: int) -> None:
        super().__init__()
        self._send_frame = send_frame
        self._name = path.name.encode()
        self._remaining = limit
        send_frame(worker_channel.OVERFLOW_OPEN, self._name)

    def write(self, data: Any) -> int:
        """Hand on as many bytes as there is room for; return their number."""
        piece = bytes(data[: self._remaining])
        self._remaining -= len(piece)
        if piece:
            self._send_frame(worker_channel.OVERFLOW_DATA, self._name + b"\n" + piece)
        return len(piece)
