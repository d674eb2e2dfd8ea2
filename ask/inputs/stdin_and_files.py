"""Reading standard input, files and pipes, and decoding text."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import sys
import time
from codecs import BOM_UTF8
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ask.config.directories import AppDirs
from ask.errors import FileError
from ask.text import format_size

STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
"""Names of standard input. It is read only once, so none of them is opened as a file."""
STDIN_NOTICE_SECONDS = 2.0
"""Seconds of silence on standard input or a pipe before the user is notified."""
PIPE_WRITER_SECONDS = 30.0
"""Seconds to wait for a program to open a named pipe for writing."""
INHERITED_DESCRIPTOR_PATTERN = r"/(?:dev|proc/self)/fd/(\d+)"
"""A descriptor that the shell has opened, as for `<(command)`."""
MAX_TEXT_BYTES = 10_000_000


def read_stdin(limit: int, notify: Callable[[str], None], *, allow_terminal: bool = False) -> bytes:
    """Read standard input; b"" if it is a terminal, closed or empty.

    Args:
        limit: the maximum size of text, in bytes. Attachments have limits of their own.
        notify: called with a line for the user if nothing arrives.
        allow_terminal: read a terminal too.

    Raises:
        FileError: it is too long or cannot be read.
    """
    if sys.stdin is None or (sys.stdin.isatty() and not allow_terminal):
        return b""
    descriptor, maximum = sys.stdin.fileno(), limit
    wait_notice = "reading stdin until it ends (Ctrl-D ends it; --no-stdin skips it)"
    try:
        data = _read_pipe(descriptor, limit, lambda: notify(wait_notice))
        if len(data) > limit:
            from ask.attachments import MAX_FILE_BYTES, MEDIA_TYPES, detect_media_type

            known_type = MEDIA_TYPES.get(detect_media_type(data))
            maximum = MAX_FILE_BYTES.get(known_type.group, limit) if known_type else limit
            data += _read_pipe(descriptor, maximum - len(data), lambda: None)
    except OSError as error:
        if error.errno == errno.EBADF:
            return b""  # open for writing only, which is how nohup disconnects stdin
        raise FileError(f"cannot read stdin ({error.strerror})") from error
    if len(data) > maximum:
        advice = "raise stdin_limit in config.toml" if maximum == limit else "send less"
        raise FileError(f"stdin is larger than {format_size(maximum)}", advice)
    return data


def is_stdin_piped() -> bool:
    """Check whether standard input is a pipe, as opposed to /dev/null in a cron job."""
    return sys.stdin is not None and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode)


def read_text_file(path: str, app_dirs: AppDirs, notify: Callable[[str], None]) -> str:
    """Read a text file that the user names. `notify` is called with a line for the user if it is not valid UTF-8.

    Raises:
        FileError: it cannot be read, is too long, is not text, or is refused by `check_input`.
    """
    from ask.config.foreign_links import check_input
    from ask.tools.file_names import find_equivalent_path

    if not path:
        raise FileError("cannot read a file without a name", "check the variable after the @")
    try:
        file = find_equivalent_path(Path(os.path.expanduser(path)))
        check_input(file, app_dirs)
        data = read_bytes(file, MAX_TEXT_BYTES)
    except OSError as error:
        raise FileError(f"cannot read {path} ({error.strerror})") from error
    if len(data) > MAX_TEXT_BYTES:
        raise FileError(f"{path} is larger than {format_size(MAX_TEXT_BYTES)}", "attach a part of it")
    return decode_text(data, path, notify)


def read_bytes(
    path: Path, limit: int, writer_timeout: float = PIPE_WRITER_SECONDS, notify: Callable[[str], None] = lambda _: None
) -> bytes:
    """Read a file or pipe to its end, or until more than `limit` bytes are read.

    Args:
        path: the file.
        limit: in bytes.
        writer_timeout: seconds to wait for a program to open a named pipe. Once one has opened it, or if the shell has
            opened the pipe, as in -f <(make), reading waits without a timeout.
        notify: called with a line for the user while a pipe stays silent.

    Raises:
        FileError: no program opened the named pipe.
        OSError: it cannot be read.
    """
    if not stat.S_ISFIFO(path.stat().st_mode):
        with path.open("rb") as file:
            return file.read(limit + 1)
    inherited = re.fullmatch(INHERITED_DESCRIPTOR_PATTERN, str(path))
    descriptor = os.dup(int(inherited[1])) if inherited else os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        wait_notice = f"reading {path} until it ends (Ctrl-C stops)"
        return _read_pipe(descriptor, limit, lambda: notify(wait_notice), None if inherited else writer_timeout)
    except TimeoutError:
        reason = "no program writes to this named pipe"
        raise FileError(f"cannot read {path} ({reason})", "start the program that writes to it first") from None
    finally:
        os.close(descriptor)


def _read_pipe(
    descriptor: int, limit: int, notify_wait: Callable[[], None], writer_timeout: float | None = None
) -> bytes:
    """Read an open pipe to its end, or until more than `limit` bytes are read.

    `notify_wait` is called if nothing arrives at first. `writer_timeout` is None if a writer has already opened it.

    Raises:
        TimeoutError: no program opened it for writing.
        OSError: it cannot be read.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    deadline = None if writer_timeout is None else time.monotonic() + writer_timeout
    chunks: list[bytes] = []
    size, notified = 0, False
    while size <= limit:
        timeouts = [] if chunks or notified else [STDIN_NOTICE_SECONDS]
        if deadline is not None:
            timeouts.append(max(deadline - time.monotonic(), 0))
        ready = poller.poll(min(timeouts) * 1000 if timeouts else None)
        if not ready and not notified:
            notified = True
            notify_wait()
        try:
            chunk = os.read(descriptor, 1 << 20)
        except BlockingIOError:  # a program has opened it and not written yet
            deadline = None
            continue
        if chunk:
            chunks.append(chunk)
            size += len(chunk)
            deadline = None
        elif ready or deadline is None:  # the end; before a program opens a pipe, reading returns nothing, too
            break
        elif time.monotonic() >= deadline:
            raise TimeoutError
    return b"".join(chunks)


def decode_text(data: bytes, source_name: str, notify: Callable[[str], None], expected: str = "text") -> str:
    """Decode a text, usually UTF-8. Bytes that are no characters in its encoding become escapes.

    Args:
        data: the bytes.
        source_name: the source to name in the notice and in the error.
        notify: called with a line for the user if the text is not valid UTF-8.
        expected: the accepted types to name in the error.

    Raises:
        FileError: it is binary.
    """
    with suppress(UnicodeDecodeError):
        if not data.startswith(BOM_UTF8) and b"\0" not in data:
            return data.decode()
    from ask.tools.text_encoding import decode_bytes

    decoded = decode_bytes(data)
    if decoded is None:
        raise FileError(f"{source_name} is binary, not {expected}", "convert it to text first")
    if decoded.note:
        notify(f"{source_name} {decoded.note}")
    return decoded.text
