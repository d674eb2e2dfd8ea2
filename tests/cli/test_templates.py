"""`ask templates`: list, show, new, edit."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from ask.agent.system_prompt import PROMPTS_FOLDER
from tests.program import Ask, Home, Result


@pytest.fixture
def folder(home: Home) -> Path:
    """The folder of the user's prompts."""
    path = home.config / "templates"
    path.mkdir(parents=True)
    return path


def editor(home: Home, script: str) -> dict[str, str]:
    """Create an environment whose editor is a bash script that gets the file as $1."""
    program = home.path / "editor"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    return {"VISUAL": str(program)}


def is_refused(result: Result, code: int, *expected: str) -> None:
    assert (result.code, result.stdout, result.stderr.count("\n")) == (code, b"", 1)
    assert all(text in result.stderr for text in expected), result.stderr


# Listing


def test_prompts_are_listed_with_description_and_source(ask: Ask, folder: Path) -> None:
    (folder / "commit.md").write_text("+++\ndescription = 'Mine'\n[tasks]\na = 'x'\nb = 'x'\n+++\n")
    (folder / "sing.md").write_text("Sing.")
    result = ask("templates")
    assert (result.code, result.stderr) == (0, "")
    rows = [line.split("\t") for line in result.text.splitlines()]
    assert rows[0] == ["commit", "you", "a, b", "Mine"]
    assert ["sing", "you", "", ""] in rows
    assert next(row[:3] for row in rows if row[0] == "review") == ["review", "ask", "security, tests, design"]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    values = json.loads(ask("templates", "list", "--json").text)
    assert values[0] == {"name": "commit", "from": "you", "tasks": ["a", "b"], "description": "Mine"}


def test_invalid_prompts_are_reported_and_the_others_listed(ask: Ask, folder: Path) -> None:
    (folder / "broken.md").write_text("+++\nmodel = \n+++\n")
    (folder / "two words.md").write_text("x")
    result = ask("templates", "list")
    assert result.code == 0
    assert "\ntranslate\task\t" in result.text
    assert result.stderr == (
        f"ask: skipping {folder}/two words.md: names consist of letters, digits, - and _\n"
        f"ask: {folder}/broken.md, line 2: invalid TOML (Invalid value): correct that line\n"
    )


def test_the_list_fits_the_terminal_width(ask: Ask) -> None:
    result = ask.on_terminal("templates")
    assert result.text.startswith("NAME ")
    assert max(map(len, result.text.splitlines())) <= 80


# Showing


def test_show_prints_the_file_or_the_built_in_text(ask: Ask, folder: Path) -> None:
    assert ask("templates", "show", "fix").text == (PROMPTS_FOLDER / "fix.md").read_text()
    (folder / "fix.md").write_text("+++\n[tasks]\nall = 'Fix {{what}}: {{input}}'\n+++\nMine.")
    assert ask("templates", "show", "fix").text.endswith("\n+++\nMine.\n")
    assert ask("templates", "show", "fix:all").text == "Fix {{what}}: {{input}}\n"
    value = json.loads(ask("templates", "show", "fix", "--json").text)
    assert (value["prompt"], value["tasks"]["all"]) == ("Mine.", "Fix {{what}}: {{input}}")
    assert (value["file"], value["variables"], value["tools"]) == (str(folder / "fix.md"), ["what"], True)


@pytest.mark.parametrize("arguments", [["show", "fxi"], ["edit", "fxi"]])
def test_an_unknown_name_is_an_error_with_a_suggestion(ask: Ask, arguments: list[str]) -> None:
    is_refused(ask("templates", *arguments), 2, "'fxi'", "did you mean fix?")


@pytest.mark.parametrize(
    "arguments", [["new", "../x"], ["new", "a b"], ["new", ""], ["edit", "../config.toml"], ["show", "/etc/passwd"]]
)
def test_names_cannot_contain_a_path(ask: Ask, home: Home, arguments: list[str]) -> None:
    is_refused(ask("templates", *arguments), 2, "is not a valid template name")
    assert not home.config.exists()


def test_an_unreadable_folder_is_a_config_error(ask: Ask, home: Home) -> None:
    home.config.mkdir()
    (home.config / "templates").write_text("")
    for arguments in (["templates"], ["templates", "show", "fix"], ["-t", "fix", "-p", "demo", "hi"]):
        is_refused(ask(*arguments), 4, f"{home.config}/templates (Not a directory)")


# Creating


def test_new_prompts_contain_comments_and_are_usable_at_once(ask: Ask, folder: Path) -> None:
    result = ask("templates", "new", "sing")
    assert (result.code, result.text, result.stderr) == (0, f"{folder}/sing.md\n", "")
    text = (folder / "sing.md").read_text()
    assert "`ask -t sing:short`" in text
    assert stat.S_IMODE((folder / "sing.md").stat().st_mode) == 0o600
    assert json.loads(ask("templates", "show", "sing", "--json").text)["variables"] == ["tone"]
    assert ask("-p", "demo", "-t", "sing", "--var", "tone=loud", "la").code == 0
    for name in ("sing", "fix"):
        is_refused(ask("templates", "new", name), 2, f"ask templates edit {name}")
    (folder / "sing.md").write_text(text.replace("\n# ", "\n").replace("\nUse it", "\n# Use it"))
    template = json.loads(ask("templates", "show", "sing", "--json").text)
    assert (template["options"], [*template["tasks"]], template["tools"]) == ({"temperature": 0.2}, ["short"], False)


def test_the_editor_opens_on_a_terminal(ask: Ask, home: Home, folder: Path) -> None:
    result = ask.on_terminal("templates", "new", "sing", env=editor(home, 'echo Sing. > "$1"'))
    assert result.code == 0
    assert (folder / "sing.md").read_text() == "Sing.\n"


# Editing


def test_editing_a_built_in_prompt_creates_a_copy(ask: Ask, home: Home, folder: Path) -> None:
    unchanged = ask("templates", "edit", "fix", env=editor(home, "true"))
    assert (unchanged.code, unchanged.stderr) == (0, "ask: no changes were saved\n")
    assert not list(folder.iterdir())
    assert ask("templates", "edit", "fix", env=editor(home, 'sed -i "s/failure/fault/" "$1"')).code == 0
    assert (folder / "fix.md").read_text() == (PROMPTS_FOLDER / "fix.md").read_text().replace("failure", "fault")
    assert ask("templates", "edit", "fix", env=editor(home, 'echo Mine. > "$1"')).code == 0
    assert ask("templates", "show", "fix").text == "Mine.\n"


def test_invalid_edits_are_discarded(ask: Ask, home: Home, folder: Path) -> None:
    (folder / "sing.md").write_text("Sing.")
    result = ask("templates", "edit", "sing", env=editor(home, 'printf "+++\\nmodel = \\n+++\\n" > "$1"'))
    is_refused(result, 4, f"{folder}/sing.md, line 2", "TOML")
    assert (folder / "sing.md").read_text() == "Sing."


def test_invalid_prompts_can_be_edited(ask: Ask, home: Home, folder: Path) -> None:
    (folder / "sing.md").write_text("+++\nmodel = \n+++\nSing.")
    assert ask("templates", "edit", "sing", env=editor(home, 'sed -i "/model/d" "$1"')).code == 0
    assert (folder / "sing.md").read_text() == "+++\n+++\nSing."


def test_invalid_arguments_are_a_usage_error(ask: Ask) -> None:
    is_refused(ask("templates", "of", "rome"), 2, "ask -- templates of rome")
