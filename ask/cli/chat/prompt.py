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
from ask.cli.chat.input_history import KeptHistory
from ask.cli.chat.session import Session
from ask.cli.chat.terminal_state import ended_in_order
from ask.console import wants_colour
from ask.text import as_text, for_terminal

PROMPT = "> "
ROWS_SHOWN = 12
"""Lines of a message that stay on the screen; of a longer one its beginning does, and how long it is."""


class Prompt:
    """Takes what the user types, of one line or many.

    As a context it has the terminal mark what is pasted, also while an answer comes: a paste is one message, while
    each typed line is one.

    Args:
        session: the chat, which is completed from and whose data folder keeps what was typed.
    """

    def __init__(self, session: Session) -> None:
        workspace = session.workspace
        output = create_output(always_prefer_tty=True)
        output.enable_cpr = False  # type: ignore[attr-defined]
        self._plain = is_dumb_terminal() and sys.stdout.isatty()  # prompt_toolkit then knows no more than a line
        colour = wants_colour(workspace.environment) and not session.flags["plain"]
        keep = session.question.settings.save
        file = workspace.places.data / "chat_history"
        self._session: PromptSession[str] = PromptSession(
            [("bold", PROMPT)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            history=KeptHistory(file, session.redact) if keep else InMemoryHistory(),
            completer=ChatCompleter(session),
            complete_while_typing=False,
            key_bindings=bindings(lines=not self._plain),
            enable_suspend=True,
            erase_when_done=True,  # what it leaves of a text that is longer than the screen is a muddle
            enable_open_in_editor=True,
            tempfile_suffix=".md",
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            output=None if self._plain else output,
        )

    def __enter__(self) -> Self:
        self._mark_pastes()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._plain:
            self._session.output.disable_bracketed_paste()
            self._session.output.flush()

    def _mark_pastes(self) -> None:
        if not self._plain:
            self._session.output.enable_bracketed_paste()
            self._session.output.flush()

    def discard_typed(self) -> None:
        """Forget what was typed and not read yet."""
        clear_typeahead(self._session.input)

    def read(self, text: str = "") -> str:
        """What the user types, beginning with `text`.

        Raises:
            EOFError: Ctrl-D.
            KeyboardInterrupt: Ctrl-C.
        """
        if self._plain:
            return as_text(self._session.prompt(default=text)).rstrip()
        output = self._session.output
        try:
            with ended_in_order(self._session.app):
                typed = as_text(self._session.prompt(default=text)).rstrip()
        except SystemExit:  # a signal ends it, and nothing is unwound
            output.reset_attributes()
            output.enable_autowrap()
            output.show_cursor()
            output.write("\n")
            output.flush()
            raise
        finally:
            self._mark_pastes()  # the end of a prompt ends it
        if typed:
            output.write(for_terminal(as_sent(typed)) + "\n")
            output.flush()
        return typed


def as_sent(text: str) -> str:
    """A message as it stays on the screen."""
    lines = text.splitlines()
    if len(lines) > ROWS_SHOWN:
        lines = [*lines[: ROWS_SHOWN // 2], f"[{len(lines) - ROWS_SHOWN // 2} more lines]"]
    return PROMPT + f"\n{' ' * len(PROMPT)}".join(lines)


def bindings(*, lines: bool) -> KeyBindings:
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

    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    for combination in (("escape", "enter"), ("c-j",)):
        keys.add(*combination, filter=typing)(begin_line if lines else send)

    return keys
