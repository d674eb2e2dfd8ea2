"""Records what a program does: imports, opened files, processes, connections and SQLite statements.

The program runs unchanged; the interpreter imports the tracer as `sitecustomize`.
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
        # None in place of a module makes importing it fail.
        new = [name for name, module in list(sys.modules.items()) if module is not None and name not in loaded]
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


class TraceEvent(NamedTuple):
    """An event of a traced program."""

    kind: str
    detail: str


class ProcessTrace(NamedTuple):
    """The events of a traced program, in order."""

    events: tuple[TraceEvent, ...]

    def details(self, kind: str) -> list[str]:
        """Return the details of all events of a kind."""
        return [did.detail for did in self.events if did.kind == kind]

    @property
    def own_modules(self) -> set[str]:
        """Return the modules of ask that the program imported."""
        return {name for name in self.details("module") if name.partition(".")[0] in OURS}

    @property
    def packages(self) -> set[str]:
        """Return the top-level names of all other imported modules, the standard library included."""
        return {name.partition(".")[0] for name in self.details("module")} - set(OURS)

    @property
    def files(self) -> list[str]:
        """Return the paths of opened files, except for code."""
        return [what for what in self.details("open") if not what.endswith(CODE) and not what.isdigit()]

    @property
    def statements(self) -> list[str]:
        """Return the SQL statements, except for occasional internal ones of the full-text index."""
        return [what for what in self.details("statement") if not what.startswith("--") and "'main'." not in what]

    def split_by(self, kind: str, beginning: str = "") -> list[ProcessTrace]:
        """Split the trace at each event of a kind; the last part extends to the end."""
        starts = [
            place for place, did in enumerate(self.events) if did.kind == kind and did.detail.startswith(beginning)
        ]
        ends = [*starts[1:], len(self.events)]
        return [ProcessTrace(self.events[start:end]) for start, end in zip(starts, ends, strict=True)]

    def count_by_kind(self) -> dict[str, int]:
        """Count the events by kind, except imports."""
        kinds = {kind: len(self.details(kind)) for kind in ("database", "connection", "process")}
        return {"file": len(self.files), "statement": len(self.statements), **kinds}


class ProcessTracer:
    """Runs programs in a home and traces them."""

    def __init__(self, home: Home, env: Mapping[str, str]) -> None:
        self._home = home
        self._path, self._reports = home.path / "counter", home.path / "counted"
        self._path.mkdir()
        self._reports.mkdir()  # a separate folder: Python rescans a sys.path folder that changes
        (self._path / "sitecustomize.py").write_text(COUNTER)
        self._env = {**home.env, **env, "PYTHONDONTWRITEBYTECODE": "1"}
        self._numbers = count()

    def ask(self, *args: str, stdin: bytes | None = None, path: Sequence[Path] = (), code: int = 0) -> ProcessTrace:
        """Run and trace `ask`; `path` are additional folders for PYTHONPATH."""
        return self.run([ASK, *args], stdin=stdin, path=path, code=code)

    def run(
        self, command: Sequence[str], *, stdin: bytes | None = None, path: Sequence[Path] = (), code: int = 0
    ) -> ProcessTrace:
        """Run and trace a program."""
        report = self._reports / str(next(self._numbers))
        env = {"COUNT_INTO": str(report), "PYTHONPATH": ":".join(map(str, (self._path, *path)))}
        result = run(command, env={**self._env, **env}, cwd=self._home.work, stdin=stdin, timeout=60)
        assert result.code == code, result.stderr
        return ProcessTrace(tuple(TraceEvent(*json.loads(line)) for line in report.read_text().splitlines()))
