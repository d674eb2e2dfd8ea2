"""Skills for other programs: offered where the user says so once, in a question or with `skills.folders`."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ask.project.project_context import SHARED_SKILLS_QUESTION, TRUST_QUESTION
from ask.project.trust_decisions import TrustStore
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.project.projects import make_repository, read_system_prompts, write, write_skill

PROMPT = ("-m", wire.MODEL, "hi")


@pytest.fixture
def here(ask: Ask, home: Home) -> Ask:
    return replace(ask, cwd=make_repository(home.work / "project"))


def list_offered(here: Ask, server: ModelServer, *options: str, answers: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """Return the skills in the system prompt of a run; with `answers`, on a terminal."""
    server.reply(wire.says("done"))
    result = here.on_terminal(*options, *PROMPT, answers=answers) if answers else here(*options, *PROMPT)
    assert result.code == 0, result.stderr
    prompt = read_system_prompts(server)[-1]
    return [line.partition(":")[0].removeprefix("- ") for line in prompt.splitlines() if "Reads PDF files." in line]


def read_folders(here: Ask) -> list[str] | None:
    result = here("config", "get", "skills.folders", "--json")
    return json.loads(result.text) if result.code == 0 else None


def test_they_are_offered_after_one_yes(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(home.path / "home/.claude/skills/pdf")
    write(home.config / "config.toml", "# mine\nstream = true\n")
    assert list_offered(here, server) == []
    assert list_offered(here, server, answers=((SHARED_SKILLS_QUESTION[-20:], "y\n"),)) == ["pdf"]
    assert "# mine" in (home.config / "config.toml").read_text()
    assert list_offered(here, server) == ["pdf"]
    write_skill(home.path / "home/.codex/skills/mail")
    assert list_offered(here, server, "--no-context") == ["pdf", "mail"]


def test_they_are_not_offered_after_a_no(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(home.path / "home/.codex/skills/pdf")
    assert list_offered(here, server, answers=((SHARED_SKILLS_QUESTION[-20:], "n\n"),)) == []
    assert read_folders(here) == []
    shown = here.on_terminal("config", "list").text
    assert "skills.folders" in shown
    server.reply(wire.says("done"))
    assert SHARED_SKILLS_QUESTION not in here.on_terminal(*PROMPT).text


def test_those_of_a_project_also_need_its_trust(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(here.cwd / ".claude/skills/pdf")
    answers = ((SHARED_SKILLS_QUESTION[-20:], "y\n"), (TRUST_QUESTION[-20:], "n\n"))
    assert list_offered(here, server, answers=answers) == []
    assert ".claude/skills" in (read_folders(here) or [])
    TrustStore(home.data / "trusted-projects.json").remember(here.cwd.resolve(), trusted=True)
    assert list_offered(here, server) == ["pdf"]
    assert here("config", "set", "skills.folders", "~/.claude/skills").code == 0
    assert list_offered(here, server) == []


def test_the_users_own_folder_comes_first(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(home.config / "skills/pdf")
    write_skill(home.path / "home/.claude/skills/pdf", "Other.")
    assert here("config", "set", "skills.folders", "~/.claude/skills,~/.codex/skills").code == 0
    rows = json.loads(here("skills", "list", "--json").text)
    assert [(row["offered"], row["description"]) for row in rows] == [(True, "Reads PDF files."), (False, "Other.")]
    assert "same name" in rows[1]["problem"]
    assert list_offered(here, server) == ["pdf"]


@pytest.mark.parametrize("folder", [".agents/skills", "skills", "..", ""])
def test_other_relative_folders_are_invalid(here: Ask, folder: str) -> None:
    assert here("config", "set", "skills.folders", json.dumps([folder])).code != 0


@pytest.mark.needs("bwrap")
def test_a_change_of_a_safe_run_is_asked_about(here: Ask, home: Home, server: ModelServer) -> None:
    write(here.cwd / "sub/.claude/skills/old/SKILL.md", "x")
    TrustStore(home.data / "trusted-projects.json").remember(here.cwd.resolve(), trusted=True)
    assert here("config", "set", "skills.folders", ".claude/skills").code == 0
    folder = "other/.claude/skills/pdf"
    text = "---\\nname: pdf\\ndescription: Reads PDF files.\\n---\\n"
    command = f"mkdir -p {folder} && printf -- '{text}' > {folder}/SKILL.md"
    server.reply(wire.calls(("bash", {"command": command})), wire.says("done"))
    assert here("--safe", "--yes", *PROMPT).code == 0
    assert (here.cwd / folder / "SKILL.md").exists()
    assert list_offered(replace(here, cwd=here.cwd / "other"), server) == []
    assert [row["changed"] for row in json.loads(here("context", "list", "--json").text)] == [True]
    assert here("context", "trust").code == 0
    assert list_offered(replace(here, cwd=here.cwd / "other"), server) == ["pdf"]


def test_a_link_to_the_same_skill_is_listed_once(here: Ask, home: Home) -> None:
    write_skill(home.path / "home/.claude/skills/pdf")
    (home.config / "skills").mkdir(parents=True)
    (home.config / "skills/pdf").symlink_to(home.path / "home/.claude/skills/pdf")
    assert here("config", "set", "skills.folders", "~/.claude/skills").code == 0
    assert [row["name"] for row in json.loads(here("skills", "list", "--json").text)] == ["pdf"]


def test_check_reports_all_violations(here: Ask, tmp_path: Path) -> None:
    write_skill(tmp_path / "skills/good")
    write(tmp_path / "skills/odd/SKILL.md", "---\nname: odd\ndescription: x\nversion: 1\n---\n")
    (tmp_path / "skills/pipe").mkdir()
    os.mkfifo(tmp_path / "skills/pipe/SKILL.md")
    (tmp_path / "more/unreadable").mkdir(parents=True)
    (tmp_path / "more/unreadable/SKILL.md").symlink_to("x" * 300)
    result = here("skills", "check", str(tmp_path / "skills"), str(tmp_path / "more/unreadable"))
    *found, unreadable = [line.rpartition(": ")[2] for line in result.text.splitlines()]
    assert (result.code, found) == (9, ["ok", "version", "it cannot be read (not a regular file)"])
    assert unreadable.startswith("it cannot be read (")
    assert here("skills", "check", str(tmp_path / "skills/good")).code == 0
    assert here("skills", "check", str(tmp_path)).code == 2
