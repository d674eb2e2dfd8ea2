"""Removing the position where a photo was taken from its metadata. Everything else, and every length, stays the same.

The metadata is found by its signatures instead of by the structure of each format: cameras also write it into previews
and into further images and videos that follow the photo in the same file.
"""

from __future__ import annotations

import re
import struct
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress

_TIFF_HEADERS = (b"II*\0", b"MM\0*")
_EXIF_PREFIX_PATTERN = re.compile(
    rb"(?:\xff\xe1(?P<jpeg>..)Exif\0\0|(?P<png>.{4})eXIf|EXIF(?P<webp>.{4})(?:Exif\0\0)?|\0\0\0.(?:Exif\0\0)?)\Z",
    re.DOTALL,
)
"""The bytes before the TIFF header of Exif in a JPEG, PNG, WebP or HEIC file."""
_MAX_PREFIX_BYTES = 14
_MAX_EXIF_BYTES = 1 << 18
"""Used for HEIC, which has the length somewhere else."""
_MAX_NESTED_BLOCKS = 100
"""Exif may be in a preview that is in other Exif; with more blocks than that, none is in another, which saves time."""
_MAX_DIRECTORIES = 16
_GPS_TAG, _ORIENTATION_TAG, _DIRECTORY_TAGS = 0x8825, 0x0112, (0x8769, 0xA005)
"""Tags of Exif; the last two lead to the directories of Exif itself and of interoperability."""
_VALUE_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""The size of one value by its type."""
_XMP_START, _XMP_END = b"<rdf:RDF", b"</rdf:RDF"
_MAX_XMP_BYTES = 1_000_000
_XMP_NAMES = rb"[\w.-]+:(?:gps[\w-]*|latitude|longt?itude|absolutealtitude)"  # DJI misspells one
_XMP_VALUE_PATTERN = re.compile(
    rb"(?:(?<=\s)" + _XMP_NAMES + rb"\s*=\s*(?:\"(?P<quoted>[^\"]*)\"|'(?P<single>[^']*)')"
    rb"|<" + _XMP_NAMES + rb"\b[^<>]*>(?P<text>[^<]*))",
    re.IGNORECASE,
)
_VIDEO_START = b"\xa9xyz"
_VIDEO_POSITION_PATTERN = re.compile(rb".{4}([+-][\d.]+[+-][\d.]+(?:[+-][\d.]+)?)", re.DOTALL)
"""The position in a video, such as the one in a motion photo."""
_PNG_TEXT_PATTERN = re.compile(
    rb"raw profile type (?:exif|app1|xmp)\0|[^\0]*gps|xml:com\.adobe\.xmp\0\x01", re.IGNORECASE
)
"""Texts of a PNG that contain metadata as hexadecimal digits or compressed."""


def remove_location(data: bytes) -> bytes:
    """Return an image without the position in its metadata; the same object if there is none."""
    image = bytearray(data)
    starts = sorted(start for header in _TIFF_HEADERS for start in _find_all(data, header))
    prefixes = ((at, _EXIF_PREFIX_PATTERN.search(data[max(at - _MAX_PREFIX_BYTES, 0) : at])) for at in starts)
    blocks = [(start, prefix) for start, prefix in prefixes if prefix]
    ends = [len(image)] * len(blocks)
    if len(blocks) > _MAX_NESTED_BLOCKS:
        ends[:-1] = [start for start, _ in blocks[1:]]  # each ends where the next one begins
    for (start, prefix), end in zip(blocks, ends, strict=True):
        _erase_exif_position(image, start, prefix, end)
    _erase_xmp_positions(image)
    for start in _find_all(data, _VIDEO_START):
        if position := _VIDEO_POSITION_PATTERN.match(data, start + len(_VIDEO_START)):
            image[position.start(1) : position.end(1)] = re.sub(rb"\d", b"0", position[1])
    if data.startswith(b"\x89PNG"):
        image = _repair_png(image)
    return data if image == data else bytes(image)


def _find_all(data: bytes, part: bytes) -> Iterator[int]:
    start = data.find(part)
    while start >= 0:
        yield start
        start = data.find(part, start + len(part))


def _erase_exif_position(image: bytearray, start: int, prefix: re.Match[bytes], end: int) -> None:
    """Erase the position in Exif between two offsets. Of malformed Exif, only the orientation stays."""
    length = 0
    if prefix["jpeg"]:
        length = int.from_bytes(prefix["jpeg"], "big") - 8  # which counts itself and "Exif\0\0"
    elif prefix["png"]:
        length = int.from_bytes(prefix["png"], "big")
    elif prefix["webp"]:
        length = int.from_bytes(prefix["webp"], "little") - (prefix.end() - prefix.end("webp"))
    exif = image[start : min(start + max(length or _MAX_EXIF_BYTES, 8), end)]  # at least the TIFF header, of 8 bytes
    order = "<" if exif.startswith(b"II") else ">"
    orientation = _read_orientation(exif, order)
    try:
        _erase_gps_directories(exif, order)
    except (struct.error, ValueError):
        length = min(max(length, 8), len(exif))  # without its header, nothing reads Exif of an unknown length
        # A TIFF header, and a directory whose only entry is the orientation.
        minimal = struct.pack("<2sHIHHHIII", b"II", 42, 8, 1, _ORIENTATION_TAG, 3, 1, orientation, 0)
        content = minimal if orientation and length >= len(minimal) else b""
        exif[:length] = content.ljust(length, b"\0")
    image[start : start + len(exif)] = exif


def _read_orientation(exif: bytearray, order: str) -> int:
    """Return the orientation, from 1 to 8; 0 if there is none."""
    with suppress(struct.error, ValueError):
        (offset,) = struct.unpack_from(order + "I", exif, 4)
        for entry in _read_entries(exif, order, offset):
            tag, _, _, value = struct.unpack_from(order + "HHIH", entry)
            if tag == _ORIENTATION_TAG:
                return int(value) if 1 <= value <= 8 else 0
    return 0


def _erase_gps_directories(exif: bytearray, order: str) -> None:
    """Remove the GPS entries from all directories, and overwrite with zeros what they point to.

    Raises:
        ValueError, struct.error: as `_read_entries`.
    """
    seen = {0}
    pending = list(struct.unpack_from(order + "I", exif, 4))
    while pending:
        offset = pending.pop()
        if offset in seen or len(seen) > _MAX_DIRECTORIES:
            continue
        seen.add(offset)
        entries = _read_entries(exif, order, offset)
        end = offset + 2 + 12 * len(entries)
        following = exif[end : end + 4].ljust(4, b"\0")
        pending += struct.unpack(order + "I", following)
        kept = b""
        for entry in entries:
            tag, _, _, value = struct.unpack(order + "HHII", entry)
            if tag == _GPS_TAG:
                _erase_directory(exif, order, value)
                continue
            kept += entry
            if tag in _DIRECTORY_TAGS:
                pending.append(value)
        if len(kept) < 12 * len(entries):
            directory = struct.pack(order + "H", len(kept) // 12) + kept + following
            exif[offset : end + 4] = directory.ljust(len(exif[offset : end + 4]), b"\0")


def _read_entries(exif: bytearray, order: str, offset: int) -> list[bytes]:
    """Return the entries of a directory, which have 12 bytes each.

    Raises:
        ValueError: its entries are not completely in the metadata.
        struct.error: its count of entries is not in the metadata.
    """
    (count,) = struct.unpack_from(order + "H", exif, offset)
    start = offset + 2
    if start + 12 * count > len(exif):
        raise ValueError
    return [bytes(exif[at : at + 12]) for at in range(start, start + 12 * count, 12)]


def _erase_directory(exif: bytearray, order: str, offset: int) -> None:
    """Overwrite a directory and its values with zeros. Raises the errors of `_read_entries`."""
    entries = _read_entries(exif, order, offset)
    for entry in entries:
        _, kind, count, value = struct.unpack(order + "HHII", entry)
        size = _VALUE_SIZES.get(kind, 0) * count
        # A value of at most four bytes is in the entry itself, any other where the entry points to.
        if value + size > len(exif) and size > 4:
            raise ValueError
        if size > 4:
            exif[value : value + size] = bytes(size)
    size = 2 + 12 * len(entries)
    exif[offset : offset + size] = bytes(size)


def _erase_xmp_positions(image: bytearray) -> None:
    """Replace the values of properties with the position by spaces."""
    start = image.find(_XMP_START)
    while start >= 0:
        end = image.find(_XMP_END, start, start + _MAX_XMP_BYTES)
        end = end if end >= 0 else min(start + _MAX_XMP_BYTES, len(image))
        packet = bytes(image[start:end])
        for value in _XMP_VALUE_PATTERN.finditer(packet):
            first, last = value.span(value.lastgroup or 0)
            image[start + first : start + last] = b" " * (last - first)
        start = image.find(_XMP_START, end)


def _repair_png(image: bytearray) -> bytearray:
    """Remove the texts with metadata from a PNG, and correct the checksums of changed metadata."""
    repaired, position = image[:8], 8
    while position + 12 <= len(image):
        length = int.from_bytes(image[position : position + 4], "big")
        end = position + 12 + length
        kind, content = bytes(image[position + 4 : position + 8]), bytes(image[position + 8 : end - 4])
        if end > len(image):
            break
        if kind in (b"eXIf", b"iTXt"):
            image[end - 4 : end] = crc32(kind + content).to_bytes(4, "big")
        if kind not in (b"tEXt", b"zTXt", b"iTXt") or not _PNG_TEXT_PATTERN.match(content):
            repaired += image[position:end]
        position = end
    return repaired + image[position:]
