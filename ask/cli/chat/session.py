"""The state of a chat: the request for the next message, and usage so far. Each message is a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path, PurePath

from ask.agent.provider_selection import ModelSelection, resolve_other_endpoint
from ask.agent.request import (
    PreparedRun,
    RunRequest,
    apply_settings,
    check_attachments_supported,
    compose_message,
    continue_conversation,
    make_template_title,
    prepare_without_message,
    print_input_notes,
    read_files,
    read_settings,
    remove_file,
)
from ask.agent.run import record_exit_code_on_error, run_request
from ask.agent.tool_loop import RunResult
from ask.agent.unanswered import add_unanswered, confirm_unanswered, print_unanswered, report_left_out
from ask.app import AppContext
from ask.attachments import remove_result_file
from ask.cli.first_run import warn_on_first_run
from ask.cli.run import can_ask_for_rounds, create_renderer, notify_end
from ask.client.endpoint import fetch_first_model
from ask.config.options import RunOptions
from ask.console import StderrConsole
from ask.errors import AskError, FileError, RunInterruptedError, UsageError
from ask.events import Event, Notice
from ask.history.conversation_lookup import find_conversation
from ask.history.deletion import delete_attachment, delete_run
from ask.history.entries import Run, generate_conversation_id, read_runs
from ask.history.listing import ConversationTitle, find_titles
from ask.history.saved_messages import (
    build_run_messages,
    load_conversation,
    select_accepted_messages,
    select_unsummarized_runs,
)
from ask.history.store import Store
from ask.inputs.prompt_inputs import PromptInputs
from ask.messages import SUMMARY_PREFIX, Message, ReportedUsage, UnansweredQuestion
from ask.records import NamedTuple
from ask.text import split_prompt


class ChatTurn(NamedTuple):
    """A message of the user and its saved run."""

    message_index: int
    """Index of the user message in the message history; if it has no response, the end of the history."""
    end_index: int
    """Index of the next turn's message; if the message has no response, the end of the history."""
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
        request: the next request, complete except for the message.
        unanswered: the questions that are not sent because they have no answer.
        command_console: prints the output of slash commands and errors, also with --quiet.
        totals: usage and rounds of all messages so far.
        message_count: number of messages sent.
        is_saved: whether any part of the conversation is in the history.
        has_unsaved_messages: whether answered messages are missing there, because it could not be written.
        draft: text at the next prompt for the user to complete or correct.
        is_interactive: whether a user types the messages on a terminal.
        has_typeahead: checks whether the user has typed more, which goes to the next prompt.
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
        self.commentary = ""
        """The beginning of the last answer that is no part of its value, see `ModelResponse`."""
        self.message_count = 0
        self.is_saved = bool(self.request.message_history or self.unanswered)
        self.has_unsaved_messages = False
        self.draft = ""
        self.has_typeahead: Callable[[], bool] = bool
        if options.unanswered:
            add_unanswered(prepared)  # its error comes before the first message

    # Messages

    def send_message(self, text: str) -> None:
        """Send a message and print the answer.

        If the run fails, its `AskError` is raised after the partial answer is printed. The chat can continue.
        """
        inputs, template = self._pending_inputs, self._pending_template
        message = self._compose_message(text)
        prepared = self._prepare(self.request._replace(user_message=message))
        prepared = prepared._replace(title=make_template_title(template, text, message) if template else "")
        if self.options.unanswered:
            self.options = self.options._replace(unanswered=False)
            prepared = add_unanswered(prepared)
        elif self.is_interactive:
            try:
                prepared = confirm_unanswered(prepared, self.app)
            except KeyboardInterrupt:  # nothing was sent
                self._pending_inputs, self._pending_template = inputs, template
                raise
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

    def resend_message(self, number: int | None, new_words: str = "") -> None:
        """Send the message with this number, or the last one, again, perhaps with other words but the same files.

        It replaces the message, its answer and everything after it, which stay in the history, once there is a new
        answer.
        """
        turns = self.find_turns()
        turn = self._select_turn(turns, number)
        message = turn.user_message
        if new_words:
            blocks = message.content.removeprefix(turn.words)  # files and piped text
            content = new_words + (blocks if turn.words or not blocks else f"\n\n{blocks}")
            message = message._replace(content=content)
        request = self.request._replace(
            message_history=self.request.message_history[: turn.message_index],
            user_message=message,
            reported_usage=ReportedUsage(),
        )
        # The questions before this message.
        unanswered = self.unanswered[: sum(not earlier.has_response for earlier in turns[: turns.index(turn)])]
        # Also the runs of messages that are in no request, because they were refused or not answered.
        runs = self._read_saved_runs()
        replaced = [run.number for run in runs if turn.run_number is not None and run.number >= turn.run_number]
        prepared = self._prepare(request)._replace(unanswered=unanswered, runs_replaced_by_answer=replaced)
        if not turn.has_response:
            prepared = prepared._replace(replaced_runs=replaced[:1])
        result = self._run_message(prepared)
        if not turn.has_response and result.is_saved:
            self._delete_run(turn.run_number)
        elif turn.has_response and not result.has_answer and not self._is_answered(result.saved_run_number):
            self._delete_run(result.saved_run_number)
            if result.is_refused and new_words:
                self.draft = f"/edit {new_words}" if number is None else f"/edit #{number} {new_words}"
            if result.error is not None:
                raise result.error
            return
        self.unanswered = unanswered
        self._continue_from(result)

    def drop_message(self, number: int | None) -> ChatTurn:
        """Remove a message and its answers, the last one or that with this number; return it."""
        turns = self.find_turns()
        turn = self._select_turn(turns, number)
        self._delete_run(turn.run_number)
        if turn.has_response:
            history = self.request.message_history
            self._replace_history([*history[: turn.message_index], *history[turn.end_index :]])
        else:
            position = sum(not earlier.has_response for earlier in turns[: turns.index(turn)])
            self.unanswered = (*self.unanswered[:position], *self.unanswered[position + 1 :])
        self._reload_conversation()
        self.is_saved = self.is_saved and bool(self.request.message_history or self.unanswered)
        return turn

    def drop_file(self, name: str, number: int | None) -> str:
        """Remove a file from the next message, the newest one that has it, or the one with this number.

        A message has the files of the tool results before its answer, too. Returns what it was removed from.

        Raises:
            UsageError: there is no such file, or its message has nothing else.
        """
        inputs = self._pending_inputs
        texts = tuple(text for text in inputs.texts if name not in (text[0], PurePath(text[0]).name))
        attachments = tuple(attachment for attachment in inputs.attachments if attachment.name != name)
        if number is None and (len(texts), len(attachments)) != (len(inputs.texts), len(inputs.attachments)):
            self._pending_inputs = inputs._replace(texts=texts, attachments=attachments)
            return "the next message"
        turns = self.find_turns()
        candidates = turns[::-1] if number is None else [self._select_turn(turns, number)]
        for turn in candidates:
            position = turns.index(turn) + 1
            changes = [(turn.user_message, remove_file(turn.user_message, name))]
            changes += [(result, remove_result_file(result, name)) for result in self._list_results(turn)]
            changes = [(message, changed) for message, changed in changes if changed != message]
            for message, changed in changes:
                if not changed.content:
                    raise UsageError(f"message #{position} has nothing else", f"/drop #{position} removes it")
                self._change_message(turn, message, changed)
                if turn.run_number is not None:
                    with self._open_history() as store:
                        delete_attachment(store, turn.run_number, name, message, changed.content)
            if changes:
                is_result = changes[0][0].role == "tool"
                return f"a tool result of message #{position}" if is_result else f"message #{position}"
        subject = "no message has a file" if number is None else f"message #{number} has no file"
        hint = f"/drop #{name} removes a message" if name.isdecimal() else "/messages lists the messages"
        raise UsageError(f"{subject} {name!r}", hint)

    def list_files(self, turn: ChatTurn) -> list[str]:
        """List the names of the files in a message, and in the tool results before its answer."""
        messages = (turn.user_message, *self._list_results(turn))
        names = [attachment.name for message in messages for attachment in message.attachments]
        return [*names, *(part.title for part in split_prompt(turn.user_message.content) if part.title)]

    def _list_results(self, turn: ChatTurn) -> list[Message]:
        """List the tool results before the answer to a message."""
        messages = self.request.message_history[turn.message_index : turn.end_index]
        return [message for message in messages if message.role == "tool"]

    def _change_message(self, turn: ChatTurn, old: Message, message: Message) -> None:
        """Change a message of a turn in the next requests."""
        if turn.has_response:
            history = [*self.request.message_history]
            history[history.index(old, turn.message_index)] = message
            self._replace_history(history)
        else:
            self.unanswered = tuple(
                question._replace(message=message) if question.message is turn.user_message else question
                for question in self.unanswered
            )

    def branch(self, number: int | None) -> None:
        """Continue in a new conversation with a copy of everything up to a message and its answer.

        Raises:
            UsageError: the conversation is not saved, or there is no such message.
        """
        from ask.history.importer import copy_conversation

        turn = self._select_turn(self.find_turns(), number)
        if turn.run_number is None:
            raise self.make_unsaved_error()
        new_id = generate_conversation_id()
        with Store(self.app.app_dirs.history_file) as store:
            conversation = find_conversation(store, self.request.conversation_id)
            runs = [run for run in read_runs(store, conversation) if run.number <= turn.run_number]
            copy_conversation(store, conversation, [run for run in runs if run.replaced_by is None], new_id)
        self.request = self.request._replace(conversation_id=new_id)
        self._reload_conversation()

    def make_unsaved_error(self) -> UsageError:
        """Return the error of a command that needs a saved conversation; it says why this one is not saved."""
        if self.request.settings.save and self.is_saved:
            return UsageError("some messages of this conversation are not saved", "/clear starts a new one")
        if not self.request.settings.save:
            hint = "start the chat without --no-save to save it"
        else:
            has_messages = self.request.message_history or self.unanswered
            hint = "the history cannot be written" if has_messages else "send a message first"
        return UsageError("this conversation is not saved", hint)

    def _run_message(self, prepared: PreparedRun) -> RunResult:
        """Run a message and render the answer."""
        # A template's opening messages are sent once, and are in the history from then on.
        request, self.request = prepared.request, self.request._replace(opening_messages=())
        warn_on_first_run(request, self.app)
        renderer = create_renderer(self.options, request, self.console)
        self.app.last_input_time = time.monotonic()
        try:
            report_left_out(prepared, renderer.show)
            result = run_request(
                request,
                self.app,
                renderer.show,
                replaced_runs=prepared.replaced_runs,
                runs_replaced_by_answer=prepared.runs_replaced_by_answer,
                asks_for_rounds=self.is_interactive and can_ask_for_rounds(self.options),
                title=prepared.title,
            )
        except KeyboardInterrupt:  # before or after the tool loop, which handles Ctrl-C itself
            self._reload_conversation()
            raise RunInterruptedError("interrupted") from None
        except AskError:  # a hook has refused the run, which is saved
            self._reload_conversation()
            raise
        self.is_saved = self.is_saved or result.is_saved
        self.has_unsaved_messages |= request.settings.save and result.has_answer and not result.is_saved
        self.message_count += 1
        self._add_usage(result)
        in_json = self.options.as_json or self.options.as_events  # otherwise, the id is shown when the chat ends
        with record_exit_code_on_error(result, request, self.app):
            renderer.finish(result, request.conversation_id if result.is_saved and in_json else "")
        notify_end(self.app, request.settings, result.error)
        return result

    def _continue_from(self, result: RunResult) -> None:
        """Make the messages of a run the new message history, then raise the error of the run, if any.

        A refused message is offered for editing.
        """
        history, new = result.messages[: result.question_index], result.messages[result.question_index :]
        if result.has_answer:
            history += select_accepted_messages(new, is_refused=result.is_refused)
            self.unanswered = ()
            self.commentary = result.commentary
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
            turn = self._make_unanswered_turn(unanswered[-1])
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
        """Replace the message history by the saved one, as `ask -c` would continue it, unless messages are missing."""
        request = self.request
        if not request.settings.save or self.has_unsaved_messages:
            return
        try:
            with self._open_history() as store:
                conversation = load_conversation(store, find_conversation(store, request.conversation_id))
        except (FileError, UsageError):
            return  # nothing is saved
        self.request, self.unanswered = continue_conversation(request, conversation), conversation.unanswered
        self.is_saved = True

    def find_turn(self, number: int | None = None) -> ChatTurn:
        """Find the last message of the user, or that with this number, counted from 1.

        Raises:
            UsageError: there is none, or the conversation was continued by another process.
        """
        return self._select_turn(self.find_turns(), number)

    def _select_turn(self, turns: Sequence[ChatTurn], number: int | None) -> ChatTurn:
        if not turns and self.request.message_history:
            raise UsageError("a summary replaces all messages", "type a new one")
        if not turns:
            raise UsageError("there is no message yet", "type one")
        if number is not None and not 1 <= number <= len(turns):
            raise UsageError(f"there is no message #{number}", "/messages lists the messages")
        return turns[-1 if number is None else number - 1]

    def find_turns(self) -> list[ChatTurn]:
        """Find the messages that requests contain, and those without an answer, in order.

        Messages that a summary replaces are not among them.

        Raises:
            UsageError: the conversation was continued by another process, whose messages are not known here, or some
                of its messages could not be saved.
        """
        messages = self.request.message_history
        first = 1 if messages and messages[0].content.startswith(SUMMARY_PREFIX) else 0
        turns: list[ChatTurn] = []
        saved = [*messages[:first]]
        runs = self._read_saved_runs()
        if runs:
            for run in runs:
                new = build_run_messages(run) if run.has_answer else []
                if new:
                    question = next((message for message in new if message.role == "user"), new[0])
                    turns.append(ChatTurn(len(saved), len(saved) + len(new), question, len(new) > 1, run.number))
                    saved += new
            last_run = self.unanswered[-1].run_number if self.unanswered else turns[-1].run_number if turns else None
            if self.has_unsaved_messages or (self.unanswered and last_run is None):
                raise self.make_unsaved_error()
            is_same = [message.content for message in saved] == [message.content for message in messages]
            if not is_same or runs[-1].number != last_run:
                raise UsageError("the conversation was continued elsewhere", "quit, and continue it with ask chat -c")
        else:
            starts = [i for i, message in enumerate(messages) if message.role == "user" and i >= first]
            for start, end in pairwise([*starts, len(messages)]):
                turns.append(ChatTurn(start, end, messages[start], end - start > 1, None))
        return [*turns, *map(self._make_unanswered_turn, self.unanswered)]

    def _read_saved_runs(self) -> list[Run]:
        """Read the runs that requests contain; return none if the conversation is not saved."""
        if self.request.settings.save:
            with suppress(UsageError), self._open_history() as store:  # the history could not be written
                return select_unsummarized_runs(
                    read_runs(store, find_conversation(store, self.request.conversation_id))
                )
        return []

    def _is_answered(self, run_number: int | None) -> bool:
        """Check whether the history has a part of an answer, also of one that a second signal left unreported."""
        return any(run.number == run_number and run.has_answer for run in self._read_saved_runs())

    def _make_unanswered_turn(self, question: UnansweredQuestion) -> ChatTurn:
        end = len(self.request.message_history)
        return ChatTurn(end, end, question.message, False, question.run_number, question.is_refused)

    def _delete_run(self, number: int | None) -> None:
        if number is not None:
            with self._open_history() as store:
                delete_run(store, self.request.conversation_id, number)

    def _open_history(self) -> Store:
        return Store(self.app.app_dirs.history_file, create=False)

    def _replace_history(self, messages: Sequence[Message]) -> None:
        self.request = self.request._replace(message_history=messages, reported_usage=ReportedUsage())

    # Settings of the next request

    def switch_endpoint(
        self, *, provider: str | None = None, model: str | None = None, conversation_model: tuple[str, str] = ("", "")
    ) -> None:
        """Use this provider and model, as `ModelSelection` describes them, from now on."""
        selection = ModelSelection(provider, model, conversation_model=conversation_model)
        self.app.key_store.reload()  # the user may have saved the key in another terminal
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
        original = self.options
        self.options = original._replace(safe_files=True) if without_commands else original._replace(safe=True)
        try:
            self._apply_settings()
        except BaseException:
            self.options = original
            raise

    def _apply_settings(self) -> None:
        """Update the settings and tools of the request from the options and slash commands."""
        request = self.request
        settings = read_settings(self.options, request.extra_system_prompt, self.app, self._template)
        if self._tools_override is not None:
            settings = settings._replace(tools=self._tools_override)
        self.request = apply_settings(self._prepare(request), settings, self.options, self.app)

    def add_files(self, sources: Sequence[str]) -> PromptInputs:
        """Attach files to the next message; return their content."""
        inputs = self._read_inputs(sources)
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
        if self.has_unsaved_messages:
            raise self.make_unsaved_error()

        def print_notice(event: Event) -> None:
            if isinstance(event, Notice):
                self.console.print_notice(event.text)

        def summarize(request: RunRequest, first_kept_run: int | None) -> RunResult:
            result = run_request(request, self.app, print_notice, first_kept_run=first_kept_run)
            self._add_usage(result)
            return result

        compact_conversation(self.request, self.app, summarize)
        self._reload_conversation()

    def start_new_conversation(self) -> None:
        self.request = self.request._replace(conversation_id=generate_conversation_id())
        self.unanswered = ()
        self._replace_history(())
        self.is_saved = self.has_unsaved_messages = False

    def find_saved_conversations(self, reference: str, max_count: int) -> list[ConversationTitle]:
        """Find conversations by number, id, the beginning of an id, or words of their titles.

        Return the newest ones, up to `max_count`. Without a reference, these are the newest of all.
        """
        with self._open_history() as store:
            if reference:
                with suppress(UsageError):
                    found = find_conversation(store, reference)
                    return [ConversationTitle(0, found.id, found.title, found.updated)]
            return find_titles(store, reference, max_count)

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
                self.switch_endpoint(conversation_model=conversation.last_model)
            self.set_extra_system_prompt(conversation.system)
        except BaseException:
            self.request = original_request
            self.console.redact = original_request.secrets.redact
            raise
        self.request = continue_conversation(self.request, conversation)
        self.unanswered = conversation.unanswered
        self.is_saved, self.has_unsaved_messages = True, False

    def print_line(self, text: str, files: Mapping[str, Path] | None = None) -> None:
        """Print the output of a slash command. The names of `files` in it become hyperlinks to their paths."""
        self.command_console.print_line(text, files)

    def redact(self, text: str) -> str:
        """Redact the keys known so far; the set changes when another provider is selected."""
        return self.console.redact(text)

    def _add_usage(self, result: RunResult) -> None:
        self.totals.requests += result.requests
        self.totals.rounds += result.rounds
