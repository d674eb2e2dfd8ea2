"""Decides about a tool call. Pure: it asks nobody and runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.messages import EMPTY_MAPPING
from ask.safety.deny_rules import MAX_COMMAND_LENGTH, CommandDenyRule, find_deny_rule
from ask.tools.base import Tool, ToolContext, ToolError

if TYPE_CHECKING:
    pass


BUILTIN_ORIGIN = "ask"
"""The origin of the tools that safe mode confines."""


class Verdict(StrEnum):
    """What may become of a call: run it, ask the human first, or refuse it."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(NamedTuple):
    """A verdict and what led to it.

    Attributes:
        verdict: the verdict.
        rule: by what rule.
        reason: of a refusal, as the model is told it.
        hint: what lets a call run that nobody is there to approve, as the user is told it.
    """

    verdict: Verdict
    rule: str
    reason: str = ""
    hint: str = ""


class ToolPolicy(NamedTuple):
    """The user's wishes.

    Attributes:
        confirm: ask before every call that runs or writes.
        assume_yes: answer yes to those; it opens nothing that safe mode closes.
        safe_mode: confine the tools.
        allowed_hosts: hosts that may be reached in safe mode without asking.
        allowed_tools: names of tools that may run in safe mode though they are not confined.
        deny_rules: commands that are refused in safe mode.
    """

    confirm: bool = False
    assume_yes: bool = False
    safe_mode: bool = False
    allowed_hosts: frozenset[str] = frozenset()
    allowed_tools: frozenset[str] = frozenset()
    deny_rules: tuple[CommandDenyRule, ...] = ()

    def decide(self, tool: Tool, arguments: Mapping[str, Any] = EMPTY_MAPPING) -> Decision:
        """The decision about a call of that tool with these arguments."""
        confined = self._decide_in_safe_mode(tool, arguments) if self.safe_mode else None
        if confined:
            return confined
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
        """The decision about what safe mode does not let happen, or not unasked."""
        name = tool.spec.name
        if tool.origin != BUILTIN_ORIGIN and name not in self.allowed_tools:
            reason = f"not run: {name} would run outside the sandbox, and safe mode is on"
            return Decision(Verdict.DENY, "not in safe mode", reason)
        command = arguments.get("command")
        if isinstance(command, str) and len(command) > MAX_COMMAND_LENGTH:
            reason = (
                f"not run: the command has {len(command):,} characters, and safe mode runs at most {MAX_COMMAND_LENGTH:,}; "
                "write it to a file with write_file, and run that"
            )
            return Decision(Verdict.DENY, "command too long", reason)
        wire = find_deny_rule(command, self.deny_rules) if isinstance(command, str) else None
        if wire:
            reason = f"not run: {wire} is refused in safe mode; name each file, or leave it to the user"
            return Decision(Verdict.DENY, f"tripwire: {wire}", reason)
        return self._decide_host_access(tool.host_of, arguments) if tool.host_of else None

    def _decide_host_access(
        self, extract_host: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]
    ) -> Decision:
        """The decision about a call that reaches a host; `--yes` says nothing about that."""
        try:
            host = extract_host(arguments)
        except ToolError as error:
            return Decision(Verdict.DENY, "no host", str(error))
        if host in self.allowed_hosts:
            return Decision(Verdict.ALLOW, "--allow-host")
        return Decision(Verdict.ASK, f"host {host}", hint=f"use --allow-host {host}")

    def _get_allow_rule(self, tool: Tool) -> str:
        """The rule by which a call runs where nobody is to be asked."""
        if not self.safe_mode:
            return "unrestricted"
        return "--safe" if tool.origin == BUILTIN_ORIGIN else "--allow-tool"


class PendingToolCall(NamedTuple):
    """A call that the model wants to make; `context` says where it would run, and for how long.

    `host` is the host that it would reach, which need not stand in the arguments; "" for none.
    """

    tool_name: str
    arguments: Mapping[str, Any]
    context: ToolContext
    host: str = ""

    @property
    def command(self) -> str | None:
        """What the user may edit: the argument `command`, None where there is none."""
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None
