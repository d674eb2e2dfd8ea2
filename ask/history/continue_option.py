"""`--continue` and `--resume`: which conversation a run continues, and when the user is asked about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ask.app import AppContext
from ask.config.options import RunOptions
from ask.errors import UsageError
from ask.history.conversation_lookup import find_conversation, find_current_conversation
from ask.history.entries import Conversation
from ask.history.saved_messages import load_conversation
from ask.history.store import Store
from ask.messages import ResumedConversation
from ask.process.terminal_identity import identify_terminal
from ask.text import decode_argument, format_age, format_one_line

ConfirmCallback = Callable[[str], bool | None]
"""Asks the user a question on the terminal; returns None if there is none to ask on."""


def read_conversation(
    options: RunOptions, app: AppContext, directory: Path, confirm: ConfirmCallback
) -> ResumedConversation:
    """Load the conversation to continue.

    Raises:
        UsageError: there is no such conversation.
        FileError: it cannot be read.
    """
    conversation_id = options.resume
    if conversation_id is not None and options.continue_last:
        raise UsageError("--continue and --resume cannot be combined", "use one of them")
    with Store(app.app_dirs.history_file, create=False, quiet=app.console.is_quiet) as store:
        if conversation_id is not None:
            conversation = find_conversation(store, decode_argument(conversation_id), by_title=True)
        else:
            conversation = _choose_current_conversation(store, decode_argument(str(directory)), app, confirm)
        resumed = load_conversation(store, conversation, with_older_questions=options.unanswered)
        for note in store.notes:
            app.console.print_notice(note)
        return resumed


def _choose_current_conversation(
    store: Store, directory: str, app: AppContext, confirm: ConfirmCallback
) -> Conversation:
    """Find the conversation that --continue continues.

    On a terminal without a conversation, offers the last one of the directory.

    Raises:
        UsageError: there is none, or the user does not want it.
    """
    terminal = identify_terminal(app.environment)
    conversation = find_current_conversation(store, terminal=terminal, directory=directory)
    if conversation is not None:
        return conversation
    hint = "ask history list shows all; --resume ID continues one"
    if not terminal:
        raise UsageError("there is no conversation in this folder to continue", hint)
    conversation = find_current_conversation(store, directory=directory)
    if conversation is not None:
        hint = f"--resume {conversation.id} continues the last one of this folder"
        if app.console.is_terminal and not app.console.is_quiet:
            age = format_age(conversation.updated, time.time())
            when, title = "just now" if age == "now" else f"{age} ago", format_one_line(conversation.title)
            app.console.print_notice(f"the last conversation in this folder, {when}: {title}")
            if confirm("Continue it?"):
                return conversation
    raise UsageError("there is no conversation on this terminal to continue", hint)
