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
from ask.safety.bubblewrap import explain_bubblewrap_failure
from ask.safety.mounts import MountCheck
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig, build_bubblewrap_arguments, list_bind_mounts
from ask.safety.seccomp import find_filter
from ask.worker_channel import READ_SIZE, WorkerChannel

_WORKER_CODE = "import sys; sys.path.append({root!r}); from ask.safety.worker import main; main()"
_INFO_READ_SIZE = 4096
_MOUNT_TIMEOUT_MS = 10_000
"""Milliseconds."""
_PIPE_SIZE = 4096
"""Bytes of the smallest pipe, which one write fills."""
_INTERRUPT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SandboxProcess:
    """A worker that was started.

    Args:
        program: bubblewrap.
        confinement: what it is confined to.
        view: what there is on this machine.

    Raises:
        SafetyError: there is no filter for this machine, or bubblewrap does not start.
    """

    def __init__(self, bubblewrap_path: str, config: SandboxConfig, filesystem: HostFilesystem) -> None:
        self._bubblewrap_path = bubblewrap_path
        self._descriptors: list[int] = []
        self._pidfd: int | None = None
        its_requests, requests = self._create_pipe()
        replies, its_replies = self._create_pipe()
        self._stderr, its_trouble = self._create_pipe()
        info, its_info = self._create_pipe()
        its_mounted, mounted = self._create_pipe()
        fcntl.fcntl(mounted, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        os.write(mounted, b"ask --safe\n")  # as long as this lies in it, the pipe is full
        try:
            self._start_bubblewrap(config, filesystem, (its_requests, its_replies, its_trouble, its_info, its_mounted))
            for descriptor in (its_requests, its_replies, its_trouble, its_info, its_mounted):
                self._close_descriptor(descriptor)
            check = MountCheck(
                list_bind_mounts(config, filesystem), filesystem.hidden_folders
            )  # while bubblewrap starts
            number = self._open_worker_pidfd(info)
            self._wait_for_mounts(mounted)
            check.run(number)
            self._close_descriptor(mounted)
        except BaseException:
            self.kill()
            raise
        self._channel = WorkerChannel(requests, replies)

    def _create_pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _close_descriptor(self, descriptor: int) -> None:
        self._descriptors.remove(descriptor)
        os.close(descriptor)

    def _start_bubblewrap(
        self, config: SandboxConfig, filesystem: HostFilesystem, child_descriptors: Sequence[int]
    ) -> None:
        from subprocess import Popen

        requests, replies, trouble, info, mounted = child_descriptors
        path = find_filter(os.uname().machine)
        if path is None:
            raise SafetyError(f"--safe does not know this kind of machine ({os.uname().machine})", "go on without it")
        rules = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._descriptors.append(rules)
        descriptors = {"filter_fd": rules, "info_fd": info, "mounted_fd": mounted}
        arguments = build_bubblewrap_arguments(config, filesystem, build_worker_command(), **descriptors)
        # Where one came in the middle of this, there would be a process that nobody knows of.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT_SIGNALS)
        try:
            self._bubblewrap = Popen(
                [self._bubblewrap_path, *arguments],
                stdin=requests,
                stdout=replies,
                stderr=trouble,
                pass_fds=(rules, info, mounted),
                env=dict(config.environment),
                cwd="/",
                start_new_session=True,  # Ctrl-C is ask's to handle
            )
        except OSError as fault:
            raise SafetyError(f"--safe cannot run {self._bubblewrap_path} ({fault.strerror})") from fault
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._close_descriptor(rules)

    def _open_worker_pidfd(self, info_fd: int) -> int:
        """Open the worker's process, which bubblewrap reports; return its id."""
        told = b""
        while piece := os.read(info_fd, _INFO_READ_SIZE):
            told += piece
        self._close_descriptor(info_fd)
        try:
            number = int(json.loads(told)["child-pid"])
            self._pidfd = os.pidfd_open(number)
        except (ValueError, KeyError, OSError):
            raise self.explain_start_failure() from None
        self._descriptors.append(self._pidfd)
        return number

    def _wait_for_mounts(self, mounted_fd: int) -> None:
        """Wait until bubblewrap has mounted everything. It goes on when the descriptor is closed."""
        poll = select.poll()
        poll.register(mounted_fd, select.POLLOUT)
        if poll.poll(_MOUNT_TIMEOUT_MS) != [(mounted_fd, select.POLLOUT)]:  # it has ended, or hangs
            raise self.explain_start_failure()

    def explain_start_failure(self) -> SafetyError:
        """Why it does not start."""
        self._bubblewrap.kill()
        self._bubblewrap.wait()
        os.set_blocking(self._stderr, False)
        with suppress(BlockingIOError):
            return explain_bubblewrap_failure(
                self._bubblewrap_path, os.read(self._stderr, READ_SIZE).decode(errors="replace")
            )
        return explain_bubblewrap_failure(self._bubblewrap_path, "")

    def exchange_frames(self, kind: bytes, payload: bytes, timeout: float) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame and give what comes back, until the caller has enough.

        Raises:
            WorkerLost: it has ended, or sends what is no frame.
            WorkerLate: it took longer than `timeout`.
        """
        return self._channel.exchange_frames(kind, payload, time.monotonic() + timeout)

    def kill(self) -> None:
        """End it, and with it every process in the sandbox; returns when none is left."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            # Readable once the kernel has ended everything else in the namespace.
            with selectors.DefaultSelector() as selector:
                selector.register(self._pidfd, selectors.EVENT_READ)
                selector.select(_KILL_TIMEOUT)
        bubblewrap: Any = getattr(self, "_bubblewrap", None)
        if bubblewrap is not None:
            with suppress(ProcessLookupError):
                os.killpg(bubblewrap.pid, signal.SIGKILL)  # a child of its own too, that it has not told of yet
            bubblewrap.wait()
        self._pidfd = None
        while self._descriptors:
            os.close(self._descriptors.pop())


_KILL_TIMEOUT = 5.0


def build_worker_command() -> list[str]:
    """What starts a worker: Python without site packages, user settings or the current folder."""
    python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    root = str(Path(__file__).resolve().parents[2])
    return [str(python), "-I", "-S", "-B", "-X", "utf8", "-c", _WORKER_CODE.format(root=root)]
