"""Generates small real files: images, a PDF and audio."""

from __future__ import annotations

import io
import re
import struct
import wave
import zlib
from collections.abc import Mapping
from zipfile import ZipFile

from ask import Attachment


def png(width: int = 3, height: int = 2, more: bytes = b"") -> bytes:
    """Generate a red image; `more` is stored in an extra chunk that is not part of the image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff\0\0" * width) * height)
    extra = chunk(b"teXt", more) if more else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pdf(pages: int = 1) -> bytes:
    """Generate a document of empty pages, in ASCII."""
    kids = " ".join(f"{number + 3} 0 R" for number in range(pages))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {pages}>>"]
    objects += ["<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>"] * pages
    text = "%PDF-1.4\n"
    places = []
    for number, one in enumerate(objects, 1):
        places.append(len(text))
        text += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    text += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<</Size {size}/Root 1 0 R>>\n"
    return f"{text}startxref\n{text.index('xref')}\n%%EOF\n".encode()


def wav(seconds: float = 0.05) -> bytes:
    """Generate silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * int(8000 * seconds))
    return file.getvalue()


def iso(brand: bytes) -> bytes:
    """Generate the first box of a file of the MP4 family."""
    return struct.pack(">I", 24) + b"ftyp" + brand + b"\0\0\0\0" + b"mif1isom"


GIF = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;"
BEGINNINGS = {
    "image/png": png(),
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xd9",
    "image/gif": GIF,
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0",
    "image/heic": iso(b"heic"),
    "application/pdf": pdf(),
    "audio/wav": wav(),
    "audio/mpeg": b"ID3\x04\0\0\0\0\0\0\xff\xfb\x90\x64" + bytes(100),
    "audio/ogg": b"OggS\0\x02" + bytes(22) + b"\x01\x1e\x01vorbis",
    "audio/flac": b"fLaC\0\0\0\x22" + bytes(34),
    "audio/mp4": iso(b"M4A "),
    "audio/aac": b"\xff\xf1\x50\x80\x02\x1f\xfc" + bytes(9),
    "audio/aiff": b"FORM\0\0\0\x2eAIFFCOMM" + bytes(20),
    "image/avif": iso(b"avif"),
    "image/bmp": b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0" + bytes(40),
    "image/tiff": b"II*\0\x08\0\0\0\0\0",
    "video/quicktime": iso(b"qt  "),
    "video/3gpp": iso(b"3gp4"),
    "video/mp4": iso(b"isom"),
    "video/webm": b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82\x84webm\0",
    "video/mpeg": b"\0\0\x01\xba\x44\0\x04",
    "video/x-msvideo": b"RIFF\x1a\0\0\0AVI LIST",
    "video/x-matroska": b"\x1a\x45\xdf\xa3\xa3\x42\x86\x81\x01\x42\x82\x88matroska\0",
    "application/x-ole-storage": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16),
    "application/gzip": b"\x1f\x8b\x08" + bytes(17),
    "application/zip": b"PK\x03\x04\x14\0\0\0\0\0",
}
"""The first bytes of a real file of each MIME type."""

PHOTO = Attachment("photo.png", "image/png", png())
PAPER = Attachment("paper.pdf", "application/pdf", pdf())
SPEECH = Attachment("speech.wav", "audio/wav", wav())


WORD_CONTENT_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)


def docx(text: str) -> bytes:
    """Return a Word document with a paragraph and a table of one row."""
    namespace = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    cells = "".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in "ab")
    body = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p><w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    return zipped(
        {
            "[Content_Types].xml": WORD_CONTENT_TYPES,
            "word/document.xml": f"<w:document {namespace}><w:body>{body}</w:body></w:document>",
        }
    )


def zipped(files: Mapping[str, str]) -> bytes:
    """Return a ZIP archive with files."""
    data = io.BytesIO()
    with ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def share_texts(workbook: bytes) -> bytes:
    """Return a workbook with its texts in a part of their own, as Excel saves them and openpyxl does not."""
    with ZipFile(io.BytesIO(workbook)) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    texts: list[str] = []

    def share(match: re.Match[str]) -> str:
        texts.append(f"<si>{match[1]}</si>")
        return f't="s"><v>{len(texts) - 1}</v>'

    for name in filter(re.compile("xl/worksheets/").match, parts):
        parts[name] = re.sub(r't="inlineStr"><is>(.*?)</is>', share, parts[name], flags=re.DOTALL)
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{namespace}">{"".join(texts)}</sst>'
    content_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    override = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{content_type}"/></Types>'
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace("</Types>", override)
    return zipped(parts)
