"""Measures `ask` beside the floor, in one run: medians, and the ratios that the budgets are about.

Run it with the interpreter of the environment that `ask` is installed in: `.venv/bin/python benchmarks/run.py`.
"""

from __future__ import annotations

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

PYTHON = sys.executable
ASK = str(Path(PYTHON).parent / "ask")
BARE = str(Path(__file__).with_name("bare.py"))
RUNS = 15
EVENTS = 20_000
ROUNDS = 20


class Model(BaseHTTPRequestHandler):
    """Answers by the last message: "events" streams many, "rounds" calls a tool that often, any other says hello."""

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
            subprocess.run(command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, check=True)
            times[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print the table."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as home:
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
        }
        long = {
            "bare_events": [PYTHON, BARE, "events"],
            "ask_events": [*ask, "events"],
            "ask_rounds": [*ask, "--max-rounds", str(ROUNDS + 1), "rounds"],
        }
        ms = measure(short, environment, RUNS) | measure(long, environment, 5)
    rows = [
        ("ask hi / bare script", ms["ask"] / ms["bare"], "<= 1.25"),
        ("--version / import click", ms["version"] / ms["click"], "<= 1.6"),
        ("--help / import click", ms["help"] / ms["click"], "<= 1.6"),
        (f"{EVENTS} events / bare script", ms["ask_events"] / ms["bare_events"], "<= 1.4"),
        ("ms for a tool round", (ms["ask_rounds"] - ms["ask"]) / ROUNDS, "<= 12"),
    ]
    for name, value, budget in rows:
        print(f"{name:32} {value:6.2f}  {budget}")
    print(json.dumps({name: round(value, 1) for name, value in ms.items()}))


if __name__ == "__main__":
    main()
