"""Carries out one tool call: reads its arguments, has it decided, runs it, logs it, and words the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ask.errors import AskError, FileError, RunInterruptedError
from ask.events import Event, Notice, ToolCallFinished, ToolCallRequested, ToolCallStarted
from ask.messages import EMPTY_MAPPING, ToolCall
from ask.redaction import Redactor
from ask.safety.approval import ApprovalChoice, ApprovalResponse
from ask.safety.policy import Decision, PendingToolCall, ToolPolicy, Verdict
from ask.safety.tool_call_log import AuditLog
from ask.text import repair_surrogates
from ask.tools.arguments import parse_arguments
from ask.tools.base import ApprovedFile, Tool, ToolContext, ToolError, ToolResult
from ask.tools.output_limits import truncate_result

MAX_REPEATED_CALLS = 3
"""A call that is made this many times in a row with the same arguments is not carried out any more."""

TOOL_NAME_PREFIX = "functions."
"""What models put before a tool's name that learnt to see their tools so."""

INTERRUPTED_RESULT = "interrupted by the user; it may or may not have run"
NOT_RUN_RESULT = "not run: interrupted by the user"


class ToolCallRejectedError(ToolError):
    """A call that is not carried out; `rule` says by what rule, for the log."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


class ApprovedToolCall(NamedTuple):
    """The decision about a call, and what it runs with.

    Attributes:
        decision: the decision.
        arguments: the arguments.
        edited_command: the command as the user edited it, "" if it is the model's.
        approved_file: the only file that it may write, if the user was shown one.
    """

    decision: Decision
    arguments: Mapping[str, Any] = EMPTY_MAPPING
    edited_command: str = ""
    approved_file: ApprovedFile | None = None


ApprovalCallback = Callable[[PendingToolCall], ApprovalResponse | None]


def skip_preparation(tool: Tool) -> None:
    """Prepares nothing."""


class ToolRunner:
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
        policy: ToolPolicy,
        *,
        request_approval: ApprovalCallback,
        audit_log: AuditLog,
        redactor: Redactor,
        on_event: Callable[[Event], None],
        before_execute: Callable[[Tool], None] = skip_preparation,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self.unattended_denial: Decision | None = None
        self.interruption: RunInterruptedError | None = None
        self._context = context
        self._policy = policy
        self._request_approval = request_approval
        self._audit_log = audit_log
        self._redactor = redactor
        self._on_event = on_event
        self._before_execute = before_execute
        self._log_failure_reported = False
        self._recent_calls: list[tuple[str, str]] = []
        self._always_approved: set[tuple[str, str]] = set()

    def execute(self, call: ToolCall) -> ToolCallFinished:
        """Run a call if it may run; return it as it ran, with the result for the model, which may report an error.

        Ctrl-C, or a signal that ends the run, ends the call and sets `interruption`; no call is run after that.
        """
        call = call._replace(name=self._normalize_tool_name(call.name))
        permit = ApprovedToolCall(Decision(Verdict.DENY, "interrupted"))
        started = time.monotonic()
        try:
            self._on_event(ToolCallRequested(self._redactor.redact_call(call)))
            tool, arguments = self._parse_call(call)
            allowed = self._authorize(tool, arguments)
            if allowed.edited_command:
                call = call._replace(arguments=json.dumps(allowed.arguments, ensure_ascii=False))
            self._on_event(ToolCallStarted(self._redactor.redact_call(call)))
            self._before_execute(tool)
            permit = allowed
            started = time.monotonic()
            result = tool.run(permit.arguments, self._context._replace(approved_file=permit.approved_file))
        except ToolCallRejectedError as refusal:
            permit = ApprovedToolCall(Decision(Verdict.DENY, refusal.rule))
            result = make_error_result(str(refusal))
        except ToolError as error:
            result = make_error_result(str(error))
        except (KeyboardInterrupt, SystemExit) as ending:
            self.interruption = RunInterruptedError.from_exception(ending)
            result = make_error_result(
                NOT_RUN_RESULT if permit.decision.verdict is Verdict.DENY else INTERRUPTED_RESULT
            )
        except AskError:
            raise  # from whoever shows what happens: there is no going on
        except Exception as fault:  # noqa: BLE001 - a tool's fault must not end the conversation
            result = make_error_result(f"the tool failed: {type(fault).__name__}: {fault}")
        if permit.edited_command:
            result = result._replace(text=format_edited_result(permit.edited_command, result.text))
        return self._finish_call(call, result, permit.decision, started)

    def _normalize_tool_name(self, name: str) -> str:
        """The name of the tool that a model means where it puts white space around it, or its kind before it."""
        bare = name.strip().removeprefix(TOOL_NAME_PREFIX).strip()
        return bare if bare in self._tools and name not in self._tools else name

    def _parse_call(self, call: ToolCall) -> tuple[Tool, dict[str, Any]]:
        """The tool and the arguments of a call.

        Raises:
            NotRun: the call makes no sense, is made once too often, or comes after an interruption.
        """
        if self.interruption:
            raise ToolCallRejectedError("interrupted", NOT_RUN_RESULT)
        self._recent_calls = [*self._recent_calls, (call.name, call.arguments)][-MAX_REPEATED_CALLS:]
        if self._recent_calls.count((call.name, call.arguments)) == MAX_REPEATED_CALLS:
            reason = f"not run: this is the same call {MAX_REPEATED_CALLS} times in a row, its result would be the same"
            raise ToolCallRejectedError("repeated", reason)
        tool = self._tools.get(call.name)
        if tool is None:
            reason = f"there is no tool {call.name!r}; there are: {', '.join(self._tools) or 'none'}"
            raise ToolCallRejectedError("not offered", reason)
        try:
            return tool, parse_arguments(tool.spec, call.arguments)
        except ToolError as error:
            raise ToolCallRejectedError("unreadable", str(error)) from None

    def _authorize(self, tool: Tool, arguments: Mapping[str, Any]) -> ApprovedToolCall:
        """The permit to run a call, with the human's word in it where that was asked for.

        Raises:
            NotRun: it may not run.
        """
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            raise ToolCallRejectedError(decision.rule, decision.reason)
        if decision.verdict is Verdict.ALLOW:
            return ApprovedToolCall(decision, arguments)
        name = tool.spec.name
        if (name, decision.rule) in self._always_approved:
            return ApprovedToolCall(Decision(Verdict.ALLOW, f"{decision.rule}: always"), arguments)
        host = tool.host_of(arguments) if tool.host_of else ""
        reply = self._request_approval(PendingToolCall(name, arguments, self._context, host))
        if reply is None:
            self.unattended_denial = decision
            self._on_event(Notice(f"{name} was denied by {decision.rule}: there is no terminal to ask on"))
            raise ToolCallRejectedError(f"{decision.rule}: nobody to ask", "denied: nobody is there to approve it")
        if reply.choice is ApprovalChoice.NO:
            raise ToolCallRejectedError(f"{decision.rule}: no", "the user declined this call")
        if reply.choice is ApprovalChoice.ALWAYS:
            self._always_approved.add((name, decision.rule))
        permit = ApprovedToolCall(
            Decision(Verdict.ALLOW, f"{decision.rule}: {reply.choice}"), arguments, approved_file=reply.approved_file
        )
        return (
            self._authorize_edited_command(tool, permit, reply.edited_command)
            if reply.choice is ApprovalChoice.EDITED
            else permit
        )

    def _authorize_edited_command(self, tool: Tool, approved_call: ApprovedToolCall, command: str) -> ApprovedToolCall:
        """The permit to run what the user made of the command: no more is open to that than to the model's.

        Raises:
            NotRun: it may not run.
        """
        arguments = {**approved_call.arguments, "command": command}
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            raise ToolCallRejectedError(
                f"{approved_call.decision.rule}, {decision.rule}", format_edited_result(command, decision.reason)
            )
        return approved_call._replace(arguments=arguments, edited_command=command)

    def _finish_call(
        self, call: ToolCall, result: ToolResult, decision: Decision, start_time: float
    ) -> ToolCallFinished:
        """Log a call and report it, with its result in the form in which the model gets it."""
        text = truncate_result(self._redactor.redact(repair_surrogates(result.text)), self._context)
        finished = ToolCallFinished(
            call=self._redactor.redact_call(call),
            result=text,
            failed=result.failed,
            verdict=decision.verdict,
            rule=self._redactor.redact(decision.rule),
            exit_status=result.exit_status,
            seconds=time.monotonic() - start_time,
        )
        try:
            self._audit_log.record_call(finished)
        except FileError as error:
            if not self._log_failure_reported:
                self._on_event(Notice(str(error)))
            self._log_failure_reported = True
        self._on_event(finished)
        return finished


def make_error_result(reason: str) -> ToolResult:
    """The result of a call that failed."""
    return ToolResult(f"Error: {reason}", failed=True)


def format_edited_result(command: str, result: str) -> str:
    """A result for the model, which is to know that it is not that of its own command."""
    return f"[the user changed the command to: {command}]\n{result}"
