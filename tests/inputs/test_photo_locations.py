"""Removing the position from photos, and nothing else."""

from __future__ import annotations

import struct
import time
import tracemalloc
from base64 import b64encode
from binascii import crc32
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.inputs.photo_locations import remove_location
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask
from tests.sample_files import png

LATITUDE = struct.pack("<6I", 52, 1, 31, 1, 1234, 100)
XMP = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description exif:GPSLatitude="52,31.2N" tiff:Make="Maker"
 drone-dji:GpsLongtitude='+13.4'><exif:GPSLongitude>13,24E</exif:GPSLongitude></rdf:Description></rdf:RDF></x:xmpmeta>"""
PIXELS = b"\xff\xda\0\x08pixels\xff\0GPS\xff\xd9"


def make_exif(order: str = "<", orientation: int = 6) -> bytes:
    """Return Exif with a maker, an orientation and a position."""
    header = b"II*\0" if order == "<" else b"MM\0*"
    entries = (
        struct.pack(order + "HHI4s", 0x010F, 2, 4, b"Me!\0"),
        struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0),
        struct.pack(order + "HHII", 0x8825, 4, 1, 50),
    )
    directory = struct.pack(order + "H", 3) + b"".join(entries) + struct.pack(order + "I", 0)
    gps = struct.pack(order + "HHHI4s", 2, 1, 2, 2, b"N\0\0\0") + struct.pack(order + "HHII", 2, 5, 3, 80) + bytes(4)
    return header + struct.pack(order + "I", 8) + directory + gps + LATITUDE


def read_tags(exif: bytes) -> dict[int, bytes]:
    """Return the values of the first directory by tag."""
    order = "<" if exif.startswith(b"II") else ">"
    (count,) = struct.unpack_from(order + "H", exif, 8)
    entries = (exif[at : at + 12] for at in range(10, 10 + 12 * count, 12))
    return {struct.unpack(order + "H", entry[:2])[0]: entry[8:] for entry in entries}


def make_jpeg(exif: bytes, xmp: bytes = XMP) -> bytes:
    parts = (b"Exif\0\0" + exif, b"http://ns.adobe.com/xap/1.0/\0" + xmp)
    segments = (b"\xff\xe1" + (len(part) + 2).to_bytes(2, "big") + part for part in parts)
    return b"\xff\xd8" + b"".join(segments) + PIXELS


def make_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc32(kind + content))


def make_png(exif: bytes, xmp: bytes = XMP) -> bytes:
    text = b"XML:com.adobe.xmp\0\0\0\0\0" + xmp
    image = png()
    return image[:33] + make_chunk(b"eXIf", exif) + make_chunk(b"iTXt", text) + image[33:]


def make_webp(exif: bytes, xmp: bytes = XMP) -> bytes:
    chunks = b"".join(
        kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)
        for kind, content in ((b"VP8 ", PIXELS), (b"EXIF", exif), (b"XMP ", xmp))
    )
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def make_heic(exif: bytes, xmp: bytes = XMP) -> bytes:
    return b"\0\0\0\x18ftypheic" + bytes(12) + b"\0\0\0\6Exif\0\0" + exif + xmp + PIXELS


MAKERS = {"JPEG": make_jpeg, "PNG": make_png, "WebP": make_webp, "HEIC": make_heic}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", MAKERS)
def test_only_the_position_is_removed(kind: str, order: str) -> None:
    exif = make_exif(order)
    photo = MAKERS[kind](exif)
    cleaned = remove_location(photo)
    assert len(cleaned) == len(photo)
    start = photo.index(exif)
    tags = read_tags(cleaned[start:])
    assert tags == {tag: value for tag, value in read_tags(exif).items() if tag != 0x8825}
    for part in (LATITUDE, b"52,31", b"+13.4", b"13,24"):
        assert part not in cleaned
    assert b'tiff:Make="Maker"' in cleaned
    if kind == "PNG":
        assert cleaned.endswith(photo[photo.index(b"IDAT") - 4 :])
    else:
        assert PIXELS in cleaned
    assert remove_location(cleaned) is cleaned


@pytest.mark.parametrize("kind", MAKERS)
def test_a_photo_without_a_position_is_not_changed(kind: str) -> None:
    photo = MAKERS[kind](make_exif()[:34] + bytes(16), b"<rdf:RDF>GPS is text</rdf:RDF>")
    photo = photo.replace(b"\3\0\x0f\1", b"\2\0\x0f\1") if kind != "PNG" else photo
    assert kind == "PNG" or remove_location(photo) is photo


def test_the_checksums_of_a_png_are_correct_and_compressed_metadata_is_removed() -> None:
    image = make_png(make_exif())
    raw = make_chunk(b"zTXt", b"Raw profile type exif\0\0...") + make_chunk(b"tEXt", b"exif:GPSLatitude\x0052/1")
    comment = make_chunk(b"tEXt", b"Comment\0hello")
    cleaned = remove_location(image[:33] + raw + comment + image[33:])
    position, kinds = 8, []
    while position < len(cleaned):
        (length,) = struct.unpack_from(">I", cleaned, position)
        kind, content = cleaned[position + 4 : position + 8], cleaned[position + 8 : position + 8 + length]
        assert cleaned[position : position + 12 + length] == make_chunk(kind, content)
        kinds.append(kind)
        position += 12 + length
    assert kinds.count(b"tEXt") == 1
    assert b"zTXt" not in kinds
    assert {b"eXIf", b"iTXt", b"IHDR", b"IEND"} <= set(kinds)


def test_further_images_and_videos_in_the_file_lose_their_position_too() -> None:
    video = b"\0\0\0\x18ftypmp42 \xa9xyz\0\x12\x15\xc7+52.5200+013.4050/"
    cleaned = remove_location(make_jpeg(make_exif()) + make_jpeg(make_exif(">")) + video)
    assert cleaned.count(PIXELS) == 2
    assert LATITUDE not in cleaned
    assert b"52.52" not in cleaned


@pytest.mark.parametrize(
    "damage",
    [
        lambda exif: exif[:42] + struct.pack("<I", 5_000) + exif[46:],  # the value of the GPS entry
        lambda exif: exif[:-10],
        lambda exif: exif[:46] + struct.pack("<I", 60_000) + exif[50:],  # the next directory
    ],
    ids=["GPS directory", "truncated", "next directory"],
)
def test_of_damaged_metadata_only_the_orientation_stays(damage: Callable[[bytes], bytes]) -> None:
    exif = damage(make_exif())
    photo = make_jpeg(exif)
    cleaned = remove_location(photo)
    start = photo.index(exif)
    assert read_tags(cleaned[start:]) == {0x0112: b"\6\0\0\0"}
    assert LATITUDE[:16] not in cleaned
    assert b"Me!" not in cleaned[: start + len(exif)]
    assert cleaned.endswith(PIXELS)


@given(st.binary(max_size=200), st.sampled_from(sorted(MAKERS)), st.sampled_from([b"II*\0", b"MM\0*", b""]))
def test_any_metadata_is_cleaned_without_an_error(exif: bytes, kind: str, header: bytes) -> None:
    photo = MAKERS[kind](header + exif)
    cleaned = remove_location(photo)
    assert len(cleaned) == len(photo)
    if kind != "PNG":
        assert cleaned.endswith(photo[-8:])


@given(st.binary())
def test_any_bytes_are_returned(data: bytes) -> None:
    assert len(remove_location(data)) == len(data)


@pytest.mark.parametrize("source", ["photo.jpg", "-"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_setting_keeps_the_position(source: str, *, kept: bool, ask: Ask, server: ModelServer) -> None:
    photo = make_jpeg(make_exif())
    (ask.cwd / "photo.jpg").write_bytes(photo)
    if kept:
        ask("config", "set", "attachments.keep_location", "true")
    server.reply(wire.says("yes"))
    result = ask("-v", "-f", source, "where?", stdin=photo if source == "-" else None)
    expected = photo if kept else remove_location(photo)
    assert b64encode(expected) in server.requests[0].body
    assert ("removed the position" in result.stderr) is not kept


@pytest.mark.parametrize("kept", [False, True])
def test_a_photo_of_a_tool_result_is_sent_without_its_position(*, kept: bool, ask: Ask, server: ModelServer) -> None:
    photo = make_jpeg(make_exif())
    (ask.cwd / "photo.jpg").write_bytes(photo)
    if kept:
        ask("config", "set", "attachments.keep_location", "true")
    server.reply(wire.calls(("read_file", {"filepath": "photo.jpg"})), wire.says("yes"))
    assert ask("where?").code == 0
    assert b64encode(photo if kept else remove_location(photo)) in server.requests[1].body


def test_an_impossible_length_takes_no_memory() -> None:
    damaged = make_png(make_exif()[:8] + b"\xff\xff")
    start = damaged.index(b"eXIf")
    damaged = damaged[: start - 4] + b"\xff\xff\xff\xf0" + damaged[start:]
    tracemalloc.start()
    try:
        assert len(remove_location(damaged)) == len(damaged)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [b"\0\0\0\x06", b"\xff\xff\xff\xffeXIf", b"EXIF\xff\xff\xff\xff"])
def test_many_blocks_take_little_time(prefix: bytes) -> None:
    data = (prefix + b"II*\0\x08\0\0\0\x01\0") * 40_000
    started = time.thread_time()
    assert len(remove_location(data)) == len(data)
    assert time.thread_time() - started < 3
