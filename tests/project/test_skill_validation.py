"""The rules for the front matter of skills, compared with those of the reference validator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skills_ref import validate

from ask.project.skill_validation import find_violations
from tests.project.projects import write

NAMES = st.text("abz09-Aéß文Σ_ .²\u0301", min_size=1, max_size=66).filter(lambda text: text.strip(" .") == text)
EXTRAS = st.sampled_from(
    [
        "",
        "license: MIT",
        "allowed-tools: Bash Read",
        "metadata:\n  author: me\n  version: '1.0'",
        "compatibility: Needs git",
        f"compatibility: {'x' * 500}",
        f"compatibility: {'x' * 501}",
        "compatibility:\n- git",
        "version: 1.0",
        "model: other",
        "metadata: {author: me}",
        "allowed-tools: [Bash]",
        "license: &a MIT",
        "license: !!str MIT",
        "license: MIT\nlicense: GPL",
        "license: a: b",
        "license: '",
    ]
)
DESCRIPTIONS = st.sampled_from(
    ["Reads PDF files.", "''", "' '", "x" * 1024, "x" * 1025, ">\n  Two\n  lines.", "[x]", "- x"]
)


def compare(parent: Path, folder_name: str, text: str) -> None:
    folder = parent / folder_name
    write(folder / "SKILL.md", text)
    expected, found = validate(folder), find_violations(folder_name, text.encode())
    assert bool(expected) == bool(found), (expected, found, text)


@pytest.mark.hypothesis
@given(name=NAMES, is_same=st.booleans(), description=DESCRIPTIONS, extra=EXTRAS)
def test_the_reference_validator_agrees(name: str, *, is_same: bool, description: str, extra: str) -> None:
    quoted = name.replace("'", "''")
    with TemporaryDirectory() as parent:
        front_matter = f"name: '{quoted}'\ndescription: {description}\n{extra}".rstrip("\n")
        compare(Path(parent), name if is_same else f"{name}x", f"---\n{front_matter}\n---\nText.\n")


@pytest.mark.parametrize(
    "text",
    [
        "---\nname: pdf\ndescription: Reads PDF files.\n---\n",
        "---\nname: pdf\n---\n",
        "---\ndescription: x\n---\n",
        "# PDF\n",
        "---\nname: pdf\n",
        "---\nname: pdf\ndescription: Use when: it is due\n---\n",
        "---\n- name\n- description\n---\n",
        "---\nname: 文書\ndescription: x\n---\n",
    ],
)
def test_it_also_agrees_about_complete_files(tmp_path: Path, text: str) -> None:
    compare(tmp_path, "文書" if "文書" in text else "pdf", text)
