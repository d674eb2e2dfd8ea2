"""The input prompt of a chat, built on prompt_toolkit; its completions and history, and the terminal's modes."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from prompt_toolkit import Application, PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.input.defaults import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPress, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.utils import is_dumb_terminal

from ask.atomic_files import lock_file, open_private_file, write_private_file
from ask.cli.chat.commands import MAX_EXCERPT_CHARACTERS, SLASH_COMMANDS
from ask.cli.chat.key_parser import KeyParser
from ask.cli.chat.session import ChatSession
from ask.cli.completion import (
    LOCK_TIMEOUT_SECONDS,
    MAX_TITLED_ITEMS,
    complete_loaders,
    complete_mcp_addresses,
    complete_models,
    is_safe_word,
    list_model_ids,
)
from ask.cli.editor import open_in_editor
from ask.console import get_descriptor, is_output_terminal, lend_standard_output, read_color_choice
from ask.errors import AskError, FileError, to_ask_error
from ask.history.listing import find_titles
from ask.history.store import Store
from ask.inputs.stdin_and_files import decode_text
from ask.regular_files import read_regular_file
from ask.render.amounts import format_local_time
from ask.text import decode_argument, escape_control_characters, format_one_line

PROMPT_PREFIX = "> "
MAX_ECHOED_LINES = 12
"""A sent message with more lines is shown shortened to its first half of this many lines."""
MAX_ECHOED_CHARACTERS = 1_000
"""A longer line of it is shown shortened to its first half of this many characters."""


class ChatPrompt:
    """Reads messages of one or more lines from the terminal."""

    def __init__(self, session: ChatSession) -> None:
        app = session.app
        with lend_standard_output(only_terminal=True):
            output = create_output(always_prefer_tty=True)
        # A late answer to a request for the cursor's position would be read as typed input.
        output.enable_cpr = False  # type: ignore[attr-defined]
        terminal_input = create_input()
        if isinstance(terminal_input, Vt100Input):
            terminal_input.vt100_parser = KeyParser(terminal_input.vt100_parser.feed_key_callback)
        # On a dumb terminal prompt_toolkit supports only single lines.
        self._is_dumb_terminal = is_dumb_terminal() and is_output_terminal()
        use_color = read_color_choice(app.environment) is not False and not session.options.plain
        save_history = session.request.settings.save
        history_file = app.app_dirs.data / "chat_history"
        self._prompt_session: PromptSession[str] = PromptSession(
            [("bold", PROMPT_PREFIX)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT_PREFIX),
            history=PromptHistory(history_file, session.redact) if save_history else InMemoryHistory(),
            completer=ChatCompleter(session),
            complete_while_typing=False,
            key_bindings=_create_key_bindings(session, multiline=not self._is_dumb_terminal),
            enable_suspend=True,
            erase_when_done=True,  # prompt_toolkit garbles text that is longer than the screen; see read_message()
            input=terminal_input,
            color_depth=None if use_color else ColorDepth.DEPTH_1_BIT,
            output=None if self._is_dumb_terminal else output,
        )

    def enable_bracketed_paste(self, *, enabled: bool = True) -> None:
        """Let the terminal mark pasted text, so that it is one message, while each typed line is one of its own.

        Signal handlers call this, too, so it does not use a buffer that may be being written.
        """
        if not self._is_dumb_terminal:
            with suppress(OSError):  # the terminal may have been closed
                os.write(
                    get_descriptor(self._prompt_session.output.fileno()), b"\x1b[?2004h" if enabled else b"\x1b[?2004l"
                )

    def read_early_input(self) -> None:
        """Read what was typed while the chat started, when Enter was still a newline, as typed lines."""
        terminal_input, keys = self._prompt_session.input, list[KeyPress]()
        while select.select([sys.stdin], [], [], 0)[0] and (new_keys := terminal_input.read_keys()):
            keys += new_keys
        enter = KeyPress(Keys.Enter)
        store_typeahead(terminal_input, [enter if key.key == Keys.ControlJ else key for key in keys])

    def has_typeahead(self) -> bool:
        """Check whether input was typed that was not read yet."""
        keys = get_typeahead(self._prompt_session.input)  # this takes them, so they have to be put back
        store_typeahead(self._prompt_session.input, keys)
        return bool(keys) or bool(select.select([sys.stdin], [], [], 0)[0])

    def discard_typeahead(self) -> None:
        """Discard input that was typed but not read yet."""
        clear_typeahead(self._prompt_session.input)

    def read_message(self, initial_text: str) -> str:
        """Read a message, with `initial_text` already in the input line.

        Raises:
            EOFError: the user typed Ctrl-D.
            KeyboardInterrupt: the user typed Ctrl-C.
        """
        with lend_standard_output(only_terminal=True):  # prompt_toolkit writes to it, and so does the user's editor
            return self._read_message(initial_text)

    def _read_message(self, initial_text: str) -> str:
        if self._is_dumb_terminal:
            return decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        output = self._prompt_session.output
        try:
            with _exit_prompt_on_signal(self._prompt_session.app):
                text = decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        except SystemExit:  # raised by a signal; prompt_toolkit does not restore the terminal then
            output.reset_attributes()
            output.enable_autowrap()
            output.show_cursor()
            output.write("\n")
            output.flush()
            raise
        finally:
            self.enable_bracketed_paste()  # prompt_toolkit disables it at the end of each prompt
        if text:
            output.write(escape_control_characters(_format_sent_message(text)) + "\n")
            output.flush()
        return text


def _format_sent_message(text: str) -> str:
    """Format a sent message for the screen, shortened if it is long."""
    lines = text.splitlines()
    if len(lines) > MAX_ECHOED_LINES:
        lines = [*lines[: MAX_ECHOED_LINES // 2], f"[{len(lines) - MAX_ECHOED_LINES // 2} more lines]"]
    return PROMPT_PREFIX + f"\n{' ' * len(PROMPT_PREFIX)}".join(map(_shorten_line, lines))


def _shorten_line(line: str) -> str:
    if len(line) <= MAX_ECHOED_CHARACTERS:
        return line
    kept = MAX_ECHOED_CHARACTERS // 2
    return f"{line[:kept]} [{len(line) - kept} more characters]"


def _create_key_bindings(session: ChatSession, *, multiline: bool) -> KeyBindings:
    """Bind Enter to send, Ctrl-J and Alt-Enter to insert a newline (to send if not `multiline`), Ctrl-X Ctrl-E to edit.

    `KeyParser` turns Shift-Enter and Ctrl-Enter into Alt-Enter, if the terminal distinguishes them from Enter.
    """
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # not the search field of Ctrl-R

    @keys.add("enter", filter=typing)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        menu = buffer.complete_state
        if menu and menu.current_completion and len(menu.completions) > 1:
            buffer.complete_state = None  # Enter only accepts a completion that was chosen from several
        else:
            buffer.validate_and_handle()

    def insert_newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-x", "c-e", filter=typing)
    async def edit(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = await run_in_terminal(partial(_edit_message, buffer.text, session), in_executor=True)
        if text is not None:
            buffer.document = Document(text)
            buffer.validate_and_handle()

    for combination in (("escape", "enter"), ("c-j",)):
        keys.add(*combination, filter=typing)(insert_newline if multiline else send)

    return keys


def _edit_message(text: str, session: ChatSession) -> str | None:
    """Let the user edit a message in an editor; return None if that fails, after printing the error."""
    notify = session.command_console.print_notice
    try:
        with TemporaryDirectory(prefix="ask-") as folder:
            file = Path(folder, "message.md")
            file.write_text(text, encoding="utf-8", errors="surrogateescape")
            return decode_text(open_in_editor(file), "the edited text", notify).rstrip("\n")
    except (AskError, OSError) as error:
        notify(str(to_ask_error(error)))
    return None


class ChatCompleter(Completer):
    """Completes slash commands, and in messages words that begin with @ as file names."""

    def __init__(self, session: ChatSession) -> None:
        self._session = session
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        with suppress(AskError, OSError):
            if text.startswith("/") and "\n" not in text:
                yield from self._complete_command(text, complete_event)
            elif (word := text.split()[-1:] or [""])[0].startswith("@") and text.endswith(word[0]):
                yield from self._complete_path(word[0][1:], complete_event)

    def _complete_command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        name, space, typed = text[1:].partition(" ")
        if not space:
            for command_name, command in SLASH_COMMANDS.items():
                if command_name.startswith(name):
                    completion = f"/{command_name} " if command.arguments else f"/{command_name}"
                    yield Completion(
                        completion, -len(text), display=f"/{command_name}", display_meta=command.description
                    )
        elif name == "resume":
            yield from self._complete_conversation(typed)
        elif typed.startswith("#") and name in ("edit", "retry", "drop", "branch"):
            for number, turn in enumerate(self._session.find_turns(), 1):
                if f"#{number}".startswith(typed):
                    words = format_one_line(turn.words, MAX_EXCERPT_CHARACTERS)
                    yield Completion(f"#{number}", -len(typed), display_meta=words)
        elif name == "system" and typed.startswith("@"):
            yield from self._complete_path(typed[1:], event)
        else:
            if name in ("file", "save"):
                yield from self._complete_path(typed.lstrip(), event)
            candidates = dict.fromkeys(self._list_arguments(name, typed))
            yield from (Completion(value, -len(typed)) for value in candidates if value.startswith(typed))

    def _list_arguments(self, name: str, typed: str) -> Iterator[str]:
        app = self._session.app
        if name == "provider":
            yield from (*app.provider_names, *app.services)
        elif name == "model":
            models = complete_models(app.app_dirs, app.environment, typed, "")
            names = [*list_model_ids(app.app_dirs, self._session.request.endpoint.provider_name), *dict(models)]
            yield from filter(is_safe_word, names)
        elif name == "file":
            addresses = complete_mcp_addresses(app.app_dirs, "resources", typed)
            yield from filter(is_safe_word, dict((*addresses, *complete_loaders(app.app_dirs, typed))))
        elif name in ("tools", "safe"):
            yield from SLASH_COMMANDS[name].arguments.strip("[]").split("|")

    def _complete_conversation(self, typed: str) -> Iterator[Completion]:
        """Complete an id by its beginning or by words of the title."""
        with Store(self._session.app.app_dirs.history_file, create=False, lock_timeout=LOCK_TIMEOUT_SECONDS) as store:
            by_title = find_titles(store, typed, MAX_TITLED_ITEMS)
            by_id = [title for title in find_titles(store, "", MAX_TITLED_ITEMS) if title.id.startswith(typed)]
        for conversation in dict.fromkeys([*by_id, *by_title]):
            title, date = format_one_line(conversation.title), format_local_time(conversation.updated)
            yield Completion(conversation.id, -len(typed), display=title or conversation.id, display_meta=date)

    def _complete_path(self, typed: str, event: CompleteEvent) -> Iterable[Completion]:
        return self._paths.get_completions(Document(typed, len(typed)), event)


MAX_HISTORY_BYTES = 1_000_000
"""A larger file is truncated to the newest half of this size."""


class PromptHistory(FileHistory):
    """A history file shared by all chats.

    If the file cannot be read or written, the history lasts only for this chat.
    """

    def __init__(self, path: Path, redact: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._redact = redact

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError, FileError):
            with lock_file(self._path):
                _truncate_history(self._path)
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError, FileError), lock_file(self._path):
            os.close(open_private_file(self._path, os.O_WRONLY))
            super().store_string(self._redact(string))


def _truncate_history(path: Path) -> None:
    """Keep the newest half of a file that is too large, starting at a complete entry."""
    content = read_regular_file(path) if path.exists() else b""
    if len(content) <= MAX_HISTORY_BYTES:
        return
    newest = content[-MAX_HISTORY_BYTES // 2 :]
    _, separator, entries = newest.partition(b"\n# ")  # prompt_toolkit writes the time before each entry
    write_private_file(path, separator + entries)


TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
IFLAG, LFLAG = 0, 3  # indexes into the list returned by tcgetattr


@contextmanager
def prepare_terminal(prompt: ChatPrompt) -> Iterator[None]:
    """Prepare the terminal for input that is typed or pasted during an answer and goes to the next prompt.

    Bracketed paste is enabled, and echo and line mode are turned off; at the end, all of them are restored.
    Enter must arrive as a carriage return, not as a newline, so that every typed line is a message of its own. A shell
    changes the modes while the chat is suspended (Ctrl-Z), and does not restore them; some never turn bracketed paste
    off, so that it would reach other programs.
    """
    descriptor = sys.stdin.fileno()
    original_modes = modes = None

    def set_modes(new_modes: Any, when: int = termios.TCSANOW) -> None:
        with suppress(termios.error):  # the terminal may have been closed
            termios.tcsetattr(descriptor, when, new_modes)

    def suspend(*_: object) -> None:
        current_modes = termios.tcgetattr(descriptor)  # those of a question, or of the prompt
        set_modes(original_modes)
        prompt.enable_bracketed_paste(enabled=False)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, suspend)
        set_modes(current_modes)
        prompt.enable_bracketed_paste()

    with suppress(termios.error):
        original_modes, modes = termios.tcgetattr(descriptor), termios.tcgetattr(descriptor)
        modes[IFLAG] &= ~termios.ICRNL
        modes[LFLAG] &= ~(termios.ECHO | termios.ICANON)
        set_modes(modes, termios.TCSADRAIN)
        prompt.read_early_input()
        if signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, suspend)
    try:
        prompt.enable_bracketed_paste()
        yield
    finally:
        if original_modes is not None:
            set_modes(original_modes)
        prompt.enable_bracketed_paste(enabled=False)


@contextmanager
def _exit_prompt_on_signal(application: Application[Any]) -> Iterator[None]:
    """Make termination signals exit the prompt, which then raises SystemExit.

    An exception raised inside the event loop of prompt_toolkit could make it hang.
    """

    def handle_signal(number: int, _: FrameType | None) -> None:
        system_exit = SystemExit(128 + number)
        if application.loop is None or not application.is_running:
            raise system_exit
        application.loop.call_soon_threadsafe(exit_prompt, system_exit)

    def exit_prompt(system_exit: SystemExit) -> None:
        if application.future is not None and not application.future.done():
            application.exit(exception=system_exit)

    handlers = {number: signal.getsignal(number) for number in TERMINATION_SIGNALS}
    handled = [number for number, handler in handlers.items() if callable(handler)]  # not those ignored under nohup
    for number in handled:
        signal.signal(number, handle_signal)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, handlers[number])
