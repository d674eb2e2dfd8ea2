"""Decisions of the policy about calls."""

from __future__ import annotations

import time

import pytest

from ask.messages import ToolSpec
from ask.safety.policy import DEFAULT_DENY_RULES, MAX_COMMAND_LENGTH, CommandDenyRule, Decision, ToolPolicy, Verdict
from ask.tools.base import Tool, ToolResult
from ask.tools.builtin import list_builtin_tools

READING = [tool for tool in list_builtin_tools() if not tool.has_side_effects]
CHANGING = [tool for tool in list_builtin_tools() if tool.has_side_effects]
[BASH] = [tool for tool in CHANGING if tool.spec.name == "bash"]
STRANGE = Tool(ToolSpec("fetch", "Fetches.", {}), lambda arguments, context: ToolResult(""), origin="ask-fetch")
DELETE = {"command": "rm -rf ."}
ASKED = Decision(Verdict.ASK, "--confirm", hint="use --yes")


def test_builtin_tools_declare_their_side_effects() -> None:
    assert {"read_file", "list_dir", "fetch_url"} <= {tool.spec.name for tool in READING}
    assert {"write_file", "edit_file", "bash"} <= {tool.spec.name for tool in CHANGING}


@pytest.mark.parametrize("yes", [False, True])
def test_without_confirm_everything_is_allowed(yes: bool) -> None:
    for tool in list_builtin_tools():
        assert ToolPolicy(assume_yes=yes).decide(tool) == Decision(Verdict.ALLOW, "unrestricted")


def test_confirm_asks_about_side_effects() -> None:
    assert {ToolPolicy(confirm=True).decide(tool) for tool in CHANGING} == {ASKED}


def test_confirm_allows_reading() -> None:
    assert {ToolPolicy(confirm=True).decide(tool) for tool in READING} == {Decision(Verdict.ALLOW, "reads only")}


def test_yes_approves_what_confirm_would_ask() -> None:
    assert {ToolPolicy(confirm=True, assume_yes=True).decide(tool) for tool in CHANGING} == {
        Decision(Verdict.ALLOW, "--yes")
    }


def test_safe_mode_allows_builtin_tools() -> None:
    safe = ToolPolicy(safe_mode=True, deny_rules=DEFAULT_DENY_RULES)
    for tool in list_builtin_tools():
        if not tool.get_host:
            allowed = safe.decide(tool, {"command": "rm -r x", "content": "rm -rf ."})
            assert allowed == Decision(Verdict.ALLOW, "--safe")


def test_confirm_and_yes_apply_in_safe_mode() -> None:
    safe = ToolPolicy(confirm=True, safe_mode=True, deny_rules=DEFAULT_DENY_RULES)
    assert safe.decide(BASH, {"command": "ls"}) == ASKED
    assert safe._replace(assume_yes=True).decide(BASH, {"command": "ls"}) == Decision(Verdict.ALLOW, "--yes")
    assert safe.decide(READING[0], {}) == Decision(Verdict.ALLOW, "reads only")


@pytest.mark.parametrize(("confirm", "yes"), [(False, False), (True, False), (True, True)])
def test_no_setting_allows_what_safe_mode_refuses(confirm: bool, yes: bool) -> None:
    safe = ToolPolicy(confirm, yes, safe_mode=True, deny_rules=DEFAULT_DENY_RULES)
    denied = safe.decide(BASH, DELETE)
    assert denied[:2] == (Verdict.DENY, "tripwire: rm -rf")
    assert denied.reason == "not run: safe mode refuses rm -rf; list each file, or leave it to the user"
    denied = safe.decide(STRANGE, {})
    assert denied[:2] == (Verdict.DENY, "not in safe mode")
    assert denied.reason == "not run: fetch would not be confined, and safe mode is on"


def test_a_tool_that_is_allowed_by_name_runs_in_safe_mode() -> None:
    safe = ToolPolicy(safe_mode=True, allowed_tools=frozenset({"fetch"}), deny_rules=DEFAULT_DENY_RULES)
    assert safe.decide(STRANGE, {}) == Decision(Verdict.ALLOW, "--allow-tool")
    assert safe.decide(STRANGE, DELETE).rule == "tripwire: rm -rf"
    asking = safe._replace(confirm=True)
    assert asking.decide(STRANGE._replace(has_side_effects=True), {}) == ASKED


def test_deny_rules_and_origins_matter_only_in_safe_mode() -> None:
    plain = ToolPolicy(deny_rules=DEFAULT_DENY_RULES)
    assert plain.decide(BASH, DELETE) == Decision(Verdict.ALLOW, "unrestricted")
    assert plain.decide(STRANGE, {}) == Decision(Verdict.ALLOW, "unrestricted")


def test_configured_deny_rules_are_used() -> None:
    safe = ToolPolicy(safe_mode=True, deny_rules=(CommandDenyRule("curl", r"\bcurl\b"),))
    assert safe.decide(BASH, {"command": "Curl x"}).rule == "tripwire: curl"
    assert safe.decide(BASH, DELETE).verdict is Verdict.ALLOW
    assert safe.decide(BASH, {"command": 5}).verdict is Verdict.ALLOW


def test_a_command_that_is_too_long_is_refused_before_it_is_checked() -> None:
    safe = ToolPolicy(safe_mode=True, deny_rules=DEFAULT_DENY_RULES)
    before = time.process_time()
    denied = safe.decide(BASH, {"command": "rm " * 300_000})
    assert time.process_time() - before < 0.1
    assert denied[:2] == (Verdict.DENY, "command too long")
    assert "900,000 characters" in denied.reason
    assert safe.decide(BASH, {"command": "x" * MAX_COMMAND_LENGTH}).verdict is Verdict.ALLOW
    assert ToolPolicy().decide(BASH, {"command": "rm " * 300_000}).verdict is Verdict.ALLOW
