"""The bytes of an input: decompressed, and as UTF-8, whatever its encoding."""

from __future__ import annotations

import codecs
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from errno import ESTALE
from importlib import import_module
from io import BufferedReader, FileIO, RawIOBase
from typing import Any

from ask.attachments import ATTACHABLE_MEDIA_TYPES, MEDIA_TYPES, detect_media_type
from ask.errors import FileError, MissingDependencyError, UsageError
from ask.text import DecodedText

READ_BYTES = 1 << 16
SCANNED_BYTES = 1 << 24
"""How much of a file is read to detect its encoding, or to estimate its number of lines."""
GUESSED_BYTES = 1 << 17
"""How many bytes of the lines that are not UTF-8 are compared with other encodings."""
MAX_LINE_BYTES = 1 << 26
"""The limit for one line, which is in memory: that of a small compressed file may have gigabytes."""
MIN_INVALID_LINES = 10
"""Fewer lines that are not UTF-8, and not in an encoding that is recognized, may be damaged."""
BINARY_SIGNATURES = {
    b"SQLite format 3\0": "a table of a database is read with sqlite:FILE?table=NAME",
    b"PAR1": "if it is Parquet, add --input-format parquet",
    b"ARROW1": "if it is Arrow, add --input-format arrow",
    b"PK\3\4": "if it is an Excel workbook, add --input-format xlsx; if a Word document, --files; unpack an archive",
    b"\xd0\xcf\x11\xe0": "if it is an old Excel workbook, save it as .xlsx",
}
"""What to do with a file that begins with these bytes."""
UTF8 = "utf-8"
STDIN = "-"
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
ZSTD_EXTRA = "zstd"
ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_COMPRESSIONS = {
    "gzip": (rb"\x1f\x8b\x08", "BadGzipFile"),
    "bz2": (rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)", "EOFError"),
    "lzma": (rb"\xfd7zXZ\x00", "LZMAError"),
    # pzstd begins with a skippable frame.
    ZSTD_MODULE: (rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18", "ZstdError"),
}
"""The modules that decompress data, each with the first bytes of such data, and the name of its error."""


class ChunkStream(RawIOBase):
    """A stream of chunks of any size."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = filter(None, chunks)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class InputFile(FileIO):
    """A regular file, whose end is an error if it was truncated to less than what is already read."""

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        if not count and len(buffer) and self.tell() > os.fstat(self.fileno()).st_size:
            raise OSError(ESTALE, "it was truncated while it was read")
        return count


def is_compressed(stream: BufferedReader) -> bool:
    """Check the first bytes of a stream, which are not consumed."""
    return any(re.match(magic_number, stream.peek()) for magic_number, _ in _COMPRESSIONS.values())


def decompress(name: str, stream: BufferedReader) -> BufferedReader:
    """Return the stream, decompressed if its first bytes are those of a compressed file.

    Raises:
        MissingDependencyError: the package for its format is not installed.
    """
    start = stream.peek()[:16]
    for module_name, (magic_number, error_name) in _COMPRESSIONS.items():
        if re.match(magic_number, start):
            try:
                module: Any = import_module(module_name)
            except ImportError:
                from ask.config.installation import format_install_command

                hint = f"{format_install_command(ZSTD_EXTRA)} installs it"
                raise MissingDependencyError(f"{name} needs the package backports.zstd", hint) from None
            error_type = getattr(module, error_name, EOFError)
            return BufferedReader(ChunkStream(_decompress(name, module.open(stream), error_type)), READ_BYTES)
    return stream


def _decompress(name: str, stream: Any, error_type: type[Exception]) -> Iterator[bytes]:
    """Yield decompressed chunks.

    Raises:
        FileError: the data is truncated or damaged; all that comes before is yielded first.
    """
    try:
        # Not read(), which loses what it has decompressed before an error.
        while chunk := stream.read1(READ_BYTES):
            yield chunk
    except EOFError:
        raise FileError(f"{name} is truncated", "copy or download it again") from None
    except (OSError, zlib.error, error_type) as error:
        raise FileError(f"cannot decompress {name} ({error})", "copy or download it again") from None


def read_lines(name: str, stream: BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a stream.

    Raises:
        FileError: one is too long.
    """
    while line := stream.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise make_length_error(name)
        yield line


def make_length_error(name: str) -> FileError:
    return FileError(
        f"{name} has a line longer than {MAX_LINE_BYTES:,} bytes", "check its --input-format, or split the line"
    )


def transcode(stream: BufferedReader, encoding: str) -> BufferedReader:
    """Return a stream in UTF-8 without a byte order mark. What cannot be decoded becomes bytes that are not UTF-8.

    A byte order mark overrides the encoding.
    """
    start = stream.peek()[:4]
    if start.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
        return stream
    mark, marked_encoding = next((each for each in _WIDE_MARKS if start.startswith(each[0])), (b"", ""))
    if not marked_encoding and encoding == UTF8:
        return stream
    stream.read(len(mark))
    # Python's decoders of UTF-16 and UTF-32 require a mark.
    encoding = marked_encoding or {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
    return BufferedReader(ChunkStream(_transcode(stream, encoding)), READ_BYTES)


def _transcode(stream: BufferedReader, encoding: str) -> Iterator[bytes]:
    codecs.register_error(_mark_undecodable.__name__, _mark_undecodable)
    decoder = codecs.getincrementaldecoder(encoding)(_mark_undecodable.__name__)
    chunk = b"?"
    while chunk:
        chunk = stream.read1(READ_BYTES)
        yield decoder.decode(chunk, not chunk).encode(UTF8, "surrogateescape")


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    """Replace what cannot be decoded with a surrogate, which becomes a byte that is not UTF-8."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


def detect_encoding(name: str, stream: BufferedReader, reopen: Callable[[], BufferedReader] | None) -> str:
    """Return "utf-8", or the encoding of UTF-16 or UTF-32. Single lines of UTF-8 may be damaged.

    Args:
        name: the name of the input for errors.
        stream: the input, of which nothing is consumed.
        reopen: opens the input again, to read more than what has arrived; None if it can be read only once.

    Raises:
        FileError: the input is binary.
        UsageError: it is in another encoding, which the user must name.
    """
    from ask.tools.text_encoding import decode_bytes

    start = stream.peek()
    media_type = detect_media_type(start)
    if media_type in ATTACHABLE_MEDIA_TYPES:
        message = f"{name} is binary ({MEDIA_TYPES[media_type].title}), not text"
        raise FileError(message, "add --files to ask about each file" if reopen else "name it, with --files FILE")
    if start.startswith(tuple(mark for mark, _ in _WIDE_MARKS)) or not _may_be_text(start):
        # The last character may be incomplete.
        decoded = decode_bytes(start) or decode_bytes(start[: len(start) & -4])
        if decoded or not _is_damaged_json(start):
            return _require_text(name, start, decoded).encoding
    if reopen is None:
        lines = _find_invalid_lines(start[: start.rfind(b"\n") + 1 or None].splitlines(keepends=True))
    else:
        lines = [] if _is_utf8(reopen()) else _find_invalid_lines(_read_lines(reopen()))
    if lines:
        _require_text(name, start, decode_bytes(start.replace(b"\0", b"")))
        sample = b"".join(line for _, line in lines).replace(b"\0", b"")
        decoded = _require_text(name, start, decode_bytes(sample[:GUESSED_BYTES]))
        numbers = sorted({number for number, _ in lines})
        message = f"{name} is not UTF-8 (line {numbers[0]})"
        if decoded.encoding != UTF8:
            raise UsageError(message, f"if it is {decoded.title}, add --encoding {decoded.encoding}")
        if len(numbers) >= MIN_INVALID_LINES and 2 * len(numbers) > numbers[-1]:
            raise UsageError(message, "name its encoding, such as --encoding cp852")
    return UTF8


def _may_be_text(start: bytes) -> bool:
    """Check that NUL is not in the first line, and in at most half of all: only some rows may be damaged."""
    lines = start.split(b"\n")
    return b"\0" not in lines[0] and 2 * sum(b"\0" in line for line in lines) <= len(lines)


def _is_damaged_json(start: bytes) -> bool:
    """Check for JSON with NUL in its first line, which is a row, but in at most half of all lines."""
    lines = [line for line in start.split(b"\n") if line]
    is_json = start.removeprefix(codecs.BOM_UTF8).startswith((b"{", b"["))
    return is_json and 2 * sum(b"\0" in line for line in lines) <= len(lines)


def _require_text(name: str, start: bytes, decoded: DecodedText | None) -> DecodedText:
    if decoded is None:
        hints = (hint for signature, hint in BINARY_SIGNATURES.items() if start.startswith(signature))
        hint = "convert it to JSONL, CSV or UTF-8 text, or read text separated by NUL with -0"
        raise FileError(f"{name} is binary, not text", next(hints, hint))
    return decoded


def _is_utf8(stream: BufferedReader) -> bool:
    """Check the first part of a stream."""
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for _ in range(SCANNED_BYTES // READ_BYTES):
            chunk = stream.read1(READ_BYTES)
            decoder.decode(chunk, not chunk)
            if not chunk:
                break
    except UnicodeDecodeError:
        return False
    except FileError:  # damaged data, which is reported once the rows before it are read
        pass
    return True


def _read_lines(stream: BufferedReader) -> Iterator[bytes]:
    """Yield the lines of the first part of a stream; a long line in several parts."""
    count = 0
    with suppress(FileError):
        while count < SCANNED_BYTES and (line := stream.readline(READ_BYTES)):
            count += len(line)
            yield line


def _find_invalid_lines(lines: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Return the lines that are not UTF-8 with their numbers; [] if most of those that are not ASCII are UTF-8."""
    valid_count, number = 0, 1
    invalid: list[tuple[int, bytes]] = []
    for line in lines:
        if not line.isascii():
            try:
                line.decode()
                valid_count += 1
            except UnicodeDecodeError:
                invalid.append((number, line))
        number += line.endswith(b"\n")
    return invalid if len(invalid) > valid_count else []
