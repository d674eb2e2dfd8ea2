"""Decisions of the policy about calls."""

from __future__ import annotations

import pytest

from ask.messages import ToolSpec
from ask.safety.command_rules import parse_rules
from ask.safety.tool_policy import Decision, ToolPolicy, Verdict
from ask.tools.base import Tool, ToolResult
from ask.tools.definitions import BUILTIN_TOOLS

READING = [tool for tool in BUILTIN_TOOLS if not tool.has_side_effects]
CHANGING = [tool for tool in BUILTIN_TOOLS if tool.has_side_effects]
[BASH] = [tool for tool in CHANGING if tool.spec.name == "bash"]
STRANGE = Tool(ToolSpec("fetch", "Fetches.", {}), lambda arguments, context: ToolResult(""), origin="ask-fetch")
DELETE = {"command": "rm -rf /"}
ASKED = Decision(Verdict.ASK, "--confirm", hint="use --yes")


def test_builtin_tools_declare_their_side_effects() -> None:
    assert {"read_file", "list_dir", "fetch_url"} <= {tool.spec.name for tool in READING}
    assert {"write_file", "edit_file", "bash"} <= {tool.spec.name for tool in CHANGING}


@pytest.mark.parametrize("yes", [False, True])
def test_without_confirm_everything_is_allowed(yes: bool) -> None:
    for tool in BUILTIN_TOOLS:
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
    safe = ToolPolicy(safe_mode=True)
    for tool in BUILTIN_TOOLS:
        if not tool.get_host:
            allowed = safe.decide(tool, {"command": "rm -r x", "content": "rm -rf ."})
            assert allowed == Decision(Verdict.ALLOW, "--safe")


def test_confirm_and_yes_apply_in_safe_mode() -> None:
    safe = ToolPolicy(confirm=True, safe_mode=True)
    assert safe.decide(BASH, {"command": "ls"}) == ASKED
    assert safe._replace(assume_yes=True).decide(BASH, {"command": "ls"}) == Decision(Verdict.ALLOW, "--yes")
    assert safe.decide(READING[0], {}) == Decision(Verdict.ALLOW, "reads only")


@pytest.mark.parametrize("safe_mode", [False, True])
@pytest.mark.parametrize(("confirm", "yes"), [(False, False), (True, False), (True, True)])
def test_dangerous_commands_are_always_confirmed(confirm: bool, yes: bool, safe_mode: bool) -> None:
    allow = parse_rules("tools.allow", ["rm *", "bash"])
    decision = ToolPolicy(confirm, yes, safe_mode=safe_mode, allow=allow).decide(BASH, DELETE)
    assert (decision.verdict, decision.danger) == (Verdict.ASK, "rm -r /")
    assert decision.rule == "dangerous command: rm -r /"


@pytest.mark.parametrize(("confirm", "yes"), [(False, False), (True, False), (True, True)])
def test_no_setting_allows_what_safe_mode_refuses(confirm: bool, yes: bool) -> None:
    allow = parse_rules("tools.allow", ["fetch"])
    denied = ToolPolicy(confirm, yes, safe_mode=True, allow=allow).decide(STRANGE, {})
    assert denied[:2] == (Verdict.DENY, "not in safe mode")
    assert denied.reason == "not run: fetch would not be confined, and safe mode is on"


def test_allowed_calls_are_not_confirmed() -> None:
    policy = ToolPolicy(confirm=True, allow=parse_rules("tools.allow", ["git status", "ls *", "write_*", "mcp__*"]))
    [write] = [tool for tool in CHANGING if tool.spec.name == "write_file"]
    [edit] = [tool for tool in CHANGING if tool.spec.name == "edit_file"]
    assert policy.decide(BASH, {"command": "git status && ls -l"}) == Decision(Verdict.ALLOW, "allow: git status, ls *")
    assert policy.decide(write, {}) == Decision(Verdict.ALLOW, "allow: write_*")
    assert {policy.decide(edit, {}), policy.decide(BASH, {"command": "git status > x"})} == {ASKED}
    assert policy.decide(STRANGE._replace(has_side_effects=True), {"command": "ls x"}) == ASKED, "commands are of bash"


@pytest.mark.parametrize("safe_mode", [False, True])
def test_denied_calls_are_refused_everywhere(safe_mode: bool) -> None:
    rules = parse_rules("tools.deny", ["git push", "edit_*"])
    policy = ToolPolicy(assume_yes=True, safe_mode=safe_mode, allow=parse_rules("tools.allow", ["bash"]), deny=rules)
    denied = policy.decide(BASH, {"command": "cd x && git push origin"})
    assert denied[:2] == (Verdict.DENY, "deny: git push")
    assert "git push" in denied.reason
    [edit] = [tool for tool in CHANGING if tool.spec.name == "edit_file"]
    assert policy.decide(edit, {}).rule == "deny: edit_*"
    assert policy.decide(BASH, {"command": "git status"}).verdict is Verdict.ALLOW
    assert policy._replace(deny=parse_rules("tools.deny", ["rm *"])).decide(BASH, DELETE).verdict is Verdict.DENY


def test_allowing_a_tool_does_not_allow_its_hosts() -> None:
    [fetch] = [tool for tool in READING if tool.spec.name == "fetch_url"]
    policy = ToolPolicy(safe_mode=True, allow=parse_rules("tools.allow", ["fetch_url"]))
    decision = policy.decide(fetch, {"url": "http://host.test/"})
    assert (decision.verdict, decision.host) == (Verdict.ASK, "host.test")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "localhost", "api.localhost."])
def test_no_question_is_asked_about_a_private_host(host: str) -> None:
    [fetch] = [tool for tool in READING if tool.spec.name == "fetch_url"]
    decision = ToolPolicy(safe_mode=True).decide(fetch, {"url": f"http://{host}:8000/"})
    assert (decision.verdict, decision.hint) == (Verdict.DENY, "")
    assert "public hosts" in decision.reason


def test_a_tool_that_is_allowed_by_name_runs_in_safe_mode() -> None:
    safe = ToolPolicy(safe_mode=True, allowed_tools=frozenset({"fetch"}))
    assert safe.decide(STRANGE, {}) == Decision(Verdict.ALLOW, "--allow-tool")
    assert safe.decide(STRANGE, DELETE).danger
    asking = safe._replace(confirm=True)
    assert asking.decide(STRANGE._replace(has_side_effects=True), {}) == ASKED


def test_origins_matter_only_in_safe_mode() -> None:
    assert ToolPolicy().decide(STRANGE, {}) == Decision(Verdict.ALLOW, "unrestricted")
    assert ToolPolicy().decide(BASH, {"command": 5}).verdict is Verdict.ALLOW
