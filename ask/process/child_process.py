"""Child processes of the servers `ask mcp serve` and `ask acp`, which end with everything that they have started."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ask.errors import AskError, UsageError
from ask.process.parent_exit import end_with_parent
from ask.process.process_tree import kill_process_tree, mark_environment

T = TypeVar("T")
MAX_LINE_BYTES = 256 * 1024 * 1024
"""The longest line that is read from a child process."""
END_SECONDS = 60
"""Seconds that a child process may take after its result, for hooks and for what it saves."""
INTERRUPT_SECONDS = 5
"""Seconds between SIGINT and the end of the child process with everything that it started."""


def handle_signals(handle: Callable[[int], None]) -> None:
    """Have the event loop handle the signals that end a server, not the task that runs at that moment."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, handle, number)


async def start_process(command: Sequence[str], directory: str | None = None) -> tuple[Process, str]:
    """Start a command with pipes; return its process and the mark of everything that it starts.

    Raises:
        UsageError: an argument is too long or has a null character.
    """
    environment, mark = mark_environment({**os.environ, "PWD": directory} if directory else os.environ)
    try:
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
    except ValueError:
        raise UsageError("an argument contains a null character", "remove it") from None
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        raise UsageError("an argument is too long", "shorten the prompt or the schema") from None
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


async def read_objects(
    process: Process, note: Callable[[Mapping[str, Any]], None] = lambda _: None
) -> AsyncIterator[Mapping[str, Any]]:
    """Read the lines of a process, each a JSON object, and call `note` with each.

    Raises:
        AskError: one is incomplete.
    """
    async for line in get_pipe(process.stdout):
        try:
            value: Mapping[str, Any] = json.loads(line)
        except ValueError:
            raise AskError("the process that answers the call was killed while it wrote") from None
        note(value)
        yield value


async def end_process(process: Process, mark: str, note: Callable[[Mapping[str, Any]], None] | None) -> None:
    """Wait for the end of a child process, and kill what is left of everything that it started.

    With `note`, it is interrupted, and `note` is called with the objects that it still writes.
    """
    if note is not None:
        with suppress(ProcessLookupError):  # before it reads the end of stdin, which would deny a call
            process.send_signal(signal.SIGINT)
    get_pipe(process.stdin).close()
    with suppress(TimeoutError, AskError):
        if note is None:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        else:
            await asyncio.wait_for(_read_rest(process, note), INTERRUPT_SECONDS)
    await asyncio.to_thread(kill_process_tree, process.pid if process.returncode is None else None, mark)
    await process.wait()


async def _read_rest(process: Process, note: Callable[[Mapping[str, Any]], None]) -> None:
    async for _ in read_objects(process, note):
        pass
    await process.wait()
