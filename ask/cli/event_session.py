"""`ask --input-events`: a program sends messages and answers approvals on stdin, and reads events on stdout."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ask.cli.chat.session import ChatSession
from ask.cli.run import open_session
from ask.config.options import EVENT_SESSION_ARGUMENT, RunOptions
from ask.config.type_checks import WrongTypeError, parse_value
from ask.console import StandardOutput, protect_standard_output
from ask.errors import AskError, BrokenOutputError, RunInterruptedError, UsageError
from ask.records import NamedTuple
from ask.render.json_events import write_event, write_failed_result
from ask.safety.approval import ApprovalChoice, ApprovalResponse
from ask.safety.approval_preview import build_preview, describe_pending_call
from ask.safety.approval_scope import ApprovalScope, list_approvable
from ask.safety.approval_store import ApprovalDuration
from ask.safety.tool_policy import PendingToolCall
from ask.text import describe_parse_error, format_size


class InputMessage(NamedTuple):
    """A line of stdin that is a message to the model."""

    text: str
    files: tuple[str, ...] = ()
    """As the values of -f."""


class InputApproval(NamedTuple):
    """A line of stdin that answers an `approval` event."""

    id: str
    decision: Literal["allow", "deny"]
    reason: str = ""
    """With "deny": what the user wants to tell the model."""
    command: str = ""
    """With "allow": the command to run instead; "" for the one that was asked about."""
    scope: ApprovalScope | None = None
    """With "allow": which further calls are approved; None for none."""
    duration: ApprovalDuration = ApprovalDuration.RUN
    """For how long they are."""


INPUT_TYPES: Mapping[str, type[InputMessage | InputApproval]] = {"message": InputMessage, "approval": InputApproval}


class EventInput:
    """Reads messages and approvals from stdin, each a JSON object in a line.

    A line that is neither is reported as an `input_error` event and left out.
    """

    def __init__(self, output: StandardOutput, limit: int, *, has_template: bool = False) -> None:
        self._output = output
        self._limit = limit
        self._has_template = has_template
        """Whether a message may be empty, because a template is sent with it."""
        self._messages: list[InputMessage] = []
        """Messages that arrived while an approval was expected."""
        self._approval_count = 0
        self._is_closed = sys.stdin is None

    def iterate_messages(self) -> Iterator[InputMessage]:
        """Yield each message until stdin is closed."""
        while True:
            if self._messages:
                yield self._messages.pop(0)
                continue
            line = self._read_line()
            if line is None:
                return
            if isinstance(line, InputMessage):
                yield line
            else:
                self._report(f"no approval is expected; {line.id!r} is not the id of one")

    def request_approval(
        self, pending_call: PendingToolCall, can_read: Callable[[Path], bool]
    ) -> ApprovalResponse | None:
        """Ask the program about a call, and wait for its answer; return None if it has closed stdin."""
        self._approval_count += 1
        approval_id = f"approval_{self._approval_count}"
        redact = pending_call.context.redactor.redact
        preview = build_preview(pending_call, can_read)
        approvable = {} if pending_call.danger else list_approvable(pending_call)
        write_event(
            self._output,
            "approval",
            id=approval_id,
            name=pending_call.tool_name,
            arguments=redact(json.dumps(pending_call.arguments, ensure_ascii=False)),
            description=redact("\n".join(text for text, _ in describe_pending_call(pending_call, preview))),
            host=pending_call.host or None,
            danger=pending_call.danger or None,
            diff="".join(f"{line}\n" for line in preview.diff_lines) or None,
            scopes={scope.value: list(map(redact, values)) for scope, values in approvable.items()},
        )
        while True:
            line = self._read_line()
            if line is None:
                return None
            if isinstance(line, InputMessage):
                self._messages.append(line)
            elif line.id != approval_id:
                self._report(f"the approval with the id {approval_id!r} is expected, not {line.id!r}")
            elif problem := _find_problem(line, pending_call, approvable):
                self._report(problem)
            else:
                return _to_response(line)._replace(approved_file=preview.approved_file)

    def _read_line(self) -> InputMessage | InputApproval | None:
        """Return the next valid line, or None if stdin is closed."""
        while not self._is_closed:
            line = sys.stdin.buffer.readline(self._limit + 1)
            if not line:
                self._is_closed = True
            elif len(line) > self._limit and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = sys.stdin.buffer.readline(self._limit + 1)
                self._report(f"a line is longer than {format_size(self._limit)} (stdin_limit in config.toml)")
            elif line.strip():
                try:
                    parsed = _parse_line(line)
                except ValueError as error:
                    self._report(str(error))
                    continue
                if isinstance(parsed, InputApproval) or parsed.text.strip() or parsed.files or self._has_template:
                    return parsed
                self._report("a message has no text")
        return None

    def _report(self, problem: str) -> None:
        write_event(self._output, "input_error", error=problem)


def _parse_line(line: bytes) -> InputMessage | InputApproval:
    """Parse a line of stdin.

    Raises:
        ValueError: it is neither a message nor an approval.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a line is not valid JSON ({describe_parse_error(error)})") from None
    line_type = value.get("type") if isinstance(value, dict) else None
    if not isinstance(line_type, str) or line_type not in INPUT_TYPES:
        found = f"is {json.dumps(line_type)[:40]}" if line_type is not None else "is missing"
        raise ValueError(f'the "type" of a line {found}: it must be {" or ".join(INPUT_TYPES)}')
    fields = {name: field for name, field in value.items() if name != "type" and field is not None}
    try:
        parsed: InputMessage | InputApproval = parse_value(fields, INPUT_TYPES[line_type])
    except WrongTypeError as error:
        raise ValueError(f"a line of type {line_type} is not valid ({error})") from None
    if isinstance(parsed, InputMessage):
        for name in parsed.files:
            try:
                os.fsencode(name)
            except UnicodeEncodeError:
                raise ValueError(f"{name!r} in files is not a file name") from None
    return parsed


def _find_problem(
    approval: InputApproval, pending_call: PendingToolCall, approvable: Mapping[ApprovalScope, Sequence[str]]
) -> str:
    """Return why an approval is not valid for a call; "" if it is."""
    if approval.command and pending_call.command is None:
        return f"{pending_call.tool_name} has no command to change"
    if approval.scope and approval.scope not in approvable:
        return f"this call cannot be approved for the scope {approval.scope.value!r}"
    return "a changed command cannot be approved for a scope" if approval.command and approval.scope else ""


def _to_response(approval: InputApproval) -> ApprovalResponse:
    if approval.decision == "deny":
        return ApprovalResponse(ApprovalChoice.NO, reason=approval.reason)
    if approval.command:
        return ApprovalResponse(ApprovalChoice.EDITED, approval.command)
    if approval.scope:
        return ApprovalResponse(ApprovalChoice.ALWAYS, scope=approval.scope, duration=approval.duration)
    return ApprovalResponse(ApprovalChoice.YES)


def run_event_session(options: RunOptions) -> int:
    """Answer the prompt of the command line and each message on stdin; return the exit code of the last one.

    Raises:
        AskError: the first run cannot be prepared, or a run was interrupted.
    """
    for name in ("cmd", "code", "extract", "schema"):
        if getattr(options, name):
            raise UsageError(f"--input-events cannot be combined with --{name}", "use --events without it")
    words = " ".join(options.words)
    options = options._replace(as_events=True, words=(), no_stdin=True)
    with open_session(quiet=options.quiet, plain=options.plain, verbose=options.verbose) as app:
        if options.mcp_servers:
            app.config = app.config.add_mcp_servers(options.mcp_servers)
        session = ChatSession(options, app)
        limit = session.request.settings.stdin_limit
        events = EventInput(StandardOutput(), limit, has_template=bool(options.template))
        app.request_approval = events.request_approval
        code = _send(session, InputMessage(words)) if words else 0
        messages = events.iterate_messages()
        while True:
            try:
                message = next(messages, None)
            except (KeyboardInterrupt, SystemExit) as error:  # between two runs, so there is no result
                return RunInterruptedError.from_exception(error).exit_code
            if message is None:
                return code
            code = _send(session, message)


def run_call_session() -> int:
    """Run the event session of a call to `ask mcp serve` or a prompt of `ask acp`; return its exit code."""
    try:
        options = RunOptions.from_json(sys.stdin.buffer.readline())
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f"{EVENT_SESSION_ARGUMENT} is only for ask mcp serve and ask acp", "see ask acp --help"
        ) from None
    protect_standard_output()  # a command can write to the standard output of its parent
    try:
        return run_event_session(options)
    except AskError as error:
        write_failed_result(error)
        raise


def _send(session: ChatSession, message: InputMessage) -> int:
    """Answer a message, whose last event is `result`; return its exit code."""
    try:
        with session.app.redact_errors(verbose=session.options.verbose):
            if message.files:
                session.add_files(message.files)
            session.send_message(message.text)
    except (BrokenOutputError, RunInterruptedError):
        raise
    except AskError as error:
        session.command_console.print_notice(str(error))
        write_failed_result(error)
        return error.exit_code
    return 0
