"""Carries out one tool call: reads its arguments, has it decided, runs it, logs it, and words the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ask.errors import AskError, FileError, Interrupted
from ask.events import CallFinished, CallRunning, CallStarted, Event, Notice
from ask.messages import NOTHING, ToolCall
from ask.redaction import Redactor
from ask.safety.approval import Consent, Reply
from ask.safety.policy import Decision, Policy, Proposal, Verdict
from ask.safety.tool_call_log import AuditLog
from ask.text import mend
from ask.tools.arguments import parse_arguments
from ask.tools.base import ApprovedFile, Tool, ToolContext, ToolError, ToolResult
from ask.tools.output_limits import cap

REPEATS = 3
"""A call that is made this many times in a row with the same arguments is not carried out any more."""

PREFIX = "functions."
"""What models put before a tool's name that learnt to see their tools so."""

STOPPED = "interrupted by the user; it may or may not have run"
NOT_RUN = "not run: interrupted by the user"


class NotRun(ToolError):
    """A call that is not carried out; `rule` says by what rule, for the log."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


class Permit(NamedTuple):
    """The decision about a call, and what it runs with.

    Attributes:
        decision: the decision.
        arguments: the arguments.
        edited: the command as the user edited it, "" if it is the model's.
        file: the only file that it may write, if the user was shown one.
    """

    decision: Decision
    arguments: Mapping[str, Any] = NOTHING
    edited: str = ""
    file: ApprovedFile | None = None


Approve = Callable[[Proposal], Reply | None]


def nothing(tool: Tool) -> None:
    """Prepares nothing."""


class CallRunner:
    """Carries out the calls of a run.

    Args:
        tools: the tools on offer; a call of any other is refused.
        context: what tools may use of the run.
        policy: decides about each call.
        approve: asks the human; None from it means that nobody is there.
        log: the audit log.
        redactor: replaces secrets in calls and results; tools run with the calls as they are.
        show: takes the events.
        prepare: is called before a call that is allowed runs; Ctrl-C in it keeps the call from that.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        policy: Policy,
        *,
        approve: Approve,
        log: AuditLog,
        redactor: Redactor,
        show: Callable[[Event], None],
        prepare: Callable[[Tool], None] = nothing,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self.unasked: Decision | None = None
        self.interrupted: Interrupted | None = None
        self._context = context
        self._policy = policy
        self._approve = approve
        self._log = log
        self._redactor = redactor
        self._show = show
        self._prepare = prepare
        self._unlogged = False
        self._last: list[tuple[str, str]] = []
        self._always: set[tuple[str, str]] = set()

    def carry_out(self, call: ToolCall) -> CallFinished:
        """Run a call if it may run; return it as it ran, with the result for the model, which may report an error.

        Ctrl-C, or a signal that ends the run, ends the call and sets `interrupted`; no call is run after that.
        """
        call = call._replace(name=self._meant(call.name))
        permit = Permit(Decision(Verdict.DENY, "interrupted"))
        started = time.monotonic()
        try:
            self._show(CallStarted(self._redactor.redact_call(call)))
            tool, arguments = self._read(call)
            allowed = self._decide(tool, arguments)
            if allowed.edited:
                call = call._replace(arguments=json.dumps(allowed.arguments, ensure_ascii=False))
            self._show(CallRunning(self._redactor.redact_call(call)))
            self._prepare(tool)
            permit = allowed
            started = time.monotonic()
            result = tool.run(permit.arguments, self._context._replace(approved_file=permit.file))
        except NotRun as refusal:
            permit = Permit(Decision(Verdict.DENY, refusal.rule))
            result = failed(str(refusal))
        except ToolError as error:
            result = failed(str(error))
        except (KeyboardInterrupt, SystemExit) as ending:
            self.interrupted = Interrupted.by(ending)
            result = failed(NOT_RUN if permit.decision.verdict is Verdict.DENY else STOPPED)
        except AskError:
            raise  # from whoever shows what happens: there is no going on
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the conversation
            result = failed(f"the tool failed: {type(fault).__name__}: {fault}")
        if permit.edited:
            result = result._replace(text=told_of_edit(permit.edited, result.text))
        return self._finish(call, result, permit.decision, started)

    def _meant(self, name: str) -> str:
        """The name of the tool that a model means where it puts white space around it, or its kind before it."""
        bare = name.strip().removeprefix(PREFIX).strip()
        return bare if bare in self._tools and name not in self._tools else name

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

    def _decide(self, tool: Tool, arguments: Mapping[str, Any]) -> Permit:
        """The permit to run a call, with the human's word in it where that was asked for.

        Raises:
            NotRun: it may not run.
        """
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            raise NotRun(decision.rule, decision.reason)
        if decision.verdict is Verdict.ALLOW:
            return Permit(decision, arguments)
        name = tool.spec.name
        if (name, decision.rule) in self._always:
            return Permit(Decision(Verdict.ALLOW, f"{decision.rule}: always"), arguments)
        host = tool.host_of(arguments) if tool.host_of else ""
        reply = self._approve(Proposal(name, arguments, self._context, host))
        if reply is None:
            self.unasked = decision
            self._show(Notice(f"{name} was denied by {decision.rule}: there is no terminal to ask on"))
            raise NotRun(f"{decision.rule}: nobody to ask", "denied: nobody is there to approve it")
        if reply.consent is Consent.NO:
            raise NotRun(f"{decision.rule}: no", "the user declined this call")
        if reply.consent is Consent.ALWAYS:
            self._always.add((name, decision.rule))
        permit = Permit(Decision(Verdict.ALLOW, f"{decision.rule}: {reply.consent}"), arguments, file=reply.file)
        return self._edited(tool, permit, reply.command) if reply.consent is Consent.EDITED else permit

    def _edited(self, tool: Tool, permit: Permit, command: str) -> Permit:
        """The permit to run what the user made of the command: no more is open to that than to the model's.

        Raises:
            NotRun: it may not run.
        """
        arguments = {**permit.arguments, "command": command}
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            raise NotRun(f"{permit.decision.rule}, {decision.rule}", told_of_edit(command, decision.reason))
        return permit._replace(arguments=arguments, edited=command)

    def _finish(self, call: ToolCall, result: ToolResult, decision: Decision, started: float) -> CallFinished:
        """Log a call and report it, with its result in the form in which the model gets it."""
        text = cap(self._redactor.redact(mend(result.text)), self._context)
        finished = CallFinished(
            call=self._redactor.redact_call(call),
            result=text,
            failed=result.failed,
            verdict=decision.verdict,
            rule=self._redactor.redact(decision.rule),
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
        return finished


def failed(reason: str) -> ToolResult:
    """The result of a call that failed."""
    return ToolResult(f"Error: {reason}", failed=True)


def told_of_edit(command: str, result: str) -> str:
    """A result for the model, which is to know that it is not that of its own command."""
    return f"[the user changed the command to: {command}]\n{result}"
