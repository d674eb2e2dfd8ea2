"""The values of YAML front matter, also of what real skills contain although YAML refuses it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.project.front_matter import MAX_CHARACTERS, FrontMatterError, read_values, split_front_matter


def parse(front_matter: str) -> Any:
    lines, body = split_front_matter(f"---\n{front_matter}\n---\nBody.\n")
    assert body == "Body.\n"
    return read_values(lines, ["description"])["description"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("description: Reads PDF.", "Reads PDF."),
        ("description:   Reads PDF.   # really", "Reads PDF."),
        ("description: C# and #1", "C# and"),
        ("description: Reads\n  PDF\n  files.", "Reads PDF files."),
        ("description:\n  Reads PDF.", "Reads PDF."),
        ("description: Reads\n\n  PDF.", "Reads\nPDF."),
        ("description: 'It''s # not: a comment'  # this is", "It's # not: a comment"),
        ('description: "A \\"quoted\\" text\\twith \\u00e9 and \\x41"', 'A "quoted" text\twith é and A'),
        ('description: "Reads\n  PDF."', "Reads PDF."),
        ("description: |\n  Reads\n    PDF\n  files.\nname: x", "Reads\n  PDF\nfiles.\n"),
        ("description: >-\n  Reads\n  PDF\n\n  files.\nname: x", "Reads PDF\nfiles."),
        ("description: >2-\n    Reads PDF.\n", "  Reads PDF."),
        ("'description': Reads PDF.", "Reads PDF."),
        ("# a comment\ndescription: Reads PDF.\n# another\n", "Reads PDF."),
        ("metadata:\n  author: me\n  tags: [a, b]\ntools:\n- Bash(git:*)\ndescription: Reads PDF.", "Reads PDF."),
        ("{name: pdf, description: Reads PDF.}", "Reads PDF."),
        ("text: &text Reads PDF.\ndescription: *text", "Reads PDF."),
        ("description: !!str Reads PDF.", "Reads PDF."),
        ("description: Reads PDF.\r", "Reads PDF."),
        ("description: yes", "yes"),
        ("description: 2026-01-02", "2026-01-02"),
        ("description:", ""),
    ],
)
def test_yaml_is_read_and_scalars_are_strings(written: str, value: str) -> None:
    assert parse(written) == value


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("description: Use when: asked", "Use when: asked"),
        ("description: Use when: asked  # or not", "Use when: asked"),
        ("description: Reads PDF.\n  Triggers: 'pdf', \"form\".\nname: x", "Reads PDF. Triggers: 'pdf', \"form\"."),
        ("description:\n  Use when: asked.\n  Not else.", "Use when: asked. Not else."),
        ("description: Reads PDF\nand forms.\nname: x", "Reads PDF and forms."),
        ("description:\tReads PDF.", "Reads PDF."),
        ("description: |\n\tReads\n\tPDF.", "Reads\nPDF."),
        ("description: >\n\tReads\n\tPDF.", "Reads PDF."),
        ("description: [Beta] Reads PDF.", "[Beta] Reads PDF."),
        ("description: {{ title }} of a PDF", "{{ title }} of a PDF"),
        ("description: @team reads it", "@team reads it"),
        ("description: `pdf` first", "`pdf` first"),
        ("description: *All* forms", "*All* forms"),
        ("description: %d pages", "%d pages"),
        ("description: > 5 pages", "> 5 pages"),
        ("description: 'Forms' and more", "'Forms' and more"),
        ('description: "Matches \\d+ pages"', "Matches \\d+ pages"),
        ('description: "open', '"open'),
        ("hint: [--all] [--file]\ndescription: Reads PDF.", "Reads PDF."),
        ("author: @me\ndescription: >-\n  Reads\n  PDF.", "Reads PDF."),
        ("just words\ndescription: Reads PDF.", "Reads PDF."),
        ("a: " + "[" * 1000 + "\ndescription: Reads PDF.", "Reads PDF."),
        ('description: "\\UFFFFFFFF"', "\\UFFFFFFFF"),
    ],
)
def test_what_yaml_refuses_is_read_as_text(written: str, value: str) -> None:
    assert parse(written) == value


@pytest.mark.parametrize("written", ["description: [a, b]", "description:\n- a\n- b", "description: !!set [a]"])
def test_lists_stay_lists(written: str) -> None:
    assert isinstance(parse(written), list)


@pytest.mark.parametrize("text", ["", "# Title\n", "--- \nname: x\n", "\n---\nname: x\n---\n"])
def test_a_text_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError, match="front matter"):
        split_front_matter(text)


def test_tags_create_no_objects_and_aliases_no_copies() -> None:
    assert parse("description: !!python/object/apply:os.getcwd []") == []
    levels = "\n".join(f"a{level + 1}: &a{level + 1} [{', '.join([f'*a{level}'] * 9)}]" for level in range(30))
    assert parse(f"a0: &a0 [x]\n{levels}\ndescription: Reads PDF.") == "Reads PDF."


@pytest.mark.slow
def test_front_matter_that_takes_long_to_read_is_refused() -> None:
    with pytest.raises(FrontMatterError, match=f"{MAX_CHARACTERS:,}"):
        parse("description: " + "x" * MAX_CHARACTERS)
    start = time.process_time()
    parse(f"a: [{('[' * 200 + ']' * 200 + ', ') * 40}]\ndescription: x")
    assert time.process_time() - start < 20


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        lines, _ = split_front_matter(f"---\n{text}\n---\n")
    except FrontMatterError:
        return
    assert {*map(type, read_values(lines, ["name", "description"]).values())} <= {str, list}


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=200))
def test_any_value_is_read_and_does_not_affect_others(text: str) -> None:
    lines = ["name: pdf", f"description: {text}", "metadata: {a: b"]
    assert read_values(lines, ["name"]) == {"name": "pdf"}
    assert "description" in read_values(lines, ["description"])


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_single_quotes_preserve_any_line(text: str) -> None:
    quoted = text.strip().replace("'", "''")
    assert parse(f"description: '{quoted}'") == text.strip()
