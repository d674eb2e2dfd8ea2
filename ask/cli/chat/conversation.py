"""What was said in a chat's conversation: read again from the history, and its last exchange taken out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.request import RunRequest
from ask.context_window import SUMMARY_PREFIX, ReportedUsage
from ask.errors import FileError, UsageError
from ask.messages import Message

if TYPE_CHECKING:
    from ask.history.entries import Run


class ChatTurn(NamedTuple):
    """The user's last message and what came of it.

    Attributes:
        message_index: of the message in the conversation.
        user_message: the message.
        has_response: whether anything was said to it.
        run_number: the number of its run in the history; None where it is not saved.
    """

    message_index: int
    user_message: Message
    has_response: bool
    run_number: int | None


def reload_conversation(request: RunRequest, app: AppContext) -> RunRequest:
    """The question with what is saved of its conversation, as `ask -c` would go on; unchanged where nothing is."""
    if not request.settings.save:
        return request
    from ask.history.conversations import find_conversation, load_conversation
    from ask.history.store import Store

    try:
        with Store(app.history_file, create=False) as store:
            past = load_conversation(store, find_conversation(store, request.conversation_id))
    except (FileError, UsageError):
        return request  # what is known of it has to do
    same = (past.provider, past.model) == (request.endpoint.provider_name, request.endpoint.model)
    return request._replace(
        message_history=past.messages, reported_usage=past.reported_usage if same else ReportedUsage()
    )


def find_last_turn(request: RunRequest, app: AppContext) -> ChatTurn:
    """The last message of a conversation and its answer.

    Raises:
        UsageError: there is none, or the conversation has gone on elsewhere.
        FileError: the history cannot be read.
    """
    past = request.message_history
    place = max((place for place, message in enumerate(past) if message.role == "user"), default=-1)
    if place < 0 or past[place].content.startswith(SUMMARY_PREFIX):
        raise UsageError("there is no message yet", "type one")
    run = read_last_run(request, app) if request.settings.save else None
    if run and run.entries[0].message.content != past[place].content:
        raise UsageError("the conversation has gone on elsewhere", "leave, and take it up with ask chat -c")
    return ChatTurn(place, past[place], place < len(past) - 1, run.number if run else None)


def read_last_run(request: RunRequest, app: AppContext) -> Run | None:
    """The newest run of the conversation that no summary stands for; None where there is none."""
    from ask.history.conversations import find_conversation, select_unsummarized_runs
    from ask.history.entries import read_runs
    from ask.history.store import Store

    with Store(app.history_file, create=False) as store:
        try:
            runs = select_unsummarized_runs(read_runs(store, find_conversation(store, request.conversation_id)))
        except UsageError:  # nothing could be saved
            return None
    return runs[-1] if runs else None


def delete_saved_run(run_number: int | None, app: AppContext) -> None:
    """Delete the run of that number, if any.

    Raises:
        FileError: the history cannot be written.
    """
    if run_number is None:
        return
    from ask.history.deletion import delete_run
    from ask.history.store import Store

    with Store(app.history_file, create=False) as store:
        delete_run(store, run_number)
