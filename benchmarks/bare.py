"""The baseline: a minimal script with click and requests that streams answers and runs commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import click
import requests


@click.command()
@click.argument("words", nargs=-1)
def main(words: tuple[str, ...]) -> None:
    session = requests.Session()
    messages: list[dict[str, Any]] = [{"role": "user", "content": " ".join(words)}]
    while call := ask(session, messages):
        done = subprocess.run(
            ["bash", "-c", json.loads(call["function"]["arguments"])["command"]], capture_output=True, check=False
        )
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout.decode()})


def ask(session: requests.Session, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Print the answer as it is streamed; return its tool call, if any."""
    call = None
    body = {"model": "m", "messages": messages, "stream": True}
    answer = session.post(os.environ["BASE_URL"] + "/chat/completions", json=body, stream=True, timeout=60)
    for line in answer.iter_lines(chunk_size=None):
        if line.startswith(b"data: {"):
            delta = json.loads(line[6:])["choices"][0]["delta"]
            sys.stdout.write(delta.get("content") or "")
            sys.stdout.flush()
            call = delta["tool_calls"][0] if "tool_calls" in delta else call
    return call


if __name__ == "__main__":
    main()
