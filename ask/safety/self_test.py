"""Self-test of a sandbox: attempts to escape from it before anything is sent to a provider.

The attempts are made by the worker, in the same sandbox that the calls will run in. `SelfTestHost` checks their
effects from outside.
"""

from __future__ import annotations

import _socket
import os

from ask.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from socket import socket
    from typing import Self

    from ask.safety.sandbox_config import SandboxConfig

# Linux's numbers, because `socket` takes longer to import than what it would be used for.
_AF_UNIX, _AF_INET, _AF_NETLINK, _SOCK_STREAM = 1, 2, 16, 1
_PROTECTED_FOLDER = ".git"


class SelfTestResult(NamedTuple):
    """An attempt, and how it succeeded; "" if the sandbox prevented it."""

    name: str
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure


def encode_pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Encode pairs of strings without NUL. Importing `json` would take as long as the rest of the worker's start."""
    return b"\0".join(os.fsencode(text) for pair in pairs for text in pair)


def decode_pairs(data: bytes) -> list[tuple[str, str]]:
    """Decode pairs of strings. What is not a pair is ignored."""
    texts = os.fsdecode(data).split("\0")
    return list(zip(texts[::2], texts[1::2], strict=False))


def run_self_test(tasks: Sequence[tuple[str, str]]) -> Iterator[SelfTestResult]:
    """Run the checks described by `SelfTestHost.tasks`. Called in the sandbox."""
    # Both may succeed, in the empty home and the empty network: only the effect on the host counts.
    _try_opening(tasks, "outside", os.O_WRONLY | os.O_CREAT)
    _try_connecting(tasks)
    yield SelfTestResult("reading ask's configuration and data", _try_opening(tasks, "secret", os.O_RDONLY))
    yield SelfTestResult("changing protected files", _try_opening(tasks, "protected", os.O_WRONLY | os.O_CREAT))
    yield SelfTestResult("changing kernel settings", _try_opening(tasks, "kernel setting", os.O_WRONLY))
    yield SelfTestResult("sockets that bypass the network rules", _try_sockets(_AF_UNIX, _AF_NETLINK))
    yield SelfTestResult("privileges", _check_privileges())
    yield SelfTestResult("seeing other processes", "" if os.getpid() == 1 else f"process {os.getpid()}, not the first")


def clean_up_self_test(tasks: Sequence[tuple[str, str]]) -> None:
    """Remove the files that the attempts created. Called in the sandbox after the evaluation outside."""
    for kind, path in tasks:
        if kind == "outside":
            _attempt(os.unlink, path)


def _attempt(action: Callable[..., object], *arguments: object) -> bool:
    """Return whether the system lets an action succeed. Importing `contextlib.suppress` would take too long."""
    try:
        action(*arguments)
    except OSError:
        return False
    return True


def _try_opening(tasks: Sequence[tuple[str, str]], task_kind: str, flags: int) -> str:
    """Try to open the paths of a kind. Return a message that names those that could be opened, or ""."""
    opened = [path for kind, path in tasks if kind == task_kind and _attempt(_open_file, path, flags)]
    return f"{', '.join(opened)} could be opened" if opened else ""


def _open_file(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _try_connecting(tasks: Sequence[tuple[str, str]]) -> None:
    connection = _socket.socket(_AF_INET, _SOCK_STREAM)
    connection.settimeout(0.5)
    _attempt(connection.connect, ("127.0.0.1", int(dict(tasks)["port"])))
    connection.close()


def _try_sockets(*families: int) -> str:
    opened = [str(family) for family in families if _attempt(_socket.socket, family, _SOCK_STREAM)]
    return f"sockets of the families {', '.join(opened)} could be opened" if opened else ""


def _check_privileges() -> str:
    with open("/proc/self/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    expected = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    differences = [f"{name} is {status.get(name)}" for name, value in expected.items() if status.get(name) != value]
    return ", ".join(differences)


class SelfTestHost:
    """The part of the self-test outside the sandbox: defines the attempts and checks their effects.

    Attributes:
        tasks: the kind and the value of each attempt that `run_self_test` makes.
    """

    def __init__(self, config: SandboxConfig) -> None:
        from pathlib import Path
        from socket import create_server

        name = f".ask-{os.urandom(8).hex()}"
        folders = (*config.secret_folders, config.home, config.overflow_directory, *map(Path, ("/usr", "/etc", "/run")))
        outside = [str(folder / name) for folder in folders]
        outside += [f"{folder}{name}" for folder in config.outermost_folders]
        protected = [str(folder / _PROTECTED_FOLDER / name) for folder in config.writable_folders]
        secret = [path for folder in (*config.secret_folders, config.state_folder) for path in _list_files(folder)]
        self._created_paths = [*outside, *protected]
        self._server: socket = create_server(("127.0.0.1", 0))
        self._server.setblocking(False)
        self.tasks = [
            *(("secret", path) for path in secret),
            *(("outside", path) for path in outside),
            *(("protected", path) for path in protected),
            ("kernel setting", "/proc/sys/kernel/core_pattern"),
            ("port", str(self._server.getsockname()[1])),
        ]

    def evaluate(self, report: bytes) -> list[SelfTestResult]:
        """Combine the worker's report with checks from outside.

        Raises:
            SafetyError: an attempt was not prevented, or the report is empty.
        """
        from ask.errors import SafetyError

        results = [SelfTestResult(*pair) for pair in decode_pairs(report)]
        if not results:
            results = [SelfTestResult("the self-test ran", "it reported nothing")]
        created_paths = [path for path in self._created_paths if os.path.lexists(path)]
        results.append(SelfTestResult("writing outside", ", ".join(created_paths)))
        try:
            self._server.accept()[0].close()
        except BlockingIOError:  # any other error would hide a connection
            was_reached = False
        else:
            was_reached = True
        results.append(SelfTestResult("connecting to a server", "a connection arrived" if was_reached else ""))
        failures = [f"{result.name}: {result.failure}" for result in results if not result.passed]
        if failures:
            raise SafetyError(
                f"the sandbox failed its self-test ({'; '.join(failures)})",
                "run without --safe only if you trust the model",
            )
        return results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for path in self._created_paths:
            _attempt(os.unlink, path)


def _list_files(folder: Path) -> list[str]:
    try:
        return [str(path) for path in folder.iterdir() if os.path.isfile(path)]
    except OSError:
        return []
