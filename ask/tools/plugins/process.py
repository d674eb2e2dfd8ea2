"""The client side of a plugin's process: starts it, exchanges frames with a deadline, and kills all it started."""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ask.tools.process_tree import describe_exit, kill_process_tree, mark_environment
from ask.worker_channel import READ_SIZE, WorkerChannel, WorkerDiedError

WORKER_CODE = "from ask.tools.plugins.worker import main; main()"
MAX_FINAL_READS = 16
"""Maximum number of reads after a call has ended: a thread in the plugin may never stop printing."""
MAX_REPLY_SIZE = 1 << 28
EXIT_TIMEOUT = 1.0
"""Seconds that a process gets to exit by itself once it is no longer needed."""


class PluginProcess:
    """The process of a plugin.

    Requests go to its stdin and replies come from its stdout; the worker makes stderr the output of the plugin.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        from subprocess import PIPE, Popen

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        env, self._mark = mark_environment(environment)
        self._process = Popen(
            [sys.executable, "-P", "-X", "utf8", "-c", WORKER_CODE],
            bufsize=0,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=directory,
            env=env,
            start_new_session=True,  # ask itself handles Ctrl-C
        )
        self._pipes = [pipe for pipe in (self._process.stdin, self._process.stdout, self._process.stderr) if pipe]
        requests, replies, self._output = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._output, False)
        self._channel = WorkerChannel(requests, replies, MAX_REPLY_SIZE)

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
        self._wait_for_exit()
        code = self._process.returncode
        return "it closed its channel" if code is None else describe_exit(code)

    def _wait_for_exit(self) -> None:
        from subprocess import TimeoutExpired

        with suppress(TimeoutExpired):
            self._process.wait(EXIT_TIMEOUT)

    def shut_down(self) -> None:
        """Close the channel, let the process exit by itself, then kill what is left."""
        try:
            self._close_pipes()
            self._wait_for_exit()
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill the process and all processes it started."""
        # After the process is reaped, its id may belong to another process.
        session = self._process.pid if self._process.returncode is None else None
        try:
            kill_process_tree(session, self._mark)
        finally:
            self._close_pipes()
            self._wait_for_exit()  # not forever: a process stuck in the kernel never exits

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()
