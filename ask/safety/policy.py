"""The policy that decides whether a tool call runs, needs approval or is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from ask.messages import EMPTY_MAPPING
from ask.safety.deny_rules import MAX_COMMAND_LENGTH, CommandDenyRule, find_deny_rule
from ask.tools.base import Tool, ToolContext, ToolError

BUILTIN_ORIGIN = "ask"
"""The origin of the tools that safe mode confines."""


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
    """Run the tools in a sandbox."""
    allowed_hosts: frozenset[str] = frozenset()
    """Hosts that may be reached in safe mode without asking."""
    allowed_tools: frozenset[str] = frozenset()
    """Names of tools that may run in safe mode although they are not sandboxed."""
    deny_rules: tuple[CommandDenyRule, ...] = ()
    """Commands that are refused in safe mode."""

    def decide(self, tool: Tool, arguments: Mapping[str, Any] = EMPTY_MAPPING) -> Decision:
        """Decide about a call without asking the user or running anything."""
        decision = self._decide_in_safe_mode(tool, arguments) if self.safe_mode else None
        if decision:
            return decision
        if not self.confirm:
            return Decision(Verdict.ALLOW, self._get_allow_rule(tool))
        if not tool.changes:
            return Decision(Verdict.ALLOW, "reads only")
        return (
            Decision(Verdict.ALLOW, "--yes")
            if self.assume_yes
            else Decision(Verdict.ASK, "--confirm", hint="use --yes")
        )

    def _decide_in_safe_mode(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision | None:
        """Decide about a call in safe mode. Return None if safe mode does not restrict it."""
        name = tool.spec.name
        if tool.origin != BUILTIN_ORIGIN and name not in self.allowed_tools:
            reason = f"not run: {name} would run outside the sandbox, and safe mode is on"
            return Decision(Verdict.DENY, "not in safe mode", reason)
        command = arguments.get("command")
        if isinstance(command, str) and len(command) > MAX_COMMAND_LENGTH:
            reason = (
                f"not run: the command has {len(command):,} characters, and safe mode runs at most "
                f"{MAX_COMMAND_LENGTH:,}; write it to a file with write_file, and run that"
            )
            return Decision(Verdict.DENY, "command too long", reason)
        rule = find_deny_rule(command, self.deny_rules) if isinstance(command, str) else None
        if rule:
            reason = f"not run: {rule} is refused in safe mode; name each file, or leave it to the user"
            return Decision(Verdict.DENY, f"tripwire: {rule}", reason)
        return self._decide_host_access(tool.host_of, arguments) if tool.host_of else None

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
        return "--safe" if tool.origin == BUILTIN_ORIGIN else "--allow-tool"


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
