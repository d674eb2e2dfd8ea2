"""What a program finds around it: a home, saved conversations, installed distributions, provider plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Command

ROOT = Path(__file__).parents[1]
ASK = str(Path(sys.executable).with_name("ask"))
TARGET = ("-p", "openrouter", "-m", "m")


class Ground:
    """A folder in which homes are made, each with a history and a cache of its own.

    Args:
        folder: an empty one.
        url: where the model is.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url

    def environment(self, home: str, *, path: Path | None = None) -> dict[str, str]:
        """The environment of one who lives in that home, which is made.

        Args:
            home: its name.
            path: a folder of packages beside the installed ones.
        """
        place = self._folder / home
        (place / "work").mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "LANG": "C.UTF-8",
            "ASK_SESSION": "benchmark",
            "BASE_URL": self._url,
            "OPENROUTER_BASE_URL": self._url,
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
        """The program, asking our model; `before` and `words` are what comes behind that."""
        started = (ASK, "chat", *TARGET) if turns else (ASK, *TARGET)
        first = (*started, *before) if before else ()
        return Command((*started, *words), self.environment(home, path=path), terminal, turns, first)

    def run_ask(self, *words: str, home: str = "home") -> Command:
        """The program with these arguments and no others."""
        return Command((ASK, *words), self.environment(home))

    def bare(self, *words: str, terminal: bool = False) -> Command:
        """The bare script."""
        return Command((sys.executable, str(ROOT / "benchmarks/bare.py"), *words), self.environment("home"), terminal)

    def python(self, code: str) -> Command:
        """The interpreter."""
        return Command((sys.executable, "-c", code), self.environment("home"))

    def saved(self, conversations: int) -> str:
        """A home with so many saved conversations; its name."""
        home = f"saved-{conversations}"
        file = Path(self.environment(home)["HOME"], ".local/share/ask/history.db")
        if conversations and not file.exists():  # by another process: what it needs of memory would be ours
            command = [sys.executable, "-m", "benchmarks.stores", str(file), str(conversations)]
            subprocess.run(command, cwd=ROOT, check=True)
        return home

    def distributions(self, count: int) -> Path:
        """A folder with so many distributions that have nothing to do with us."""
        return self._packages("other", count, "[console_scripts]\nnothing-{number} = nothing_{number}:main\n")

    def plugins(self, count: int) -> Path:
        """A folder with so many provider plugins."""
        return self._packages("plugin", count, "[ask.providers]\nservice{number} = service_{number}:provider\n")

    def _packages(self, kind: str, count: int, entry_points: str) -> Path:
        place = self._folder / f"{kind}-{count}"
        place.mkdir(exist_ok=True)
        for number in range(count):
            info = place / f"{kind}_{number}-1.0.dist-info"
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {kind}-{number}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(entry_points.format(number=number))
        return place
