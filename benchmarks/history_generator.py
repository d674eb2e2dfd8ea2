"""Fills a history with generated conversations: `python benchmarks/history_generator.py PATH 10000`.

PATH is the file, `history.db` in the data folder of `ask`. The content depends only on the number.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ask import __version__
from ask.history.search_index import list_indexes
from ask.history.store import Store
from ask.messages import Usage

RUNS = 5
"""Runs per conversation, each of four messages: a prompt, a tool call, its result and the answer."""
MESSAGES = 4 * RUNS
SECONDS_APART = 600.0
"""Seconds between two runs."""
SYLLABLES = ["ba", "co", "di", "fe", "gu", "ka", "lo", "mi", "ne", "pu", "ra", "so", "ti", "ve", "wu", "za"]
TARGETS = (
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("openai", "gpt-6.2-sol"),
    ("gemini", "gemini-2.5-pro"),
    ("ollama", "qwen3"),
)
MADE = {
    "conversations": "number, id, title, created, updated",
    "runs": "number, conversation, started, ended, version, provider, model, system, directory, terminal, exit_code, "
    f"rounds, {', '.join(Usage._fields)}",
    "messages": "number, run, time, role, content, tool_call_id, tool_name, complete, reasoning, finish_reason, "
    f"{', '.join(Usage._fields)}",
    "calls": "message, position, id, name, arguments, started, seconds, failed, decision, rule, exit_status",
}
"""The tables to fill and their columns."""
Row = tuple[Any, ...]


class TextGenerator:
    """Generates text in which, as in any language, some words are common and most are rare."""

    def __init__(self) -> None:
        self.random = random.Random(4)
        self._words = [first + second + third for first in SYLLABLES for second in SYLLABLES for third in SYLLABLES]
        self.random.shuffle(self._words)
        self._weights = [1 / (place + 1) for place in range(len(self._words))]
        self._pool = self.random.choices(self._words, self._weights, k=100_000)

    def generate(self, words: int) -> str:
        """Generate this many words."""
        start = self.random.randrange(len(self._pool) - words)
        return " ".join(self._pool[start : start + words])


def generate_rows(conversations: int, newest: float) -> Iterator[tuple[str, Row]]:
    """Generate the rows of all tables, each with the name of its table."""
    writer = TextGenerator()
    for number in range(1, conversations + 1):
        began = newest - (conversations - number + 1) * SECONDS_APART * RUNS
        provider, model = TARGETS[number % len(TARGETS)]
        directory = f"/home/user/project-{number % 50}"
        title, identity = writer.generate(8), "abcdef"[number % 6] + f"{number * 2_654_435_761 % 16**11:011x}"
        yield "conversations", (number, identity, title, began, began + SECONDS_APART * RUNS - 1)
        for place in range(RUNS):
            run, now = (number - 1) * RUNS + place + 1, began + place * SECONDS_APART
            usage = Usage(1000 * (place + 1), 200, 500 * place, 100, 0.001 * (place + 1))
            about = (__version__, provider, model, "", directory, f"session:{number % 100}")
            yield "runs", (run, number, now, now + 20, *about, 0, 1, *usage)
            yield from generate_messages(writer, run, now, usage)


def generate_messages(writer: TextGenerator, run: int, now: float, usage: Usage) -> Iterator[tuple[str, Row]]:
    """Generate the messages of a run and its tool call, of which every tenth fails."""
    first, call, none = (run - 1) * 4 + 1, f"call_{run}", Usage()
    failed = run % 10 == 0
    arguments = json.dumps({"command": f"grep -r {writer.generate(1)} ."})
    yield "messages", (first, run, now, "user", writer.generate(20), "", "", 1, "", "", *none)
    yield "messages", (first + 1, run, now + 2, "assistant", writer.generate(10), "", "", 1, "", "tool_calls", *usage)
    yield "calls", (first + 1, 0, call, "bash", arguments, now + 2, 0.5, failed, "allow", "", int(failed))
    yield "messages", (first + 2, run, now + 3, "tool", writer.generate(120), call, "bash", 1, "", "", *none)
    yield "messages", (first + 3, run, now + 20, "assistant", writer.generate(100), "", "", 1, "", "stop", *usage)


def fill_history(path: Path, conversations: int, newest: float | None = None) -> None:
    """Add conversations to an empty history, the last one at the time `newest` (default: now)."""
    made: dict[str, list[Row]] = {name: [] for name in MADE}
    for name, row in generate_rows(conversations, time.time() if newest is None else newest):
        made[name].append(row)
    with Store(path) as store, store.write_transaction() as connection:
        for name, columns in MADE.items():
            places = ", ".join("?" * len(columns.split(", ")))
            connection.executemany(f"INSERT INTO {name} ({columns}) VALUES ({places})", made[name])
        for table, view in list_indexes():
            connection.execute(f"INSERT INTO {table} (rowid, content, calls) SELECT * FROM {view}")


if __name__ == "__main__":
    fill_history(Path(sys.argv[1]), int(sys.argv[2]))
