"""Tries to get out, before anything is sent: from inside at the worker's start, and looking at the effect outside.

What is tried goes through the very sandbox that the calls will run in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from socket import socket

    from ask.safety.sandbox_config import SandboxConfig

_AF_UNIX, _AF_INET, _AF_NETLINK = 1, 2, 16
_PROTECTED_FOLDER = ".git"


class SelfTestResult(NamedTuple):
    """What was tried, whether the sandbox held, and what happened where it did not."""

    name: str
    passed: bool
    detail: str = ""


def run_self_test(tasks: Mapping[str, Any]) -> list[SelfTestResult]:
    """Inside: carry out the attempts that `Outside.tasks` describes."""
    return [SelfTestResult(name, not detail, detail) for name, detail in _run_checks(tasks)]


def clean_up_self_test(tasks: Mapping[str, Any]) -> None:
    """Inside, once it was judged outside: remove what the attempts made in the empty home and the like."""
    for path in tasks["outside"]:
        with suppress(OSError):
            os.unlink(path)


def _run_checks(tasks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    _try_opening(
        tasks["outside"], os.O_WRONLY | os.O_CREAT
    )  # in an empty home it succeeds: only the effect outside counts
    yield "reading ask's configuration and data", _try_opening(tasks["secret"], os.O_RDONLY)
    yield "changing what is protected", _try_opening(tasks["protected"], os.O_WRONLY | os.O_CREAT)
    yield "changing the kernel's settings", _try_opening(["/proc/sys/kernel/core_pattern"], os.O_WRONLY)
    yield "connecting to a server", _try_connecting(tasks["port"])
    yield "sockets that lead past the network", _try_sockets(_AF_UNIX, _AF_NETLINK)
    yield "privileges", _check_privileges()
    yield "seeing processes outside", "" if os.getpid() == 1 else f"process {os.getpid()}, not the first"


def _try_opening(paths: Sequence[str], flags: int) -> str:
    """Tries all of them; which could be opened."""
    opened = []
    for path in paths:
        with suppress(OSError):
            os.close(os.open(path, flags, 0o600))
            opened.append(path)
    return f"{', '.join(opened)} could be opened" if opened else ""


def _try_connecting(port: int) -> str:
    import _socket

    one = _socket.socket(_AF_INET, 1)
    try:
        one.settimeout(0.5)
        one.connect(("127.0.0.1", port))
    except OSError:
        return ""
    finally:
        one.close()
    return "a connection to this machine was made"


def _try_sockets(*families: int) -> str:
    import _socket

    for family in families:
        with suppress(OSError):
            _socket.socket(family, 1).close()
            return f"a socket of family {family} was made"
    return ""


def _check_privileges() -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    wanted = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    wrong = [f"{name} is {status.get(name)}" for name, value in wanted.items() if status.get(name) != value]
    return ", ".join(wrong)


class SelfTestHost:
    """The part outside: what is to be attempted, and what the attempts did."""

    def __init__(self, config: SandboxConfig) -> None:
        from socket import create_server

        name = f".ask-{os.urandom(8).hex()}"
        places = (
            *config.secret_folders,
            config.home,
            config.overflow_directory,
            Path("/usr"),
            Path("/etc"),
            Path("/run"),
        )
        self._outside_paths = [place / name for place in places]
        self._outside_paths += [folder.with_name(folder.name + name) for folder in config.outermost_folders]
        self._protected_paths = [folder / _PROTECTED_FOLDER / name for folder in config.writable_folders]
        self._secret_files = [
            path for place in (*config.secret_folders, config.state_folder) for path in _list_files(place)
        ]
        self._server: socket = create_server(("127.0.0.1", 0))
        self._server.setblocking(False)

    @property
    def tasks(self) -> dict[str, Any]:
        """What `run_self_test` takes."""
        return {
            "secret": [str(path) for path in self._secret_files],
            "outside": [str(path) for path in self._outside_paths],
            "protected": [str(path) for path in self._protected_paths],
            "port": self._server.getsockname()[1],
        }

    def evaluate(self, report: Any) -> list[SelfTestResult]:
        """The findings: what the worker told, and what is to be seen from here. Nothing told is nothing held."""
        from ask.parsing import as_list

        findings = [
            SelfTestResult(row[0], row[1], row[2])
            for row in as_list(report)
            if isinstance(row, list) and [type(part) for part in row] == [str, bool, str]
        ]
        made = [path for path in (*self._outside_paths, *self._protected_paths) if os.path.lexists(path)]
        findings.append(SelfTestResult("writing outside", not made, ", ".join(map(str, made))))
        try:
            self._server.accept()[0].close()
            findings.append(SelfTestResult("reaching a server", False, "a connection arrived"))
        except BlockingIOError:
            findings.append(SelfTestResult("reaching a server", True))
        whole = len(findings) > 2
        return findings if whole else [*findings, SelfTestResult("the self-test ran", False, "it told nothing")]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, _: TracebackType | None
    ) -> None:
        self._server.close()
        for path in (*self._outside_paths, *self._protected_paths):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _list_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if os.path.isfile(path))
    except OSError:
        return []
