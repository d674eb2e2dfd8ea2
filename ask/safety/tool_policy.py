"""The policy that decides whether a tool call runs, needs approval or is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ask.config.settings import SANDBOX_LEVEL, Settings
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.tools.base import BUILTIN_ORIGIN, RunToolContext, Tool, ToolError
from ask.tools.definitions import FILE_TOOL_NAMES

if TYPE_CHECKING:
    from ask.safety.command_rules import CallRule

NO_TERMINAL = "no terminal to confirm on"
"""Why a call is denied, or a command ends, that needs the user's answer."""
NETWORK_LEVEL = "network"
"""The level of approvals given in a sandbox with --allow-command-host, less strict than one without."""
COMMAND_TOOL = "bash"
"""The tool whose calls the rules about commands allow."""


class Verdict(StrEnum):
    """The verdict on a call: run it, ask the user first, or refuse it."""

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
    host: str = ""
    """The host that the user is asked about; "" if the question is about the call."""
    danger: str = ""
    """The dangerous command that the user is asked about; "" for none."""


class ToolPolicy(NamedTuple):
    """The user's settings for tool calls."""

    confirm: bool = False
    """Ask before every call that has side effects."""
    assume_yes: bool = False
    """Approve those calls without asking. This does not relax safe mode."""
    safe_mode: bool = False
    """Confine the tools."""
    allow: tuple[CallRule, ...] = ()
    """Calls that need no approval."""
    deny: tuple[CallRule, ...] = ()
    """Calls that are refused."""
    allowed_hosts: frozenset[str] = frozenset()
    """Hosts that may be reached in safe mode without asking."""
    allowed_tools: frozenset[str] = frozenset()
    """Names of tools that may run in safe mode although they are not sandboxed."""
    safe_option: str = "--safe"
    """The option for the level of safe mode, as the rule in the log of tool calls."""
    is_row: bool = False
    """The run is a row of `ask map`: hints name settings, because it has no options for approval."""

    @staticmethod
    def from_settings(settings: Settings) -> ToolPolicy:
        """Create the policy of a run outside safe mode.

        Raises:
            ConfigError: an entry of `tools.allow` or `tools.deny` is not valid.
        """
        policy = ToolPolicy(confirm=settings.confirm, assume_yes=settings.assume_yes, is_row=settings.is_row)
        if not (settings.allow or settings.deny):
            return policy
        from ask.safety.command_rules import parse_rules

        return policy._replace(
            allow=parse_rules("tools.allow", settings.allow), deny=parse_rules("tools.deny", settings.deny)
        )

    def decide(self, tool: Tool, arguments: Mapping[str, Any] = EMPTY_MAPPING) -> Decision:
        """Decide about a call without asking the user or running anything."""
        name, command = tool.spec.name, arguments.get("command")
        decision = self._decide_by_rules(name, command if isinstance(command, str) else None)
        if decision.verdict is Verdict.DENY:
            return decision
        if self.safe_mode and tool.origin != BUILTIN_ORIGIN and name not in self.allowed_tools:
            reason = f"not run: {name} would not be confined, and safe mode is on"
            return Decision(Verdict.DENY, "not in safe mode", reason)
        if self.safe_mode and tool.get_host:
            return self._decide_host_access(tool.get_host, arguments)
        return decision if decision.danger else self._decide_approval(tool, decision)

    def _decide_approval(self, tool: Tool, decision: Decision) -> Decision:
        """Decide whether `--confirm` applies to a call. `decision` is that of the rules."""
        if not self.confirm:
            safe_rule = self.safe_option if tool.origin == BUILTIN_ORIGIN else "--allow-tool"
            return Decision(Verdict.ALLOW, safe_rule if self.safe_mode else "unrestricted")
        if not tool.has_side_effects:
            return Decision(Verdict.ALLOW, "reads only")
        if decision.verdict is Verdict.ASK and self.assume_yes:
            return Decision(Verdict.ALLOW, "--yes")
        return decision

    def _decide_by_rules(self, tool_name: str, command: str | None) -> Decision:
        """Decide by the rules about tools and commands, as if `--confirm` were given."""
        rule = next((rule.text for rule in self.deny if rule.matches_tool(tool_name)), None)
        allowing = [rule.text for rule in self.allow if rule.matches_tool(tool_name)][:1]
        if command is not None:
            from ask.safety.command_rules import find_allow_rules, find_dangerous_command, find_deny_rule

            rule = rule or find_deny_rule(self.deny, command)
            if not rule and (danger := find_dangerous_command(command)):
                hint = "run it yourself" if self.is_row else "run it yourself, or approve it on a terminal"
                return Decision(Verdict.ASK, f"dangerous command: {danger}", hint=hint, danger=danger)
            if tool_name == COMMAND_TOOL:
                allowing = allowing or find_allow_rules(self.allow, command)
        if rule:
            return Decision(Verdict.DENY, f"deny: {rule}", f"not run: the user has forbidden {rule!r} (tools.deny)")
        if allowing:
            return Decision(Verdict.ALLOW, f"allow: {', '.join(allowing)}")
        if self.is_row:
            hint = f"add {tool_name if command is None else 'the command'} to tools.allow in config.toml"
            return Decision(Verdict.ASK, "tools.confirm", hint=hint)
        return Decision(Verdict.ASK, "--confirm", hint="use --yes")

    def _decide_host_access(
        self, extract_host: Callable[[Mapping[str, Any]], str], arguments: Mapping[str, Any]
    ) -> Decision:
        """Decide about a call that reaches a host. `--yes` does not approve it."""
        try:
            host = extract_host(arguments)
        except ToolError as error:
            return Decision(Verdict.DENY, "host refused", str(error))
        if host in self.allowed_hosts:
            return Decision(Verdict.ALLOW, "--allow-host")
        hint = f"add {host} to safe.allow_hosts in config.toml" if self.is_row else f"use --allow-host {host}"
        return Decision(Verdict.ASK, f"host {host}", hint=hint, host=host)


class PendingToolCall(NamedTuple):
    """A tool call that waits for approval."""

    tool_name: str
    arguments: Mapping[str, Any]
    context: RunToolContext
    """Where the call would run, and its timeout."""
    host: str = ""
    """The host that the user is asked about, which need not be in the arguments; "" if it is about the call."""
    danger: str = ""
    """The dangerous command in the call; "" for none."""
    level: str = ""
    """The level of safe mode, or `NETWORK_LEVEL`; "" without it."""

    @property
    def command(self) -> str | None:
        """The `command` argument, which the user may edit; None if there is none."""
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None


def is_local(tool: Tool) -> bool:
    """Check whether a tool is built in and accesses this machine, not a host."""
    return tool.origin == BUILTIN_ORIGIN and tool.needs_sandbox


def is_offered(tool: Tool, level: str, allowed_tools: Collection[str]) -> bool:
    """Check whether safe mode offers a tool at a level."""
    if tool.origin != BUILTIN_ORIGIN:
        return tool.spec.name in allowed_tools
    return level == SANDBOX_LEVEL or not is_local(tool) or tool.spec.name in FILE_TOOL_NAMES
