"""The baseline for `ask map`: a minimal script with a thread pool and requests, which nothing can interrupt safely."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

JOBS = 64


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    with ThreadPoolExecutor(JOBS) as pool:
        for row, answer in zip(rows, pool.map(ask, rows), strict=True):
            print(json.dumps({**row, "answer": answer}))


connections = threading.local()


def ask(row: dict[str, Any]) -> str:
    if not hasattr(connections, "session"):
        connections.session = requests.Session()
    body = {"model": "m", "messages": [{"role": "user", "content": f"row {row['id']}"}]}
    answer = connections.session.post(os.environ["BASE_URL"] + "/chat/completions", json=body, timeout=60)
    answer.raise_for_status()
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


if __name__ == "__main__":
    main()
