"""Execution of one tool call: parsing, approval, running, the result for the model, and the log of tool calls."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ask.agent.request import RunRequest
from ask.agent.toolset import find_meant_tool
from ask.app import AppContext
from ask.config.settings import SANDBOX_LEVEL
from ask.errors import AskError, FileError, RunInterruptedError
from ask.events import (
    INTERRUPTED_RULE,
    NOT_OFFERED_RULE,
    REPEATED_RULE,
    UNREADABLE_RULE,
    Event,
    Notice,
    ToolCallFinished,
    ToolCallOutput,
    ToolCallRequested,
    ToolCallStarted,
)
from ask.messages import DECLINED_REASON, EMPTY_MAPPING, INTERRUPTED_REASON, NOT_RUN_REASON, Attachment, ToolCall
from ask.parsing import decode_arguments
from ask.records import NamedTuple
from ask.safety.tool_call_log import log_tool_call
from ask.safety.tool_policy import NO_TERMINAL, Decision, PendingToolCall, ToolPolicy, Verdict
from ask.text import format_one_line, repair_surrogates
from ask.tools.arguments import parse_arguments
from ask.tools.base import ApprovedFile, RunToolContext, Tool, ToolError, ToolResult
from ask.tools.output_limits import truncate_result
from ask.undo.run_backups import RunBackups

if TYPE_CHECKING:
    from ask.safety.approval import ApprovalResponse
    from ask.safety.approval_store import ApprovalStore


MAX_QUOTED_CHANGE = 2_000
"""Characters of changed arguments that the model is shown: the result of the call follows them."""


class ToolCallRejectedError(ToolError):
    """The call is not executed.

    `rule` is the reason for the log of tool calls, and `was_shown` is whether the user was asked about the call.
    """

    def __init__(self, rule: str, reason: str, *, was_shown: bool = False) -> None:
        super().__init__(reason)
        self.rule = rule
        self.was_shown = was_shown


class ApprovedToolCall(NamedTuple):
    """The decision about a call, and the arguments to run it with.

    Attributes:
        decision: the decision.
        arguments: the arguments.
        change: how the user or a hook has changed the arguments, for the model; "" if they are the model's.
        approved_file: the only file that the call may write, if the user was shown one.
        was_shown: whether the user was asked about it.
    """

    decision: Decision
    arguments: Mapping[str, Any] = EMPTY_MAPPING
    change: str = ""
    approved_file: ApprovedFile | None = None
    was_shown: bool = False


ApprovalCallback = Callable[[PendingToolCall], "ApprovalResponse | None"]


class ToolRunner:
    """Executes the tool calls of a run. Tools run with unredacted arguments.

    Args:
        request: the request, with the offered tools; calls of other tools are rejected.
        app: the user's installation, with the remembered approvals and the log of tool calls.
        on_event: receives the events.
        request_approval: asks the user; returns None if nobody can be asked.

    Attributes:
        backups: backs up what calls change; to be closed at the end of the run.
        unattended_denial: the last call that was denied because nobody could be asked.
        interruption: the signal that ended a call.
    """

    def __init__(
        self,
        request: RunRequest,
        app: AppContext,
        on_event: Callable[[Event], None],
        request_approval: ApprovalCallback = lambda _: None,
    ) -> None:
        secrets, settings, safe_mode = request.secrets, request.settings, request.safe_mode
        is_sandboxed = safe_mode is not None and safe_mode.level == SANDBOX_LEVEL
        results_folder = request.get_results_folder(app.app_dirs)
        self.backups = RunBackups(
            app,
            request.conversation_id,
            request.directory,
            on_event,
            results_folder=results_folder,
            enabled=settings.save,
            folders=safe_mode.writable_folders if safe_mode and is_sandboxed else (),
            list_protected_paths=safe_mode.list_protected_paths if safe_mode else set,
        )
        self.unattended_denial: Decision | None = None
        self.interruption: RunInterruptedError | None = None
        context = RunToolContext(
            directory=request.directory,
            environment=secrets.build_child_environment(),
            command_timeout=settings.command_timeout,
            overflow_directory=results_folder,
            on_output=lambda text: on_event(ToolCallOutput(secrets.redact(text))),
            before_write=self.backups.before_write,
            redactor=secrets,
            max_command_timeout=settings.max_command_timeout,
        )
        self._context = safe_mode.confine_context(context) if safe_mode else context
        self._policy = safe_mode.policy if safe_mode else ToolPolicy.from_settings(settings)
        self._approval_level = safe_mode.approval_level if safe_mode else ""
        self._take_refusals = safe_mode.take_refusals if safe_mode else tuple
        self._keep_location = settings.keep_location
        self._tools = {tool.spec.name: tool for tool in request.tools}
        self._conversation_id = request.conversation_id
        self._app = app
        self._request_approval = request_approval
        self._redactor = secrets
        self._on_event = on_event
        self._hooks = request.open_hooks(lambda text: on_event(Notice(text)))
        self._notify_once = cache(lambda text: on_event(Notice(text)))

    def execute(
        self, call: ToolCall, *, repetitions: int = 0, variables: Mapping[str, str] = EMPTY_MAPPING
    ) -> ToolCallFinished:
        """Execute a call if it is allowed; return it with the result for the model.

        A call with `repetitions` is rejected, because the model has made the same one that often in a row. `variables`
        are added to the environment of its commands.

        Errors are reported in the result. Ctrl-C, or a signal that ends the run, ends the call and sets `interruption`;
        later calls are not executed.
        """
        call = call._replace(name=find_meant_tool(call.name, self._tools))
        decided_call = ApprovedToolCall(Decision(Verdict.DENY, INTERRUPTED_RULE))
        start_time = time.monotonic()
        try:
            self._on_event(ToolCallRequested(self._redactor.redact_call(call)))
            tool, arguments = self._parse_call(call, repetitions)
            if call.arguments.strip() and decode_arguments(call.arguments) is None:
                call = call._replace(arguments=json.dumps(arguments, ensure_ascii=False))  # repaired
            approved_call = self._authorize(call.id, tool, *self._check_hooks(call.id, tool, arguments, ""))
            if approved_call.change:
                call = call._replace(arguments=json.dumps(approved_call.arguments, ensure_ascii=False))
            self._on_event(ToolCallStarted(self._redactor.redact_call(call), approved_call.was_shown))
            self.backups.before_tool_call(tool)
            decided_call = approved_call
            start_time = time.monotonic()
            context = self._context._replace(
                approved_file=decided_call.approved_file, environment={**self._context.environment, **variables}
            )
            result = tool.run(decided_call.arguments, context)
        except ToolCallRejectedError as error:
            decided_call = ApprovedToolCall(Decision(Verdict.DENY, error.rule), was_shown=error.was_shown)
            result = make_error_result(str(error))
        except ToolError as error:
            result = make_error_result(str(error))
        except (KeyboardInterrupt, SystemExit) as error:
            self.interruption = RunInterruptedError.from_exception(error)
            result = make_error_result(
                NOT_RUN_REASON if decided_call.decision.verdict is Verdict.DENY else INTERRUPTED_REASON
            )
        except AskError:
            raise  # from an event handler: the run cannot continue
        except Exception as error:  # noqa: BLE001 - a bug in a tool must not end the conversation
            result = make_error_result(f"the tool failed: {type(error).__name__}: {error}")
        if decided_call.change:
            result = result._replace(text=_format_changed_result(decided_call.change, result.text))
        return self._finish_call(call, result, decided_call, start_time)

    @property
    def _approvals(self) -> ApprovalStore:
        from ask.safety.approval_store import open_approvals

        return self._app.share(open_approvals)

    def _parse_call(self, call: ToolCall, repetitions: int) -> tuple[Tool, dict[str, Any]]:
        """Return the tool and the arguments of a call.

        Raises:
            ToolCallRejectedError: the call is invalid, repeated too often, or follows an interruption.
        """
        if self.interruption:
            raise ToolCallRejectedError(INTERRUPTED_RULE, NOT_RUN_REASON)
        if repetitions:
            reason = (
                f"not run: this call was just made {repetitions} times with the same arguments; its result "
                "would be the same"
            )
            raise ToolCallRejectedError(REPEATED_RULE, reason)
        tool = self._tools.get(call.name)
        if tool is None:
            reason = f"there is no tool {call.name!r}; available: {', '.join(self._tools) or 'none'}"
            raise ToolCallRejectedError(NOT_OFFERED_RULE, reason)
        try:
            return tool, parse_arguments(tool.spec, call.arguments, partial(self._report_unchecked, call.name))
        except ToolError as error:
            raise ToolCallRejectedError(UNREADABLE_RULE, str(error)) from None

    def _report_unchecked(self, tool_name: str, description: str) -> None:
        """Notify the user once of a part of a tool's schema that could not be checked."""
        self._notify_once(format_one_line(f"the arguments of {tool_name} are not checked with {description}"))

    def _authorize(
        self, call_id: str, tool: Tool, arguments: Mapping[str, Any], change: str, question: str
    ) -> ApprovedToolCall:
        """Decide whether a call that no hook has refused may run, asking the user if necessary.

        `question` is the hook that wants the user to be asked.

        Hooks and the policy also apply to a command that the user has edited, which `change` describes.

        Raises:
            ToolCallRejectedError: it may not run.
        """
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            raise ToolCallRejectedError(decision.rule, _format_changed_result(change, decision.reason))
        if question and decision.verdict is Verdict.ALLOW:
            decision = Decision(Verdict.ASK, f"hook: {question}", hint="run ask on a terminal")
        if decision.verdict is Verdict.ALLOW:
            return ApprovedToolCall(decision, arguments, change)
        pending_call = PendingToolCall(
            tool.spec.name, arguments, self._context, decision.host, decision.danger, self._approval_level
        )
        if not decision.danger and not question:
            with self._report_file_error():
                if approval := self._approvals.find(pending_call, self._policy.allow):
                    return ApprovedToolCall(Decision(Verdict.ALLOW, f"approved: {approval}"), arguments, change)
        response = self._request_approval(pending_call)
        if response is None:
            self.unattended_denial = decision
            raise ToolCallRejectedError(f"{decision.rule}: no terminal", f"denied: {NO_TERMINAL}")
        from ask.safety.approval import ApprovalChoice

        if response.choice is ApprovalChoice.NO:
            reason = f"{DECLINED_REASON}: {response.reason}" if response.reason else DECLINED_REASON
            raise ToolCallRejectedError(f"{decision.rule}: no", reason, was_shown=True)
        if response.choice is ApprovalChoice.ALWAYS:
            with self._report_file_error():
                self._approvals.add(pending_call, response.scope, response.duration)
        rule = f"{decision.rule}: {response.choice}"
        if response.choice is not ApprovalChoice.EDITED:
            return ApprovedToolCall(
                Decision(Verdict.ALLOW, rule), arguments, change, response.approved_file, was_shown=True
            )
        return self._authorize_edited_call(call_id, tool, {**arguments, "command": response.edited_command}, rule)

    def _authorize_edited_call(
        self, call_id: str, tool: Tool, arguments: Mapping[str, Any], rule: str
    ) -> ApprovedToolCall:
        """Decide whether a call may run after the user has edited its command.

        Raises:
            ToolCallRejectedError: a hook or the policy denies it.
        """
        change = f"the user changed the command to: {arguments['command']}"
        checked_arguments, checked_change, question = self._check_hooks(call_id, tool, arguments, change)
        if checked_arguments != arguments:  # which the user has not seen
            return self._authorize(call_id, tool, checked_arguments, checked_change, question)
        decision = self._policy.decide(tool, arguments)
        if decision.verdict is Verdict.DENY:
            reason = _format_changed_result(change, decision.reason)
            raise ToolCallRejectedError(f"{rule}, {decision.rule}", reason)
        return ApprovedToolCall(Decision(Verdict.ALLOW, rule), arguments, change, was_shown=True)

    def _check_hooks(
        self, call_id: str, tool: Tool, arguments: Mapping[str, Any], change: str
    ) -> tuple[Mapping[str, Any], str, str]:
        """Return the arguments and the change after the hooks, and the hook that wants the user to approve the call.

        Raises:
            ToolCallRejectedError: a hook refuses the call, or has made it invalid.
        """
        if not self._hooks:
            return arguments, change, ""
        checked = self._hooks.check_call(call_id, tool, arguments)
        if checked.denial:
            raise ToolCallRejectedError(f"hook: {checked.denied_by}", _format_changed_result(change, checked.denial))
        if checked.arguments == arguments:
            return arguments, change, checked.question
        changed = json.dumps(checked.arguments, ensure_ascii=False)
        more = "..." if len(changed) > MAX_QUOTED_CHANGE else ""
        change = f"a hook of the user changed the arguments to: {changed[:MAX_QUOTED_CHANGE]}{more}"
        try:
            return parse_arguments(tool.spec, changed), change, checked.question
        except ToolError as error:
            raise ToolCallRejectedError("hook: invalid arguments", _format_changed_result(change, str(error))) from None

    def _report_to_hooks(self, call: ToolCall, decided_call: ApprovedToolCall, text: str, result: ToolResult) -> str:
        """Report the result of a call to the hooks; return what they tell the model about it."""
        if not self._hooks or self.interruption:
            return ""
        tool = self._tools[call.name]
        try:
            comment = self._hooks.report_result(call.id, tool, decided_call.arguments, result._replace(text=text))
        except (KeyboardInterrupt, SystemExit) as error:
            self.interruption = RunInterruptedError.from_exception(error)
            return ""
        return self._redactor.redact(repair_surrogates(comment))

    @contextmanager
    def _report_file_error(self) -> Iterator[None]:
        """Notify the user if the approvals cannot be read or written, which does not end the run."""
        try:
            yield
        except FileError as error:
            self._on_event(Notice(str(error)))

    def _clean_file(self, file: Attachment) -> Attachment:
        """Return a file of a result with a valid name without secrets, and a photo without its position."""
        data = file.data
        if file.media_type.startswith("image/") and not self._keep_location:
            from ask.inputs.photo_locations import remove_location

            data = remove_location(data)
        return file._replace(name=self._redactor.redact(repair_surrogates(file.name)), data=data)

    def _finish_call(
        self, call: ToolCall, result: ToolResult, decided_call: ApprovedToolCall, start_time: float
    ) -> ToolCallFinished:
        """Log and report a call, with its result as the model receives it."""
        attachments, decision, diff = result.attachments, decided_call.decision, result.diff
        if attachments:
            from ask.attachments import limit_attachments

            attachments, notes = limit_attachments(attachments)
            result = result._replace(text="\n".join((result.text.rstrip("\n"), *notes)))
            attachments = tuple(map(self._clean_file, attachments))
        if diff:
            diff = diff._replace(lines=tuple(self._redactor.redact(repair_surrogates(line)) for line in diff.lines))
        # With a NUL in a prompt, llama.cpp writes broken answers, and gateways that store it in PostgreSQL refuse it.
        result_text = repair_surrogates(result.text).replace("\0", "\\x00")
        text = truncate_result(self._redactor.redact(result_text), self._context)
        if decision.verdict is Verdict.ALLOW and (comment := self._report_to_hooks(call, decided_call, text, result)):
            text = f"{text}\n[hook: {comment}]"
        for refusal in map(self._redactor.redact, self._take_refusals()):
            text = f"{text}\n[network: {refusal}]"
            self._on_event(Notice(refusal))
        finished = ToolCallFinished(
            call=self._redactor.redact_call(call),
            result=text,
            failed=result.failed,
            verdict=decision.verdict,
            rule=self._redactor.redact(decision.rule),
            exit_status=result.exit_status,
            seconds=time.monotonic() - start_time,
            attachments=attachments,
            has_side_effects=call.name in self._tools and self._tools[call.name].has_side_effects,
            diff=diff,
            was_shown=decided_call.was_shown,
        )
        try:
            log_tool_call(self._app.app_dirs.tool_call_log, self._conversation_id, finished)
        except FileError as error:
            self._notify_once(str(error))
        self._on_event(finished)
        return finished


def make_error_result(reason: str) -> ToolResult:
    return ToolResult(f"Error: {reason}", failed=True)


def _format_changed_result(change: str, result: str) -> str:
    """Tell the model that the result is from a call that the user or a hook has changed, if it is."""
    return f"[{change}]\n{result}" if change else result
