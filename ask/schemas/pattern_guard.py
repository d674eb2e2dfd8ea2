"""A check that regular expressions of others finish in time, made in a separate process.

A search with a pattern such as `^(a+)+$` can take years. It holds the interpreter's lock, so that neither a timeout nor
Ctrl-C could end it. A process costs 20 ms once, needs no further package, and knows the same syntax as Python's `re`.
"""

from __future__ import annotations

import atexit
import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

MAX_SEARCH_SECONDS = 0.5
"""Seconds that the searches with one pattern may take."""
# The kernel ends the process when the time is over: Python's own signal handlers would run after the search.
CHILD_CODE = f"""
import json, re, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
for line in sys.stdin.buffer:
    pattern, texts = json.loads(line)
    signal.setitimer(signal.ITIMER_REAL, {MAX_SEARCH_SECONDS})
    try:
        expression = re.compile(pattern)
        for text in texts:
            expression.search(text)
        problem = ""
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        problem = str(error) or type(error).__name__
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(problem), flush=True)
"""


class PatternError(Exception):
    """A pattern cannot be used; the message is the reason, with the pattern."""


class PatternGuard:
    """The process in which searches are tried. It is started for the first one, and again after one that takes long."""

    def __init__(self) -> None:
        self._process: Popen[bytes] | None = None
        self._lock = threading.Lock()

    def check_search(self, pattern: str, texts: Sequence[str]) -> None:
        """Check that searching the texts finishes in time.

        Raises:
            PatternError: it does not, or the pattern is not valid.
        """
        start = time.monotonic()
        with self._lock:
            try:
                answer = self._exchange(json.dumps([pattern, texts]).encode() + b"\n")
            except BaseException:  # such as Ctrl-C, after which the answer would be taken for that of the next search
                self.stop()
                raise
            if not answer:
                self.stop()
        if answer:
            problem = json.loads(answer)
        elif time.monotonic() - start >= MAX_SEARCH_SECONDS:
            problem = f"a search takes more than {MAX_SEARCH_SECONDS:g} s"
        else:
            problem = "it cannot be tried"
        if problem:
            raise PatternError(f"the pattern '{pattern}' ({problem})")

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    stream.close()  # type: ignore[union-attr]

    def _exchange(self, line: bytes) -> bytes:
        """Return the answer of the process; b"" if it ended."""
        from subprocess import DEVNULL, PIPE, Popen  # slow to import

        with suppress(OSError):
            if not self._process:
                # A new session: Ctrl-C does not reach it.
                self._process = Popen(
                    [sys.executable, "-I", "-S", "-c", CHILD_CODE],
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    start_new_session=True,
                )
                atexit.register(self.stop)
            assert self._process.stdin and self._process.stdout, "they are pipes"  # noqa: S101
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        return b""


GUARD = PatternGuard()
