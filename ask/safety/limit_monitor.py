"""Holds the calls to their limits, from inside the sandbox: the kernel's where it has them, else by watching.

The kernel counts neither root's processes nor what several processes use together; a thread of the worker, which
is process 1 and so out of their reach, does.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ask.safety.sandbox_config import Limits

_POLL_INTERVAL = 0.02
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
NICENESS = 10
"""What commands add to their niceness, so that the watch goes before them."""
_BURST_FRACTION = 1 / 4
"""The share of the processes allowed that, when so many are new since the last look, are taken for a crowd at once."""
_NPROC_PER_NAMESPACE_VERSION = (5, 14)
"""The version of Linux from which on RLIMIT_NPROC does not count what the user runs outside."""


def set_limits(limits: Limits) -> None:
    """Set the limits that the kernel keeps, for this process and all that it starts."""
    import resource

    most = {
        # Not RLIMIT_AS: node, go and java reserve far more addresses than they use.
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_size,
        # Not 0: 1 also keeps a core from a program that core_pattern names, which would run outside.
        resource.RLIMIT_CORE: 1,
    }
    if _read_kernel_version() >= _NPROC_PER_NAMESPACE_VERSION:
        most[resource.RLIMIT_NPROC] = 2 * limits.processes  # behind the watch, which can say what happened
    for kind, value in most.items():
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))


def _read_kernel_version() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdecimal())


def kill_all_processes() -> bool:
    """End every process of the sandbox but the worker; whether there was any that still ran."""
    _reap_children(os.WNOHANG)
    ended = _signal_all(signal.SIGKILL)
    _reap_children(0)
    return ended


def _reap_children(options: int) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


class LimitMonitor:
    """Watches the processes of the sandbox while its context lasts; at a breach it ends them all.

    It needs commands that are nicer than the whole worker: a thread that waits for the processor while it holds the
    interpreter's lock keeps this one waiting too.

    Attributes:
        exceeded_limit: which limit was passed, "" if none.
    """

    def __init__(self, limits: Limits) -> None:
        self.exceeded_limit = ""
        self._limits = limits
        self._newest_pid = _read_newest_pid()
        self._check_lock = threading.Lock()
        self._enabled = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Self:
        self.exceeded_limit = ""
        self._enabled.set()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._check_lock:
            self._enabled.clear()

    def _run(self) -> None:
        while self._enabled.wait():
            start = time.thread_time()  # under a load that keeps it from looking it must not look less often
            with self._check_lock:
                breach = self._check_processes() if self._enabled.is_set() else ""
                if breach:
                    self.exceeded_limit = breach
                    _signal_all(signal.SIGKILL)
            time.sleep(max(_POLL_INTERVAL, 4 * (time.thread_time() - start)))

    def _check_processes(self) -> str:
        before, self._newest_pid = self._newest_pid, _read_newest_pid()
        if abs(self._newest_pid - before) <= self._limits.processes * _BURST_FRACTION:
            names = _list_pids()
            if len(names) <= self._limits.processes:
                return self._find_exceeded_limit(names)
        # Stopped, a crowd can neither grow while it is counted nor take the processor from the one who counts.
        _signal_all(signal.SIGSTOP)
        breach = self._find_exceeded_limit(_list_pids())
        if not breach:
            _signal_all(signal.SIGCONT)
        return breach

    def _find_exceeded_limit(self, pids: Sequence[str]) -> str:
        threads = pages = 0
        for name in pids:
            its_threads, its_pages = _read_usage(name)
            threads += its_threads
            pages += its_pages
            if threads > self._limits.processes:
                return f"more than {self._limits.processes} processes and threads at a time"
        # What processes share is counted for each of them here, and exactly only where it matters.
        if pages * _PAGE_SIZE > self._limits.memory and sum(map(_read_proportional_memory, pids)) > self._limits.memory:
            return f"more than {self._limits.memory >> 20:,} MiB of memory"
        return ""


def _read_newest_pid() -> int:
    """The number of the process that was started last in the sandbox; after the highest they begin again."""
    return int(Path("/proc/loadavg").read_bytes().split()[-1])


def _list_pids() -> list[str]:
    """The processes of the sandbox but the worker, also those that have ended and were not waited for."""
    return [name for name in os.listdir("/proc") if name.isdecimal() and name != "1"]


def _signal_all(signal_number: signal.Signals) -> bool:
    """Send it to every process of the sandbox but the worker; whether there was any."""
    try:
        os.kill(-1, signal_number)
    except ProcessLookupError:
        return False
    return True


def _read_usage(pid: str) -> tuple[int, int]:
    """The threads of a process and the pages that it has in memory; an orphan that has ended is taken away."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0, 0
    fields = stat.rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        # A leader of a session may be the shell, which the tool itself waits for.
        if fields[1] == b"1" and fields[3] != pid.encode():
            with suppress(ChildProcessError):
                os.waitpid(int(pid), os.WNOHANG)
        return 0, 0
    return int(fields[17]), int(fields[21])


def _read_proportional_memory(pid: str) -> int:
    """Bytes of memory of a process, with its share of what it shares."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return _read_usage(pid)[1] * _PAGE_SIZE
