"""Resource limits for calls, enforced inside the sandbox.

The kernel limits neither the number of root's processes nor the total memory of several processes. A thread of the
worker monitors those; calls cannot signal the worker, because it is process 1.
"""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from ask.process.process_tree import read_proc_file, read_stat_fields
from ask.safety.sandbox_config import Limits

_POLL_SECONDS = 0.02
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
NICENESS = 10
"""Niceness added to commands, so that the monitor is scheduled before them."""
_BURST_FRACTION = 1 / 4
"""Fraction of the process limit: if more processes were started since the last check, all are stopped to be counted."""
_REPEATED_CONTINUES = 5
"""Checks that continue all processes once more after they were stopped.

The kernel keeps a SIGSTOP that arrives during fork() for the child, and drops a SIGCONT that arrives then, so the child
would stay stopped.
"""
_NPROC_PER_NAMESPACE_VERSION = (5, 14)
"""The first Linux version in which RLIMIT_NPROC ignores the user's processes outside the sandbox."""


def set_limits(limits: Limits) -> None:
    """Set the resource limits of this process and its children."""
    resource_limits = {
        # Not RLIMIT_AS: node, go and java reserve far more address space than they use.
        resource.RLIMIT_DATA: limits.memory,
        resource.RLIMIT_FSIZE: limits.file_size,
        # Not 0: with 1, the kernel does not pipe core dumps to a core_pattern program either, which would run outside.
        resource.RLIMIT_CORE: 1,
    }
    kernel_version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdecimal())
    if kernel_version >= _NPROC_PER_NAMESPACE_VERSION:
        # Twice the limit, so that the monitor acts first: it can report what happened.
        resource_limits[resource.RLIMIT_NPROC] = 2 * limits.processes
    for kind, value in resource_limits.items():
        _, hard_limit = resource.getrlimit(kind)
        new_limit = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
        resource.setrlimit(kind, (new_limit, new_limit))


def kill_all_processes() -> bool:
    """Kill every process of the sandbox except the worker. Return whether any was still running."""
    _reap_children(os.WNOHANG)
    had_processes = _signal_all(signal.SIGKILL)
    _reap_children(0)
    return had_processes


def _reap_children(options: int) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


class LimitMonitor:
    """A thread that monitors the sandbox within the context, and kills all processes if they exceed a limit.

    Commands must have a lower priority than every thread of the worker: a thread that waits for the CPU while it has
    the GIL would block this one too.
    """

    def __init__(self, limits: Limits) -> None:
        self.exceeded_limit = ""
        """The limit that was exceeded, or ""."""
        self._limits = limits
        self._newest_pid = _read_newest_pid()
        self._continues_left = 0
        self._check_lock = threading.Lock()
        self._enabled = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> Self:
        self.exceeded_limit = ""
        self._enabled.set()
        return self

    def __exit__(self, *_: object) -> None:
        with self._check_lock:
            self._enabled.clear()

    def _run(self) -> None:
        while self._enabled.wait():
            start = time.thread_time()  # CPU time, since a busy machine must not lower the frequency of checks
            with self._check_lock:
                exceeded_limit = self._check_processes() if self._enabled.is_set() else ""
                if exceeded_limit:
                    self.exceeded_limit = exceeded_limit
                    _signal_all(signal.SIGKILL)
            # The checks take at most a fifth of the time of one processor.
            time.sleep(max(_POLL_SECONDS, 4 * (time.thread_time() - start)))

    def _check_processes(self) -> str:
        previous_pid, self._newest_pid = self._newest_pid, _read_newest_pid()
        if self._continues_left:
            self._continues_left -= 1
            _signal_all(signal.SIGCONT)
        if abs(self._newest_pid - previous_pid) <= self._limits.processes * _BURST_FRACTION:
            pids = _list_pids()
            if len(pids) <= self._limits.processes:
                return self._find_exceeded_limit(pids)
        # Stopped processes can neither fork while they are counted nor compete for the CPU.
        _signal_all(signal.SIGSTOP)
        exceeded_limit = self._find_exceeded_limit(_list_pids())
        if not exceeded_limit:
            _signal_all(signal.SIGCONT)
            self._continues_left = _REPEATED_CONTINUES
        return exceeded_limit

    def _find_exceeded_limit(self, pids: Sequence[str]) -> str:
        usages = [_read_usage(pid) for pid in pids]
        if sum(threads for threads, _ in usages) > self._limits.processes:
            return f"more than {self._limits.processes} processes and threads at a time"
        # Resident pages count shared memory once per process; the exact sum is slow, so it is only read if needed.
        memory = self._limits.memory
        total_pages = sum(pages for _, pages in usages)
        if total_pages * _PAGE_SIZE > memory and sum(map(_read_proportional_memory, pids)) > memory:
            return f"more than {self._limits.memory >> 20:,} MiB of memory"
        return ""


def _read_newest_pid() -> int:
    """Return the most recent process id in the sandbox. Ids wrap around after the highest."""
    return int(Path("/proc/loadavg").read_bytes().split()[-1])


def _list_pids() -> list[str]:
    """List the processes of the sandbox except the worker, including zombies."""
    return [pid for pid in os.listdir("/proc") if pid.isdecimal() and pid != "1"]


def _signal_all(signal_number: signal.Signals) -> bool:
    """Send a signal to every process of the sandbox except the worker. Return whether there was any."""
    try:
        os.kill(-1, signal_number)
    except ProcessLookupError:
        return False
    return True


def _read_usage(pid: str) -> tuple[int, int]:
    """Return the number of threads and of resident pages of a process. Reaps it if it is an orphaned zombie."""
    fields = read_stat_fields(pid)
    if not fields:
        return 0, 0
    if fields[0] in (b"Z", b"X"):
        # Not a session leader: it may be the shell, which the tool itself waits for.
        if fields[1] == b"1" and fields[3] != pid.encode():
            with suppress(ChildProcessError):
                os.waitpid(int(pid), os.WNOHANG)
        return 0, 0
    return int(fields[17]), int(fields[21])  # num_threads and rss in proc(5)


def _read_proportional_memory(pid: str) -> int:
    """Return the memory of a process in bytes, with its proportional share of shared memory."""
    for line in read_proc_file(pid, "smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return _read_usage(pid)[1] * _PAGE_SIZE
