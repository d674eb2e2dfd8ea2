"""The floor: what a script with click, requests and pluggy needs to send one request and stream the answer."""

from __future__ import annotations

import json
import os
import sys

import click
import pluggy
import requests


@click.command()
@click.argument("words", nargs=-1)
def main(words: tuple[str, ...]) -> None:
    """Ask the server in BASE_URL."""
    pluggy.PluginManager("bare")
    body = {"model": "m", "messages": [{"role": "user", "content": " ".join(words)}], "stream": True}
    answer = requests.Session().post(os.environ["BASE_URL"] + "/chat/completions", json=body, stream=True, timeout=60)
    for line in answer.iter_lines(chunk_size=None):
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            sys.stdout.write(choices[0]["delta"].get("content") or "" if choices else "")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
