"""The text of Office and OpenDocument files, of real ones and of hostile ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import pytest

from ask.client.document_text import EXCEL_TYPE, WORD_TYPE, convert_document, has_macros, identify_document
from tests.sample_files import WORD_CONTENT_TYPES, docx, share_texts, zipped

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


@pytest.mark.slow
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


def edit(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """Replace the first such bytes of a part, which must be there."""
    with ZipFile(BytesIO(data)) as archive:
        content = archive.read(name)
    assert old in content
    return replace_part(data, name, content.replace(old, new, 1))


def rename_parts(data: bytes, old: str, new: str) -> bytes:
    output = BytesIO()
    with ZipFile(BytesIO(data)) as source, ZipFile(output, "w") as target:
        for name in source.namelist():
            target.writestr(name.replace(old, new), source.read(name))
    return output.getvalue()


def make_report() -> bytes:
    from docx import Document

    document = Document()
    document.add_paragraph("Body\ttext")
    document.add_table(1, 2).cell(0, 0).text = "cell"
    document.sections[0].header.paragraphs[0].text = "Confidential"
    return save(document)


WORD_STYLES = "word/styles.xml"
LINK = b'<w:p><w:hyperlink xmlns:r="urn:r" r:id="rId99"><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("word/document.xml", b"<w:body>", b"<w:body>" + LINK),
        ("word/document.xml", b"<w:t>", b'<w:sym w:char="ZZ"/><w:footnoteReference w:id="7"/><w:t>'),
        (WORD_STYLES, b"<w:style ", b'<w:style w:type="paragraph"><w:name w:val="x"/></w:style><w:style '),
        (WORD_STYLES, b"</w:styles>", b""),
        ("word/numbering.xml", b"</w:numbering>", b"<w:num/></w:numbering>"),
        ("word/document.xml", b'<w:tcW w:type="dxa"', b'<w:gridSpan w:val=""/><w:tcW w:type="dxa"'),
    ],
    ids=["link", "symbol and footnote", "style without id", "cut styles", "number", "table"],
)
def test_one_odd_part_does_not_lose_the_text_of_a_word_document(part: str, old: bytes, new: bytes) -> None:
    text = convert_document(edit(make_report(), part, old, new)).text
    assert [one for one in ("Body", "text", "cell", "[header: Confidential]") if one not in text] == []


@pytest.mark.slow
def test_the_main_part_may_have_a_number() -> None:
    report = edit(make_report(), "_rels/.rels", b"word/document.xml", b"word/document2.xml")
    report = edit(report, "[Content_Types].xml", b"word/document.xml", b"word/document2.xml")
    report = rename_parts(report, "document.xml", "document2.xml")
    assert convert_document(report).text.startswith("Body text\n\n| cell |")
    assert "cell" in convert_document(edit(report, WORD_STYLES, b"</w:styles>", b"")).text


@pytest.mark.slow
def test_a_damaged_header_is_left_out() -> None:
    text = convert_document(edit(make_report(), "word/header1.xml", b"</w:hdr>", b"")).text
    assert text.startswith("Body") and "Confidential" not in text


@pytest.mark.slow
def test_a_damaged_image_does_not_cost_the_markdown() -> None:
    report = replace_part(make_report(), "word/media/image1.png", b"pixels", ZIP_STORED)
    assert convert_document(report.replace(b"pixels", b"pixel!")) == convert_document(make_report())


@pytest.mark.slow
def test_formulas_are_text() -> None:
    namespace = b' xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    formula = b"<m:oMath%s><m:r><m:t>E=</m:t></m:r><m:r><m:t>mc</m:t></m:r></m:oMath>" % namespace
    paragraph = b"<w:p><m:oMathPara%s>%s</m:oMathPara></w:p><w:p>%s" % (namespace, formula, formula)
    text = convert_document(edit(make_report(), "word/document.xml", b"<w:p>", paragraph)).text
    assert text.startswith("[formula: E= mc]\n\n[formula: E= mc]Body")
    prefix = "http://schemas.openxmlformats.org"
    shape = (
        f'<mc:AlternateContent xmlns:mc="{prefix}/markup-compatibility/2006"><mc:Choice Requires="a14"><p:sp><p:txBody>'
        "<a:p><a:r><a:t>Energy </a:t></a:r><m:oMath><m:r><m:t>E</m:t></m:r></m:oMath></a:p>"
        "</p:txBody></p:sp></mc:Choice>"
        "<mc:Fallback><p:sp><p:txBody><a:p><a:r><a:t>old</a:t></a:r></a:p></p:txBody></p:sp></mc:Fallback>"
        "</mc:AlternateContent></p:spTree>"
    ).encode()
    shape = shape.replace(b"<m:oMath>", b"<m:oMath%s>" % namespace)
    text = convert_document(edit(make_slides(), "ppt/slides/slide1.xml", b"</p:spTree>", shape)).text
    assert "One\nEnergy E\n" in text
    assert "old" not in text


def make_two_sheets() -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["Größe", 42, datetime(2026, 1, 2, 3, 4), None, True])
    book.create_sheet("Other").append(["second"])
    return save(book)


TWO_SHEETS = "# Sheet\n\nGröße\t42\t2026-01-02 03:04:00\t\tTRUE\n\n# Other\n\nsecond"
ODD_STATE = ("xl/workbook.xml", b'state="visible"', b'state=""')
"""With which openpyxl cannot read a workbook."""
SPREADSHEET_NAMESPACE = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"


@pytest.mark.slow
@pytest.mark.parametrize("is_1904", [False, True])
def test_times_of_a_workbook_are_the_same_without_openpyxl(*, is_1904: bool) -> None:
    from openpyxl import Workbook
    from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900

    book = Workbook()
    book.epoch = CALENDAR_MAC_1904 if is_1904 else CALENDAR_WINDOWS_1900
    book.active.append([datetime(2026, 1, 2, 3, 4, 5), time(9, 30), timedelta(hours=30)])
    data = save(book)
    for document in (data, edit(data, *ODD_STATE)):
        assert convert_document(document).text == "# Sheet\n\n2026-01-02 03:04:05\t09:30:00\t1 day, 6:00:00"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("xl/styles.xml", b"<fill><patternFill/></fill>", b"<fill/>"),
        ("xl/styles.xml", b'<family val="2"/>', b'<family val="20"/>'),
        ("docProps/core.xml", b"Z</dcterms:created>", b" o'clock</dcterms:created>"),
        ODD_STATE,
        ("xl/worksheets/sheet1.xml", b't="b"><v>1<', b't="b"><v>true<'),
        ("xl/workbook.xml", SPREADSHEET_NAMESPACE, b"http://purl.oclc.org/ooxml/spreadsheetml/main"),
    ],
    ids=["fill", "font", "date", "state", "boolean", "strict"],
)
def test_one_odd_part_does_not_lose_the_cells_of_a_workbook(part: str, old: bytes, new: bytes) -> None:
    assert convert_document(edit(make_two_sheets(), part, old, new)).text == TWO_SHEETS


@pytest.mark.slow_after_first
@pytest.mark.parametrize("cell", ["A1048576", "XFD200000"])
def test_empty_rows_of_a_workbook_are_not_sent(cell: str) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active["A1"], book.active["B3"], book.active[cell] = "one", "two", "three"
    lines = convert_document(save(book)).text.split("\n")
    assert lines[:6] == ["# Sheet", "", "one", "", "\ttwo", ""]
    assert lines[-1].strip() == "three"
    assert len(lines) < 12


# https://github.com/opensanctions/opensanctions/pull/5001
@pytest.mark.slow
def test_characters_that_excel_escapes_are_decoded() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["one_x000D_\ntwo", "_x005F_x000D_"])
    data = save(book)
    for saved in (data, share_texts(data)):
        for document in (saved, edit(saved, *ODD_STATE)):
            assert convert_document(document).text == "# Sheet\n\none two\t_x000D_"


@pytest.mark.slow
def test_parts_may_have_names_with_backslashes() -> None:
    assert convert_document(rename_parts(make_two_sheets(), "/", "\\")).text == TWO_SHEETS


@pytest.mark.slow
def test_of_a_damaged_sheet_only_that_sheet_is_lost() -> None:
    data = make_two_sheets()
    assert "Größe\t42" in convert_document(edit(data, "xl/worksheets/sheet2.xml", b"</row>", b"")).text
    bad_cells = b'<c r="B1" t="s"><v>99</v></c><c r="C1"><v>#NAN</v></c><c r="D1"><f>A1</f></c></row>'
    text = convert_document(edit(data, "xl/worksheets/sheet2.xml", b"</row>", bad_cells)).text
    assert text.endswith("second\t\t#NAN\t=A1")


def make_slides() -> bytes:
    from pptx import Presentation

    presentation = Presentation()
    for title in ("One", "Two"):
        slide = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = title
        slide.notes_slide.notes_text_frame.text = f"{title}!"
    return save(presentation)


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("part", "old", "new", "lost"),
    [
        ("ppt/slides/slide1.xml", b"</p:sld>", b"", ["One\n"]),
        ("ppt/slides/slide1.xml", b'type="title"', b'type="new"', []),
        ("ppt/notesSlides/notesSlide1.xml", b"</p:notes>", b"", ["One!"]),
        ("[Content_Types].xml", b'Extension="jpeg"', b'Extension="jpg"', []),
        ("ppt/presentation.xml", b"<p:sldIdLst>", b'<p:sldIdLst><p:sldId xmlns:r="urn:r" id="9" r:id="rId99"/>', []),
    ],
    ids=["slide", "placeholder", "notes", "picture", "missing slide"],
)
def test_one_odd_part_does_not_lose_the_other_slides(part: str, old: bytes, new: bytes, lost: list[str]) -> None:
    text = convert_document(edit(make_slides(), part, old, new)).text
    assert [one for one in ("One\n", "One!", "Two\n", "Two!") if one not in text] == lost


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
