"""The client side of a plugin's process: starts it, exchanges frames with a deadline, and kills all it started."""

from __future__ import annotations

import codecs
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ask.tools.process_tree import kill_process_tree
from ask.worker_channel import READ_SIZE, WorkerChannel, WorkerDiedError

WORKER_CODE = "import sys; from ask.tools.plugins.worker import main; main(*map(int, sys.argv[1:]))"
MARK_VARIABLE = "ASK_TOOL_PROCESS"
"""Environment variable that marks all processes a plugin starts."""
MAX_FINAL_READS = 16
"""Maximum number of reads after a call has ended: a thread in the plugin may never stop printing."""
EXIT_TIMEOUT = 1.0
"""Seconds that a process gets to exit by itself once it is no longer needed."""


class PluginProcess:
    """The process of a plugin.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        from subprocess import DEVNULL, STDOUT, Popen

        self._mark = os.urandom(16).hex()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._descriptors: list[int] = []
        child_requests, requests = self._create_pipe()
        replies, child_replies = self._create_pipe()
        self._output, child_output = self._create_pipe()
        command = [sys.executable, "-P", "-X", "utf8", "-c", WORKER_CODE, str(child_requests), str(child_replies)]
        try:
            self._process = Popen(
                command,
                stdin=DEVNULL,
                stdout=child_output,
                stderr=STDOUT,
                pass_fds=(child_requests, child_replies),
                cwd=directory,
                env={**environment, MARK_VARIABLE: f"{environment.get(MARK_VARIABLE, '')} {self._mark}".strip()},
                start_new_session=True,  # ask itself handles Ctrl-C
            )
        except BaseException:
            self._close_descriptors()
            raise
        for descriptor in (child_requests, child_replies, child_output):
            self._descriptors.remove(descriptor)
            os.close(descriptor)
        os.set_blocking(self._output, False)
        self._channel = WorkerChannel(requests, replies)

    def _create_pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _close_descriptors(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def exchange_frames(
        self, kind: bytes, message: Mapping[str, object], deadline: float, on_output: Callable[[str], None]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame and yield the replies until the caller stops.

        What the plugin prints meanwhile is passed to `on_output`.

        Raises:
            WorkerDiedError: The process has ended or sent an invalid frame; the message says which.
            WorkerTimeoutError: The deadline, on the monotonic clock, has passed.
        """
        readers = {self._output: lambda: self._forward_output(on_output) is not None}  # None: end of output
        try:
            yield from self._channel.exchange_frames(kind, json.dumps(message).encode(), deadline, readers)
        except WorkerDiedError as error:
            raise error if error.args else WorkerDiedError(self._describe_exit()) from None

    def _forward_output(self, on_output: Callable[[str], None]) -> bool | None:
        """Forward available output; return whether there was any, None at the end of the output."""
        try:
            data = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return False
        text = self._decode(data)
        if text:
            on_output(text)
        return True if data else None

    def drain_output(self, on_output: Callable[[str], None]) -> None:
        """Forward the remaining output."""
        for _ in range(MAX_FINAL_READS):
            if not self._forward_output(on_output):
                return

    def _describe_exit(self) -> str:
        from subprocess import TimeoutExpired

        try:
            code = self._process.wait(EXIT_TIMEOUT)
        except TimeoutExpired:
            return "it closed its channel"
        return f"killed by signal {-code}: {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"

    def shut_down(self) -> None:
        """Close the channel, let the process exit by itself, then kill what is left."""
        from subprocess import TimeoutExpired

        try:
            self._close_descriptors()
            with suppress(TimeoutExpired):
                self._process.wait(EXIT_TIMEOUT)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process and all processes it started."""
        from subprocess import TimeoutExpired

        # After the process is reaped, its id may belong to another process.
        session = self._process.pid if self._process.returncode is None else None
        try:
            kill_process_tree(session, self._mark)
        finally:
            self._close_descriptors()
            with suppress(TimeoutExpired):  # a process stuck in the kernel never exits
                self._process.wait(EXIT_TIMEOUT)
