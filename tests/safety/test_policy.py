"""The decision about a call."""

from __future__ import annotations

import pytest

from ask.safety.policy import Decision, Policy, Verdict
from ask.tools import builtin_tools

READING = [tool for tool in builtin_tools() if not tool.changes]
CHANGING = [tool for tool in builtin_tools() if tool.changes]


def test_what_runs_or_writes_is_known_as_such() -> None:
    assert [tool.spec.name for tool in READING] == ["read_file", "list_dir"]
    assert [tool.spec.name for tool in CHANGING] == ["write_file", "edit_file", "bash"]


@pytest.mark.parametrize("yes", [False, True])
def test_without_confirm_everything_is_allowed(yes: bool) -> None:
    for tool in builtin_tools():
        assert Policy(yes=yes).decide(tool) == Decision(Verdict.ALLOW, "unrestricted")


def test_with_confirm_what_changes_something_is_asked_about() -> None:
    assert {Policy(confirm=True).decide(tool) for tool in CHANGING} == {Decision(Verdict.ASK, "--confirm")}


def test_with_confirm_what_only_reads_is_allowed() -> None:
    assert {Policy(confirm=True).decide(tool) for tool in READING} == {Decision(Verdict.ALLOW, "reads only")}


def test_yes_answers_what_confirm_would_ask() -> None:
    assert {Policy(confirm=True, yes=True).decide(tool) for tool in CHANGING} == {Decision(Verdict.ALLOW, "--yes")}
