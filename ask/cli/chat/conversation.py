"""What was said in a chat's conversation: read again from the history, and its last exchange taken out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ask.agent.request import Question
from ask.agent.workspace import Workspace
from ask.context_window import SUMMARY, Told
from ask.errors import FileError, UsageError
from ask.messages import Message

if TYPE_CHECKING:
    from ask.history.entries import Run


class Exchange(NamedTuple):
    """The user's last message and what came of it.

    Attributes:
        place: of the message in the conversation.
        asked: the message.
        answered: whether anything was said to it.
        run: the number of its run in the history; None where it is not saved.
    """

    place: int
    asked: Message
    answered: bool
    run: int | None


def read_again(question: Question, workspace: Workspace) -> Question:
    """The question with what is saved of its conversation, as `ask -c` would go on; unchanged where nothing is."""
    if not question.settings.save:
        return question
    from ask.history.conversations import continuation, find
    from ask.history.store import Store

    try:
        with Store(workspace.history, create=False) as store:
            past = continuation(store, find(store, question.conversation))
    except (FileError, UsageError):
        return question  # what is known of it has to do
    same = (past.provider, past.model) == (question.target.name, question.target.model)
    return question._replace(past=past.messages, told=past.told if same else Told())


def last_exchange(question: Question, workspace: Workspace) -> Exchange:
    """The last message of a conversation and its answer.

    Raises:
        UsageError: there is none, or the conversation has gone on elsewhere.
        FileError: the history cannot be read.
    """
    past = question.past
    place = max((place for place, message in enumerate(past) if message.role == "user"), default=-1)
    if place < 0 or past[place].content.startswith(SUMMARY):
        raise UsageError("there is no message yet", "type one")
    run = last_run(question, workspace) if question.settings.save else None
    if run and run.entries[0].message.content != past[place].content:
        raise UsageError("the conversation has gone on elsewhere", "leave, and take it up with ask chat -c")
    return Exchange(place, past[place], place < len(past) - 1, run.number if run else None)


def last_run(question: Question, workspace: Workspace) -> Run | None:
    """The newest run of the conversation that no summary stands for; None where there is none."""
    from ask.history.conversations import find, verbatim
    from ask.history.entries import read_runs
    from ask.history.store import Store

    with Store(workspace.history, create=False) as store:
        try:
            runs = verbatim(read_runs(store, find(store, question.conversation)))
        except UsageError:  # nothing could be saved
            return None
    return runs[-1] if runs else None


def delete(run: int | None, workspace: Workspace) -> None:
    """Delete the run of that number, if any.

    Raises:
        FileError: the history cannot be written.
    """
    if run is None:
        return
    from ask.history.deletion import delete_run
    from ask.history.store import Store

    with Store(workspace.history, create=False) as store:
        delete_run(store, run)
