"""The text in the XML of documents: of OpenDocument files, and of Office files that their libraries cannot read.

Files of other programs often have a style, a link or an unused part that a library rejects, while Office opens them.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from posixpath import dirname, join, normpath
from xml.etree.ElementTree import Element, ParseError, fromstring
from zipfile import BadZipFile, ZipFile

UNREADABLE_PART = (KeyError, ParseError, BadZipFile, zlib.error)
_OPEN_DOCUMENT_BREAKS = {"tab": "\t", "line-break": "\n", "s": " "}
_OFFICE_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n"}
WORD_PART = re.compile(r"word/document\d*\.xml")
"""The name of the main part, which Word Online numbers."""
_WORD_NOTES = ("word/footnotes.xml", "word/endnotes.xml", "word/comments.xml")
_DATE_FORMATS = frozenset((*range(14, 23), *range(45, 48)))
"""The numbers of the formats for dates and times that every workbook has (ECMA-376, 18.8.30)."""
_DURATION_NUMBER = "46"
_FORMAT_LITERALS = re.compile(r'"[^"]*"|\\.|\[[^]]*\]')
_MAX_COLUMNS = 16_384
_FIRST_DAY, _FIRST_DAY_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
"""A character that XML cannot contain, as Excel writes it (ECMA-376, 22.9.2.19)."""
_DURATION_FORMAT = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)


class DocumentArchive:
    """The parts of a document; some programs write their names with backslashes."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self.names = {name.replace("\\", "/"): name for name in archive.namelist()}

    def parse(self, name: str) -> Element:
        """Parse a part. Raises `UNREADABLE_PART`."""
        return fromstring(self._archive.read(self.names[name]))  # noqa: S314 - entities are refused before

    def find_links(self, name: str) -> dict[str, str]:
        """Return the parts that a part refers to, by the ids of the references; nothing if they cannot be read."""
        folder, file = dirname(name), name.rpartition("/")[2]
        with suppress(*UNREADABLE_PART):
            links = self.parse(f"{folder}/_rels/{file}.rels")
            return {link.get("Id", ""): normpath(join("/", folder, link.get("Target", "")))[1:] for link in links}
        return {}


def read_word_text(archive: DocumentArchive) -> Iterator[str]:
    """Yield the paragraphs and tables of a Word document, without its Markdown; then the notes and comments."""
    for name in [*filter(WORD_PART.fullmatch, archive.names)] or ["word/document.xml"]:
        yield from read_elements(archive.parse(name))
    for name in _WORD_NOTES:
        with suppress(*UNREADABLE_PART):
            yield from filter(str.strip, read_elements(archive.parse(name)))


def read_powerpoint_text(archive: DocumentArchive) -> Iterator[str]:
    """Yield the texts and tables of each slide, and the notes for the speaker."""
    for number, (_, name) in enumerate(_list_parts(archive, "ppt/presentation.xml", "sldId"), start=1):
        try:
            slide = archive.parse(name)
        except UNREADABLE_PART:
            yield f"\n# Slide {number}\n\n[this slide is damaged]"
        else:
            yield f"\n# Slide {number}{' (hidden)' if slide.get('show') == '0' else ''}\n"
            yield from filter(str.strip, read_elements(slide))
        for link in archive.find_links(name).values():
            if "notesSlide" in link:
                with suppress(*UNREADABLE_PART):
                    yield "\nNotes: " + "\n".join(filter(str.strip, read_elements(archive.parse(link))))


def read_excel_text(archive: DocumentArchive) -> Iterator[str]:
    """Yield the sheets, with a tab between the cells. A cell has its value, or its formula if it has no value."""
    texts: list[str] = []
    with suppress(*UNREADABLE_PART):
        texts = [_read_runs(item) for item in archive.parse("xl/sharedStrings.xml")]
    date_styles = _find_date_styles(archive)
    for sheet, name in _list_parts(archive, "xl/workbook.xml", "sheet"):
        hidden = " (hidden)" if sheet.get("state") in ("hidden", "veryHidden") else ""
        yield f"\n# {' '.join(sheet.get('name', '').split())}{hidden}\n"
        try:
            rows = [row for row in archive.parse(name).iter() if _get_name(row) == "row"]
        except UNREADABLE_PART:
            yield "[this sheet is damaged]"
            continue
        for row in rows:
            yield "\t".join(_read_cells(row, texts, date_styles)).rstrip("\t")


def read_elements(element: Element) -> Iterator[str]:
    """Yield the paragraphs and headings, and the rows of tables."""
    name = _get_name(element)
    if name in ("p", "h"):
        yield _read_runs(element) if element.tag.startswith("{http") else _read_paragraph(element)
    elif name in ("table-row", "tr"):
        cells = [" ".join(read_elements(cell)) for cell in element if _get_name(cell) in ("table-cell", "tc")]
        yield "\t".join(cells).rstrip("\t")
    elif name != "Fallback":
        for child in element:
            yield from read_elements(child)


def _read_paragraph(element: Element) -> str:
    """Return the text of a paragraph of an OpenDocument file, in which text is between the elements."""
    parts = [element.text or ""]
    for child in element:
        name = _get_name(child)
        if name != "annotation":
            parts.append(_OPEN_DOCUMENT_BREAKS.get(name, "") or _read_paragraph(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _read_runs(element: Element) -> str:
    """Return the text of a paragraph of an Office file, in which text has elements of its own."""
    name = _get_name(element)
    if name == "t":
        return element.text or ""
    if name in ("pPr", "rPh", "Fallback"):  # tab stops, pronunciation, and the same text for older programs
        return ""
    return _OFFICE_BREAKS.get(name) or "".join(map(_read_runs, element))


def decode_escapes(text: str) -> str:
    """Return the text of a cell with the characters that Excel escapes, such as `_x000D_` at the end of a line."""
    decoded = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    return decoded if decoded is text else decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read_cells(row: Element, texts: Sequence[str], date_styles: Mapping[str, datetime | None]) -> list[str]:
    cells: list[str] = []
    for cell in row:
        column = 0
        for letter in cell.get("r", "").rstrip("0123456789"):
            column = column * 26 + ord(letter) - ord("A") + 1
        cells += [""] * (min(column, _MAX_COLUMNS) - 1 - len(cells))
        cells.append(" ".join(decode_escapes(_read_cell(cell, texts, date_styles)).split()))
    return cells


def _read_cell(cell: Element, texts: Sequence[str], date_styles: Mapping[str, datetime | None]) -> str:
    parts = {_get_name(part): part for part in cell}
    kind, value = cell.get("t", "n"), parts["v"].text or "" if "v" in parts else ""
    if kind == "inlineStr" and "is" in parts:
        return _read_runs(parts["is"])
    if not value:
        formula = parts["f"].text if "f" in parts else ""
        return f"={formula}" if formula else ""
    if kind == "s":
        return texts[int(value)] if value.isdecimal() and int(value) < len(texts) else ""
    if kind == "b":
        return "TRUE" if value in ("1", "true") else "FALSE"
    if kind == "n" and (style := cell.get("s", "")) in date_styles:
        with suppress(ValueError, OverflowError):
            return _format_time(float(value), date_styles[style])
    return value


def _format_time(days: float, first_day: datetime | None) -> str:
    duration = timedelta(seconds=round(days * 86_400, 3))
    if first_day is None:
        return str(duration)
    return str((first_day + duration).time() if 0 < days < 1 else first_day + duration)


def _find_date_styles(archive: DocumentArchive) -> dict[str, datetime | None]:
    """Return the first day for the numbers of the cell styles whose format is one for dates; None for durations."""
    try:
        styles = list(archive.parse("xl/styles.xml").iter())
    except UNREADABLE_PART:
        return {}
    properties = next((one for one in archive.parse("xl/workbook.xml").iter() if _get_name(one) == "workbookPr"), None)
    is_1904 = properties is not None and properties.get("date1904") in ("1", "true")  # as Excel for Mac once wrote
    first_day = _FIRST_DAY_1904 if is_1904 else _FIRST_DAY
    dates: dict[str, datetime | None] = {str(number): first_day for number in _DATE_FORMATS} | {_DURATION_NUMBER: None}
    for one in styles:
        code = one.get("formatCode", "") if _get_name(one) == "numFmt" else ""
        if re.search("[ymdhs]", _FORMAT_LITERALS.sub("", code)) or _DURATION_FORMAT.search(code):
            dates[one.get("numFmtId", "")] = None if _DURATION_FORMAT.search(code) else first_day
    used = next((one for one in styles if _get_name(one) == "cellXfs"), Element("cellXfs"))
    numbers = ((str(number), style.get("numFmtId", "")) for number, style in enumerate(used))
    return {number: dates[format_number] for number, format_number in numbers if format_number in dates}


def _list_parts(archive: DocumentArchive, main_part: str, tag: str) -> Iterator[tuple[Element, str]]:
    """Yield the elements of the main part that refer to the sheets or slides, in their order, with their parts."""
    links = archive.find_links(main_part)
    for element in archive.parse(main_part).iter():
        if _get_name(element) == tag:
            reference = next((value for name, value in element.items() if name.endswith("}id")), "")
            if part := links.get(reference, ""):
                yield element, part


def _get_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]
