"""A reader of Excel workbooks that accepts files of other programs, and leaves the text of cells as it is."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import IO, Any, Literal, cast
from zipfile import ZipFile, ZipInfo

from openpyxl.cell.text import Text
from openpyxl.chartsheet import Chartsheet
from openpyxl.reader.excel import ExcelReader
from openpyxl.xml.constants import ARC_STYLE, REL_NS, SHARED_STRINGS, SHEET_MAIN_NS
from openpyxl.xml.functions import SubElement, fromstring, iterparse, tostring

_NAMESPACE = f"{{{SHEET_MAIN_NS}}}"
_PLAIN_STYLES = f"""<styleSheet xmlns="{SHEET_MAIN_NS}"><numFmts/><fonts><font/></fonts><fills><fill><patternFill/>
</fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs><cellXfs/><cellStyles>
<cellStyle name="Normal" xfId="0"/></cellStyles></styleSheet>"""
_STRICT_NAMESPACE = b"http://purl.oclc.org/ooxml/"
_STRICT_NAMESPACES = {
    _STRICT_NAMESPACE + b"spreadsheetml/main": SHEET_MAIN_NS.encode(),
    _STRICT_NAMESPACE + b"officeDocument/relationships": REL_NS.encode(),
}
_TAG = re.compile(rb"<[^>]*>")
_MAX_START_BYTES = 10_000
"""How much of a part is searched for namespaces, which are declared before its rows."""


class WorkbookReader(ExcelReader):  # type: ignore[misc]
    """Reads only the cells of sheets, because openpyxl rejects some of the rest."""

    def __init__(self, file: str | IO[bytes], *, data_only: bool = True) -> None:
        super().__init__(file, read_only=True, data_only=data_only, keep_links=False)
        self.archive: ZipFile = _Archive(file)

    def read_strings(self) -> None:
        """Read the texts of cells with their escapes, some of which openpyxl removes."""
        if part := self.package.find(SHARED_STRINGS):
            with self.archive.open(part.PartName[1:]) as source:
                for _, element in iterparse(source):
                    if element.tag == f"{_NAMESPACE}si":
                        self.shared_strings.append(Text.from_tree(element).content)
                        element.clear()

    def read_properties(self) -> None:
        """Skip the properties: some programs write dates of their own."""

    def read_custom(self) -> None:
        """Skip the user's properties, too."""

    def read_chartsheet(self, sheet: Any, _: Any) -> None:
        chart_sheet = Chartsheet(parent=self.wb)
        chart_sheet.defined_names = {}
        self.wb._add_sheet(chart_sheet)


class _Archive(ZipFile):
    """A workbook with the parts that openpyxl can read.

    Its styles are only formats of numbers and dates, because openpyxl rejects fonts and fills of other programs. A
    "Strict Open XML" workbook, in which openpyxl finds no sheets, has the usual namespaces.
    """

    def open(
        self, name: str | ZipInfo, mode: Literal["r", "w"] = "r", pwd: bytes | None = None, *, force_zip64: bool = False
    ) -> IO[bytes]:
        part = super().open(name, mode, pwd, force_zip64=force_zip64)
        start = part.read(_MAX_START_BYTES)
        if _STRICT_NAMESPACE not in start:
            part.seek(0)
            return part
        return cast("IO[bytes]", _EditedPart(_TAG.sub(_replace_namespaces, start), part))

    def read(self, name: str | ZipInfo, pwd: bytes | None = None) -> bytes:
        content = super().read(name, pwd)
        if name != ARC_STYLE:
            return content
        root, kept = fromstring(content), fromstring(_PLAIN_STYLES)
        formats, styles = kept.find(f"{_NAMESPACE}numFmts"), kept.find(f"{_NAMESPACE}cellXfs")
        formats.extend(one for one in root.iter(f"{_NAMESPACE}numFmt") if one.get("formatCode"))
        for style in root.iterfind(f"{_NAMESPACE}cellXfs/{_NAMESPACE}xf"):
            SubElement(styles, style.tag, numFmtId=style.get("numFmtId", "0"))
        result: bytes = tostring(kept)
        return result


class _EditedPart(AbstractContextManager["_EditedPart"]):
    """A part of an archive whose start is replaced; the rest, which may be large, is read as a stream."""

    def __init__(self, start: bytes, rest: IO[bytes]) -> None:
        self._start, self._rest = start, rest
        self.close = rest.close

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        """Read about `size` bytes."""
        start, self._start = self._start, b""
        return start + self._rest.read(size)


def _replace_namespaces(tag: re.Match[bytes]) -> bytes:
    result = tag[0]
    for strict, usual in _STRICT_NAMESPACES.items():
        result = result.replace(strict, usual)
    return result
