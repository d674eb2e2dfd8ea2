"""Measures `ask` beside the floor, in one run: medians, and the ratios that the budgets are about.

Run it with the interpreter of the environment that `ask` is installed in: `.venv/bin/python benchmarks/run.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from stores import Writer, fill

PYTHON = sys.executable
ASK = str(Path(PYTHON).parent / "ask")
BARE = str(Path(__file__).with_name("bare.py"))
ON_TERMINAL = str(Path(__file__).with_name("on_terminal.py"))
RUNS = 15
EVENTS = 20_000
ROUNDS = 20
SECTION = """## A heading

Some *running* text of **several** rows, with `code` and a [link](https://example.org) in it, as an answer has.

1. First, with
   - one thing
   - and another
2. Second

```python
def add(one: int, other: int) -> int:
    return one + other  # that is all
```

| What | How much |
|------|---------:|
| this | 1 |

"""
"""Markdown of all kinds; a long answer is made of many."""
CONVERSATIONS = 10_000


class Model(BaseHTTPRequestHandler):
    """Answers by the last message.

    "events" streams many, "50 KB" so much Markdown, "rounds" calls a tool that often, any other says hello.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer one chat request."""
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        asked = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        results = sum(m["role"] == "tool" for m in messages)
        deltas: list[dict[str, object]]
        if asked == "events":
            deltas = [{"content": "word "}] * EVENTS
        elif asked.endswith(" KB"):
            size = int(asked.removesuffix(" KB")) * 1024
            text = SECTION * (size // len(SECTION) + 1)
            deltas = [{"content": text[place : place + 5]} for place in range(0, size, 5)]
        elif asked == "rounds" and results < ROUNDS:
            function = {"name": "bash", "arguments": json.dumps({"command": f"true {results}"})}
            deltas = [{"tool_calls": [{"index": 0, "id": f"call_{results}", "function": function}]}]
        else:
            deltas = [{"content": "hello"}]
        choices = [{"index": 0, "delta": delta} for delta in deltas] + [{"delta": {}, "finish_reason": "stop"}]
        lines = [f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in choices]
        body = "".join([*lines, "data: [DONE]\n\n"]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def measure(commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], runs: int) -> dict[str, float]:
    """The median of each command in milliseconds; the commands take turns, so that all meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(
                command,
                env=dict(environment),
                cwd=Path(environment["HOME"], "work"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
            )
            times[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def measure_history(environment: Mapping[str, str], home: Path, runs: int, conversations: int) -> dict[str, float]:
    """What saving, going on, listing and searching take, with a history that holds many conversations."""
    full, empty = (
        ["env", f"XDG_DATA_HOME={home / name}", "ASK_SESSION=s", ASK, "-p", "openrouter", "-m", "m"]
        for name in ("full", "empty")
    )
    reading = ["env", f"XDG_DATA_HOME={home / 'full'}", ASK, "history"]
    fill(home / "full" / "ask" / "history.db", conversations)
    commands = {
        "ask_unsaved": [*empty, "--no-save", "hi"],
        "ask_saved": [*empty, "hi"],
        "ask_saved_full": [*full, "hi"],
        "continue_empty": [*empty, "-c", "hi"],
        "continue_full": [*full, "-c", "hi"],
        "history_list": [*reading, "list"],
        "history_search": [*reading, "search", *Writer().text(2).split()],
    }
    return measure(commands, environment, runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="of each command")
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS, help="in the full history")
    given = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as home:
        Path(home, "work").mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "BASE_URL": url,
            "OPENROUTER_BASE_URL": url,
            "OPENROUTER_API_KEY": "sk-benchmark",
        }
        ask = [ASK, "-p", "openrouter", "-m", "m"]
        short = {
            "click": [PYTHON, "-c", "import click"],
            "version": [ASK, "--version"],
            "help": [ASK, "--help"],
            "bare": [PYTHON, BARE, "hi"],
            "ask": [*ask, "hi"],
            "ask_terminal": [PYTHON, ON_TERMINAL, *ask, "hi"],
            "bare_terminal": [PYTHON, ON_TERMINAL, PYTHON, BARE, "hi"],
            "ask_safe": [*ask, "--safe", "hi"],
        }
        long = {
            "bare_events": [PYTHON, BARE, "events"],
            "ask_events": [*ask, "events"],
            "ask_rounds": [*ask, "--max-rounds", str(ROUNDS + 1), "rounds"],
            "terminal_50": [PYTHON, ON_TERMINAL, *ask, "50 KB"],
            "terminal_200": [PYTHON, ON_TERMINAL, *ask, "200 KB"],
            "pipe_200": [*ask, "200 KB"],
            "safe_rounds": [*ask, "--safe", "--max-rounds", str(ROUNDS + 1), "rounds"],
        }
        ms = measure(short, environment, given.runs) | measure(long, environment, min(given.runs, 5))
        ms |= measure_history(environment, Path(home), given.runs, given.conversations)
    plain_round, safe_round = (
        (ms[f"{kind}_rounds"] - ms[start]) / ROUNDS for kind, start in (("ask", "ask"), ("safe", "ask_safe"))
    )
    rows = [
        ("ask hi / bare script", ms["ask"] / ms["bare"], "<= 1.25"),
        ("--version / import click", ms["version"] / ms["click"], "<= 1.6"),
        ("--help / import click", ms["help"] / ms["click"], "<= 1.6"),
        (f"{EVENTS} events / bare script", ms["ask_events"] / ms["bare_events"], "<= 1.4"),
        ("the same on a terminal", ms["ask_terminal"] / ms["bare_terminal"], ""),
        ("200 KB of Markdown / 50 KB, terminal", ms["terminal_200"] / ms["terminal_50"], "<= 4.4"),
        ("200 KB on a terminal / in a pipe", ms["terminal_200"] / ms["pipe_200"], ""),
        ("ms for a tool round", plain_round, "<= 12"),
        ("ms more for a round with --safe", safe_round - plain_round, "<= 15"),
        ("ms more for starting with --safe", ms["ask_safe"] - ms["ask"], "<= 60"),
        ("ms for saving", ms["ask_saved"] - ms["ask_unsaved"], ""),
        (f"ms more for -c with {given.conversations}", ms["continue_full"] - ms["continue_empty"], "<= 15"),
        (f"history list with {given.conversations}, ms", ms["history_list"], "< 200"),
        (f"history search with {given.conversations}, ms", ms["history_search"], "< 300"),
    ]
    for name, value, budget in rows:
        print(f"{name:36} {value:6.2f}  {budget}")
    print(json.dumps({name: round(value, 1) for name, value in ms.items()}))


if __name__ == "__main__":
    main()
