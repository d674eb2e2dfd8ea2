"""The text of Office and OpenDocument files, converted in a process of its own: a document may be hostile.

Word documents become Markdown (mammoth), the cells of sheets lines with tabs (openpyxl), and slides lines with their
notes (python-pptx). Macros are never run, and nothing outside the file is read.
"""

from __future__ import annotations

import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from itertools import chain
from subprocess import CalledProcessError, TimeoutExpired
from typing import Any
from xml.etree.ElementTree import fromstring
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from ask.client.document_xml import (
    UNREADABLE_PART,
    WORD_PART,
    DocumentArchive,
    decode_escapes,
    read_elements,
    read_excel_text,
    read_powerpoint_text,
    read_word_text,
)
from ask.client.image_scaling import FILES_EXTRA
from ask.process.isolated_process import limit_memory, run_in_subprocess
from ask.records import NamedTuple

OFFICE_TYPE = "application/vnd.openxmlformats-officedocument."
WORD_TYPE = f"{OFFICE_TYPE}wordprocessingml.document"
EXCEL_TYPE = f"{OFFICE_TYPE}spreadsheetml.sheet"
POWERPOINT_TYPE = f"{OFFICE_TYPE}presentationml.presentation"
OPEN_DOCUMENT_TYPE = "application/vnd.oasis.opendocument."
_MAIN_PARTS = (
    (rb"wordprocessingml\.(?:document|template)\.main|ms-word\.\w+\.macroEnabledTemplate|ms-word\.document", WORD_TYPE),
    (rb"spreadsheetml\.(?:sheet|template)\.main|ms-excel\.(?:sheet|template)\.macroEnabled", EXCEL_TYPE),
    (rb"presentationml\.(?:presentation|template|slideshow)\.main|ms-powerpoint\.\w+\.macroEnabled", POWERPOINT_TYPE),
)
"""What the list of content types says about the main part of each kind, also with macros."""
_PACKAGES = {WORD_TYPE: "mammoth", EXCEL_TYPE: "openpyxl", POWERPOINT_TYPE: "pptx"}
_TIMEOUT_SECONDS = 30.0
_MAX_BLANK_LINES = 3
_MAX_XML_BYTES = 50_000_000
"""The largest size of the XML parts of a document, unpacked; their trees take several times as much memory."""
_MAX_TEXT_CHARACTERS = 10_000_000
_MAX_LIST_BYTES = 1_000_000
_XML_SUFFIXES = (".xml", ".rels")
_UNCACHED_FORMULA = re.compile(rb"</f>\s*(?:<v\s*/>|<v></v>)?\s*</c>|<f[^>]*/>\s*</c>")
_FORMULA = re.compile(rb"<(\w+:oMath(?:Para)?)(?=[\s>]).*?</\1>", re.DOTALL)
"""A formula, or a paragraph of formulas."""
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
"""A shape with features of newer programs, such as a formula; python-pptx leaves it out."""
_BAD_DOCUMENT_CODE = 2


class ConvertedDocument(NamedTuple):
    """The text of a document, or why there is none."""

    text: str = ""
    problem: str = ""


class DocumentError(ValueError):
    """A document has no text that can be read; the message says why."""


def identify_document(data: bytes) -> str:
    """Return the MIME type of an Office or OpenDocument file, by the parts of the ZIP archive; "" for other data.

    A document with macros has the type of one without.
    """
    if not data.startswith(b"PK\x03\x04"):
        return ""
    try:
        with ZipFile(BytesIO(data)) as archive:
            names = set(archive.namelist())
            if "[Content_Types].xml" in names:
                content_types = _read_part(archive, "[Content_Types].xml", _MAX_LIST_BYTES)
                return next((name for pattern, name in _MAIN_PARTS if re.search(pattern, content_types)), "")
            if {"mimetype", "content.xml"} <= names:
                media_type = _read_part(archive, "mimetype", _MAX_LIST_BYTES).decode("ascii", "replace")
                return media_type if media_type.startswith(OPEN_DOCUMENT_TYPE) else ""
    except (BadZipFile, DocumentError, ValueError, RuntimeError, OSError, EOFError, zlib.error, NotImplementedError):
        pass
    return ""


def has_macros(data: bytes) -> bool:
    """Check whether a document has macros, by the name of the part that contains them."""
    return b"vbaProject.bin" in data


@lru_cache(maxsize=16)  # a document may be sent again in each round of a run
def convert_document(data: bytes, timeout: float = _TIMEOUT_SECONDS) -> ConvertedDocument:
    """Return the text of a document. It takes at most `timeout` seconds, 2 GiB of memory and 10 million characters."""
    kind = identify_document(data)
    package = _PACKAGES.get(kind)
    if not kind:
        return ConvertedDocument(problem="it is not an Office document")
    if package and not find_spec(package):
        from ask.config.installation import format_install_command

        return ConvertedDocument(problem=f"reading Office documents needs {format_install_command(FILES_EXTRA)}")
    try:
        text = run_in_subprocess(__name__, data, timeout, kind).decode()
    except TimeoutExpired:
        return ConvertedDocument(problem="converting it to text takes too long")
    except CalledProcessError as error:
        reason = (error.stderr or b"").decode("utf-8", "replace").strip()
        is_known = error.returncode == _BAD_DOCUMENT_CODE
        return ConvertedDocument(problem=reason if is_known else "it is damaged, or takes too much memory")
    return ConvertedDocument(text) if text.strip() else ConvertedDocument(problem="it contains no text")


def main() -> None:
    """Convert the document on standard input, and write its text to standard output: the body of the process."""
    limit_memory()
    data = sys.stdin.buffer.read()
    try:
        _check_parts(data)
        text = _convert(sys.argv[1], data) or _read_xml(sys.argv[1], data)
    except DocumentError as error:
        sys.stderr.write(str(error))
        sys.exit(_BAD_DOCUMENT_CODE)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


def _convert(kind: str, data: bytes) -> str:
    """Return the text that the library for a kind of document reads; "" if it cannot read it."""
    try:
        return _join_lines(_CONVERTERS.get(kind, _read_open_document)(data))
    except DocumentError:
        raise
    except Exception:  # noqa: BLE001 - each library rejects some files, in any way, that Office opens
        return ""


def _read_xml(kind: str, data: bytes) -> str:
    """Return the text of the parts of an Office document that can be read."""
    if kind not in _XML_READERS:
        return ""
    with ZipFile(BytesIO(data)) as archive:
        lines = _XML_READERS[kind](DocumentArchive(archive))
        return _join_lines(chain(lines, _read_headers(data) if kind == WORD_TYPE else ()))


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(_limit_length(lines)).strip()


def _read_part(archive: ZipFile, name: str, max_bytes: int) -> bytes:
    """Read a part, of which the archive may state a wrong size.

    Raises:
        DocumentError: it is larger, or compressed in a way that no Office program uses and takes much memory.
    """
    if archive.getinfo(name).compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise DocumentError("its parts are compressed in an unusual way")
    with archive.open(name) as part:
        content = part.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DocumentError("it is too large when it is unpacked")
    return content


def _check_parts(data: bytes) -> None:
    """Raise `DocumentError` for XML that is too large, or defines entities, which could grow or name other files."""
    remaining = _MAX_XML_BYTES
    with ZipFile(BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith(_XML_SUFFIXES):
                content = _read_part(archive, name, remaining)
                remaining -= len(content)
                if b"<!DOCTYPE" in content or b"<\0!\0D\0O\0C\0" in content or b"\0<\0!\0D\0O\0C" in content:
                    raise DocumentError("its XML defines entities")


def _limit_length(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines, without those after the first few of many blank ones: a sheet may have a million of them."""
    length = blank_count = 0
    for line in lines:
        blank_count = 0 if line.strip() else blank_count + 1
        if blank_count > _MAX_BLANK_LINES:
            continue
        length += len(line) + 1
        if length > _MAX_TEXT_CHARACTERS:
            raise DocumentError(f"its text has more than {_MAX_TEXT_CHARACTERS:,} characters")
        yield line


def _read_word(data: bytes) -> Iterator[str]:
    """Yield the text as Markdown, with footnotes and comments, and then the headers and footers."""
    import mammoth
    from markdownify import markdownify

    html = mammoth.convert_to_html(
        BytesIO(_replace_formulas(data)),
        style_map="comment-reference => sup",
        convert_image=lambda _: [],
        include_embedded_style_map=False,
    ).value
    yield markdownify(html, heading_style="ATX", bullets="-", table_infer_header=True).strip()
    yield from _read_headers(data)


def _replace_formulas(data: bytes) -> bytes:
    """Return a document with the symbols of each formula as text: mammoth leaves out formulas.

    The changed part is appended, and replaces the one of its name. The others, such as images, are not read.
    """
    document = BytesIO(data)
    with ZipFile(document, "a") as archive, warnings.catch_warnings(action="ignore"):
        for name in filter(WORD_PART.fullmatch, archive.namelist()):
            content = archive.read(name)
            if b":oMath" in content:
                archive.writestr(name, _FORMULA.sub(_format_formula, content))
    return document.getvalue()


def _format_formula(match: re.Match[bytes]) -> bytes:
    symbols = b" ".join(re.findall(rb":t(?:\s[^>]*)?>([^<]+)</", match[0]))
    return b'<w:r><w:t xml:space="preserve">[formula: ' + symbols + b"]</w:t></w:r>" if symbols else b""


def _read_headers(data: bytes) -> Iterator[str]:
    """Yield the text of the headers and footers, each once."""
    with ZipFile(BytesIO(data)) as archive:
        seen = {""}
        for name in sorted(archive.namelist()):
            if match := re.fullmatch(r"word/(header|footer)\d*\.xml", name):
                with suppress(*UNREADABLE_PART):
                    text = " ".join("".join(fromstring(archive.read(name)).itertext()).split())  # noqa: S314
                    if text not in seen:
                        seen.add(text)
                        yield f"\n[{match[1]}: {text}]"


def _read_excel(data: bytes) -> Iterator[str]:
    """Yield the sheets, also hidden ones. A cell has its value, or its formula if the file has no value for it."""
    from ask.client.excel_reader import WorkbookReader

    reader = WorkbookReader(BytesIO(data))
    reader.read()
    values = formulas = reader.wb
    if _has_uncached_formulas(data):
        reader = WorkbookReader(BytesIO(data), data_only=False)
        reader.read()
        formulas = reader.wb
    for sheet in values.worksheets:
        hidden = "" if sheet.sheet_state == "visible" else " (hidden)"
        yield f"\n# {_format_value(sheet.title)}{hidden}\n"
        other = formulas[sheet.title]
        for each in {sheet, other}:
            each.reset_dimensions()  # a wrong dimension would hide cells, or add empty ones
        other_rows = other.iter_rows(values_only=True) if other is not sheet else None
        for row in sheet.iter_rows(values_only=True):
            other_row = next(other_rows, row) if other_rows else row
            cells = [b if a is None else a for a, b in zip(row, other_row, strict=False)]
            yield "\t".join(map(_format_value, cells)).rstrip("\t")


def _has_uncached_formulas(data: bytes) -> bool:
    with ZipFile(BytesIO(data)) as archive:
        sheets = (name for name in archive.namelist() if name.startswith("xl/worksheets/"))
        return any(_UNCACHED_FORMULA.search(archive.read(name)) for name in sheets)


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    return " ".join(decode_escapes(str(value)).split())


def _read_powerpoint(data: bytes) -> Iterator[str]:
    """Yield the texts and tables of each slide, and the notes for the speaker."""
    from pptx import Presentation

    for number, slide in enumerate(Presentation(BytesIO(data)).slides, start=1):
        hidden = " (hidden)" if slide._element.get("show") == "0" else ""
        yield f"\n# Slide {number}{hidden}\n"
        yield from _read_shapes(slide.shapes)
        for alternatives in slide._element.iter(_ALTERNATIVES):
            yield from filter(str.strip, read_elements(alternatives))
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) and notes.text.strip():
            yield f"\nNotes: {notes.text.strip()}"


def _read_shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _read_shapes(shape.shapes)
        elif getattr(shape, "has_table", False):
            for row in shape.table.rows:
                yield "\t".join(_format_value(cell.text) for cell in row.cells).rstrip("\t")
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield shape.text_frame.text.replace("\v", "\n").strip()


def _read_open_document(data: bytes) -> Iterator[str]:
    with ZipFile(BytesIO(data)) as archive:
        yield from read_elements(DocumentArchive(archive).parse("content.xml"))


_CONVERTERS: dict[str, Callable[[bytes], Iterator[str]]] = {
    WORD_TYPE: _read_word,
    EXCEL_TYPE: _read_excel,
    POWERPOINT_TYPE: _read_powerpoint,
}
_XML_READERS: dict[str, Callable[[DocumentArchive], Iterator[str]]] = {
    WORD_TYPE: read_word_text,
    EXCEL_TYPE: read_excel_text,
    POWERPOINT_TYPE: read_powerpoint_text,
}
