"""What the user hands over beside the words: standard input, files, model parameters."""

from __future__ import annotations

import codecs
import errno
import json
import math
import os
import re
import select
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ask.errors import FileError, ParameterError, UsageError

if TYPE_CHECKING:
    pass


STDIN_NOTICE_DELAY = 2.0
"""Seconds without a byte on standard input before a line says what is waited for."""
PIPE_WRITER_TIMEOUT = 30.0
"""Seconds to wait for a program to open a named pipe for writing."""
INHERITED_DESCRIPTOR_PATTERN = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
"""A descriptor that the shell has opened, as for `<(command)`."""
FILE_LIMIT = 10_000_000

OPTION_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "max_tokens": (1, float("inf")),
    "max_completion_tokens": (1, float("inf")),
    "top_k": (0, float("inf")),
}
"""Parameters whose range is the same with every provider that has them."""


DEDICATED_OPTIONS = {"model": "-m", "messages": "the prompt and -s", "tools": "--disable-tool", "stream": "--no-stream"}
"""Parts of a request that have an option of their own, and would be lost behind one given with -o."""


def read_stdin(limit: int, notify: Callable[[str], None], *, allow_terminal: bool = False) -> bytes:
    """What is on standard input; nothing where it is a terminal, closed or empty.

    Args:
        limit: of a text, in bytes. A file that goes along as it is has a limit of its own.
        notify: takes a line for the user where nothing comes.
        allow_terminal: whether a terminal is read as well.

    Raises:
        FileError: it is too long, or cannot be read.
    """
    if sys.stdin is None or (sys.stdin.isatty() and not allow_terminal):
        return b""
    descriptor = sys.stdin.fileno()
    parts: list[bytes] = []
    size = 0
    most: int | None = None
    try:
        if not select.select([descriptor], [], [], STDIN_NOTICE_DELAY)[0]:
            notify("waiting for standard input to end (Ctrl-D; --no-stdin does not read it)")
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
            size += len(part)
            if size > limit:
                most = most or max(limit, find_size_limit(b"".join(parts[:2]), 0))
                if size > most:
                    raise make_stdin_limit_error(most, limit)
    except OSError as fault:
        if fault.errno == errno.EBADF:
            return b""  # open for writing alone, which is how nohup takes it away
        raise FileError(f"cannot read standard input ({fault.strerror})") from fault
    return b"".join(parts)


def make_stdin_limit_error(maximum: int, text_limit: int) -> FileError:
    """The error for a standard input of more bytes than may be."""
    advice = "raise stdin_limit in config.toml" if maximum == text_limit else "give a smaller one"
    return FileError(f"standard input is longer than {maximum} bytes", advice)


def find_size_limit(head: bytes, text_limit: int) -> int:
    """The most bytes that a content may have, by how it begins; `text_limit` for one that goes along as text."""
    from ask.attachments import MAX_FILE_BYTES, MEDIA_TYPES, detect_media_type

    kind = MEDIA_TYPES.get(detect_media_type(head))
    return MAX_FILE_BYTES.get(kind.group, text_limit) if kind else text_limit


def read_text_file(path: str) -> str:
    """The text of a file.

    Raises:
        FileError: it cannot be read, is too long, or holds no text.
    """
    try:
        data = read_bytes(Path(path).expanduser(), FILE_LIMIT)
    except OSError as fault:
        raise FileError(f"cannot read {path} ({fault.strerror})") from fault
    if len(data) > FILE_LIMIT:
        raise FileError(f"{path} is longer than {FILE_LIMIT} bytes", "give a part of it")
    return decode_text(data, path)


def read_bytes(
    path: Path, limit: int, writer_timeout: float = PIPE_WRITER_TIMEOUT, notify: Callable[[str], None] = lambda _: None
) -> bytes:
    """Read a file up to one byte more than `text_limit`. A pipe is read to its end.

    Args:
        path: the file.
        limit: in bytes.
        writer_timeout: how long to wait for a program to open a named pipe. Once one has, or where the shell has opened the
            pipe, as in -f <(make), there is no limit.
        notify: takes a line for the user while a pipe stays silent.

    Raises:
        FileError: no program opened the named pipe.
        OSError: it cannot be read.
    """
    if not stat.S_ISFIFO(path.stat().st_mode):
        with path.open("rb") as file:
            return file.read(limit + 1)
    inherited = INHERITED_DESCRIPTOR_PATTERN.fullmatch(str(path))
    descriptor = os.dup(int(inherited[1])) if inherited else os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return read_pipe(descriptor, limit, path, None if inherited else writer_timeout, notify)
    finally:
        os.close(descriptor)


def read_pipe(
    descriptor: int, limit: int, path: Path, writer_timeout: float | None, notify: Callable[[str], None]
) -> bytes:
    """Read an open pipe as `read_bytes` does; `writer_timeout` is None where a writer has opened it."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    deadline = None if writer_timeout is None else time.monotonic() + writer_timeout
    data = bytearray()
    noticed = False
    while len(data) <= limit:
        waits = [] if data or noticed else [STDIN_NOTICE_DELAY]
        if deadline is not None:
            waits.append(max(deadline - time.monotonic(), 0))
        ready = poller.poll(min(waits) * 1000 if waits else None)
        if not ready and not noticed:
            noticed = True
            notify(f"waiting for {path} to end (Ctrl-C stops)")
        try:
            part = os.read(descriptor, 1 << 20)
        except BlockingIOError:  # a program has opened it and not written yet
            deadline = None
            continue
        if part:
            data += part
            deadline = None
        elif ready or deadline is None:
            break
        elif time.monotonic() >= deadline:
            raise FileError(f"cannot read {path} (a named pipe that no program writes to)", "start the writer first")
    return bytes(data)


def decode_text(data: bytes, source_name: str, expected: str = "text") -> str:
    """Bytes as text: UTF-8, or UTF-16 by its mark. Stray bytes in a text are shown as escapes.

    Args:
        data: the bytes.
        source_name: whose they are.
        expected: what they might have been.

    Raises:
        FileError: it is binary.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise FileError(f"{source_name} is binary, not {expected}", "turn it into text first")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "backslashreplace")


def compose_prompt(prompt_text: str, files: Sequence[tuple[str, str]], stdin_text: str) -> str:
    """The user's message: the words, then each file and the piped text as marked blocks.

    Piped text alone is the prompt.

    Raises:
        UsageError: there is no question.
    """
    if stdin_text.strip() and not prompt_text and not files:
        return stdin_text.strip("\n")
    text = format_blocks(prompt_text, files, stdin_text)
    if not text:
        raise UsageError(
            "no question given", 'try: ask "why is the sky blue?" (ask chat opens a chat, ask --help lists options)'
        )
    return text


def format_blocks(prompt_text: str, files: Sequence[tuple[str, str]], stdin_text: str) -> str:
    """The words, then each file and the piped text as marked blocks; "" where there is nothing."""
    blocks = [format_block("file", text, f" name={json.dumps(name, ensure_ascii=False)}") for name, text in files]
    if stdin_text.strip():
        blocks.append(format_block("stdin", stdin_text, ""))
    return "\n\n".join(filter(None, (prompt_text, *blocks)))


def format_block(tag: str, text: str, attributes: str) -> str:
    """A text between marks that do not occur in it, so that its end cannot be faked."""
    name, number = tag, 1
    while f"</{name}>" in attributes + text:
        number += 1
        name = f"{tag}-{number}"
    return f"<{name}{attributes}>\n{text.rstrip(chr(10))}\n</{name}>"


def parse_model_options(pairs: Iterable[str]) -> dict[str, Any]:
    """Model parameters from KEY=VALUE; a value that is JSON counts as such, any other is a string.

    Raises:
        UsageError: no KEY=VALUE, or something that has an option of its own.
        ParameterError: out of its range.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"-o takes KEY=VALUE, not {pair!r}", "for example -o temperature=0.2")
        try:
            options[key] = parse_strict_json(text)
        except (ValueError, RecursionError):
            options[key] = text
        except OverflowError as error:
            raise ParameterError(f"{key} is {text}", str(error)) from None
        check_model_option(key, options[key])
    return options


def parse_strict_json(text: str) -> Any:
    """Parse JSON, without the NaN, Infinity and too large numbers that Python also reads.

    Raises:
        ValueError, RecursionError: it is not JSON.
        OverflowError: a number in it is too large to be sent.
    """
    return json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite_float)


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise OverflowError(f"{text} is too large: the limit is {sys.float_info.max:.1e}")
    return number


def check_model_option(key: str, value: Any) -> None:
    """Refuse what no provider takes, and what has an option of its own.

    Raises:
        UsageError: it has one.
        ParameterError: out of range, or no number.
    """
    if key in DEDICATED_OPTIONS:
        raise UsageError(f"-o does not set {key}", f"use {DEDICATED_OPTIONS[key]}")
    if key not in OPTION_RANGES:
        return
    low, high = OPTION_RANGES[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        wanted = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
        raise ParameterError(f"{key} is {value!r}", f"it must be a number {wanted}")
