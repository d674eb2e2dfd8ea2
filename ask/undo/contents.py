"""Digests of file contents, and copies that share the data blocks if the file system supports that."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from typing import BinaryIO

MAX_BACKUP_SIZE = 100_000_000
"""The size in bytes up to which a single file is backed up, and compared by content instead of size and time."""
CHUNK_SIZE = 1 << 20

_FICLONE = 0x40049409
"""From linux/fs.h: share the data blocks of two files until one of them changes."""


def compute_digest(chunks: Iterator[bytes] | list[bytes]) -> str:
    """Compute the SHA-256 digest of the concatenated chunks, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in chunks."""
    while chunk := file.read(CHUNK_SIZE):
        yield chunk


def copy_content(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes of an open file to an empty one.

    The size is fixed because the source may be growing.
    """
    if not size:
        return
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        _copy_bytes(source, target, size)


def _copy_bytes(source: int, target: int, remaining: int) -> None:
    use_copy_file_range = remaining > CHUNK_SIZE and hasattr(os, "copy_file_range")
    while remaining > 0:
        if use_copy_file_range:
            try:
                copied = os.copy_file_range(source, target, remaining)
            except OSError:  # not supported between these file systems; continue after the bytes copied so far
                use_copy_file_range = False
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
