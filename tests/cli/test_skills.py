"""`ask skills`: skills are listed with their problems, and shown."""

from __future__ import annotations

import json
from dataclasses import replace

from ask.project.trust_decisions import TrustStore
from tests.program import Ask, Home
from tests.project.projects import make_repository, write, write_skill


def test_skills_are_listed_with_what_is_wrong_and_shown(home: Home) -> None:
    project = make_repository(home.work / "project")
    ask = replace(Ask(home.env, home.work), cwd=project)
    assert ask("skills").text == ""
    write_skill(project / ".agents/skills/pdf")
    write_skill(home.config / "skills/pdf", "My own.")
    write(home.config / "skills/broken/SKILL.md", "no front matter")

    def list_skills() -> list[tuple[str, str, bool, str]]:
        rows = json.loads(ask("skills", "list", "--json").text)
        return [(row["name"], row["from"], row["offered"], row["problem"]) for row in rows]

    def list_tools() -> list[str]:
        return [row["name"] for row in json.loads(ask("tools", "--json").text)]

    untrusted, broken, own = list_skills()
    assert untrusted == ("pdf", "project", False, "this project is not trusted")
    assert broken[:3] == ("broken", "you", False)
    assert "front matter" in broken[3]
    assert own == ("pdf", "you", True, "")
    assert "My own." in ask("skills", "show", "pdf").text
    assert "read_skill" in list_tools()
    TrustStore(home.data / "trusted-projects.json").remember(project.resolve(), trusted=True)
    assert list_skills()[0] == ("pdf", "project", True, "")
    assert not list_skills()[2][2]
    assert "Reads PDF files." in ask("skills", "show", "pdf").text
    assert ask("skills", "show", "broken").text == "no front matter\n"
    doctor = [row for row in json.loads(ask("doctor", "--offline", "--json").text) if row["check"] == "skills"]
    assert [row["state"] for row in doctor if "broken" in row["found"]] == ["warning"]
    assert [row["found"] for row in doctor if row["state"] == "ok"] == ["pdf"]
    unknown = ask("skills", "show", "pfd")
    assert (unknown.code, "pdf" in unknown.stderr) == (2, True)


def test_doctor_reports_nothing_without_skills_and_decisions(home: Home) -> None:
    rows = json.loads(Ask(home.env, home.work)("doctor", "--offline", "--json").text)
    assert not {"context", "skills"} & {row["check"] for row in rows}
