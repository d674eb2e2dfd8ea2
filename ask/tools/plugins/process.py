"""A plugin's process, seen from ask: started, spoken to within a time, and ended with all that it started."""

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
"""The variable by which all that a plugin starts is known."""
MAX_FINAL_READS = 16
"""How many pieces of output are still taken when a call is over: a thread in there may never stop."""
EXIT_TIMEOUT = 1.0
"""Seconds that a process has to end by itself when it is not needed any more."""


class PluginProcess:
    """A process for a plugin.

    Args:
        directory: where it starts.
        environment: its environment.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        from subprocess import DEVNULL, STDOUT, Popen

        self._mark = os.urandom(16).hex()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._descriptors: list[int] = []
        its_requests, requests = self._create_pipe()
        replies, its_replies = self._create_pipe()
        self._output, its_output = self._create_pipe()
        command = [sys.executable, "-P", "-X", "utf8", "-c", WORKER_CODE, str(its_requests), str(its_replies)]
        try:
            self._process = Popen(
                command,
                stdin=DEVNULL,
                stdout=its_output,
                stderr=STDOUT,
                pass_fds=(its_requests, its_replies),
                cwd=directory,
                env={**environment, MARK_VARIABLE: f"{environment.get(MARK_VARIABLE, '')} {self._mark}".strip()},
                start_new_session=True,  # Ctrl-C is ask's to handle
            )
        except BaseException:
            self._close_descriptors()
            raise
        for descriptor in (its_requests, its_replies, its_output):
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
        """Send a frame and give what comes back, until the caller has enough; `on_output` takes what is printed meanwhile.

        Raises:
            WorkerLost: it has ended, or sends what is no frame; the text tells how.
            WorkerLate: the deadline, on the monotonic clock, has come.
        """
        beside = {self._output: lambda: self._forward_output(on_output) is not None}  # None: it has closed its own
        try:
            yield from self._channel.exchange_frames(kind, json.dumps(message).encode(), deadline, beside)
        except WorkerDiedError as lost:
            raise lost if lost.args else WorkerDiedError(self._describe_exit()) from None

    def _forward_output(self, on_output: Callable[[str], None]) -> bool | None:
        """Show what was printed; whether there was anything, None where there will be nothing any more."""
        try:
            data = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return False
        text = self._decode(data)
        if text:
            on_output(text)
        return True if data else None

    def drain_output(self, on_output: Callable[[str], None]) -> None:
        """Show the last of what was printed."""
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
        """Have it end by itself, now that nothing is asked of it any more, and then end what is left."""
        from subprocess import TimeoutExpired

        try:
            self._close_descriptors()
            with suppress(TimeoutExpired):
                self._process.wait(EXIT_TIMEOUT)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, and all that it started."""
        from subprocess import TimeoutExpired

        # Once it is reaped its number may be another's.
        session = self._process.pid if self._process.returncode is None else None
        try:
            kill_process_tree(session, self._mark)
        finally:
            self._close_descriptors()
            with suppress(TimeoutExpired):  # one that hangs in the kernel cannot be waited for
                self._process.wait(EXIT_TIMEOUT)
