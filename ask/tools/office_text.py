"""The text of Office documents: Word, Excel, PowerPoint and OpenDocument files."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element
    from zipfile import ZipFile

_MAX_LENGTH = 50_000_000
"""The largest size of the XML files in a document, in bytes, and of its text, which may repeat parts of them.

The trees of the XML files take several times as much memory.
"""
_XML_SUFFIXES = (".xml", ".rels")
_MAX_GAP = 100
"""How many empty cells before one with a value are shown."""
_MAX_COLUMN_LETTERS = 3
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " "}


def extract_office_text(data: bytes) -> str:
    """Return the text of a document, with the cells of a table separated by tabs; "" if it is not a document."""
    from xml.etree.ElementTree import ParseError
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(BytesIO(data)) as archive:
            return "\n".join(_limit_length(_read_document(archive))).strip()
    except (BadZipFile, ParseError, KeyError, ValueError, RuntimeError, OSError, EOFError, zlib.error):
        return ""


def _limit_length(parts: Iterable[str]) -> Iterator[str]:
    """Yield the parts of a text. Raises ValueError if they are too long together."""
    length = 0
    for part in parts:
        length += len(part)
        if length > _MAX_LENGTH:
            raise ValueError
        yield part


def _read_document(archive: ZipFile) -> Iterator[str]:
    names = archive.namelist()
    if sum(part.file_size for part in archive.infolist() if part.filename.endswith(_XML_SUFFIXES)) > _MAX_LENGTH:
        return
    if "word/document.xml" in names:
        for name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml", "word/comments.xml"):
            if name in names:
                yield from _read_lines(_parse(archive, name))
    elif "xl/workbook.xml" in names:
        yield from _read_workbook(archive)
    elif "ppt/presentation.xml" in names:
        slides = sorted((int(match[1]), match[0]) for match in map(_SLIDE_PATTERN.fullmatch, names) if match)
        for number, name in slides:
            yield f"\n# Slide {number}\n"
            yield from _read_lines(_parse(archive, name))
    elif "content.xml" in names and "mimetype" in names:
        yield from _read_lines(_parse(archive, "content.xml"))


_SLIDE_PATTERN = re.compile(r"ppt/slides/slide(\d+)\.xml")


def _parse(archive: ZipFile, name: str) -> Element:
    """Parse a part of a document.

    Raises:
        ValueError: it defines entities, or is compressed in a way that no Office program uses and takes much memory.
        ParseError, KeyError: it is malformed, or missing.
    """
    from xml.etree.ElementTree import fromstring
    from zipfile import ZIP_DEFLATED, ZIP_STORED

    if not name.endswith(_XML_SUFFIXES):
        raise KeyError  # the sizes of other parts are not checked
    if archive.getinfo(name).compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError
    content = archive.read(name)
    if b"<!DOCTYPE" in content:  # no Office program writes one, and its entities can grow without limit
        raise ValueError
    return fromstring(content)  # noqa: S314


def _get_name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _read_lines(element: Element) -> Iterator[str]:
    """Yield the paragraphs and the rows of tables."""
    name = _get_name(element)
    if name in ("p", "h") and element.tag[-2:] in ("}p", "}h"):
        yield _read_paragraph(element)
    elif name in ("tr", "table-row"):
        cells = [" ".join(_read_lines(cell)) for cell in element if _get_name(cell) in ("tc", "table-cell")]
        yield "\t".join(cells).rstrip("\t")
    else:
        for child in element:
            yield from _read_lines(child)


def _read_paragraph(element: Element) -> str:
    parts = [element.text or ""] if _get_name(element) != "tab" else []
    if _get_name(element) in ("delText", "instrText", "annotation"):  # deleted, or the code of a field
        return ""
    for child in element:
        parts.append(_BREAKS.get(_get_name(child), "") or _read_paragraph(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _read_workbook(archive: ZipFile) -> Iterator[str]:
    strings: list[str] = []
    with suppress(KeyError):
        strings += [" ".join("".join(each.itertext()).split()) for each in _parse(archive, "xl/sharedStrings.xml")]
    targets = {each.get("Id"): each.get("Target", "") for each in _parse(archive, "xl/_rels/workbook.xml.rels")}
    for sheet in _parse(archive, "xl/workbook.xml").iter():
        if _get_name(sheet) != "sheet":
            continue
        identifier = next((value for key, value in sheet.items() if key.endswith("}id")), None)
        target = targets.pop(identifier, "")  # a sheet that occurs again is not read again
        with suppress(KeyError):
            part = _parse(archive, target.lstrip("/") if target.startswith("/") else f"xl/{target}")
            yield f"\n# {sheet.get('name')}\n"
            yield from (_read_row(row, strings) for row in part.iter() if _get_name(row) == "row")


def _read_row(row: Element, strings: list[str]) -> str:
    return "\t".join(_limit_length(_read_cells(row, strings)))


def _read_cells(row: Element, strings: list[str]) -> Iterator[str]:
    count = 0
    for cell in row:
        column = 0
        for letter in re.sub(r"[^A-Z]", "", cell.get("r", ""))[:_MAX_COLUMN_LETTERS]:
            column = column * 26 + ord(letter) - ord("A") + 1
        gap = min(max(column - 1 - count, 0), _MAX_GAP)
        count += gap + 1
        yield from [""] * gap
        if cell.get("t") == "inlineStr":
            value = "".join(cell.itertext())
        else:
            value = next((each.text or "" for each in cell if _get_name(each) == "v"), "")
        is_shared = cell.get("t") == "s" and value.isdecimal() and int(value) < len(strings)
        yield strings[int(value)] if is_shared else " ".join(value.split())
