"""Bubblewrap: find a trustworthy one, start a worker with it, exchange frames with that, and kill everything in it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ask.errors import SafetyError
from ask.process.worker_channel import READ_BYTES, WorkerChannel
from ask.safety.mounts import MountCheck, list_bind_mounts
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.sandbox_init import PROXY_PORT, build_python_command

if TYPE_CHECKING:
    from socket import socket
    from subprocess import Popen

TEMPORARY_FOLDER = "/tmp"  # noqa: S108 - this is the sandbox's /tmp
SANDBOX_MARKER_PATH = "/run/ask-sandbox"
"""A file in every sandbox. After the last mount, bubblewrap copies it from a pipe until that is closed."""
_PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
_PROXY_ENVIRONMENT = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _PROXY_URL),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
}
"""Variables by which commands find the proxy. They reach servers that they start in the sandbox directly."""
_MOUNT_SECONDS = 60.0
"""Seconds that all mounts may take: a slow machine needs tens of seconds for the most that `limit_mounts` allows."""
_PIPE_BYTES = 4096
"""The smallest size of a pipe; a single write fills it."""
_KILL_SECONDS = 5.0
_INTERRUPT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BUBBLEWRAP_PATHS = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Paths to try. PATH is not used: it can contain the working directory."""
MIN_VERSION = (0, 8, 0)
FILES_HINT = "--safe-files, which needs no sandbox but runs no commands"
_INSTALL_HINT = f"install bubblewrap (apt, dnf or pacman install bubblewrap), or use {FILES_HINT}"
_KNOWN_FAILURES = (
    (
        ("uid map", "loopback", "Permission denied"),
        "the system does not let bubblewrap create a user namespace",
        "on Ubuntu, install the AppArmor profile bwrap-userns-restrict; in a container, allow user namespaces",
    ),
    (
        ("namespace", "No space left", "user namespaces"),
        "user namespaces are disabled",
        "set kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0 with sysctl",
    ),
    (
        ("mount proc",),
        "the system does not let bubblewrap mount /proc",
        "in a container, run it with --security-opt systempaths=unconfined",
    ),
)


def find_bubblewrap(candidates: Sequence[str] = BUBBLEWRAP_PATHS) -> str:
    """Return the path of bubblewrap.

    Raises:
        SafetyError: this is not Linux, or bubblewrap is not installed, or users other than root can modify it.
    """
    if os.uname().sysname != "Linux":
        raise SafetyError("--safe works only on Linux so far", f"use {FILES_HINT}")
    for name in candidates:
        path = Path(name)
        if path.exists():
            for part in (path.resolve(), path.resolve().parent):
                status = part.stat()
                if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise SafetyError(
                        f"--safe does not trust {part}: users other than root can change it", _INSTALL_HINT
                    )
            if not os.access(path, os.X_OK):
                raise SafetyError(f"--safe cannot run {name}", _INSTALL_HINT)
            return name
    raise SafetyError("--safe needs bubblewrap (bwrap), which is not installed", _INSTALL_HINT)


def explain_bubblewrap_failure(program: str, stderr: str) -> SafetyError:
    """Explain why the sandbox did not start, from the stderr of bubblewrap or of the worker in it."""
    version = read_bubblewrap_version(program)
    if version and version < MIN_VERSION:
        actual, required = (".".join(map(str, numbers)) for numbers in (version, MIN_VERSION))
        return SafetyError(f"--safe needs bubblewrap {required}, and {program} is {actual}", "install a newer version")
    lines = stderr.strip().splitlines()
    last_line = lines[-1][:300] if lines else "no error message"
    if last_line.startswith("bwrap: "):
        for markers, cause, hint in _KNOWN_FAILURES:
            if any(marker in last_line for marker in markers):
                return SafetyError(f"cannot open a sandbox: {cause} ({last_line})", f"{hint}; or use {FILES_HINT}")
    return SafetyError(f"cannot open a sandbox ({last_line})", f"see ask safe, or use {FILES_HINT}")


def read_bubblewrap_version(program: str) -> tuple[int, ...]:
    """Return the version that `program --version` prints, or ()."""
    from subprocess import SubprocessError, run

    try:
        output = run([program, "--version"], capture_output=True, text=True, timeout=5, env={}, check=False).stdout
    except (OSError, SubprocessError):
        return ()
    return tuple(int(part) for part in output.rpartition(" ")[2].strip().split(".") if part.isdecimal())


def build_bubblewrap_arguments(
    config: SandboxConfig,
    filesystem: HostFilesystem,
    command: Sequence[str],
    *,
    filter_fd: int,
    info_fd: int,
    mounted_fd: int,
) -> list[str]:
    """Build the arguments that make bubblewrap run `command` as process 1 of the sandbox.

    bubblewrap reads the seccomp filter from `filter_fd` and writes the command's process id to `info_fd`. When
    everything is mounted, it reads `mounted_fd` to its end before it continues.
    """
    namespaces = "--unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-uts --unshare-net"
    process_options = "--unshare-cgroup-try --cap-drop ALL --new-session --die-with-parent --as-pid-1"
    return [
        *namespaces.split(),
        *process_options.split(),
        *("--seccomp", str(filter_fd)),
        *("--info-fd", str(info_fd)),
        *_build_mount_arguments(config, filesystem),
        *("--file", str(mounted_fd), SANDBOX_MARKER_PATH),
        # Read-only from here on: the mount points above have been created, and nothing can be added next to them.
        *("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", str(config.working_directory)),
        "--",
        *command,
    ]


def _build_mount_arguments(config: SandboxConfig, filesystem: HostFilesystem) -> Iterator[str]:
    """Yield the mount arguments; parents come before their subfolders."""
    for target, link in filesystem.root_links:
        yield from ("--symlink", target, str(link))
    yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run", "--dir", "/var")
    size = str(config.limits.temporary_size)
    for path in sorted({TEMPORARY_FOLDER, "/var/tmp", "/dev/shm", str(config.home)}):  # noqa: S108
        yield from ("--size", size, "--perms", "1777", "--tmpfs", path)
    for bind in list_bind_mounts(config, filesystem):
        yield from ("--bind" if bind.writable else "--ro-bind", str(bind.source), str(bind.destination))
    for folder in filesystem.hidden_folders:
        yield from ("--perms", "0555", "--tmpfs", str(folder), "--remount-ro", str(folder))


class SandboxProcess:
    """A sandbox that bubblewrap sets up, and the worker in it, which starts in `check_mounts`.

    With `has_proxy`, the worker passes on a socket that listens in the sandbox, for `receive_listener`.

    Raises:
        SafetyError: there is no seccomp filter for this machine, or bubblewrap does not start.
    """

    def __init__(
        self, bubblewrap_path: str, config: SandboxConfig, filesystem: HostFilesystem, *, has_proxy: bool = False
    ) -> None:
        self._bubblewrap_path = bubblewrap_path
        self._descriptors: list[int] = []
        self._pidfd: int | None = None
        self._bubblewrap: Popen[bytes] | None = None
        child_requests, requests = self._create_pipe()
        replies, child_replies = self._create_pipe()
        self._stderr, child_stderr = self._create_pipe()
        self._info, child_info = self._create_pipe()
        child_mounted, self._mounted = self._create_pipe()
        child_descriptors = [child_requests, child_replies, child_stderr, child_info, child_mounted]
        if has_proxy:
            child_descriptors.append(self._create_listener_channel())
        fcntl.fcntl(self._mounted, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.write(self._mounted, b"ask --safe\n")  # the pipe is full until bubblewrap reads this
        self._channel = WorkerChannel(requests, replies)
        try:
            self._start_bubblewrap(config, filesystem, child_descriptors)
            for descriptor in child_descriptors:
                self._close_descriptor(descriptor)
            self._mount_check = MountCheck(list_bind_mounts(config, filesystem), filesystem.hidden_folders)
        except BaseException:
            self.kill()
            raise

    def check_mounts(self) -> None:
        """Wait until bubblewrap has mounted everything, check that, and start the worker.

        Raises:
            SafetyError: bubblewrap failed, or a mount is not the expected one.
        """
        worker_pid = self._open_worker_pidfd()
        if not _wait_for(self._mounted, select.POLLOUT, _MOUNT_SECONDS):  # it has exited or hangs
            raise self.explain_start_failure()
        self._mount_check.run(worker_pid)
        self._close_descriptor(self._mounted)  # bubblewrap waits for this

    def _create_pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _create_listener_channel(self) -> int:
        """Create the sockets for `receive_listener`; return the descriptor of the worker's end."""
        from socket import socketpair

        self._listener_channel, child_channel = (each.detach() for each in socketpair())
        self._descriptors += (self._listener_channel, child_channel)
        return child_channel

    def _close_descriptor(self, descriptor: int) -> None:
        self._descriptors.remove(descriptor)
        os.close(descriptor)

    def _start_bubblewrap(
        self, config: SandboxConfig, filesystem: HostFilesystem, child_descriptors: Sequence[int]
    ) -> None:
        from subprocess import Popen

        requests, replies, stderr, info, mounted, *channel = child_descriptors
        machine = os.uname().machine
        try:
            filter_fd = os.open(Path(__file__).with_name(f"{machine}.bpf"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise SafetyError(
                f"--safe does not support this processor architecture ({machine})", "run without it"
            ) from None
        self._descriptors.append(filter_fd)
        command = build_python_command(
            f"from ask.safety.sandbox_init import main; main({', '.join(map(str, channel))})"
        )
        arguments = build_bubblewrap_arguments(
            config, filesystem, command, filter_fd=filter_fd, info_fd=info, mounted_fd=mounted
        )
        # A signal within Popen() would leave a process that is never killed.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT_SIGNALS)  # may raise for a signal just before it
            self._bubblewrap = Popen(
                [self._bubblewrap_path, *arguments],
                stdin=requests,
                stdout=replies,
                stderr=stderr,
                pass_fds=(filter_fd, info, mounted, *channel),
                env={**config.environment, **(_PROXY_ENVIRONMENT if channel else {})},
                cwd="/",
                start_new_session=True,  # so that Ctrl-C reaches only ask
            )
        except OSError as error:
            raise SafetyError(f"--safe cannot run {self._bubblewrap_path} ({error.strerror})") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        self._close_descriptor(filter_fd)

    def _open_worker_pidfd(self) -> int:
        """Read the worker's process id from bubblewrap, open its pidfd and return the id."""
        self._descriptors.remove(self._info)
        with open(self._info, "rb") as file:
            info = file.read()
        try:
            pid = int(json.loads(info)["child-pid"])
            self._pidfd = os.pidfd_open(pid)
        except (ValueError, KeyError, OSError):
            raise self.explain_start_failure() from None
        self._descriptors.append(self._pidfd)
        return pid

    def receive_listener(self) -> socket:
        """Return the socket that listens in the sandbox. A worker that is ready has passed it on.

        Raises:
            SafetyError: it has not.
        """
        from socket import MSG_CMSG_CLOEXEC, MSG_DONTWAIT, recv_fds, socket

        self._descriptors.remove(self._listener_channel)
        try:
            with socket(fileno=self._listener_channel) as channel:
                _, (descriptor,), *_ = recv_fds(channel, 1, 1, MSG_CMSG_CLOEXEC | MSG_DONTWAIT)
        except (OSError, ValueError):
            raise self.explain_start_failure() from None
        return socket(fileno=descriptor)

    def explain_start_failure(self) -> SafetyError:
        """Kill bubblewrap and explain why the sandbox did not start."""
        if self._bubblewrap is not None:
            self._bubblewrap.kill()
            self._bubblewrap.wait()
        os.set_blocking(self._stderr, False)
        stderr = b""
        with suppress(BlockingIOError):
            stderr = os.read(self._stderr, READ_BYTES)
        return explain_bubblewrap_failure(self._bubblewrap_path, stderr.decode(errors="replace"))

    def exchange_frames(self, kind: bytes, payload: bytes, timeout: float) -> Iterator[tuple[bytes, bytes]]:
        """Send a frame and yield the replies until the caller stops reading.

        Raises:
            WorkerDiedError: the worker has exited or sent an invalid frame.
            WorkerTimeoutError: this took longer than `timeout` seconds.
        """
        return self._channel.exchange_frames(kind, payload, time.monotonic() + timeout)

    def kill(self) -> None:
        """Kill the worker and every process in the sandbox, and wait until they are gone."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            # Readable once the kernel has killed all other processes in the PID namespace.
            _wait_for(self._pidfd, select.POLLIN, _KILL_SECONDS)
            self._pidfd = None
        if self._bubblewrap is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._bubblewrap.pid, signal.SIGKILL)  # also a child that it has not reported yet
            self._bubblewrap.wait()
        while self._descriptors:
            os.close(self._descriptors.pop())


def _wait_for(descriptor: int, event: int, timeout: float) -> bool:
    """Wait for an event of `select.poll`; return whether it was the one that occurred."""
    poll = select.poll()
    poll.register(descriptor, event)
    return poll.poll(timeout * 1000) == [(descriptor, event)]
