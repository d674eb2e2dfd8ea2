"""Decides about a tool call. Pure: it asks nobody and runs nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ask.tools import Tool


class Verdict(StrEnum):
    """What may become of a call: run it, ask the human first, or refuse it."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(NamedTuple):
    """A verdict, the rule that led to it, and for a refusal the reason as the model is told it."""

    verdict: Verdict
    rule: str
    reason: str = ""


class Policy(NamedTuple):
    """The user's wishes.

    Attributes:
        confirm: ask before every call that runs or writes.
        yes: answer yes to those.
    """

    confirm: bool = False
    yes: bool = False

    def decide(self, tool: Tool) -> Decision:
        """The decision about a call of that tool."""
        if not self.confirm or not tool.changes:
            return Decision(Verdict.ALLOW, "unrestricted" if not self.confirm else "reads only")
        return Decision(Verdict.ALLOW, "--yes") if self.yes else Decision(Verdict.ASK, "--confirm")
