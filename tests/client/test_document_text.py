"""The text of Office and OpenDocument files, of real ones and of hostile ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from ask.client.document_text import EXCEL_TYPE, WORD_TYPE, convert_document, has_macros, identify_document
from tests.sample_files import WORD_CONTENT_TYPES, docx, zipped

SHEET_PART = "xl/worksheets/sheet1.xml"


def save(document: Any) -> bytes:
    output = BytesIO()
    document.save(output)
    return output.getvalue()


def replace_part(data: bytes, name: str, content: bytes, method: int = ZIP_DEFLATED) -> bytes:
    output = BytesIO()
    with ZipFile(BytesIO(data)) as old, ZipFile(output, "w", method) as new:
        for part in old.namelist():
            new.writestr(part, content if part == name else old.read(part))
        if name not in old.namelist():
            new.writestr(name, content)
    return output.getvalue()


def make_workbook() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.title = "Prices"
    for row in (["item", "price", "total"], ["a", 1.5, "=B2*2"], ["b", None, True], ["wide", None, None]):
        sheet.append(row)
    sheet.merge_cells("A4:B4")
    sheet["A5"], sheet["B5"] = "two\nlines", datetime(2026, 1, 2, 3, 4)
    hidden = book.create_sheet("Costs")
    hidden["A1"], hidden.sheet_state = "secret", "hidden"
    return save(book)


@pytest.mark.slow
def test_word_documents_become_markdown() -> None:
    from docx import Document

    document = Document()
    document.add_heading("Report", 1)
    paragraph = document.add_paragraph("Größe ")
    paragraph.add_run("bold").bold = True
    document.add_comment(paragraph.runs, text="Really?", author="Ann")
    document.add_paragraph("one", style="List Bullet")
    table = document.add_table(2, 2)
    for number, text in enumerate("abcd"):
        table.cell(*divmod(number, 2)).text = text
    document.sections[0].header.paragraphs[0].text = "Confidential"
    text = convert_document(save(document)).text
    assert text.startswith("# Report\n\nGröße **bold**")
    for part in ("- one", "| a | b |", "| c | d |", "Really?", "[header: Confidential]"):
        assert part in text


def test_sheets_are_lines_of_cells() -> None:
    lines = [
        "# Prices",
        "",
        "item\tprice\ttotal",
        "a\t1.5\t=B2*2",
        "b\t\tTRUE",
        "wide",
        "two lines\t2026-01-02 03:04:00",
    ]
    assert convert_document(make_workbook()).text.split("\n") == [*lines, "", "# Costs (hidden)", "", "secret"]


def test_formula_has_its_cached_value() -> None:
    data = make_workbook()
    with ZipFile(BytesIO(data)) as archive:
        sheet = archive.read(SHEET_PART).replace(b"<v></v>", b"<v>3</v>").replace(b"<v />", b"<v>3</v>")
    text = convert_document(replace_part(data, SHEET_PART, sheet.replace(b"<v/>", b"<v>3</v>"))).text
    assert "a\t1.5\t3\n" in text


def test_slides_have_tables_and_notes() -> None:
    from pptx import Presentation
    from pptx.util import Inches

    presentation = Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    slide.notes_slide.notes_text_frame.text = "Smile."
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(3), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "x", "y"
    assert convert_document(save(presentation)).text == "# Slide 1\n\nPlan\nx\ty\n\nNotes: Smile."


def test_open_documents_have_paragraphs_and_tables() -> None:
    prefix = "urn:oasis:names:tc:opendocument:xmlns"
    names = f'xmlns:t="{prefix}:text:1.0" xmlns:b="{prefix}:table:1.0"'
    row = (
        "<b:table-row><b:table-cell><t:p>a</t:p></b:table-cell><b:table-cell><t:p>b</t:p></b:table-cell></b:table-row>"
    )
    parts = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": f"<d {names}><t:h>Title</t:h><t:p>x<t:tab/>y</t:p><b:table>{row}</b:table></d>",
    }
    assert convert_document(zipped(parts)).text == "Title\nx\ty\na\tb"


ENTITIES = '<!DOCTYPE w [<!ENTITY e SYSTEM "file:///etc/passwd">]><w>&e;</w>'


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: zipped({"a.txt": "text"}), "not an Office document"),
        (lambda: docx("text")[:-40], "not an Office document"),
        (lambda: replace_part(docx("text"), "word/document.xml", ENTITIES.encode()), "entities"),
        (lambda: replace_part(docx("text"), "word/document.xml", ENTITIES.encode("utf-16")), "entities"),
        (lambda: replace_part(docx("text"), "word/document.xml", b"<w>" + b" " * 60_000_000 + b"</w>"), "too large"),
        (lambda: replace_part(docx("text"), "word/document.xml", b"<broken"), "damaged"),
        (lambda: replace_part(docx("text"), "word/document.xml", b"<a>" * 90_000 + b"</a>" * 90_000), "damaged"),
        (lambda: zipped({"[Content_Types].xml": WORD_CONTENT_TYPES}), "damaged"),
        (lambda: replace_part(docx("text"), "x.xml", b"<a/>", ZIP_LZMA), "not an Office document"),
        (lambda: docx(""), ""),
    ],
    ids=["zip", "truncated", "xxe", "utf-16", "bomb", "malformed", "deep", "no part", "lzma", "empty"],
)
def test_hostile_documents_cost_only_themselves(make: Callable[[], bytes], problem: str) -> None:
    converted = convert_document(make())
    assert problem in converted.problem
    assert "root:" not in converted.text


@pytest.mark.slow
def test_far_cell_takes_no_time() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active["XFD1048576"] = "far"
    converted = convert_document(save(book), 20)
    assert converted.text.endswith("far") or "too long" in converted.problem


def test_conversion_has_a_time_limit() -> None:
    assert "too long" in convert_document(make_workbook() + b"\0", 0.05).problem


def test_kind_is_found_in_the_parts() -> None:
    types = WORD_CONTENT_TYPES.replace(
        "vnd.openxmlformats-officedocument.wordprocessingml.document.main", "vnd.ms-word.document.macroEnabled.main"
    )
    macros = zipped({"[Content_Types].xml": types, "word/vbaProject.bin": "x"})
    assert (identify_document(macros), has_macros(macros)) == (WORD_TYPE, True)
    assert (identify_document(make_workbook()), has_macros(make_workbook())) == (EXCEL_TYPE, False)
    assert identify_document(b"PK\x03\x04") == identify_document(b"") == ""
