"""Carries out one tool call: reads its arguments, has it decided, runs it, logs it, and words the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ask.errors import FileError
from ask.events import CallFinished, CallStarted, Event, Notice
from ask.messages import ToolCall
from ask.safety.audit import AuditLog
from ask.safety.policy import Decision, Policy, Verdict
from ask.text import mend
from ask.tools import Tool, ToolContext, ToolError, ToolResult
from ask.tools.arguments import parse_arguments
from ask.tools.output import cap

REPEATS = 3
"""A call that is made this many times in a row with the same arguments is not carried out any more."""

STOPPED = "interrupted by the user; it may or may not have run"
NOT_RUN = "not run: interrupted by the user"


class NotRun(ToolError):
    """A call that is not carried out; `rule` says by what rule, for the log."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


Approve = Callable[[str, Mapping[str, Any], Path, float], bool | None]


class CallRunner:
    """Carries out the calls of a run.

    Args:
        tools: the tools on offer; a call of any other is refused.
        context: what tools may use of the run.
        policy: decides about each call.
        approve: asks the human; None from it means that nobody is there.
        log: the audit log.
        redact: takes the keys out of a text.
        show: takes the events.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        policy: Policy,
        *,
        approve: Approve,
        log: AuditLog,
        redact: Callable[[str], str],
        show: Callable[[Event], None],
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self.nobody_to_ask = False
        self.interrupted = False
        self._context = context
        self._policy = policy
        self._approve = approve
        self._log = log
        self._redact = redact
        self._show = show
        self._unlogged = False
        self._last: list[tuple[str, str]] = []

    def carry_out(self, call: ToolCall) -> str:
        """Run a call if it may run; return the result for the model, which may tell of an error.

        Ctrl-C ends the call and sets `interrupted`; no call is run after that.
        """
        decision = Decision(Verdict.DENY, "interrupted")
        started = time.monotonic()
        try:
            self._show(CallStarted(call))
            tool, arguments = self._read(call)
            decision = self._decide(tool, arguments)
            started = time.monotonic()
            result = tool.run(arguments, self._context)
        except NotRun as refusal:
            decision = Decision(Verdict.DENY, refusal.rule)
            result = failed(str(refusal))
        except ToolError as error:
            result = failed(str(error))
        except KeyboardInterrupt:
            self.interrupted = True
            result = failed(NOT_RUN if decision.verdict is Verdict.DENY else STOPPED)
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the conversation
            result = failed(f"the tool failed: {type(fault).__name__}: {fault}")
        return self._finish(call, result, decision, started)

    def _read(self, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
        """The tool and the arguments of a call.

        Raises:
            NotRun: the call makes no sense, is made once too often, or comes after an interruption.
        """
        if self.interrupted:
            raise NotRun("interrupted", NOT_RUN)
        self._last = [*self._last, (call.name, call.arguments)][-REPEATS:]
        if self._last.count((call.name, call.arguments)) == REPEATS:
            reason = f"not run: this is the same call {REPEATS} times in a row, its result would be the same"
            raise NotRun("repeated", reason)
        tool = self._tools.get(call.name)
        if tool is None:
            reason = f"there is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}"
            raise NotRun("not offered", reason)
        try:
            return tool, parse_arguments(tool.spec, call.arguments)
        except ToolError as error:
            raise NotRun("unreadable", str(error)) from None

    def _decide(self, tool: Tool, arguments: Mapping[str, Any]) -> Decision:
        """The decision that lets a call run, with the human's word in it where that was asked for.

        Raises:
            NotRun: it may not run.
        """
        decision = self._policy.decide(tool)
        if decision.verdict is Verdict.DENY:
            raise NotRun(decision.rule, decision.reason)
        if decision.verdict is Verdict.ALLOW:
            return decision
        context = self._context
        approved = self._approve(tool.spec.name, arguments, context.directory, context.command_timeout)
        if approved:
            return Decision(Verdict.ALLOW, f"{decision.rule}: yes")
        if approved is None:
            self.nobody_to_ask = True
            self._show(Notice(f"{tool.spec.name} was denied by {decision.rule}: there is no terminal to ask on"))
            raise NotRun(f"{decision.rule}: nobody to ask", "denied: nobody is there to approve it")
        raise NotRun(f"{decision.rule}: no", "the user declined this call")

    def _finish(self, call: ToolCall, result: ToolResult, decision: Decision, started: float) -> str:
        """Log a call, tell of it, and give its result the form in which the model gets it."""
        text = cap(self._redact(mend(result.text)), self._context)
        finished = CallFinished(
            call=call,
            result=text,
            failed=result.failed,
            verdict=decision.verdict,
            rule=decision.rule,
            exit_status=result.exit_status,
            seconds=time.monotonic() - started,
        )
        try:
            self._log.record(finished)
        except FileError as error:
            if not self._unlogged:
                self._show(Notice(str(error)))
            self._unlogged = True
        self._show(finished)
        return text


def failed(reason: str) -> ToolResult:
    """The result of a call that failed."""
    return ToolResult(f"Error: {reason}", failed=True)
