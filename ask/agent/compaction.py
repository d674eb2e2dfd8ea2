"""`--compact`: the model writes a summary, which then stands for the old part of a conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ask.agent.request import Question
from ask.agent.run import recorded_exit_code
from ask.agent.system_prompt import prompt_text
from ask.agent.tool_loop import Outcome
from ask.agent.workspace import Workspace
from ask.console import Console
from ask.context_window import Told
from ask.errors import FileError, IncompleteAnswer, UsageError
from ask.events import Event, Notice
from ask.history.conversations import continuation, find
from ask.history.store import Store
from ask.messages import Message

Converse = Callable[[Question, Workspace, Callable[[Event], None]], tuple[Outcome, bool]]


def compact(question: Question, workspace: Workspace, console: Console, converse: Converse) -> Question:
    """What to ask in place of the question: for the summary, where there is no question.

    Otherwise the summary is asked for here, and the question goes on from it.

    Args:
        question: what the user asks.
        workspace: where the conversation is saved.
        console: takes a line about what happens.
        converse: asks a question, shows its events, and saves it; tells whether that worked.

    Raises:
        AskError: there is no summary; nothing has changed then.
    """
    part = question.compaction
    if part is None or not part.messages:
        raise UsageError("there is nothing to summarise in this conversation", "leave out --compact")
    wanted = Message("user", prompt_text("compact"))
    of_summary = question._replace(
        past=part.messages, asked=wanted, told=Told(), compacts=part.until, form="", shape=None
    )
    if not question.asked.content:
        return of_summary
    past = summarised(of_summary, workspace, console, converse)
    return question._replace(past=past, told=Told())


def summarised(of_summary: Question, workspace: Workspace, console: Console, converse: Converse) -> Sequence[Message]:
    """Have the summary written; what is said from then on to have been said.

    Raises:
        AskError: there is no summary; nothing has changed then.
    """
    outcome, saved = converse(of_summary, workspace, partial(show_notice, console))
    if outcome.failure is not None:
        raise outcome.failure
    with recorded_exit_code(outcome, of_summary, workspace):
        check_summary(outcome, saved, console)
    with Store(workspace.history) as store:
        return continuation(store, find(store, of_summary.conversation)).messages


def show_notice(console: Console, event: Event) -> None:
    """Show of a run what the user should know, and nothing else."""
    if isinstance(event, Notice):
        console.line(f"ask: {event.text}")


def check_summary(outcome: Outcome, saved: bool, console: Console) -> None:
    """See that a summary has come about, and say so.

    Raises:
        IncompleteAnswer: the model wrote none.
        FileError: it is not saved.
    """
    if not outcome.answered or not outcome.messages[-1].content.strip():
        raise IncompleteAnswer("the model wrote no summary", "ask again, or try another model")
    if not saved:
        raise FileError("the summary is not saved", "the conversation stays as it was")
    console.line(f"ask: from now on a summary stands for {len(outcome.messages) - 2} messages")
