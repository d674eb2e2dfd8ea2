"""`ask context`: the decisions about projects are listed and forgotten."""

from __future__ import annotations

import json
from dataclasses import replace

from ask.project.trust_decisions import TrustStore
from tests.program import Ask, Home
from tests.project.projects import make_repository


def test_decisions_are_listed_and_forgotten(home: Home) -> None:
    ask = Ask(home.env, home.work)
    assert ask("context").text == ""
    project, gone = make_repository(home.work / "project").resolve(), home.work.resolve() / "gone"
    store = TrustStore(home.data / "trusted-projects.json")
    store.remember(project, trusted=True)
    store.remember(gone, trusted=False)
    rows = json.loads(ask("context", "list", "--json").text)
    assert {row["project"]: row["trusted"] for row in rows} == {str(project): True, str(gone): False}
    assert [line.split("\t")[:2] for line in ask("context").text.splitlines()] == [
        [str(gone), "no"],
        [str(project), "yes"],
    ]
    (doctor,) = [row for row in json.loads(ask("doctor", "--offline", "--json").text) if row["check"] == "context"]
    assert (doctor["state"], doctor["found"]) == ("ok", "1 project trusted, 1 not")
    assert ask("context", "forget", str(gone)).code == 0
    (project / "sub").mkdir()
    assert replace(ask, cwd=project / "sub")("context", "forget").code == 0
    assert store.read() == {}
    again = replace(ask, cwd=project)("context", "forget")
    assert (again.code, str(project) in again.stderr) == (2, True)
