"""docs/skills.md: its examples run, and its numbers, folders and options are those of the code."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

from ask.config.settings import SHARED_SKILLS_FOLDERS
from ask.project.skill_repository import MAX_FETCHED_BYTES, MAX_SKILL_BYTES, MAX_SKILL_FILES
from ask.project.skill_validation import MAX_COMPATIBILITY_CHARACTERS, MAX_DESCRIPTION_CHARACTERS, MAX_NAME_CHARACTERS
from ask.project.skills import find_project_skills
from tests.doc_pages import find_code_blocks, find_code_spans, matches_documented_output, parse_console_steps
from tests.program import Ask, Home
from tests.project.projects import commit, make_repository, write, write_skill
from tests.test_docs import OPTIONS

PAGE = (Path(__file__).parents[1] / "docs" / "skills.md").read_text()
INSTALLATION, COMMANDS = find_code_blocks(PAGE, "console")
(SKILL,) = find_code_blocks(PAGE, "markdown")
(CONFIG,) = find_code_blocks(PAGE, "toml")


def test_skills_are_installed_as_documented(ask: Ask, home: Home) -> None:
    repository = make_repository(home.path / "server/example/skills")
    write_skill(repository / "skills/mail", "Writes letters. Use it for any mail.")
    write_skill(repository / "skills/pdf", "Reads and fills PDF files.", "Fill forms with scripts/fill.sh.")
    write(repository / "skills/pdf/scripts/fill.sh", "#!/bin/sh\necho\n").chmod(0o755)
    identity = commit(repository)[:12]
    write(home.path / "git", f'[url "file://{home.path}/server/"]\n\tinsteadOf = https://github.com/\n')
    env = {"GIT_CONFIG_GLOBAL": str(home.path / "git"), "PAGER": "cat"}
    for line, output in parse_console_steps(INSTALLATION):
        answers = [("[y/N]", "y\n")] if "[y/N]" in output else []
        shown = ask.on_terminal(*line.split()[1:], answers=answers, env=env).text
        shown = re.sub(r"fetching .*?\x1b\[2K|\x1b\[[\dKm]+|\r", "", shown).replace(identity, "3f2a90c41d7e")
        assert matches_documented_output(shown, output), shown
    assert ask("skills", "show", "pdf").code == 0


def test_the_documented_skill_is_listed_and_shown(ask: Ask, home: Home) -> None:
    project = make_repository(home.work / "p")
    write(project / ".agents/skills/release/SKILL.md", SKILL)
    assert [skill.problem for skill in find_project_skills(project)] == [""]
    here = replace(ask, cwd=project)
    assert here("context", "trust").code == 0
    listing, skill = (here(*line.split()[1:]) for line, _ in parse_console_steps(COMMANDS))
    assert listing.text.startswith("release\tproject\tyes\t")
    assert skill.text == SKILL
    assert here("skills", "check").code == 0


def test_numbers_and_folders_are_those_of_the_code() -> None:
    assert tuple(tomllib.loads(CONFIG)["skills"]["folders"]) == SHARED_SKILLS_FOLDERS
    for text in (
        f"at most {MAX_FETCHED_BYTES // 1_000_000} MB;",
        f"{MAX_SKILL_FILES:,} files with {MAX_SKILL_BYTES // 1_000_000} MB",
        f"at most {MAX_NAME_CHARACTERS} lowercase",
        f"1 to {MAX_DESCRIPTION_CHARACTERS:,} characters",
        f"more than {MAX_COMPATIBILITY_CHARACTERS} characters",
    ):
        assert text in PAGE
    spans = [word for span in find_code_spans(PAGE) for word in span.split() if word.startswith("--")]
    assert {*spans} - {"---"} <= {*OPTIONS, "--all", "--ref", "--force", "--yes"}
