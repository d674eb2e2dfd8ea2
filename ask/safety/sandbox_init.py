"""The worker: process 1 of the sandbox, which runs calls of the built-in tools.

Outside, its messages are not trusted. It runs on `python -I -S`. Until the self-test has ended, ask sends no prompt, so
everything that loads slowly is imported after it: there is no call before the model has answered.
"""

from __future__ import annotations

import _socket
import os
import sys

from ask.process import worker_channel
from ask.safety.self_test import clean_up_self_test, decode_pairs, encode_pairs, run_self_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeAlias

    from ask.safety.limit_monitor import LimitMonitor
    from ask.tools.base import RunToolContext, Tool

    FrameSender: TypeAlias = Callable[[bytes, bytes], None]

_REQUESTS_FD, _REPLIES_FD, _STDERR_FD = 0, 1, 2
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_AF_INET, _SOCK_STREAM, _SOL_SOCKET, _SCM_RIGHTS = 2, 1, 1, 1  # Linux's numbers: `socket` takes long to import
PROXY_PORT = 3128
"""The port in the sandbox on which the proxy for commands is reached."""
_MAX_CHARACTER_BYTES = 4
"""Maximum number of bytes of a character in UTF-8."""
_MAX_ESCAPED_CHARACTER_BYTES = 12
"""The same in JSON, where it may be two escapes such as `\\ud83d`."""
_MAX_TEXT_BYTES = 4 << 20
"""Maximum number of bytes of a result, without its files."""
_KILLED_NOTE = "[background processes were killed: in safe mode, no process outlives its call]"
_TRUNCATED_NOTE = b"\n[more output is not shown]\n"


def build_python_command(statement: str) -> list[str]:
    """Build a command that runs ask's code on Python without site packages, user settings or the current folder."""
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return [python, "-I", "-S", "-B", "-X", "utf8", "-c", f"import sys; sys.path.append({root!r}); {statement}"]


def main(listener_channel: int | None = None) -> None:
    """Serve calls until the request pipe is closed.

    `listener_channel` is the descriptor of a socket that passes the listening socket of the proxy for commands to ask.
    """
    if listener_channel is not None:
        _send_listener(listener_channel)
    _protect_memory()
    requests, replies = _isolate_channel()
    frames = worker_channel.read_frames(requests)
    start_message = decode_pairs(next(frames)[1])
    worker_channel.write_frame(replies, worker_channel.READY, encode_pairs(run_self_test(start_message)))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, _STDERR_FD)
    os.close(null)
    _serve_calls(frames, replies, start_message)


def _serve_calls(frames: Iterator[tuple[bytes, bytes]], replies: int, start_message: Sequence[tuple[str, str]]) -> None:
    """Serve calls. What this needs is imported while ask waits for the model."""
    import json
    import signal
    from functools import partial
    from pathlib import Path

    import ask.tools.files
    import ask.tools.shell  # noqa: F401 - loaded before the first call
    from ask.safety.limit_monitor import NICENESS, LimitMonitor, set_limits
    from ask.safety.sandbox_config import Limits
    from ask.tools.base import ApprovedFile, RunToolContext
    from ask.tools.definitions import BUILTIN_TOOLS
    from ask.tools.hook_command import HOOK_COMMAND

    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # ask blocks some while it starts this process
    # So that no call can send it: the kernel drops signals that process 1 has no handler for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    send_frame = partial(worker_channel.write_frame, replies)
    settings = json.loads(dict(start_message)["settings"])
    limits = Limits(*settings["limits"])
    set_limits(limits)
    monitor = LimitMonitor(limits)
    tools = {tool.spec.name: tool for tool in (*BUILTIN_TOOLS, HOOK_COMMAND)}
    for number, (_, payload) in enumerate(frames):
        call = json.loads(payload)
        approved_file = None
        if call["approved_file"] is not None:
            path, ids, digest = call["approved_file"]
            approved_file = ApprovedFile(path, tuple(ids), digest)
        if number == 0:  # ask sends the first call after it has evaluated the self-test
            clean_up_self_test(start_message)
        context = RunToolContext(
            directory=Path(settings["directory"]),
            environment=dict(os.environ),
            command_timeout=call["timeout"],
            max_command_timeout=call["max_timeout"],
            overflow_directory=Path(settings["overflow_directory"]),
            on_output=_OutputForwarder(send_frame, limits.output_size),
            max_result_length=limits.output_size // _MAX_CHARACTER_BYTES,  # ask shortens it, and saves the rest
            niceness=NICENESS,
            placeholders=frozenset(map(Path, settings["placeholders"])),
            approved_file=approved_file,
            keep_hard_links=False,  # another name of the file may be outside the writable folders
            hides_files=True,
        )
        result = _execute_call(tools.get(call["tool"]), call["arguments"], context, monitor)
        send_frame(worker_channel.DONE, _encode_result(result))


def _send_listener(channel_descriptor: int) -> None:
    """Listen on the sandbox's loopback interface, and pass that socket to ask."""
    listener = _socket.socket(_AF_INET, _SOCK_STREAM)
    listener.bind(("127.0.0.1", PROXY_PORT))
    listener.listen(128)
    channel = _socket.socket(fileno=channel_descriptor)
    descriptor = listener.fileno().to_bytes(4, sys.byteorder)
    channel.sendmsg([b"L"], [(_SOL_SOCKET, _SCM_RIGHTS, descriptor)])
    channel.close()
    listener.close()


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
    tool: Tool | None, arguments: Mapping[str, Any], context: RunToolContext, monitor: LimitMonitor
) -> dict[str, Any]:
    """Run a call and return the result message, a text or an error."""
    from ask.safety.limit_monitor import kill_all_processes
    from ask.tools.base import ToolError

    if tool is None:
        return {"error": "nothing was run: the sandbox does not have this tool"}
    with monitor:
        try:
            result = tool.run(arguments, context)
            message = {
                **result._asdict(),
                "attachments": [[file.name, file.base64] for file in result.attachments],
                "diff": result.diff and result.diff._asdict(),
            }
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


def _encode_result(result: dict[str, Any]) -> bytes:
    """Encode a result, without what would exceed a frame: no call may end the sandbox by the size of its result."""
    import json

    files = result.pop("attachments", [])
    data = json.dumps(result).encode()
    if len(data) <= _MAX_TEXT_BYTES:
        return json.dumps({**result, "attachments": files}).encode() if files else data
    max_length = _MAX_TEXT_BYTES // _MAX_ESCAPED_CHARACTER_BYTES - len(_TRUNCATED_NOTE)
    shortened = {
        name: value[:max_length] + _TRUNCATED_NOTE.decode() if isinstance(value, str) else value
        for name, value in result.items()
    }
    return json.dumps(shortened).encode()


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
