"""Self-test of a sandbox: attempts to escape from it before anything is sent to a provider.

The attempts are made by the worker, in the same sandbox that the calls will run in. `SelfTestHost` checks their
effects from outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from ask.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket
    from typing import Any, Self

    from ask.safety.sandbox_config import SandboxConfig

_AF_UNIX, _AF_INET, _AF_NETLINK = 1, 2, 16
_PROTECTED_FOLDER = ".git"


class SelfTestResult(NamedTuple):
    """The result of one attempt; `passed` means that the sandbox prevented it."""

    name: str
    passed: bool
    detail: str = ""


def run_self_test(tasks: Mapping[str, Any]) -> list[SelfTestResult]:
    """Run the checks described by `SelfTestHost.tasks`. Called in the sandbox."""
    return [SelfTestResult(name, not detail, detail) for name, detail in _run_checks(tasks)]


def clean_up_self_test(tasks: Mapping[str, Any]) -> None:
    """Remove the files that the attempts created. Called in the sandbox after the evaluation outside."""
    for path in tasks["outside"]:
        with suppress(OSError):
            os.unlink(path)


def _run_checks(tasks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    # Both may succeed, in the empty home and the empty network: only the effect on the host counts.
    _try_opening(tasks["outside"], os.O_WRONLY | os.O_CREAT)
    _try_connecting(tasks["port"])
    yield "reading ask's configuration and data", _try_opening(tasks["secret"], os.O_RDONLY)
    yield "changing protected files", _try_opening(tasks["protected"], os.O_WRONLY | os.O_CREAT)
    yield "changing kernel settings", _try_opening(["/proc/sys/kernel/core_pattern"], os.O_WRONLY)
    yield "sockets that bypass the network rules", _try_sockets(_AF_UNIX, _AF_NETLINK)
    yield "privileges", _check_privileges()
    yield "seeing other processes", "" if os.getpid() == 1 else f"process {os.getpid()}, not the first"


def _try_opening(paths: Sequence[str], flags: int) -> str:
    """Try to open each path. Return a message that names those that could be opened, or ""."""
    opened = []
    for path in paths:
        with suppress(OSError):
            os.close(os.open(path, flags, 0o600))
            opened.append(path)
    return f"{', '.join(opened)} could be opened" if opened else ""


def _try_connecting(port: int) -> None:
    import _socket

    connection = _socket.socket(_AF_INET, 1)
    with suppress(OSError):
        connection.settimeout(0.5)
        connection.connect(("127.0.0.1", port))
    connection.close()


def _try_sockets(*families: int) -> str:
    import _socket

    for family in families:
        with suppress(OSError):
            _socket.socket(family, 1).close()
            return f"a socket of family {family} was made"
    return ""


def _check_privileges() -> str:
    with open("/proc/self/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    expected = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    differences = [f"{name} is {status.get(name)}" for name, value in expected.items() if status.get(name) != value]
    return ", ".join(differences)


class SelfTestHost:
    """The part of the self-test outside the sandbox: defines the attempts and checks their effects."""

    def __init__(self, config: SandboxConfig) -> None:
        from pathlib import Path
        from socket import create_server

        name = f".ask-{os.urandom(8).hex()}"
        system_folders = map(Path, ("/usr", "/etc", "/run"))
        folders = (*config.secret_folders, config.home, config.overflow_directory, *system_folders)
        outside = [str(folder / name) for folder in folders]
        outside += [f"{folder}{name}" for folder in config.outermost_folders]
        protected = [str(folder / _PROTECTED_FOLDER / name) for folder in config.writable_folders]
        secret_folders = (*config.secret_folders, config.state_folder)
        self._created_paths = [*outside, *protected]
        self._server: socket = create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self.tasks: dict[str, Any] = {
            "secret": [path for folder in secret_folders for path in _list_files(folder)],
            "outside": outside,
            "protected": protected,
            "port": self._server.getsockname()[1],
        }
        """The argument of `run_self_test`."""

    def evaluate(self, report: Any) -> list[SelfTestResult]:
        """Combine the worker's report with checks from outside. A missing report fails the test."""
        results = [
            SelfTestResult(*row)
            for row in (report if isinstance(report, list) else ())
            if isinstance(row, list) and [type(part) for part in row] == [str, bool, str]
        ]
        if not results:
            results = [SelfTestResult("the self-test ran", False, "it reported nothing")]
        created_paths = [path for path in self._created_paths if os.path.lexists(path)]
        results.append(SelfTestResult("writing outside", not created_paths, ", ".join(created_paths)))
        try:
            self._server.accept()[0].close()
        except BlockingIOError:
            return [*results, SelfTestResult("connecting to a server", True)]
        return [*results, SelfTestResult("connecting to a server", False, "a connection arrived")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for path in self._created_paths:
            with suppress(OSError):
                os.unlink(path)


def _list_files(folder: Path) -> list[str]:
    with suppress(OSError):
        return [str(path) for path in folder.iterdir() if os.path.isfile(path)]
    return []
