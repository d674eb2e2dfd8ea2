"""Counts what a program does, as it does it: what it loads, opens, starts, connects to and says to SQLite.

The program is started as ever; Python itself loads the counter into it, by the name `sitecustomize`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.program import ASK, Home, run

COUNTER = """
import json, os, sys

def note(kind, what):
    os.write(report, json.dumps([kind, str(what)]).encode() + b"\\n")

def watch(event, arguments):
    if len(sys.modules) != len(loaded):  # at any event, since a program may end without a chance to look
        new = [name for name in list(sys.modules) if name not in loaded]
        loaded.update(new)
        for name in new:
            note("module", name)
    if event == "sqlite3.connect/handle":  # which is not yet connected, but is when the next function is called
        sys.setprofile(lambda *_: listen(arguments[0]))
    elif event in KINDS:
        note(KINDS[event], arguments[-1 if event == "socket.connect" else 0])

def listen(connection):
    sys.setprofile(None)
    connection.set_trace_callback(lambda statement: note("statement", statement))
    connection.set_progress_handler(lambda: note("work", ""), 10)  # of the machine's instructions

KINDS = {
    "open": "open",
    "sqlite3.connect": "database",
    "socket.connect": "connection",
    "subprocess.Popen": "process",
    "os.posix_spawn": "process",
    "os.exec": "process",
}
loaded = set()
try:
    report = os.open(os.environ["COUNT_INTO"], os.O_WRONLY | os.O_CREAT | os.O_EXCL)
except FileExistsError:
    pass  # the process that it counts has started this one
else:
    sys.addaudithook(watch)
"""
CODE = (".py", ".pyc", ".so", ".pth", ".cfg", ".dll", ".pyd")
OURS = ("ask", "ask_prompts", "ask_providers", "ask_shell", "ask_completions")


class Did(NamedTuple):
    """One thing that a program did: its kind, and what with."""

    kind: str
    what: str


class Counted(NamedTuple):
    """What a program did, in order."""

    all: tuple[Did, ...]

    def of(self, kind: str) -> list[str]:
        """Everything of a kind."""
        return [did.what for did in self.all if did.kind == kind]

    @property
    def own(self) -> set[str]:
        """Our modules that it loaded."""
        return {name for name in self.of("module") if name.partition(".")[0] in OURS}

    @property
    def packages(self) -> set[str]:
        """The packages of others that it loaded, and the parts of Python itself."""
        return {name.partition(".")[0] for name in self.of("module")} - set(OURS)

    @property
    def files(self) -> list[str]:
        """The files that it opened by name, its code apart."""
        return [what for what in self.of("open") if not what.endswith(CODE) and not what.isdigit()]

    @property
    def statements(self) -> list[str]:
        """What it said to SQLite; what the search index says to its own tables now and then is left out."""
        return [what for what in self.of("statement") if not what.startswith("--") and "'main'." not in what]

    def parted(self, kind: str, beginning: str = "") -> list[Counted]:
        """What it did from each thing of a kind to the next one; the last part ends with the program."""
        starts = [place for place, did in enumerate(self.all) if did.kind == kind and did.what.startswith(beginning)]
        ends = [*starts[1:], len(self.all)]
        return [Counted(self.all[start:end]) for start, end in zip(starts, ends, strict=True)]

    def summary(self) -> dict[str, int]:
        """How often it did what, modules apart."""
        kinds = {kind: len(self.of(kind)) for kind in ("database", "connection", "process")}
        return {"file": len(self.files), "statement": len(self.statements), **kinds}


class Counter:
    """Runs programs in a home, and counts.

    Args:
        home: where they run.
        env: added to its environment.
    """

    def __init__(self, home: Home, env: Mapping[str, str]) -> None:
        self._home = home
        self._path, self._reports = home.path / "counter", home.path / "counted"
        self._path.mkdir()
        self._reports.mkdir()  # elsewhere: what changes on the path of modules is looked at anew
        (self._path / "sitecustomize.py").write_text(COUNTER)
        self._env = {**home.env, **env, "PYTHONDONTWRITEBYTECODE": "1"}
        self._numbers = count()

    def ask(self, *args: str, stdin: bytes | None = None, path: Sequence[Path] = (), code: int = 0) -> Counted:
        """Run `ask`; `path` are folders of further packages."""
        return self.run([ASK, *args], stdin=stdin, path=path, code=code)

    def run(
        self, command: Sequence[str], *, stdin: bytes | None = None, path: Sequence[Path] = (), code: int = 0
    ) -> Counted:
        """Run a program to its end."""
        report = self._reports / str(next(self._numbers))
        env = {"COUNT_INTO": str(report), "PYTHONPATH": ":".join(map(str, (self._path, *path)))}
        result = run(command, env={**self._env, **env}, cwd=self._home.work, stdin=stdin, timeout=60)
        assert result.code == code, result.stderr
        return Counted(tuple(Did(*json.loads(line)) for line in report.read_text().splitlines()))
