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
from ask.safety.self_test import attempt, tidy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ask.safety.confinement import Limits
    from ask.safety.limits import Watch
    from ask.tools.base import Tool, ToolContext

_REQUESTS, _REPLIES, _TROUBLE = 0, 1, 2
_LARGEST_CALL = 1 << 28
_READ_SIZE = 1 << 20
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_ENDED = "[what still ran was ended: in safe mode nothing outlives its call]"
_NOT_SHOWN = "\n[more output is not shown]\n"


def main() -> None:
    """Serve calls until there are no more."""
    _close_memory()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # ask has some blocked as it starts this
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # so that no call can send it: process 1 gets what it handles only
    requests, replies = _take_channel()
    asked = _read_frames(requests)
    start = json.loads(next(asked)[1])
    send = _Sender(replies)
    send(worker_channel.READY, json.dumps(attempt(start["tasks"])).encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _TROUBLE)
    os.close(null)
    _serve(start, (json.loads(payload) for _, payload in asked), send)


def _serve(start: Mapping[str, Any], calls: Iterator[Any], send: _Sender) -> None:
    from ask.safety.confinement import Limits
    from ask.safety.limits import Watch, set_limits
    from ask.tools.builtin import builtin_tools

    limits = Limits(*start["limits"])
    set_limits(limits)
    watch = Watch(limits)
    tools = {tool.spec.name: tool for tool in builtin_tools()}
    for number, call in enumerate(calls):
        if number == 0:  # ask sends no call before it has judged
            tidy(start["tasks"])
        told = _carry_out(tools.get(call["tool"]), call["arguments"], _make_context(start, call, limits, send), watch)
        send(worker_channel.DONE, json.dumps(told).encode())


def _make_context(start: Mapping[str, Any], call: Mapping[str, Any], limits: Limits, send: _Sender) -> ToolContext:
    from ask.safety.limits import NICENESS
    from ask.tools.base import ApprovedFile, ToolContext

    return ToolContext(
        directory=Path(start["directory"]),
        environment=dict(os.environ),
        command_timeout=call["timeout"],
        spill_directory=Path(start["spill"]),
        on_output=_Output(send, limits.output),
        open_spill=lambda path: _Spill(send, path, limits.output),
        niceness=NICENESS,
        placeholders=frozenset(map(Path, start["placeholders"])),
        approved_file=ApprovedFile(*call["approved_file"]) if call["approved_file"] else None,
        keep_hard_links=False,  # one may lead to a file outside
    )


def _close_memory() -> None:
    """Keep everybody else in here out of this process: its memory, its descriptors, its environment.

    Raises:
        OSError: the kernel does not do it.
    """
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError("the worker cannot be closed to others")


def _take_channel() -> tuple[int, int]:
    """The two ends of the channel under numbers that no child inherits; everything else that is open is closed."""
    os.closerange(_TROUBLE + 1, 1024)
    requests, replies = os.dup(_REQUESTS), os.dup(_REPLIES)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _REQUESTS)
    os.dup2(null, _REPLIES)
    os.close(null)
    return requests, replies


def _read_frames(requests: int) -> Iterator[tuple[bytes, bytes]]:
    reader = worker_channel.FrameReader(_LARGEST_CALL)
    while data := os.read(requests, _READ_SIZE):
        yield from reader.feed(data)


def _carry_out(tool: Tool | None, arguments: Mapping[str, Any], context: ToolContext, watch: Watch) -> dict[str, Any]:
    """What became of a call, in the form in which it is told."""
    from ask.safety.limits import end_all
    from ask.tools.base import ToolError

    if tool is None:
        return {"error": "nothing was run: the sandbox does not have this tool"}
    with watch:
        try:
            result = tool.run(arguments, context)
            told = {"text": result.text, "failed": result.failed, "exit_status": result.exit_status}
        except ToolError as error:
            told = {"error": str(error)}
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the worker
            told = {"error": f"the tool failed: {type(fault).__name__}: {fault}"}
    left = end_all()
    note = f"[all of it was ended: {watch.breach}]" if watch.breach else _ENDED if left else ""
    if note:
        key = "text" if "text" in told else "error"
        text = str(told[key])
        told[key] = text + ("" if text.endswith("\n") else "\n") + note
    return told


class _Sender:
    """Sends frames, each whole."""

    def __init__(self, replies: int) -> None:
        self._replies = replies

    def __call__(self, kind: bytes, payload: bytes) -> None:
        data = memoryview(worker_channel.encode(kind, payload))
        while data:
            data = data[os.write(self._replies, data) :]


class _Output:
    """Takes a command's output as it comes and sends on the first of it."""

    def __init__(self, send: Callable[[bytes, bytes], None], limit: int) -> None:
        self._send = send
        self._left = limit

    def __call__(self, text: str) -> None:
        if self._left <= 0:
            return
        piece = text.encode("utf-8", "backslashreplace")[: self._left]
        self._left -= len(piece)
        more = b"" if self._left else _NOT_SHOWN.encode()
        self._send(worker_channel.OUTPUT, piece + more)


class _Spill(RawIOBase):
    """A file that ask writes, outside; what is over the limit is not taken."""

    def __init__(self, send: Callable[[bytes, bytes], None], path: Path, limit: int) -> None:
        super().__init__()
        self._send = send
        self._name = path.name.encode()
        self._left = limit
        send(worker_channel.OPEN, self._name)

    def write(self, data: Any) -> int:
        """Hand on as many bytes as there is room for; return their number."""
        piece = bytes(data[: self._left])
        self._left -= len(piece)
        if piece:
            self._send(worker_channel.SPILL, self._name + b"\n" + piece)
        return len(piece)
