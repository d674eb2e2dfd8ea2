"""The policy that decides whether a tool call runs, needs approval or is refused.

Safe mode refuses commands such as `rm -rf` by `CommandDenyRule`. That is a best-effort check, not a security boundary:
it stops a model that acts in good faith, for example when it is asked to "delete everything". Variables, scripts and
other languages get past it; the sandbox is the boundary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.tools.base import Tool, ToolContext, ToolError

BUILTIN_ORIGIN = "ask"
"""The origin of the tools that safe mode confines."""


MAX_COMMAND_LENGTH = 32_768
"""Maximum number of characters of a command. Longer ones are refused, so that each rule takes under half a second."""


class CommandDenyRule(NamedTuple):
    """A command that is refused."""

    name: str
    """The name shown to the user and the model."""
    pattern: str
    """A regular expression that is searched for anywhere in the command, ignoring case."""


# Not within a longer name, option or file extension; a path may come before it.
_WORD_START = r"(?<![\w.-])"
# Within one simple command. Bounded, because quadratic backtracking would take too long.
_ARGUMENT_TEXT = r"(?:\\\n|[^\n;&|()`]){0,300}?"
_ARGUMENTS = rf"(?:\s{_ARGUMENT_TEXT})?\s"
_RECURSIVE_OPTION = rf"(?={_ARGUMENTS}-(?:-r|[a-z]*r))"
_FORCE_OPTION = rf"(?={_ARGUMENTS}-(?:-f|[a-z]*f))"

DEFAULT_DENY_RULES = (
    CommandDenyRule("rm -rf", rf"{_WORD_START}(?<!\bgit )rm{_RECURSIVE_OPTION}{_FORCE_OPTION}"),
    CommandDenyRule("rmdir /s", rf"{_WORD_START}(?:rmdir|rd){_ARGUMENTS}/s(?![\w/.-])"),
    CommandDenyRule("dd", rf"{_WORD_START}dd{_ARGUMENTS}of=(?!/dev/null\b)"),
    CommandDenyRule("mkfs", rf"{_WORD_START}mkfs(?:\.\w+)?\s+[\w/$-]"),
    CommandDenyRule("format", rf"{_WORD_START}format(?:\.com|\.exe)?\s+(?:[a-z]:(?:$|[\s;&|]\s*(?:/|$))|/dev/)"),
    CommandDenyRule(
        "fork bomb", r"(?<![^\s(){}|&;])([^\s(){}|&;]{1,30})\s?\(\s?\)\s{0,9}\{[^}]{0,99}?\1\s?\|\s?\1\s?&"
    ),
    CommandDenyRule(
        "chmod -R 777",
        rf"{_WORD_START}chmod{_RECURSIVE_OPTION}(?={_ARGUMENTS}(?:[0-7]?777|(?:a|ugo|\B)[+=]rwx)(?![\w,]))",
    ),
    CommandDenyRule("chown -R", rf"{_WORD_START}chown{_RECURSIVE_OPTION}"),
    CommandDenyRule("iptables", rf"{_WORD_START}ip6?tables(?:-restore|-apply|(?:-legacy|-nft)?\s+-)"),
    CommandDenyRule("ufw disable", rf"{_WORD_START}ufw\s+(?:--\w+\s+)?disable(?![\w-])"),
)
"""The rules used if the user has not configured any."""


def compile_deny_rules(names: Iterable[str]) -> tuple[CommandDenyRule, ...]:
    """Return the default rules with these names, or all if there are none; other names are used as patterns.

    Raises:
        ConfigError: a pattern is not a valid regular expression.
    """
    default_rules = {rule.name: rule for rule in DEFAULT_DENY_RULES}
    rules = tuple(default_rules.get(name) or CommandDenyRule(name, name) for name in names)
    try:
        for rule in rules:
            re.compile(rule.pattern)
    except re.error as error:
        raise ConfigError(f"safe.tripwires: {error.pattern!r} is not a valid regular expression ({error})") from None
    return rules or DEFAULT_DENY_RULES


def find_deny_rule(command: str, rules: Iterable[CommandDenyRule]) -> str | None:
    """Return the name of the first rule that matches a command of at most `MAX_COMMAND_LENGTH` characters."""
    return next((rule.name for rule in rules if re.search(rule.pattern, command, re.IGNORECASE)), None)


class Verdict(StrEnum):
    """Whether to run a call, ask the user first, or refuse it."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(NamedTuple):
    """A verdict and the rule that led to it."""

    verdict: Verdict
    rule: str
    reason: str = ""
    """Why the call is refused, for the model."""
    hint: str = ""
    """How to allow the call if there is no terminal to approve it on, for the user."""


class ToolPolicy(NamedTuple):
    """The user's settings for tool calls."""

    confirm: bool = False
    """Ask before every call that has side effects."""
    assume_yes: bool = False
    """Approve those calls without asking. This does not relax safe mode."""
    safe_mode: bool = False
    """Confine the tools."""
    allowed_hosts: frozenset[str] = frozenset()
    """Hosts that may be reached in safe mode without asking."""
    allowed_tools: frozenset[str] = frozenset()
    """Names of tools that may run in safe mode although they are not sandboxed."""
    deny_rules: tuple[CommandDenyRule, ...] = ()
    """Commands that are refused in safe mode."""
    safe_option: str = "--safe"
    """The option for the level of safe mode, as the rule in the log of tool calls."""

    def decide(self, tool: Tool, arguments: Mapping[str, Any] = EMPTY_MAPPING) -> Decision:
        """Decide about a call without asking the user or running anything."""
        decision = self._decide_in_safe_mode(tool, arguments) if self.safe_mode else None
        if decision:
            return decision
        if not self.confirm:
            return Decision(Verdict.ALLOW, self._get_allow_rule(tool))
        if not tool.has_side_effects:
            return Decision(Verdict.ALLOW, "reads only")
        if self.assume_yes:
            return Decision(Verdict.ALLOW, "--yes")
        return Decision(Verdict.ASK, "--confirm", hint="use --yes")

    def _decide_in_safe_mode(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision | None:
        """Decide about a call in safe mode. Return None if safe mode does not restrict it."""
        name = tool.spec.name
        if tool.origin != BUILTIN_ORIGIN and name not in self.allowed_tools:
            reason = f"not run: {name} would not be confined, and safe mode is on"
            return Decision(Verdict.DENY, "not in safe mode", reason)
        command = arguments.get("command")
        if isinstance(command, str):
            if len(command) > MAX_COMMAND_LENGTH:
                reason = (
                    f"not run: the command has {len(command):,} characters, but safe mode allows at most "
                    f"{MAX_COMMAND_LENGTH:,}; write it to a file with write_file and run that"
                )
                return Decision(Verdict.DENY, "command too long", reason)
            if rule := find_deny_rule(command, self.deny_rules):
                reason = f"not run: safe mode refuses {rule}; list each file, or leave it to the user"
                return Decision(Verdict.DENY, f"tripwire: {rule}", reason)
        return self._decide_host_access(tool.get_host, arguments) if tool.get_host else None

    def _decide_host_access(
        self, extract_host: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]
    ) -> Decision:
        """Decide about a call that reaches a host. `--yes` does not approve it."""
        try:
            host = extract_host(arguments)
        except ToolError as error:
            return Decision(Verdict.DENY, "no host", str(error))
        if host in self.allowed_hosts:
            return Decision(Verdict.ALLOW, "--allow-host")
        return Decision(Verdict.ASK, f"host {host}", hint=f"use --allow-host {host}")

    def _get_allow_rule(self, tool: Tool) -> str:
        if not self.safe_mode:
            return "unrestricted"
        return self.safe_option if tool.origin == BUILTIN_ORIGIN else "--allow-tool"


class PendingToolCall(NamedTuple):
    """A tool call that waits for approval."""

    tool_name: str
    arguments: Mapping[str, Any]
    context: ToolContext
    """Where the call would run, and its timeout."""
    host: str = ""
    """The host that the call would reach, which need not be in the arguments; "" for none."""

    @property
    def command(self) -> str | None:
        """The `command` argument, which the user may edit; None if there is none."""
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None
