"""Creates what programs run in: homes, saved conversations, installed distributions and provider plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measurement import Command

ROOT = Path(__file__).parents[1]
ASK = str(Path(sys.executable).with_name("ask"))
TARGET = ("-p", "openrouter", "-m", "m")
HISTORY_FILE = ".local/share/ask/history.db"
QUERY_SCRIPT = """
import click, sqlite3, sys

for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):
    print(*row)
"""


class BenchmarkEnvironment:
    """A folder of homes, each with its own history and cache; `url` is the address of the model."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def create_environment(self, home: str, *, path: Path | None = None, service: str = "") -> dict[str, str]:
        """Create a home by name; return its environment variables.

        `path` is a folder of additional packages, `service` the path of the model's variant in `benchmarks.server`.
        """
        url = self._url.replace("/v1", f"/{service}/v1") if service else self._url
        place = self._folder / home
        (place / "work").mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "LANG": "C.UTF-8",
            "ASK_SESSION": "benchmark",
            "BASE_URL": url,
            "OPENROUTER_BASE_URL": url,
            "OPENROUTER_API_KEY": "sk-benchmark",
        }
        return environment | ({"PYTHONPATH": str(path)} if path else {})

    def ask(
        self,
        *words: str,
        home: str = "home",
        path: Path | None = None,
        terminal: bool = False,
        turns: int = 0,
        before: Sequence[str] = (),
    ) -> Command:
        """Return a command that asks our model; `before` and `words` are its arguments."""
        started = (ASK, "chat", *TARGET) if turns else (ASK, *TARGET)
        first = (*started, *before) if before else ()
        return Command((*started, *words), self.create_environment(home, path=path), terminal, turns, first)

    def run_ask(self, *words: str, home: str = "home") -> Command:
        """Return a command that runs ask with exactly these arguments."""
        return Command((ASK, *words), self.create_environment(home))

    def bare(self, *words: str, terminal: bool = False) -> Command:
        """Return a command that runs the baseline script."""
        return Command(
            (sys.executable, str(ROOT / "benchmarks/bare.py"), *words), self.create_environment("home"), terminal
        )

    def map(self, rows: int, *options: str, service: str = "slow", finished: int = 0, home: str = "map") -> Command:
        """Return a command that maps a prompt over rows, of which the first are in the ledger already."""
        environment = self.create_environment(home, service=service)
        words = (ASK, "map", *TARGET, "row {{id}}", str(self.create_rows(rows)), *options)
        # One row compiles every module; compiling takes more memory than sending thousands of rows.
        command = Command(words, environment, before=(*words, "--limit", "1"))
        ledger = Path(environment["HOME"], ".local/share/ask/map.db")
        if finished and not ledger.exists():
            subprocess.run(
                [*words, "--limit", "1"], env=environment, cwd=command.directory, check=True, capture_output=True
            )
            generator = [sys.executable, "-m", "benchmarks.ledger_generator", str(ledger), words[-1], str(finished)]
            subprocess.run(generator, cwd=ROOT, check=True)
        return command

    def bare_map(
        self, rows: int, *, service: str = "slow", script: str = "bare_map", python: str = sys.executable
    ) -> Command:
        """Return a command that runs a baseline script of `ask map`, with another Python if it needs its packages."""
        words = (python, str(ROOT / f"benchmarks/{script}.py"), str(self.create_rows(rows)))
        return Command(words, self.create_environment("map", service=service), before=(python, "--version"))

    def create_rows(self, count: int) -> Path:
        """Create a file of rows as long as support tickets."""
        file = self._folder / f"rows-{count}.jsonl"
        if not file.exists():
            text = "This is what somebody has written about something that does not work. " * 2
            with file.open("w") as stream:
                stream.writelines(f'{{"id": {number}, "text": "{text}"}}\n' for number in range(count))
        return file

    def python(self, code: str, *arguments: str) -> Command:
        return Command((sys.executable, "-c", code, *arguments), self.create_environment("home"))

    def query_history(self, query: str, conversations: int) -> Command:
        """Return a command that runs a script with click and sqlite3, which prints the result of a query."""
        environment = self.create_environment(self.create_history(conversations))
        return self.python(QUERY_SCRIPT, str(Path(environment["HOME"], HISTORY_FILE)), query)

    def create_history(self, conversations: int) -> str:
        """Create a home with this many saved conversations; return its name."""
        home = f"saved-{conversations}"
        file = Path(self.create_environment(home)["HOME"], HISTORY_FILE)
        if conversations and not file.exists():  # in another process, whose memory does not count as ours
            command = [sys.executable, "-m", "benchmarks.history_generator", str(file), str(conversations)]
            subprocess.run(command, cwd=ROOT, check=True)
        return home

    def create_distributions(self, count: int) -> Path:
        """Create a folder with this many unrelated distributions."""
        return self._create_packages("other", count, "[console_scripts]\nnothing-{number} = nothing_{number}:main\n")

    def create_plugins(self, count: int) -> Path:
        """Create a folder with this many provider plugins."""
        return self._create_packages("plugin", count, "[ask.providers]\nservice{number} = service_{number}:provider\n")

    def _create_packages(self, kind: str, count: int, entry_points: str) -> Path:
        place = self._folder / f"{kind}-{count}"
        place.mkdir(exist_ok=True)
        for number in range(count):
            info = place / f"{kind}_{number}-1.0.dist-info"
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {kind}-{number}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(entry_points.format(number=number))
        return place
