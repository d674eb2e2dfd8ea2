"""The contents of files: their digests, and copies that cost next to nothing where the file system can do that."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from typing import BinaryIO

MAX_BACKUP_SIZE = 100_000_000
"""Bytes of the largest file of which a tool's own copy is kept, or whose content is looked at to tell what it is."""
CHUNK_SIZE = 1 << 20

_FICLONE = 0x40049409
"""Of linux/fs.h: the two files share their content until one of them changes."""


def compute_digest(chunks: Iterator[bytes] | list[bytes]) -> str:
    """The SHA-256 of a content, in hexadecimal."""
    digest = hashlib.sha256()
    for piece in chunks:
        digest.update(piece)
    return digest.hexdigest()


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """The content of a file, a piece at a time."""
    while piece := file.read(CHUNK_SIZE):
        yield piece


def copy_content(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes of an open file to an empty one; a file that is growing meanwhile ends there.

    Raises:
        OSError: it cannot be read or written.
    """
    if not size:
        return
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        _copy_bytes(source, target, size)


def _copy_bytes(source: int, target: int, remaining: int) -> None:
    inside_kernel = remaining > CHUNK_SIZE and hasattr(os, "copy_file_range")
    while remaining > 0:
        if inside_kernel:
            try:
                copied = os.copy_file_range(source, target, remaining)
            except OSError:  # not between these two file systems; what came over is counted
                inside_kernel = False
                continue
        else:
            copied = _write_all(target, os.read(source, min(remaining, CHUNK_SIZE)))
        if not copied:
            return
        remaining -= copied


def _write_all(target: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)
