"""The input prompt of a chat, built on prompt_toolkit."""

from __future__ import annotations

import sys
from typing import Self

from prompt_toolkit import PromptSession
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.defaults import create_output
from prompt_toolkit.utils import is_dumb_terminal

from ask.cli.chat.completer import ChatCompleter
from ask.cli.chat.input_history import PromptHistory
from ask.cli.chat.session import ChatSession
from ask.cli.chat.terminal_state import exit_prompt_on_signal
from ask.console import should_use_color
from ask.text import decode_argument, escape_control_characters

PROMPT_PREFIX = "> "
MAX_ECHOED_LINES = 12
"""A sent message with more lines is shown shortened to its first half of this many lines."""


class ChatPrompt:
    """Reads messages of one or more lines from the terminal.

    As a context manager it enables bracketed paste, also while an answer is printed: pasted text is one message,
    while each typed line is a message of its own.
    """

    def __init__(self, session: ChatSession) -> None:
        app = session.app
        output = create_output(always_prefer_tty=True)
        output.enable_cpr = False  # type: ignore[attr-defined]
        # On a dumb terminal prompt_toolkit supports only single lines.
        self._is_dumb_terminal = is_dumb_terminal() and sys.stdout.isatty()
        use_color = should_use_color(app.environment) and not session.flags["plain"]
        save_history = session.request.settings.save
        history_file = app.app_dirs.data / "chat_history"
        self._prompt_session: PromptSession[str] = PromptSession(
            [("bold", PROMPT_PREFIX)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT_PREFIX),
            history=PromptHistory(history_file, session.redact) if save_history else InMemoryHistory(),
            completer=ChatCompleter(session),
            complete_while_typing=False,
            key_bindings=create_key_bindings(multiline=not self._is_dumb_terminal),
            enable_suspend=True,
            erase_when_done=True,  # prompt_toolkit garbles text that is longer than the screen; see read_message()
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            color_depth=None if use_color else ColorDepth.DEPTH_1_BIT,
            output=None if self._is_dumb_terminal else output,
        )

    def __enter__(self) -> Self:
        self._enable_bracketed_paste()
        return self

    def __exit__(self, *_: object) -> None:
        self._enable_bracketed_paste(enabled=False)

    def _enable_bracketed_paste(self, *, enabled: bool = True) -> None:
        output = self._prompt_session.output
        if not self._is_dumb_terminal:
            (output.enable_bracketed_paste if enabled else output.disable_bracketed_paste)()
            output.flush()

    def discard_typeahead(self) -> None:
        """Discard input that was typed but not read yet."""
        clear_typeahead(self._prompt_session.input)

    def read_message(self, initial_text: str = "") -> str:
        """Read a message, with `initial_text` already in the input line.

        Ctrl-D raises `EOFError`, Ctrl-C `KeyboardInterrupt`.
        """
        if self._is_dumb_terminal:
            return decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        output = self._prompt_session.output
        try:
            with exit_prompt_on_signal(self._prompt_session.app):
                text = decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        except SystemExit:  # raised by a signal; prompt_toolkit does not restore the terminal then
            output.reset_attributes()
            output.enable_autowrap()
            output.show_cursor()
            output.write("\n")
            output.flush()
            raise
        finally:
            self._enable_bracketed_paste()  # prompt_toolkit disables it at the end of each prompt
        if text:
            output.write(escape_control_characters(format_sent_message(text)) + "\n")
            output.flush()
        return text


def format_sent_message(text: str) -> str:
    """Format a sent message for the screen, shortened if it is long."""
    lines = text.splitlines()
    if len(lines) > MAX_ECHOED_LINES:
        lines = [*lines[: MAX_ECHOED_LINES // 2], f"[{len(lines) - MAX_ECHOED_LINES // 2} more lines]"]
    return PROMPT_PREFIX + f"\n{' ' * len(PROMPT_PREFIX)}".join(lines)


def create_key_bindings(*, multiline: bool) -> KeyBindings:
    """Bind Enter to send, and Alt-Enter and Ctrl-J to insert a newline (to send if not `multiline`)."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # not the search field of Ctrl-R

    @keys.add("enter", filter=typing)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None
        else:
            buffer.validate_and_handle()

    def insert_newline(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    for combination in (("escape", "enter"), ("c-j",)):
        keys.add(*combination, filter=typing)(insert_newline if multiline else send)

    return keys
