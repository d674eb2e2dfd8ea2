"""Agent Skills: the catalog in the system prompt, and the tool `read_skill`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ask.project.skills import find_project_skills, find_user_skills
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home
from tests.project.projects import make_repository, read_system_prompts, write, write_skill
from tests.scenarios.sent_requests import check_sent_requests, read_tool_results

PROMPT = ("-m", wire.MODEL, "hi")


@pytest.fixture
def here(ask: Ask, home: Home) -> Ask:
    return replace(ask, cwd=make_repository(home.work / "project"))


def offered_tools(server: ModelServer) -> list[str]:
    return [tool["function"]["name"] for tool in server.requests[-1].json["tools"]]


def call_read_skill(ask: Ask, server: ModelServer, *options: str, **arguments: str) -> str:
    """Have the model call the tool; return the result that it is sent."""
    server.reply(wire.calls(("read_skill", arguments)), wire.says("done"))
    result = ask(*options, *PROMPT)
    assert result.code == 0, result.stderr
    return read_tool_results(server.requests[-1].json)[-1]


def test_without_skills_nothing_is_added(here: Ask, server: ModelServer) -> None:
    (here.cwd / ".agents/skills/empty").mkdir(parents=True)
    server.reply(wire.says("done"))
    here("--context", *PROMPT)
    assert "read_skill" not in offered_tools(server)
    assert "kill" not in read_system_prompts(server)[0].replace("kills", "")


def test_the_catalog_is_in_the_system_prompt_and_the_text_is_not(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(here.cwd / ".agents/skills/pdf", body="Use pdftotext.")
    write_skill(home.config / "skills/mail", ">\n  Writes\n  mail.")
    server.reply(wire.says("done"))
    here("--context", *PROMPT)
    prompt = read_system_prompts(server)[0]
    assert "\n- pdf: Reads PDF files.\n- mail: Writes mail." in prompt
    assert "pdftotext" not in prompt
    assert "what read_skill returns" in prompt
    assert "read_skill" in offered_tools(server)


@pytest.mark.parametrize("options", [["--no-context"], []])
def test_only_the_users_own_are_offered_in_an_untrusted_project(
    here: Ask, home: Home, server: ModelServer, options: list[str]
) -> None:
    write_skill(here.cwd / ".agents/skills/pdf")
    write_skill(home.config / "skills/mail", "Writes mail.")
    result = call_read_skill(here, server, *options, name="pdf")
    assert "there is no skill pdf" in result
    assert "- pdf:" not in read_system_prompts(server)[0]
    assert "- mail:" in read_system_prompts(server)[0]


def test_the_tool_can_be_disabled_where_there_are_skills_and_where_not(
    here: Ask, home: Home, server: ModelServer
) -> None:
    for _ in range(2):
        server.reply(wire.says("done"))
    assert here("--disable-tool", "read_skill", *PROMPT).code == 0
    write_skill(home.config / "skills/mail")
    assert here("--disable-tool", "read_skill", *PROMPT).code == 0
    assert "read_skill" not in offered_tools(server)
    assert "- mail:" not in read_system_prompts(server)[1]


def test_the_text_and_files_of_a_skill_are_read(here: Ask, server: ModelServer) -> None:
    folder = here.cwd / ".agents/skills/pdf"
    write_skill(folder, body="Use pdftotext.")
    write(folder / "references/forms.md", "About forms.")
    text = call_read_skill(here, server, "--context", name="pdf")
    assert "Use pdftotext." in text
    assert "description" not in text
    assert str(folder) in text
    assert "About forms." in call_read_skill(here, server, "--context", name="pdf", path="references/forms.md")


@pytest.mark.parametrize("path", ["../../../secret", "{root}/secret", "out", "folder/secret", ".", "missing", "a\0b"])
def test_files_outside_a_skill_are_not_read(here: Ask, server: ModelServer, path: str) -> None:
    folder = here.cwd / ".agents/skills/pdf"
    write_skill(folder)
    write(here.cwd / "secret", "Secret.")
    (folder / "out").symlink_to("../../../secret")
    (folder / "folder").symlink_to("../../..")
    result = call_read_skill(here, server, "--context", name="pdf", path=path.format(root=here.cwd))
    assert result.startswith("Error: ")
    assert "Secret." not in result


@pytest.mark.needs("bwrap")
def test_safe_mode_reads_skills_and_nothing_else(here: Ask, home: Home, server: ModelServer) -> None:
    folder = home.config / "skills/mail"
    write_skill(folder, body="Be brief.")
    assert "Be brief." in call_read_skill(here, server, "--safe", name="mail")
    write(home.config / "secret", "Secret.")
    assert "Secret." not in call_read_skill(here, server, "--safe", name="mail", path="../../secret")
    write(folder / "scripts/.env", "KEY=value")
    (folder / "notes").symlink_to("scripts/.env")
    for path in ("scripts/.env", "notes"):
        assert "it may contain secrets" in call_read_skill(here, server, "--safe", name="mail", path=path)


def test_a_skill_folder_swapped_for_a_link_during_a_run_is_not_followed(here: Ask, server: ModelServer) -> None:
    folder = here.cwd / ".agents/skills/pdf"
    write_skill(folder)
    write(here.cwd / "private/SKILL.md", "---\nname: pdf\n---\nSecret.")
    swap = "mv .agents/skills/pdf old; ln -s ../../private .agents/skills/pdf"
    server.reply(
        wire.calls(("bash", {"command": swap})), wire.calls(("read_skill", {"name": "pdf"})), wire.says("done")
    )
    assert here("--context", *PROMPT).code == 0
    assert "Secret." not in read_tool_results(check_sent_requests(server)[-1])[-1]


# Where skills are found


def test_the_innermost_project_skill_hides_others_of_its_name(here: Ask, home: Home, server: ModelServer) -> None:
    write_skill(here.cwd / "sub/.agents/skills/pdf", "Inner.")
    write_skill(here.cwd / ".agents/skills/pdf", "Outer.")
    write_skill(home.config / "skills/pdf", "Own.")
    server.reply(wire.says("done"))
    replace(here, cwd=here.cwd / "sub")("--context", *PROMPT)
    assert [line for line in read_system_prompts(server)[0].splitlines() if "- pdf" in line] == ["- pdf: Inner."]


def test_the_users_own_skills_may_be_links(tmp_path: Path) -> None:
    write_skill(tmp_path / "src/pdf")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills/pdf").symlink_to("../src/pdf")
    (skill,) = find_user_skills(tmp_path / "skills")
    assert (skill.name, skill.problem) == ("pdf", "")
    assert b"Use pdftotext." in skill.read_file()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("pdf", "# PDF\n", "front matter"),
        ("pdf", "---\nname: pdf\n", "no end"),
        ("pdf", "---\ndescription: x\n---\n", "no name"),
        ("pdf", "---\nname: pdf\n---\n", "no description"),
        ("pdf", "---\nname: pdf\ndescription: ''\n---\n", "no description"),
        ("pdf", "---\nname: other\ndescription: x\n---\n", "'other'"),
        ("PDF", "---\nname: PDF\ndescription: x\n---\n", "lowercase"),
        ("p--f", "---\nname: p--f\ndescription: x\n---\n", "lowercase"),
        ("-pdf", "---\nname: -pdf\ndescription: x\n---\n", "lowercase"),
        ("p" * 65, f"---\nname: {'p' * 65}\ndescription: x\n---\n", "at most 64"),
        ("p" * 64, f"---\nname: {'p' * 64}\ndescription: {'x' * 1024}\n---\n", ""),
        ("pdf", f"---\nname: pdf\ndescription: {'x' * 1025}\n---\n", "1,024"),
        ("pdf", "---\nname: pdf\ndescription: [x]\n---\n", "description must be a string"),
        ("pdf", "---\nname: pdf\ndescription: x\n---\n\0", "not text"),
        ("pdf", "x" * 1_000_001, "1,000,000"),
    ],
)
def test_skills_follow_the_specification(tmp_path: Path, name: str, text: str, problem: str) -> None:
    write(tmp_path / ".agents/skills" / name / "SKILL.md", text)
    (skill,) = find_project_skills(tmp_path)
    assert problem in skill.problem
    assert bool(problem) == bool(skill.problem)


def test_project_skills_are_confined_to_the_repository(tmp_path: Path) -> None:
    write_skill(tmp_path / "outside/pdf")
    write_skill(tmp_path / "project/skills/mail")
    make_repository(tmp_path / "project")
    folder = tmp_path / "project/.agents/skills"
    folder.mkdir(parents=True)
    (folder / "pdf").symlink_to(tmp_path / "outside/pdf")
    (folder / "mail").symlink_to("../../skills/mail")
    problems = {skill.name: bool(skill.problem) for skill in find_project_skills(tmp_path / "project")}
    assert problems == {"mail": False, "pdf": True}
