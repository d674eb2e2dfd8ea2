"""The same as `benchmarks.bare_map` with aiohttp, the fastest of the usual HTTP clients, in one thread."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import aiohttp

JOBS = 64


async def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    timeout = aiohttp.ClientTimeout(60)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=JOBS), timeout=timeout) as session:
        for row, answer in zip(rows, await asyncio.gather(*(ask(session, row) for row in rows)), strict=True):
            print(json.dumps({**row, "answer": answer}))


async def ask(session: aiohttp.ClientSession, row: dict[str, Any]) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": f"row {row['id']}"}]}
    async with session.post(os.environ["BASE_URL"] + "/chat/completions", json=body) as answer:
        answer.raise_for_status()
        text: str = (await answer.json())["choices"][0]["message"]["content"]
        return text


if __name__ == "__main__":
    asyncio.run(main())
