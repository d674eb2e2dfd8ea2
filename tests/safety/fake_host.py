"""A fake host to escape to: a home with secrets, a working directory, and servers."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.program import Result, Running
from tests.safety.installation import ROOT, as_user, find_unprivileged_uid, installation

PROGRAMS = ("home/.vscode", "home/.config/JetBrains", "config/JetBrains", "home/.claude", "home/.codex")
"""Folders of other programs of the user; safe mode creates placeholders for the files that these would run."""
PLACEHOLDER_NAMES = (".git", ".vscode", ".idea", ".claude", ".codex", ".envrc")
"""The names of the placeholders for these programs, for git and for direnv."""
DRIVER = Path(__file__).with_name("driver.py")
TOKEN = "canary-5f1c9e77"
"""The content of every secret file, also in the environment and arguments of the program that runs the calls."""
SECRETS = (
    "outside/secret",
    "home/.ssh/id_rsa",
    "home/.netrc",
    "home/.aws/credentials",
    "home/.bashrc",
    "config/ask/keys.toml",
    "data/ask/history.db",
)


class FakeHost(NamedTuple):
    """A user and the user's folders."""

    base: Path
    user: str
    listener: Listener

    @property
    def work(self) -> Path:
        return self.base / "work"

    def fill(self, template: str) -> str:
        """Replace each `@name@` in a text by its value on this host."""
        names = {
            **{name: str(self.base / name) for name in ("work", "home", "outside", "config", "data")},
            "base": str(self.base),
            "python": installation(self.user).python,
            "token": TOKEN,
            "shared": f"ask-test-{self.base.name}",
            **self.listener.addresses,
        }
        for name, value in names.items():
            template = template.replace(f"@{name}@", value)
        return template

    def build_request(self, calls: Sequence[tuple[str, Mapping[str, Any]]], *, safe: bool = True, **more: Any) -> bytes:
        """Build the input of the driver."""
        settings = {
            "root": str(installation(self.user).root),
            "work": str(self.work),
            "allowed": [],
            "config": str(self.base / "config/ask"),
            "cache": str(self.base / "cache/ask"),
            "data": str(self.base / "data/ask"),
            "open": str(self.base / "outside/secret"),
            "timeout": 20,
            "limits": {},
            "safe": safe,
            "calls": [[tool, json.loads(self.fill(json.dumps(arguments)))] for tool, arguments in calls],
        }
        return json.dumps({**settings, **more}).encode() + b"\n"

    @property
    def command(self) -> list[str]:
        """The command that starts the driver as the user."""
        python, root, _ = installation(self.user)
        driver = root / "driver.py" if root != ROOT else DRIVER
        if driver != DRIVER and not driver.exists():
            shutil.copy2(DRIVER, driver)
        return [*as_user(self.user), python, str(driver), TOKEN]

    @property
    def environment(self) -> dict[str, str]:
        """The driver's environment, with variables that a user might have set."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base / "home"),
            "LANG": "C.UTF-8",
            "CANARY": TOKEN,
            "BASH_ENV": str(self.base / "home/.bash_env"),
        }

    def change_owner(self) -> None:
        """Make the user the owner of all files."""
        if os.geteuid() == 0 and self.user != "root":
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, find_unprivileged_uid(), find_unprivileged_uid(), follow_symlinks=False)

    def start(self, calls: Sequence[tuple[str, Mapping[str, Any]]], **more: Any) -> Running:
        """Start the driver; use the result as a context."""
        return Running(self.command, env=self.environment, cwd=self.work, stdin=self.build_request(calls, **more))

    def run(self, *calls: tuple[str, Mapping[str, Any]], **more: Any) -> list[str]:
        """Run calls and return their results."""
        result, lines = self.finish(*calls, **more)
        assert len(lines) == len(calls) + 1, (lines, result.stderr)
        return lines[1:]

    def finish(self, *calls: tuple[str, Mapping[str, Any]], **more: Any) -> tuple[Result, list[Any]]:
        """Run calls and return the result of the driver and its output."""
        with self.start(calls, **more) as running:
            result = running.finish(120)
        return result, [json.loads(line) for line in result.text.splitlines()]

    def bash(self, *commands: str, **more: Any) -> list[str]:
        """Run commands and return their results."""
        return self.run(*(("bash", {"command": command}) for command in commands), **more)


@contextmanager
def create_fake_host(user: str) -> Iterator[FakeHost]:
    """Create a fake host, which is deleted afterward."""
    with ExitStack() as stack:
        base = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ask-host-", ignore_cleanup_errors=True))
        ).resolve()
        base.chmod(0o755)
        for folder in ("work", "work_evil", "home/.ssh", "home/.aws", "outside", "config/ask", "data/ask", *PROGRAMS):
            (base / folder).mkdir(parents=True)
        for folder in ("home/.config", "config"):
            (base / folder / "direnv").mkdir()
            (base / folder / "direnv/direnv.toml").write_text('[whitelist]\nprefix = ["/"]\n')
        for name in SECRETS:
            (base / name).write_text(TOKEN)
            (base / name).chmod(0o600)
        (base / "home/.bash_env").write_text("echo from-bash-env-$((6 * 7))")
        for folder in ("pkg", "part"):
            (base / "work" / folder).mkdir()
        for name in (".env", ".env.moved", "pkg/.env.local", "part/.env"):
            (base / "work" / name).write_text(f"KEY={TOKEN}")
        (base / "work/notes.txt").write_text("marzipan\n")
        subprocess.run(["git", "init", "-q", str(base / "work")], check=True, env={"PATH": os.environ["PATH"]})
        (base / "work/to-secret").symlink_to(base / "outside/secret")
        (base / "work/to-outside").symlink_to(base / "outside")
        listener = stack.enter_context(Listener(base / "work/server.sock"))
        host = FakeHost(base, user, listener)
        host.change_owner()
        for folder in ("/tmp", "/dev/shm"):
            stack.callback(Path(folder, host.fill("@shared@")).unlink, missing_ok=True)
        yield host


class Listener:
    """Servers that record what they receive: TCP, UDP, two Unix sockets with a path, and an abstract one."""

    def __init__(self, path: Path) -> None:
        self._abstract = f"ask-{path.parent.parent.name}"
        self._heard = bytearray()
        self._sentinels = 0
        self._changed = threading.Condition()
        self._servers = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "path": socket.socket(socket.AF_UNIX),
            "datagrams": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
            "abstract": socket.socket(socket.AF_UNIX),
        }
        self._servers["udp"].bind(("127.0.0.1", 0))
        self._servers["path"].bind(str(path))
        self._servers["abstract"].bind("\0" + self._abstract)
        datagrams = path.with_suffix(".datagrams")
        self._servers["datagrams"].bind(str(datagrams))
        for socket_file in (path, datagrams):
            socket_file.chmod(0o777)
        for server in self._servers.values():
            if server.type == socket.SOCK_STREAM:
                server.listen(100)
            threading.Thread(target=self._serve, args=(server,), daemon=True).start()
        self.addresses = {
            "tcp": str(self._servers["tcp"].getsockname()[1]),
            "udp": str(self._servers["udp"].getsockname()[1]),
            "path": str(path),
            "datagrams": str(datagrams),
            "abstract": self._abstract,
        }

    def _serve(self, server: socket.socket) -> None:
        while True:
            try:
                data = server.recv(1000) if server.type == socket.SOCK_DGRAM else self._accept(server)
            except OSError:
                return
            with self._changed:
                self._heard += data
                self._changed.notify_all()

    def _accept(self, server: socket.socket) -> bytes:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(5)
            return b"[connected]" + connection.recv(1000)

    def read_received(self) -> str:
        """Return everything that the servers have received so far."""
        self._sentinels += 1
        for name, server in self._servers.items():
            word = f"[end {self._sentinels} {name}]".encode()
            with socket.socket(server.family, server.type) as client:
                client.connect(server.getsockname())
                client.sendall(word)
            with self._changed:
                assert self._changed.wait_for(lambda word=word: word in self._heard, 10)  # type: ignore[misc]
        return self._heard.decode(errors="replace")

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            server.shutdown(socket.SHUT_RDWR) if server.type == socket.SOCK_STREAM else None
            server.close()
