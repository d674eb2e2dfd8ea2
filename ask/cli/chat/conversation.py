"""Reads the conversation of a chat back from the history, and removes its last exchange."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.errors import FileError, UsageError
from ask.messages import SUMMARY_PREFIX, Message, ReportedUsage

if TYPE_CHECKING:
    from ask.history.entries import Run


class ChatTurn(NamedTuple):
    """The last message of the user and its saved run."""

    message_index: int
    """Index of the user message in the message history."""
    user_message: Message
    has_response: bool
    run_number: int | None
    """None if the run was not saved."""


def reload_conversation(request: RunRequest, app: AppContext) -> RunRequest:
    """Return the request with the saved messages of its conversation, as `ask -c` would continue it.

    The request is returned unchanged if nothing is saved.
    """
    if not request.settings.save:
        return request
    from ask.history.conversations import find_conversation, load_conversation
    from ask.history.store import Store

    try:
        with Store(app.app_dirs.history_file, create=False) as store:
            conversation = load_conversation(store, find_conversation(store, request.conversation_id))
    except (FileError, UsageError):
        return request
    same_model = (conversation.provider, conversation.model) == (request.endpoint.provider_name, request.endpoint.model)
    return request._replace(
        message_history=conversation.messages,
        reported_usage=conversation.reported_usage if same_model else ReportedUsage(),
    )


def find_last_turn(request: RunRequest, app: AppContext) -> ChatTurn:
    """Find the last message of the user.

    Raises `UsageError` if there is none, or if the conversation was continued by another process: removing a message
    would then remove the wrong run.
    """
    messages = request.message_history
    index = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    if index < 0 or messages[index].content.startswith(SUMMARY_PREFIX):
        raise UsageError("there is no message yet", "type one")
    run = read_last_run(request, app) if request.settings.save else None
    if run and run.entries[0].message.content != messages[index].content:
        raise UsageError("the conversation has gone on elsewhere", "leave, and take it up with ask chat -c")
    return ChatTurn(index, messages[index], index < len(messages) - 1, run.number if run else None)


def read_last_run(request: RunRequest, app: AppContext) -> Run | None:
    """Read the newest run of the conversation that is not replaced by a summary."""
    from ask.history.conversations import find_conversation, select_unsummarized_runs
    from ask.history.entries import read_runs
    from ask.history.store import Store

    with suppress(UsageError), Store(app.app_dirs.history_file, create=False) as store:
        runs = select_unsummarized_runs(read_runs(store, find_conversation(store, request.conversation_id)))
        return runs[-1] if runs else None
    return None  # the history could not be written


def delete_saved_run(run_number: int | None, app: AppContext) -> None:
    if run_number is None:
        return
    from ask.history.deletion import delete_run
    from ask.history.store import Store

    with Store(app.app_dirs.history_file, create=False) as store:
        delete_run(store, run_number)
