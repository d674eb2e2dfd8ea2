"""The text values of YAML front matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.project.front_matter import FrontMatterError, read_values, split_front_matter


def parse(front_matter: str) -> str:
    lines, body = split_front_matter(f"---\n{front_matter}\n---\nBody.\n")
    assert body == "Body.\n"
    return read_values(lines, ["description"])["description"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("description: Reads PDF.", "Reads PDF."),
        ("description:   Reads PDF.   # really", "Reads PDF."),
        ("description: C# and #1", "C# and"),
        ("description: Use when: asked", "Use when: asked"),
        ("description: Reads\n  PDF\n  files.", "Reads PDF files."),
        ("description:\n  Reads PDF.", "Reads PDF."),
        ("description: Reads\n\n  PDF.", "Reads\nPDF."),
        ("description: 'It''s # not: a comment'  # this is", "It's # not: a comment"),
        ('description: "A \\"quoted\\" text\\twith \\u00e9"', 'A "quoted" text\twith é'),
        ('description: "Reads\n  PDF."', "Reads PDF."),
        ("description: |\n  Reads\n    PDF\n  files.\nname: x", "Reads\n  PDF\nfiles."),
        ("description: >-\n  Reads\n  PDF\n\n  files.\nname: x", "Reads PDF\nfiles."),
        ("description: >+  # folded\n  Reads PDF.\n", "Reads PDF."),
        ("'description': Reads PDF.", "Reads PDF."),
        ("# a comment\ndescription: Reads PDF.\n# another\n", "Reads PDF."),
        (
            "metadata:\n  author: me\n  list:\n  - a\ntools:\n- Bash(git:*)\ndescription: Reads PDF.",
            "Reads PDF.",
        ),
        ("description: Reads PDF.\r", "Reads PDF."),
        ("description:", ""),
    ],
)
def test_scalars_are_read(written: str, value: str) -> None:
    assert parse(written) == value


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("description: [a, b]", "put it in quotes"),
        ("description: {a: b}", "put it in quotes"),
        ("description: *alias", "put it in quotes"),
        ("description: !!str text", "put it in quotes"),
        ("description:\n- a\n- b", "a list"),
        ("description: >2\n    text", "only"),
        ('description: "open', "quotes"),
        ("description: 'one' two", "quotes"),
        ('description: "\\x41"', "escape"),
        ("description: a\ndescription: b", "twice"),
        ("just words", "KEY: VALUE"),
    ],
)
def test_anything_else_is_refused_with_a_reason(written: str, reason: str) -> None:
    with pytest.raises(FrontMatterError, match=reason):
        parse(written)


@pytest.mark.parametrize("text", ["", "# Title\n", "--- \nname: x\n", "\n---\nname: x\n---\n"])
def test_a_text_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(FrontMatterError, match="front matter"):
        split_front_matter(text)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        lines, _ = split_front_matter(f"---\n{text}\n---\n")
        read_values(lines, ["name", "description"])
    except FrontMatterError:
        pass


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1))
def test_single_quotes_preserve_any_line(text: str) -> None:
    quoted = text.strip().replace("'", "''")
    assert parse(f"description: '{quoted}'") == text.strip()
