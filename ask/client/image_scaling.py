"""Scaling images down to the limits of a service, with Pillow, in a process of its own: images may be hostile."""

from __future__ import annotations

import re
import struct
import sys
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from subprocess import CalledProcessError, TimeoutExpired

from ask.process.isolated_process import limit_memory, run_in_subprocess
from ask.records import NamedTuple

FILES_EXTRA = "files"
"""The extra with Pillow and the packages that convert documents."""
_TIMEOUT_SECONDS = 30.0
_MAX_PIXELS = 200_000_000
"""The limit for images that are decoded; their pixels take up to four bytes each, twice."""
_MAX_SHRINKS = 8
_SHRINK_FACTOR = 0.8
_JPEG_QUALITY = 90
_JPEG_SIZE_PATTERN = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]")
"""The marker before the size of a JPEG."""


class ScaledImage(NamedTuple):
    """An image that was scaled down, or why it could not be.

    Attributes:
        data: the image in the same format; b"" if it could not be scaled.
        problem: why it could not.
    """

    data: bytes = b""
    problem: str = ""


def read_image_size(data: bytes) -> tuple[int, int] | None:
    """Return the width and height of a PNG, JPEG, GIF or WebP image; None if they are not found."""
    try:
        if data.startswith(b"\x89PNG"):
            return struct.unpack_from(">II", data, 16)
        if data.startswith(b"GIF8"):
            return struct.unpack_from("<HH", data, 6)
        if data.startswith(b"\xff\xd8"):
            return _read_jpeg_size(data)
        if data[8:12] == b"WEBP":
            return _read_webp_size(data)
    except (struct.error, IndexError):
        pass
    return None


def _read_jpeg_size(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position < len(data):
        if data[position] != 0xFF:
            return None
        if data[position + 1] == 0xFF:  # padding
            position += 1
        elif _JPEG_SIZE_PATTERN.match(data, position):
            height, width = struct.unpack_from(">HH", data, position + 5)
            return width, height
        else:
            position += 2 + int(struct.unpack_from(">H", data, position + 2)[0])
    return None


def _read_webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        return width, height
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


@lru_cache(maxsize=64)  # an image is sent again in each round of a run
def scale_image(data: bytes, max_side: int, max_bytes: int) -> ScaledImage:
    """Return an image with at most this many pixels a side and this many bytes; 0 for no limit."""
    if not find_spec("PIL"):
        from ask.config.installation import format_install_command

        return ScaledImage(problem=f"scaling it down needs Pillow: {format_install_command(FILES_EXTRA)}")
    try:
        return ScaledImage(run_in_subprocess(__name__, data, _TIMEOUT_SECONDS, str(max_side), str(max_bytes)))
    except TimeoutExpired:
        return ScaledImage(problem="scaling it down takes too long")
    except CalledProcessError as error:
        reasons = (error.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        reason = reasons[-1] if error.returncode == 2 and reasons else "it is damaged, or too large"
        return ScaledImage(problem=f"it cannot be scaled down: {reason}")


def main() -> None:
    """Scale the image on standard input, and write it to standard output: the body of the process."""
    limit_memory()
    max_side, max_bytes = map(int, sys.argv[1:])
    sys.stdout.buffer.write(_scale(sys.stdin.buffer.read(), max_side, max_bytes))


def _scale(data: bytes, max_side: int, max_bytes: int) -> bytes:
    """Return the scaled image; exit with code 2 and a reason on standard error if it cannot be scaled."""
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS
    with Image.open(BytesIO(data)) as image:
        kind = image.format or ""
        if kind == "MPO":  # a JPEG of a camera, with a preview or a depth map after the picture
            kind = "JPEG"
        elif getattr(image, "is_animated", False):
            _fail("it is animated")
        if image.width * image.height > _MAX_PIXELS:
            _fail(f"it has more than {_MAX_PIXELS // 1_000_000} million pixels")
        if kind == "JPEG" and max_side:
            image.draft(None, (max_side, max_side))  # decodes fewer pixels, but never fewer than that
        profile = image.info.get("icc_profile")
        upright = ImageOps.exif_transpose(image)
    if upright.mode == "P":
        upright = upright.convert("RGBA" if "transparency" in upright.info else "RGB")
    side = min(max_side or max(upright.size), max(upright.size))
    for _ in range(_MAX_SHRINKS):
        scaled = upright.copy()
        scaled.thumbnail((side, side), Image.Resampling.LANCZOS)
        output = BytesIO()
        scaled.save(output, kind, quality=_JPEG_QUALITY, icc_profile=profile, exif=b"")
        if not max_bytes or output.tell() <= max_bytes:
            return output.getvalue()
        side = max(int(side * _SHRINK_FACTOR), 1)
    return _fail("it stays too large")


def _fail(reason: str) -> bytes:
    sys.stderr.write(reason)
    sys.exit(2)
