"""A chat's state: the question that the next message completes, and what becomes of it. Each message is a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ask.agent.app_context import AppContext
from ask.agent.model_selection import ModelSelection, fetch_first_model, resolve_endpoint, resolve_provider_and_model
from ask.agent.request import (
    RunRequest,
    create_input_readers,
    generate_conversation_id,
    open_safe_mode,
    prepare_without_prompt,
    print_input_notes,
    read_settings,
    warn_on_first_run,
)
from ask.agent.run import record_exit_code_on_error, run_request
from ask.agent.tool_loop import RunResult
from ask.cli.chat.conversation import delete_saved_run, find_last_turn, reload_conversation
from ask.cli.run import create_renderer
from ask.console import StderrConsole
from ask.context_window import ReportedUsage
from ask.errors import RunInterruptedError, UsageError
from ask.events import Event
from ask.messages import Message

if TYPE_CHECKING:
    from ask.inputs.prompt_inputs import PromptInputs


class ChatSession:
    """A chat.

    Args:
        flags: the options by name, as `ask` has them.
        app: what is installed and configured.
        console: takes lines for the user.
        cleanup: is closed when the chat is over.

    Attributes:
        request: what is settled of the next question: everything but the message.
        totals: all that was used so far, and how many rounds.
        message_count: how many messages were sent.
        is_saved: whether anything of the conversation is saved.

    Raises:
        AskError: something in it makes no sense, or cannot be read.
    """

    def __init__(self, flags: Mapping[str, Any], app: AppContext, console: StderrConsole, cleanup: ExitStack) -> None:
        self.flags = dict(flags)
        self.app = app
        self.console = console
        self._unmuted_console = StderrConsole(app.environment, quiet=False, plain=flags["plain"])
        self._cleanup = cleanup
        self.request, self._selected_template = prepare_without_prompt(self.flags, app, console, cleanup)
        self._pending_template = (
            self._selected_template if self._selected_template and self._selected_template.has_prompt else None
        )
        self._pending_inputs = self._read_inputs(flags["files"]) if flags["files"] else None
        self._tools_override: bool | None = None
        self.totals = RunResult([])
        self.message_count = 0
        self.is_saved = bool(self.request.message_history)

    # Messages

    def send_message(self, text: str) -> None:
        """Send a message, and show the answer.

        Raises:
            AskError: what ended the run, after everything that was said is shown. The chat can go on.
        """
        asked = self._compose_message(text)
        outcome, saved = self._run_message(asked)
        self._continue_from(outcome, is_saved=saved)

    def _compose_message(self, text: str) -> Message:
        """The next message: what was said, with the files that were added to it.

        Raises:
            ParameterError: the model does not take one of them; they are left out of later messages.
        """
        given, opening = self._pending_inputs, self._pending_template
        self._pending_inputs = None
        if given is None:
            self._pending_template = None
            return Message("user", opening.render_prompt(text) if opening else text)
        from ask.agent.request import check_attachments_supported, compose_message

        check_attachments_supported(given.attachments, self.request.endpoint)
        self._pending_template = None
        return compose_message(text, given, opening)

    def retry_last_message(self) -> None:
        """Ask the last message again. What was answered before goes once there is another answer.

        Raises:
            UsageError: there is none, or the conversation has gone on elsewhere.
            AskError: what ended the run.
        """
        last, before = find_last_turn(self.request, self.app), self.request
        self.request = before._replace(
            message_history=before.message_history[: last.message_index], reported_usage=ReportedUsage()
        )
        outcome, saved = self._run_message(last.user_message)
        if outcome.has_answer or not last.has_response:
            delete_saved_run(last.run_number, self.app)
        else:
            self.request = before
            delete_saved_run(find_last_turn(before, self.app).run_number if saved else None, self.app)
            outcome.messages = list(before.message_history)
        self._continue_from(outcome, is_saved=saved)

    def drop_last_message(self) -> None:
        """Take the last message and its answer out of the conversation.

        Raises:
            UsageError: there is none, or the conversation has gone on elsewhere.
            FileError: the history cannot be written.
        """
        last = find_last_turn(self.request, self.app)
        delete_saved_run(last.run_number, self.app)
        self.request = self.request._replace(
            message_history=self.request.message_history[: last.message_index], reported_usage=ReportedUsage()
        )
        self.request = reload_conversation(self.request, self.app)
        self.is_saved = self.is_saved and bool(self.request.message_history)

    def _run_message(self, user_message: Message) -> tuple[RunResult, bool]:
        """Let the agent work on a message, and show it."""
        question = self.request._replace(user_message=user_message)
        warn_on_first_run(question, self.flags, self.app, self.console)
        renderer = create_renderer(self.flags, question, self.console)
        try:
            outcome, saved = run_request(question, self.app, renderer.show)
        except KeyboardInterrupt:  # outside of the agent's work
            self.request = reload_conversation(self.request, self.app)
            raise RunInterruptedError("interrupted") from None
        self.is_saved = self.is_saved or saved
        self.message_count += 1
        self._add_usage(outcome)
        in_json = self.flags["as_json"] or self.flags["as_events"]
        with record_exit_code_on_error(outcome, question, self.app):
            renderer.finish(outcome, question.conversation_id if saved and in_json else "")
        return outcome, saved

    def _continue_from(self, result: RunResult, *, is_saved: bool) -> None:
        """Go on from what was said.

        Raises:
            AskError: what ended the run.
        """
        self.request = self.request._replace(message_history=result.messages, reported_usage=ReportedUsage())
        if is_saved:
            self.request = reload_conversation(self.request, self.app)
        if result.error is not None:
            raise result.error

    # What is settled

    def select_model(self, model: str) -> None:
        """Ask this model from now on, of the same provider unless another is named with it.

        Raises:
            AskError: there is no such provider, or no key.
        """
        self._switch_endpoint(ModelSelection(model=model, conversation_model=(self.request.endpoint.provider_name, "")))

    def select_provider(self, provider: str) -> None:
        """Ask this provider from now on.

        Raises:
            AskError: there is no such one, or no key.
        """
        self._switch_endpoint(ModelSelection(provider=provider))

    def _switch_endpoint(self, selection: ModelSelection) -> None:
        current = self.request.endpoint
        if resolve_provider_and_model(self.app, selection)[0] == current.provider_name:
            selection = selection._replace(base_url=current.base_url, key=current.key)
        target = resolve_endpoint(self.app, selection)
        secrets = self.app.collect_secrets(target.key, current.key)
        self.console.redact = secrets.redact
        if not target.model:
            target = target._replace(model=fetch_first_model(target, self._notify, self.request.settings))
        self.request = self.request._replace(endpoint=target, secrets=secrets, reported_usage=ReportedUsage())

    def set_extra_system_prompt(self, text: str) -> None:
        """Add this to the system prompt, in place of what was added before."""
        self.request = self.request._replace(extra_system_prompt=text)
        self._apply_settings()

    def enable_tools(self, *, enabled: bool) -> None:
        """Offer tools from now on, or none."""
        self._tools_override = enabled
        self._apply_settings()

    def enable_safe_mode(self) -> None:
        """Confine the tools from now on.

        Raises:
            SafetyError: that cannot be had here.
        """
        self.flags["safe"] = True
        try:
            self._apply_settings()
        except BaseException:
            self.flags["safe"] = self.request.safe_mode is not None
            raise

    def _apply_settings(self) -> None:
        """Have the settings and tools agree with what is wanted now."""
        question = self.request
        settings = read_settings(self.flags, question.extra_system_prompt, self.app, self._selected_template)
        if self._tools_override is not None:
            settings = settings._replace(tools=self._tools_override)
        tools = question.toolset.select_tools(settings, self._selected_template)
        confined = question.safe_mode
        if settings.safe and not confined:
            place = (question.directory, question.conversation_id, self.app, self.console)
            confined = self._cleanup.enter_context(open_safe_mode(settings, *place))
        if confined:
            tools = confined.sandbox_tools(tools)
        self.request = question._replace(settings=settings, tools=tools, safe_mode=confined)

    def attach_files(self, text: str) -> PromptInputs:
        """Add what a path names, or several, to the next message; what that is.

        Raises:
            AskError: it cannot be had, or is nothing that the model takes.
        """
        from ask.agent.request import check_attachments_supported
        from ask.inputs.sources import parse_dropped_paths

        given = self._read_inputs(parse_dropped_paths(text))
        check_attachments_supported(given.attachments, self.request.endpoint)
        self._pending_inputs = self._pending_inputs.merge(given) if self._pending_inputs else given
        return given

    def _read_inputs(self, sources: Sequence[str]) -> PromptInputs:
        """Read files for the next message: standard input is what is typed."""
        from ask.inputs.sources import read_inputs

        given = read_inputs(sources, create_input_readers(self.request, self.console, None))
        if self.flags["verbose"]:
            print_input_notes(given, self.console)
        return given

    def compact(self) -> None:
        """Have a summary stand for what is old.

        Raises:
            AskError: there is none; nothing has changed then.
        """
        from ask.agent.compaction import compact_conversation, run_summary
        from ask.agent.request import read_compaction
        from ask.agent.run import run_and_record

        if not self.request.message_history:
            raise UsageError("there is nothing to summarise yet", "type a message")

        def run_and_count(
            request: RunRequest, app: AppContext, on_event: Callable[[Event], None]
        ) -> tuple[RunResult, bool]:
            outcome, saved = run_and_record(request, app, on_event)
            self._add_usage(outcome)
            return outcome, saved

        part = read_compaction(self.request.settings, self.request.conversation_id, self.app)
        question = self.request._replace(compaction=part, user_message=Message("user", ""))
        of_summary = compact_conversation(question, self.app, self.console, run_and_count)
        past = run_summary(of_summary, self.app, self.console, run_and_count)
        self.request = self.request._replace(message_history=past, reported_usage=ReportedUsage())

    def start_new_conversation(self) -> None:
        """Begin a new conversation."""
        self.request = self.request._replace(
            conversation_id=generate_conversation_id(), message_history=(), reported_usage=ReportedUsage()
        )
        self.is_saved = False

    def print_line(self, text: str) -> None:
        """Say what the user wanted to know, or must: --quiet is about everything else."""
        self._unmuted_console.print_line(self.redact(text))

    def redact(self, text: str) -> str:
        """The text without the keys that are known by now."""
        return self.console.redact(text)

    def _notify(self, text: str) -> None:
        self.console.print_line(f"ask: {text}")

    def _add_usage(self, result: RunResult) -> None:
        self.totals.usage += result.usage
        self.totals.rounds += result.rounds
