"""A worker in its sandbox, seen from outside: started, spoken to within a time, and ended with all that it started."""

from __future__ import annotations

import fcntl
import json
import os
import select
import selectors
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.errors import SafetyError
from ask.safety.bubblewrap import explain
from ask.safety.confinement import Confinement, View, bubblewrap_arguments, list_binds
from ask.safety.mounts import MountCheck
from ask.safety.seccomp import filter_path
from ask.worker_channel import READ_SIZE, Channel

_START = "import sys; sys.path.append({root!r}); from ask.safety.worker import main; main()"
_FOR_INFO = 4096
_TIME_TO_MOUNT = 10_000
"""Milliseconds."""
_PIPE_SIZE = 4096
"""Bytes of the smallest pipe, which one write fills."""
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Inmate:
    """A worker that was started.

    Args:
        program: bubblewrap.
        confinement: what it is confined to.
        view: what there is on this machine.

    Raises:
        SafetyError: there is no filter for this machine, or bubblewrap does not start.
    """

    def __init__(self, program: str, confinement: Confinement, view: View) -> None:
        self._program = program
        self._descriptors: list[int] = []
        self._process: int | None = None
        its_requests, requests = self._pipe()
        replies, its_replies = self._pipe()
        self._trouble, its_trouble = self._pipe()
        info, its_info = self._pipe()
        its_mounted, mounted = self._pipe()
        fcntl.fcntl(mounted, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        os.write(mounted, b"ask --safe\n")  # as long as this lies in it, the pipe is full
        try:
            self._start(confinement, view, (its_requests, its_replies, its_trouble, its_info, its_mounted))
            for descriptor in (its_requests, its_replies, its_trouble, its_info, its_mounted):
                self._close(descriptor)
            check = MountCheck(list_binds(confinement, view), view.hidden_folders)  # while bubblewrap starts
            number = self._watch(info)
            self._wait_for_mounts(mounted)
            check.run(number)
            self._close(mounted)
        except BaseException:
            self.end()
            raise
        self._channel = Channel(requests, replies)

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _close(self, descriptor: int) -> None:
        self._descriptors.remove(descriptor)
        os.close(descriptor)

    def _start(self, confinement: Confinement, view: View, ends: Sequence[int]) -> None:
        from subprocess import Popen

        requests, replies, trouble, info, mounted = ends
        path = filter_path(os.uname().machine)
        if path is None:
            raise SafetyError(f"--safe does not know this kind of machine ({os.uname().machine})", "go on without it")
        rules = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors.append(rules)
        descriptors = {"filter_fd": rules, "info_fd": info, "mounted_fd": mounted}
        arguments = bubblewrap_arguments(confinement, view, worker_command(), **descriptors)
        # Where one came in the middle of this, there would be a process that nobody knows of.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
        try:
            self._bubblewrap = Popen(
                [self._program, *arguments],
                stdin=requests,
                stdout=replies,
                stderr=trouble,
                pass_fds=(rules, info, mounted),
                env=dict(confinement.environment),
                cwd="/",
                start_new_session=True,  # Ctrl-C is ask's to handle
            )
        except OSError as fault:
            raise SafetyError(f"--safe cannot run {self._program} ({fault.strerror})") from fault
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._close(rules)

    def _watch(self, info: int) -> int:
        """Open the worker's process, which bubblewrap reports; return its id."""
        told = b""
        while piece := os.read(info, _FOR_INFO):
            told += piece
        self._close(info)
        try:
            number = int(json.loads(told)["child-pid"])
            self._process = os.pidfd_open(number)
        except (ValueError, KeyError, OSError):
            raise self.complaint() from None
        self._descriptors.append(self._process)
        return number

    def _wait_for_mounts(self, mounted: int) -> None:
        """Wait until bubblewrap has mounted everything. It goes on when the descriptor is closed."""
        poll = select.poll()
        poll.register(mounted, select.POLLOUT)
        if poll.poll(_TIME_TO_MOUNT) != [(mounted, select.POLLOUT)]:  # it has ended, or hangs
            raise self.complaint()

    def complaint(self) -> SafetyError:
        """Why it does not start."""
        self._bubblewrap.kill()
        self._bubblewrap.wait()
        os.set_blocking(self._trouble, False)
        with suppress(BlockingIOError):
            return explain(self._program, os.read(self._trouble, READ_SIZE).decode(errors="replace"))
        return explain(self._program, "")

    def exchange(self, kind: bytes, payload: bytes, seconds: float) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame and give what comes back, until the caller has enough.

        Raises:
            WorkerLost: it has ended, or sends what is no frame.
            WorkerLate: it took longer than `seconds`.
        """
        return self._channel.exchange(kind, payload, time.monotonic() + seconds)

    def end(self) -> None:
        """End it, and with it every process in the sandbox; returns when none is left."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            # Readable once the kernel has ended everything else in the namespace.
            with selectors.DefaultSelector() as selector:
                selector.register(self._process, selectors.EVENT_READ)
                selector.select(_WAIT_FOR_END)
        bubblewrap: Any = getattr(self, "_bubblewrap", None)
        if bubblewrap is not None:
            with suppress(ProcessLookupError):
                os.killpg(bubblewrap.pid, signal.SIGKILL)  # a child of its own too, that it has not told of yet
            bubblewrap.wait()
        self._process = None
        while self._descriptors:
            os.close(self._descriptors.pop())


_WAIT_FOR_END = 5.0


def worker_command() -> list[str]:
    """What starts a worker: Python without site packages, user settings or the current folder."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    root = str(Path(__file__).resolve().parents[2])
    return [str(python), "-I", "-S", "-B", "-X", "utf8", "-c", _START.format(root=root)]
