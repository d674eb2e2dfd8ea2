"""A loader and a command are tested by `LoaderContract` and `CommandContract`, which run them as ask does."""

from pathlib import Path

import pytest
from ask_extras_example import load_note, notes

from ask.testing import CommandContract, LoaderContract


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("Steep it for three minutes.")
    (tmp_path / "notes" / "tale.md").write_text('+++\nsystem = "You tell tales."\n+++\nTell me about {{input}}.')
    (tmp_path / "notes" / "plan.pdf").write_bytes(b"%PDF-1.4\n")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))


class TestLoader(LoaderContract):
    loader = load_note
    prefix = "note"
    files = ("tea", "tea.md", "plan.pdf")
    templates = ("tale",)
    wrong = ("coffee", "../tea")


class TestCommand(CommandContract):
    command = notes
    name = "notes"
    calls = ([], ["--count"])
    wrong_calls = (["--nonsense"],)


class TestCommandWithoutNotes(CommandContract):
    command = notes
    name = "notes"
    calls = (["--help"],)
    wrong_calls = ([],)

    def prepare(self, directory: Path) -> None:
        (directory / "notes").rename(directory / "renamed")
