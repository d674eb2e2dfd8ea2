"""The state of a chat: the request for the next message, and usage so far. Each message is a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ask.agent.model_selection import ModelSelection, resolve_other_endpoint
from ask.agent.request import (
    PreparedRun,
    RunRequest,
    apply_settings,
    check_attachments_supported,
    compose_message,
    continue_conversation,
    prepare_without_message,
    print_input_notes,
    read_files,
    read_settings,
    warn_on_first_run,
)
from ask.agent.run import record_exit_code_on_error, run_request
from ask.agent.tool_loop import RunResult
from ask.agent.unanswered import add_unanswered, confirm_unanswered, print_unanswered, report_left_out
from ask.app import AppContext
from ask.cli.run import create_renderer
from ask.client.endpoint import fetch_first_model
from ask.config.options import RunOptions
from ask.console import StderrConsole
from ask.errors import FileError, RunInterruptedError, UsageError
from ask.events import Event, Notice
from ask.history.conversations import (
    find_conversation,
    load_conversation,
    select_accepted_messages,
    select_unsummarized_runs,
)
from ask.history.deletion import delete_run, replace_run
from ask.history.entries import Run, generate_conversation_id, read_runs
from ask.history.listing import ConversationTitle, find_titles
from ask.history.store import Store
from ask.inputs.prompt_inputs import PromptInputs
from ask.messages import SUMMARY_PREFIX, Message, ReportedUsage, UnansweredQuestion
from ask.records import NamedTuple
from ask.text import split_prompt

MAX_LISTED_CONVERSATIONS = 15


class ChatTurn(NamedTuple):
    """The last message of the user and its saved run."""

    message_index: int
    """Index of the user message in the message history; if it has no response, the end of the history."""
    user_message: Message
    has_response: bool
    run_number: int | None
    """None if the run was not saved."""
    is_refused: bool = False
    """Whether the provider refused the message."""

    @property
    def words(self) -> str:
        """The beginning of the message, up to the first file or piped text."""
        first = next(iter(split_prompt(self.user_message.content)), None)
        return first.text if first and not first.title else ""


class ChatSession:
    """Sends messages and applies slash commands to the next request.

    `options` are those of the command line; slash commands change them.

    Attributes:
        request: The next request, complete except for the message.
        unanswered: The questions that are not sent because they have no answer.
        command_console: Prints the output of slash commands and errors, also with --quiet.
        totals: Usage and rounds of all messages so far.
        message_count: Number of messages sent.
        is_saved: Whether any part of the conversation is in the history.
        draft: Text at the next prompt for the user to complete or correct.
        is_interactive: Whether a user types the messages on a terminal.
        has_typeahead: Checks whether the user has typed more, which goes to the next prompt.
    """

    is_interactive = False

    def __init__(self, options: RunOptions, app: AppContext) -> None:
        self.options = options
        self.app = app
        self.console = app.console
        self.command_console = StderrConsole(app.environment, quiet=False, plain=options.plain, redact=self.redact)
        prepared = prepare_without_message(self.options, app)
        self.request, self.unanswered = prepared.request, prepared.unanswered
        self._toolset, self._template = prepared.toolset, prepared.template
        template = prepared.template
        self._pending_template = template if template and template.prompt else None
        self._pending_inputs = (template and template.inputs) or PromptInputs()
        if options.files:
            self._pending_inputs = self._pending_inputs.merge(self._read_inputs(options.files))
        self._tools_override: bool | None = None
        self.totals = RunResult([], app)
        self.message_count = 0
        self.is_saved = bool(self.request.message_history or self.unanswered)
        self.draft = ""
        self.has_typeahead: Callable[[], bool] = bool
        if options.unanswered:
            add_unanswered(prepared)  # its error comes before the first message

    # Messages

    def send_message(self, text: str) -> None:
        """Send a message and print the answer.

        If the run fails, its `AskError` is raised after the partial answer is printed. The chat can continue.
        """
        message = self._compose_message(text)
        prepared = self._prepare(self.request._replace(user_message=message))
        if self.options.unanswered:
            self.options = self.options._replace(unanswered=False)
            prepared = add_unanswered(prepared)
        elif self.is_interactive:
            prepared = confirm_unanswered(prepared, self.app)
        if prepared.request.user_message is not message:  # it now contains the unanswered ones
            self.unanswered = prepared.unanswered
        self._continue_from(self._run_message(prepared))

    def _prepare(self, request: RunRequest) -> PreparedRun:
        return PreparedRun(request, self._toolset, self._template, self.unanswered)

    def _compose_message(self, text: str) -> Message:
        """Compose the next message from the text, the pending files and the pending template.

        The files are dropped even if the model does not support them, so that the next message can be sent.
        """
        inputs, self._pending_inputs = self._pending_inputs, PromptInputs()
        check_attachments_supported(inputs.attachments, self.request.endpoint)
        template, self._pending_template = self._pending_template, None
        return compose_message(text, template, inputs.texts, inputs.stdin_text, inputs.attachments)

    def resend_last_message(self, new_words: str = "") -> None:
        """Send the last message again, perhaps with other words but the same files.

        It replaces the message and its answer, which stay in the history, once there is a new answer.
        """
        last = self.find_last_turn()
        message = last.user_message
        if new_words:
            blocks = message.content.removeprefix(last.words)
            content = new_words + (blocks if last.words or not blocks else f"\n\n{blocks}")
            message = message._replace(content=content)
        original_request, original_unanswered = self.request, self.unanswered
        self._remove_turn(last)
        result = self._run_message(self._prepare(self.request._replace(user_message=message)))
        new_run_number = result.saved_run_number
        if not last.has_response:
            self._delete_run(last.run_number)
        elif result.has_answer:
            if last.run_number is not None and new_run_number is not None:
                with self._open_history() as store:
                    replace_run(store, last.run_number, new_run_number)
        else:
            self.request, self.unanswered = original_request, original_unanswered
            self._delete_run(new_run_number)
            if result.is_refused and new_words:
                self.draft = f"/edit {new_words}"
            if result.error is not None:
                raise result.error
            return
        self._continue_from(result)

    def drop_last_message(self) -> ChatTurn:
        """Remove the last message and its answers from the conversation and the history; return it."""
        last = self.find_last_turn()
        self._delete_run(last.run_number)
        self._remove_turn(last)
        self._reload_conversation()
        self.is_saved = self.is_saved and bool(self.request.message_history or self.unanswered)
        return last

    def _remove_turn(self, turn: ChatTurn) -> None:
        """Remove the last message from the next requests."""
        if not turn.has_response:
            self.unanswered = self.unanswered[:-1]
        self._replace_history(self.request.message_history[: turn.message_index])

    def _run_message(self, prepared: PreparedRun) -> RunResult:
        """Run a message and render the answer."""
        request, self.request = prepared.request, self.request._replace(opening_messages=())
        warn_on_first_run(request, self.app)
        renderer = create_renderer(self.options, request, self.console)
        try:
            report_left_out(prepared, renderer.show)
            result = run_request(request, self.app, renderer.show, replaced_runs=prepared.replaced_runs)
        except KeyboardInterrupt:  # before or after the tool loop, which handles Ctrl-C itself
            self._reload_conversation()
            raise RunInterruptedError("interrupted") from None
        self.is_saved = self.is_saved or result.is_saved
        self.message_count += 1
        self._add_usage(result)
        in_json = self.options.as_json or self.options.as_events
        with record_exit_code_on_error(result, request, self.app):
            renderer.finish(result, request.conversation_id if result.is_saved and in_json else "")
        return result

    def _continue_from(self, result: RunResult) -> None:
        """Make the messages of a run the new message history, then raise the error of the run, if any.

        A refused message is offered for editing.
        """
        history, new = result.messages[: result.question_index], result.messages[result.question_index :]
        if result.has_answer:
            history += select_accepted_messages(new, is_refused=result.is_refused)
            self.unanswered = ()
        else:
            question = UnansweredQuestion(new[0], result.is_refused)
            self.unanswered = (*self.unanswered, question)
        self._replace_history(history)
        if result.is_saved:
            self._reload_conversation()
        self.offer_refused_message()
        if result.error is not None:
            raise result.error

    def offer_refused_message(self) -> None:
        """Put the last message at the next prompt if the provider refused it.

        Files are not offered again: they are the most likely cause.
        """
        unanswered = self.unanswered
        if unanswered and unanswered[-1].is_refused and not self.has_typeahead():
            turn = self._make_unanswered_turn()
            if not turn.user_message.attachments:
                self.draft = f"/edit {turn.words}"
                return
            words = turn.words.partition("[attached: ")[0].rstrip()
            self.draft = f"/{words}" if words.startswith("/") else words  # not a command

    def show_unanswered(self) -> None:
        """Show the messages of a continued conversation that are not sent again by themselves."""
        print_unanswered(self.unanswered, self.app)
        self.offer_refused_message()

    # The saved conversation

    def _reload_conversation(self) -> None:
        """Replace the message history by the saved one, if any, as `ask -c` would continue it."""
        request = self.request
        if not request.settings.save:
            return
        try:
            with self._open_history() as store:
                conversation = load_conversation(store, find_conversation(store, request.conversation_id))
        except (FileError, UsageError):
            return  # nothing is saved
        self.request, self.unanswered = continue_conversation(request, conversation), conversation.unanswered

    def find_last_turn(self) -> ChatTurn:
        """Find the last message of the user.

        Raises `UsageError` if there is none, or if the conversation was continued by another process: removing a
        message would then remove the wrong run.
        """
        messages = self.request.message_history
        runs: list[Run] = []
        if self.request.settings.save:
            with suppress(UsageError), self._open_history() as store:  # the history could not be written
                runs = read_runs(store, find_conversation(store, self.request.conversation_id))
        last_run = next(reversed(select_unsummarized_runs(runs)), None)
        if self.unanswered:
            turn = self._make_unanswered_turn()
            if last_run and last_run.number != turn.run_number:
                raise UsageError("the conversation was continued elsewhere", "quit, and continue it with ask chat -c")
            return turn
        index = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
        if index < 0 or messages[index].content.startswith(SUMMARY_PREFIX):
            raise UsageError("there is no message yet", "type one")
        if last_run and last_run.entries[0].message.content != messages[index].content:
            raise UsageError("the conversation was continued elsewhere", "quit, and continue it with ask chat -c")
        has_response = index < len(messages) - 1
        return ChatTurn(index, messages[index], has_response, last_run.number if last_run else None)

    def _make_unanswered_turn(self) -> ChatTurn:
        last = self.unanswered[-1]
        end = len(self.request.message_history)
        return ChatTurn(end, last.message, has_response=False, run_number=last.run_number, is_refused=last.is_refused)

    def _delete_run(self, number: int | None) -> None:
        if number is not None:
            with self._open_history() as store:
                delete_run(store, number)

    def _open_history(self) -> Store:
        return Store(self.app.app_dirs.history_file, create=False)

    def _replace_history(self, messages: Sequence[Message]) -> None:
        self.request = self.request._replace(message_history=messages, reported_usage=ReportedUsage())

    # Settings of the next request

    def switch_endpoint(self, selection: ModelSelection) -> None:
        """Use this provider and model from now on."""
        endpoint = resolve_other_endpoint(self.app, selection, self.request.endpoint)
        secrets = self.app.collect_secrets()
        self.console.redact = secrets.redact
        if not endpoint.model:
            endpoint = endpoint._replace(
                model=fetch_first_model(endpoint, self.console.print_notice, self.request.settings)
            )
        self.request = self.request._replace(endpoint=endpoint, secrets=secrets, reported_usage=ReportedUsage())

    def set_extra_system_prompt(self, text: str) -> None:
        """Replace the text that is added to the system prompt."""
        self.request = self.request._replace(extra_system_prompt=text)
        self._apply_settings()

    def enable_tools(self, *, enabled: bool) -> None:
        self._tools_override = enabled
        self._apply_settings()

    def enable_safe_mode(self, *, without_commands: bool) -> None:
        """Run the tools in safe mode from now on; stays off if that is not available."""
        original_options = self.options
        if without_commands:
            self.options = self.options._replace(safe_files=True)
        else:
            self.options = self.options._replace(safe=True)
        try:
            self._apply_settings()
        except BaseException:
            self.options = original_options
            raise

    def _apply_settings(self) -> None:
        """Update the settings and tools of the request from the options and slash commands."""
        request = self.request
        settings = read_settings(self.options, request.extra_system_prompt, self.app, self._template)
        if self._tools_override is not None:
            settings = settings._replace(tools=self._tools_override)
        self.request = apply_settings(self._prepare(request), settings, self.options, self.app)

    def attach_files(self, text: str) -> PromptInputs:
        """Attach the files named by one or more paths or URLs to the next message; return their content."""
        from ask.inputs.sources import parse_dropped_paths

        inputs = self._read_inputs(parse_dropped_paths(text))
        check_attachments_supported(inputs.attachments, self.request.endpoint)
        self._pending_inputs = self._pending_inputs.merge(inputs)
        return inputs

    def _read_inputs(self, sources: Sequence[str]) -> PromptInputs:
        """Read files for the next message, but not standard input, from which messages are read."""
        inputs = read_files(sources, self.request, self._toolset, self.app)
        print_input_notes(inputs, self.request, self.app)
        return inputs

    def compact(self) -> None:
        """Replace older messages by a summary; if that fails, nothing changes."""
        from ask.agent.compaction import compact_conversation

        if not self.request.message_history:
            raise UsageError("there is nothing to summarize yet", "send a message first")

        def print_notice(event: Event) -> None:
            if isinstance(event, Notice):
                self.console.print_notice(event.text)

        def summarize(request: RunRequest, end_run: int | None) -> RunResult:
            result = run_request(request, self.app, print_notice, summary_end_run=end_run)
            self._add_usage(result)
            return result

        compact_conversation(self.request, self.app, summarize)
        self._reload_conversation()

    def start_new_conversation(self) -> None:
        self.request = self.request._replace(conversation_id=generate_conversation_id())
        self.unanswered = ()
        self._replace_history(())
        self.is_saved = False

    def find_saved_conversations(self, reference: str) -> list[ConversationTitle]:
        """Find conversations by number, id, the beginning of an id, or words of their titles.

        Without a reference, return the newest ones.
        """
        with self._open_history() as store:
            if reference:
                with suppress(UsageError):
                    found = find_conversation(store, reference)
                    return [ConversationTitle(0, found.id, found.title, found.updated)]
            return find_titles(store, reference, MAX_LISTED_CONVERSATIONS)

    def resume_conversation(self, conversation_id: str) -> None:
        """Continue a saved conversation with its model and its addition to the system prompt.

        If that fails, the current conversation continues.
        """
        with self._open_history() as store:
            conversation = load_conversation(store, find_conversation(store, conversation_id))
            for note in store.notes:
                self.console.print_notice(note)
        original_request = self.request
        try:
            endpoint = original_request.endpoint
            if conversation.last_model != (endpoint.provider_name, endpoint.model):
                self.switch_endpoint(ModelSelection(conversation_model=conversation.last_model))
            self.set_extra_system_prompt(conversation.system)
        except BaseException:
            self.request = original_request
            self.console.redact = original_request.secrets.redact
            raise
        self.request = continue_conversation(self.request, conversation)
        self.unanswered = conversation.unanswered
        self.is_saved = True

    def print_line(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print the output of a slash command. The names of `files` in it become hyperlinks to their paths."""
        self.command_console.print_line(text, files)

    def redact(self, text: str) -> str:
        """Redact the keys known so far; the set changes when another provider is selected."""
        return self.console.redact(text)

    def _add_usage(self, result: RunResult) -> None:
        self.totals.requests += result.requests
        self.totals.rounds += result.rounds
