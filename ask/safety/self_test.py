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

    from ask.safety.confinement import Confinement

_AF_UNIX, _AF_INET, _AF_NETLINK = 1, 2, 16
_PROTECTED = ".git"


class Finding(NamedTuple):
    """What was tried, whether the sandbox held, and what happened where it did not."""

    name: str
    held: bool
    detail: str = ""


def attempt(tasks: Mapping[str, Any]) -> list[Finding]:
    """Inside: carry out the attempts that `Outside.tasks` describes."""
    return [Finding(name, not detail, detail) for name, detail in _attempts(tasks)]


def tidy(tasks: Mapping[str, Any]) -> None:
    """Inside, once it was judged outside: remove what the attempts made in the empty home and the like."""
    for path in tasks["outside"]:
        with suppress(OSError):
            os.unlink(path)


def _attempts(tasks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    _opened(tasks["outside"], os.O_WRONLY | os.O_CREAT)  # in an empty home it succeeds: only the effect outside counts
    yield "reading ask's configuration and data", _opened(tasks["secret"], os.O_RDONLY)
    yield "changing what is protected", _opened(tasks["protected"], os.O_WRONLY | os.O_CREAT)
    yield "changing the kernel's settings", _opened(["/proc/sys/kernel/core_pattern"], os.O_WRONLY)
    yield "connecting to a server", _connects(tasks["port"])
    yield "sockets that lead past the network", _any_socket(_AF_UNIX, _AF_NETLINK)
    yield "privileges", _privileges()
    yield "seeing processes outside", "" if os.getpid() == 1 else f"process {os.getpid()}, not the first"


def _opened(paths: Sequence[str], flags: int) -> str:
    """Tries all of them; which could be opened."""
    opened = []
    for path in paths:
        with suppress(OSError):
            os.close(os.open(path, flags, 0o600))
            opened.append(path)
    return f"{', '.join(opened)} could be opened" if opened else ""


def _connects(port: int) -> str:
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


def _any_socket(*families: int) -> str:
    import _socket

    for family in families:
        with suppress(OSError):
            _socket.socket(family, 1).close()
            return f"a socket of family {family} was made"
    return ""


def _privileges() -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    wanted = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    wrong = [f"{name} is {status.get(name)}" for name, value in wanted.items() if status.get(name) != value]
    return ", ".join(wrong)


class Outside:
    """The part outside: what is to be attempted, and what the attempts did."""

    def __init__(self, confinement: Confinement) -> None:
        from socket import create_server

        name = f".ask-{os.urandom(8).hex()}"
        places = (*confinement.secret, confinement.home, confinement.spill, Path("/usr"), Path("/etc"), Path("/run"))
        self._outside = [place / name for place in places]
        self._outside += [folder.with_name(folder.name + name) for folder in confinement.outermost]
        self._protected = [folder / _PROTECTED / name for folder in confinement.writable]
        self._secret = [path for place in (*confinement.secret, confinement.state) for path in _files(place)]
        self._server: socket = create_server(("127.0.0.1", 0))
        self._server.setblocking(False)

    @property
    def tasks(self) -> dict[str, Any]:
        """What `attempt` takes."""
        return {
            "secret": [str(path) for path in self._secret],
            "outside": [str(path) for path in self._outside],
            "protected": [str(path) for path in self._protected],
            "port": self._server.getsockname()[1],
        }

    def judge(self, told: Any) -> list[Finding]:
        """The findings: what the worker told, and what is to be seen from here. Nothing told is nothing held."""
        from ask.parsing import as_list

        findings = [
            Finding(row[0], row[1], row[2])
            for row in as_list(told)
            if isinstance(row, list) and [type(part) for part in row] == [str, bool, str]
        ]
        made = [path for path in (*self._outside, *self._protected) if os.path.lexists(path)]
        findings.append(Finding("writing outside", not made, ", ".join(map(str, made))))
        try:
            self._server.accept()[0].close()
            findings.append(Finding("reaching a server", False, "a connection arrived"))
        except BlockingIOError:
            findings.append(Finding("reaching a server", True))
        whole = len(findings) > 2
        return findings if whole else [*findings, Finding("the self-test ran", False, "it told nothing")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.close()
        for path in (*self._outside, *self._protected):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if os.path.isfile(path))
    except OSError:
        return []
