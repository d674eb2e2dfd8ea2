"""Where messages are typed: the only part of a chat that knows prompt_toolkit, together with `completer`."""

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
"""Lines of a message that stay on the screen; of a longer one its beginning does, and how long it is."""


class ChatPrompt:
    """Takes what the user types, of one line or many.

    As a context it has the terminal mark what is pasted, also while an answer comes: a paste is one message, while
    each typed line is one.

    Args:
        session: the chat, which is completed from and whose data folder keeps what was typed.
    """

    def __init__(self, session: ChatSession) -> None:
        workspace = session.app
        output = create_output(always_prefer_tty=True)
        output.enable_cpr = False  # type: ignore[attr-defined]
        self._is_dumb_terminal = (
            is_dumb_terminal() and sys.stdout.isatty()
        )  # prompt_toolkit then knows no more than a line
        colour = should_use_color(workspace.environment) and not session.flags["plain"]
        keep = session.request.settings.save
        file = workspace.app_dirs.data / "chat_history"
        self._prompt_session: PromptSession[str] = PromptSession(
            [("bold", PROMPT_PREFIX)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT_PREFIX),
            history=PromptHistory(file, session.redact) if keep else InMemoryHistory(),
            completer=ChatCompleter(session),
            complete_while_typing=False,
            key_bindings=create_key_bindings(multiline=not self._is_dumb_terminal),
            enable_suspend=True,
            erase_when_done=True,  # what it leaves of a text that is longer than the screen is a muddle
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            output=None if self._is_dumb_terminal else output,
        )

    def __enter__(self) -> Self:
        self._enable_bracketed_paste()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_dumb_terminal:
            self._prompt_session.output.disable_bracketed_paste()
            self._prompt_session.output.flush()

    def _enable_bracketed_paste(self) -> None:
        if not self._is_dumb_terminal:
            self._prompt_session.output.enable_bracketed_paste()
            self._prompt_session.output.flush()

    def discard_typeahead(self) -> None:
        """Forget what was typed and not read yet."""
        clear_typeahead(self._prompt_session.input)

    def read_message(self, initial_text: str = "") -> str:
        """What the user types, beginning with `initial_text`.

        Raises:
            EOFError: Ctrl-D.
            KeyboardInterrupt: Ctrl-C.
        """
        if self._is_dumb_terminal:
            return decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        output = self._prompt_session.output
        try:
            with exit_prompt_on_signal(self._prompt_session.app):
                typed = decode_argument(self._prompt_session.prompt(default=initial_text)).rstrip()
        except SystemExit:  # a signal ends it, and nothing is unwound
            output.reset_attributes()
            output.enable_autowrap()
            output.show_cursor()
            output.write("\n")
            output.flush()
            raise
        finally:
            self._enable_bracketed_paste()  # the end of a prompt ends it
        if typed:
            output.write(escape_control_characters(format_sent_message(typed)) + "\n")
            output.flush()
        return typed


def format_sent_message(text: str) -> str:
    """A message as it stays on the screen."""
    lines = text.splitlines()
    if len(lines) > MAX_ECHOED_LINES:
        lines = [*lines[: MAX_ECHOED_LINES // 2], f"[{len(lines) - MAX_ECHOED_LINES // 2} more lines]"]
    return PROMPT_PREFIX + f"\n{' ' * len(PROMPT_PREFIX)}".join(lines)


def create_key_bindings(*, multiline: bool) -> KeyBindings:
    """Enter sends; Alt-Enter and Ctrl-J begin a new line, or send as well where messages have one line alone."""
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)  # and not a word to search for

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
