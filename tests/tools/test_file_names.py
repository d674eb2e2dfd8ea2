"""File names that look the same are found, in every place where a file is named."""

from __future__ import annotations

import shlex
from pathlib import Path
from unicodedata import normalize

import pytest

from ask.tools.file_names import find_equivalent_path
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask
from tests.slow_parameters import mark_others_slow

COMPOSED, DECOMPOSED = (normalize(form, "Größe/Übersicht é.txt") for form in ("NFC", "NFD"))
SCREENSHOT = "Screenshot 2026-05-15 at 1.05.05\u202fPM.png"


def make_file(folder: Path, name: str, text: str = "content\n") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("name", "asked"),
    [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED), (SCREENSHOT, SCREENSHOT.replace("\u202f", " "))],
    ids=["NFD", "NFC", "narrow space"],
)
def test_a_name_that_looks_the_same_is_found(tmp_path: Path, name: str, asked: str) -> None:
    file = make_file(tmp_path, name)
    assert find_equivalent_path(tmp_path / asked) == file


def test_an_exact_name_is_preferred_and_an_ambiguous_one_not_guessed(tmp_path: Path) -> None:
    narrow, wide = (make_file(tmp_path, f"a{space}b") for space in "\u202f\u00a0")
    assert find_equivalent_path(narrow) == narrow
    assert find_equivalent_path(wide) == wide
    assert not find_equivalent_path(tmp_path / "a b").exists()


def test_a_new_file_is_created_in_the_folder_that_looks_the_same(tmp_path: Path) -> None:
    file = make_file(tmp_path, DECOMPOSED)
    assert find_equivalent_path(tmp_path / normalize("NFC", "Größe/neu é.txt")) == file.parent / normalize(
        "NFC", "neu é.txt"
    )


@pytest.mark.parametrize(
    "source",
    mark_others_slow([COMPOSED, normalize("NFC", "Größe"), "Größe/Ü*.txt", "file:$PWD/Größe/%C3%9Cbersicht%20é.txt"]),
)
def test_attached_files_are_found(source: str, ask: Ask, server: ModelServer) -> None:
    make_file(ask.cwd, DECOMPOSED)
    server.reply(wire.says("yes"))
    quoted = f'"{source}"' if "$" in source else shlex.quote(source)
    assert ask.shell(f"ask -f {quoted} why?").code == 0
    assert "content" in wire.asked(server.requests[0].json)


def test_inputs_of_map_and_prompts_in_files_are_found(ask: Ask, server: ModelServer) -> None:
    make_file(ask.cwd, DECOMPOSED, "row\n")
    server.reply(wire.says("yes"))
    assert ask("map", "--system", f"@{COMPOSED}", "{{line}}", COMPOSED).code == 0
    assert "row" in wire.asked(server.requests[0].json)
