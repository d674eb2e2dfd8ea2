"""The text of Office documents."""

from __future__ import annotations

from io import BytesIO
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.office_text import extract_office_text
from tests.sample_files import docx, zipped

RELATIONSHIPS = '<r><Relationship Id="rId1" Target="worksheets/sheet1.xml"/></r>'
WORKBOOK = '<w xmlns:r="r"><sheets><sheet name="Prices" r:id="rId1"/></sheets></w>'
SHEET = (
    '<w><sheetData><row><c r="A1" t="s"><v>1</v></c><c r="C1"><v>1.5</v></c></row>'
    '<row><c r="B2" t="inlineStr"><is><t>in</t></is></c><c r="D2" t="s"><v>9</v></c></row></sheetData></w>'
)
DRAWING = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def test_paragraphs_and_tables_are_lines() -> None:
    assert extract_office_text(docx("Größe")) == "Größe\na\tb"


def test_sheets_are_tables() -> None:
    parts = {
        "xl/workbook.xml": WORKBOOK,
        "xl/_rels/workbook.xml.rels": RELATIONSHIPS,
        "xl/sharedStrings.xml": "<s><si><t>no</t></si><si><r><t>na</t></r><r><t>me</t></r></si></s>",
        "xl/worksheets/sheet1.xml": SHEET,
    }
    assert extract_office_text(zipped(parts)) == "# Prices\n\nname\t\t1.5\n\tin\t\t9"


def test_slides_are_in_order() -> None:
    slides = {f"ppt/slides/slide{number}.xml": f"<s {DRAWING}><a:p><a:t>{number}</a:t></a:p></s>" for number in (10, 9)}
    text = extract_office_text(zipped({"ppt/presentation.xml": "<p/>", **slides}))
    assert text.split() == ["#", "Slide", "9", "9", "#", "Slide", "10", "10"]


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04",
        zipped({"a.txt": "text"}),
        zipped({"word/document.xml": "<broken"}),
        zipped({"word/document.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'}),
        zipped({"word/document.xml": "<a>" * 100_000}),
        zipped({"word/document.xml": "<a>" * 5_000 + "</a>" * 5_000}),
        zipped({"xl/workbook.xml": WORKBOOK}),
    ],
    ids=["truncated", "archive", "malformed", "entities", "unclosed", "deep", "no relationships"],
)
def test_anything_else_has_no_text(data: bytes) -> None:
    assert extract_office_text(data) == ""


@given(st.binary(), st.integers(0, 300))
def test_damaged_documents_are_no_error(noise: bytes, position: int) -> None:
    data = docx("text")
    extract_office_text(data[:position] + noise + data[position + len(noise) :])


@pytest.mark.parametrize("method", [ZIP_LZMA, ZIP_BZIP2])
def test_documents_are_not_compressed_in_other_ways(method: int) -> None:
    assert extract_office_text(zip_sheets(SHEET, method=method)) == ""


def test_text_that_is_repeated_without_end_is_not_read() -> None:
    shared = f"<s><si><t>{'x' * 1_000_000}</t></si></s>"
    row = "<row>" + '<c t="s"><v>0</v></c>' * 100 + "</row>"
    assert extract_office_text(zip_sheets(f"<s>{row}</s>", shared)) == ""
    assert extract_office_text(zip_sheets(f"<s>{row.replace('<c', '</row><row><c')}</s>", shared)) == ""


def test_a_sheet_is_read_once() -> None:
    workbook = '<w xmlns:r="r">' + '<sheet name="A" r:id="rId1"/>' * 3 + "</w>"
    assert extract_office_text(zip_sheets("<s><row><c><v>5</v></c></row></s>", workbook=workbook)) == "# A\n\n5"


def test_an_impossible_column_takes_no_time() -> None:
    sheet = '<s><row><c r="' + "Z" * 1_000_000 + '1"><v>5</v></c></row></s>'
    assert extract_office_text(zip_sheets(sheet)).split() == ["#", "Prices", "5"]


def zip_sheets(sheet: str, shared: str = "<s/>", workbook: str = WORKBOOK, method: int = ZIP_DEFLATED) -> bytes:
    parts = {
        "xl/workbook.xml": workbook,
        "xl/_rels/workbook.xml.rels": RELATIONSHIPS,
        "xl/sharedStrings.xml": shared,
        "xl/worksheets/sheet1.xml": sheet,
    }
    file = BytesIO()
    with ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()
