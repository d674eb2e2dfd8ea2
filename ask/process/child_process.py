"""Child processes of the servers `ask mcp serve` and `ask acp`, which end with everything that they have started."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from ask.process.parent_exit import end_with_parent
from ask.process.process_tree import kill_process_tree, mark_environment

T = TypeVar("T")
MAX_LINE_BYTES = 256 * 1024 * 1024
"""The longest line that is read from a child process."""
END_SECONDS = 60
"""Seconds that a child process may take after its result, for hooks and for what it saves."""
INTERRUPT_SECONDS = 5
"""Seconds between SIGINT and the end of the child process with everything that it started."""


async def start_process(command: Sequence[str], directory: str | None = None) -> tuple[Process, str]:
    """Start a command with pipes; return its process and the mark of everything that it starts."""
    environment, mark = mark_environment(os.environ)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=directory,
        env=environment,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    return process, mark


def get_pipe(pipe: T | None) -> T:
    assert pipe is not None  # noqa: S101 - each process is started with all of them
    return pipe


async def send_lines(process: Process, *lines: str) -> None:
    pipe = get_pipe(process.stdin)
    with suppress(ConnectionError):  # the process has ended, which its events or their absence report
        for line in lines:
            pipe.write(f"{line}\n".encode())
            await pipe.drain()


async def end_process(process: Process, mark: str, *, interrupts: bool) -> None:
    """Wait for the end of a child process, and kill what is left of everything that it started."""
    get_pipe(process.stdin).close()
    if interrupts:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), INTERRUPT_SECONDS if interrupts else END_SECONDS)
    await asyncio.to_thread(kill_process_tree, process.pid if process.returncode is None else None, mark)
    await process.wait()
