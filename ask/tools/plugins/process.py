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

from ask.tools.process_tree import end_all
from ask.worker_channel import READ_SIZE, Channel, WorkerLost

START = "import sys; from ask.tools.plugins.worker import main; main(*map(int, sys.argv[1:]))"
MARK = "ASK_TOOL_PROCESS"
"""The variable by which all that a plugin starts is known."""
MOST_LEFT = 16
"""How many pieces of output are still taken when a call is over: a thread in there may never stop."""
PATIENCE = 1.0
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
        its_requests, requests = self._pipe()
        replies, its_replies = self._pipe()
        self._output, its_output = self._pipe()
        command = [sys.executable, "-P", "-X", "utf8", "-c", START, str(its_requests), str(its_replies)]
        try:
            self._process = Popen(
                command,
                stdin=DEVNULL,
                stdout=its_output,
                stderr=STDOUT,
                pass_fds=(its_requests, its_replies),
                cwd=directory,
                env={**environment, MARK: f"{environment.get(MARK, '')} {self._mark}".strip()},
                start_new_session=True,  # Ctrl-C is ask's to handle
            )
        except BaseException:
            self._close()
            raise
        for descriptor in (its_requests, its_replies, its_output):
            self._descriptors.remove(descriptor)
            os.close(descriptor)
        os.set_blocking(self._output, False)
        self._channel = Channel(requests, replies)

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def exchange(
        self, kind: bytes, message: Mapping[str, object], deadline: float, show: Callable[[str], None]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame and give what comes back, until the caller has enough; `show` takes what is printed meanwhile.

        Raises:
            WorkerLost: it has ended, or sends what is no frame; the text tells how.
            WorkerLate: the deadline, on the monotonic clock, has come.
        """
        beside = {self._output: lambda: self._pass_on(show) is not None}  # None: it has closed its own
        try:
            yield from self._channel.exchange(kind, json.dumps(message).encode(), deadline, beside)
        except WorkerLost as lost:
            raise lost if lost.args else WorkerLost(self._how_it_ended()) from None

    def _pass_on(self, show: Callable[[str], None]) -> bool | None:
        """Show what was printed; whether there was anything, None where there will be nothing any more."""
        try:
            data = os.read(self._output, READ_SIZE)
        except BlockingIOError:
            return False
        text = self._decode(data)
        if text:
            show(text)
        return True if data else None

    def finish_output(self, show: Callable[[str], None]) -> None:
        """Show the last of what was printed."""
        for _ in range(MOST_LEFT):
            if not self._pass_on(show):
                return

    def _how_it_ended(self) -> str:
        from subprocess import TimeoutExpired

        try:
            code = self._process.wait(PATIENCE)
        except TimeoutExpired:
            return "it closed its channel"
        return f"killed by signal {-code}: {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"

    def let_go(self) -> None:
        """Have it end by itself, now that nothing is asked of it any more, and then end what is left."""
        from subprocess import TimeoutExpired

        try:
            self._close()
            with suppress(TimeoutExpired):
                self._process.wait(PATIENCE)
        finally:
            self.end()

    def end(self) -> None:
        """End it, and all that it started."""
        from subprocess import TimeoutExpired

        # Once it is reaped its number may be another's.
        session = self._process.pid if self._process.returncode is None else None
        try:
            end_all(session, self._mark)
        finally:
            self._close()
            with suppress(TimeoutExpired):  # one that hangs in the kernel cannot be waited for
                self._process.wait(PATIENCE)
