"""Questions that got no answer: later requests leave them out, unless the user wants to send them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ask.app import AppContext
from ask.errors import UsageError
from ask.events import Event, Notice
from ask.messages import UnansweredQuestion, merge_user_messages
from ask.text import format_one_line

if TYPE_CHECKING:
    from ask.agent.request import PreparedRun

MAX_EXCERPT_CHARACTERS = 60


def _describe_question(question: UnansweredQuestion) -> str:
    """Describe a question by its outcome and the beginning of its text."""
    kind = "refused" if question.is_refused else "unanswered"
    end = "" if question.has_ended else ", which another run may still be answering"
    return f"the {kind} question {format_one_line(question.message.content, MAX_EXCERPT_CHARACTERS)!r}{end}"


def _describe_left_out(questions: Sequence[UnansweredQuestion], conversation_id: str) -> Iterator[str]:
    """Yield notices about the questions that are left out.

    `conversation_id` is for the command that sends them; "" if the conversation is not saved.
    """
    refused = _select_refused(questions)
    sendable = [question for question in questions if not question.is_refused]
    if refused:
        described = _describe_question(refused[0]) if len(refused) == 1 else f"{len(refused)} refused questions"
        yield f"continuing without {described}"
    if sendable:
        described = _describe_question(sendable[0]) if len(sendable) == 1 else f"{len(sendable)} unanswered questions"
        command = f"; ask --resume {conversation_id} --unanswered sends {'it' if len(sendable) == 1 else 'them'}"
        yield f"continuing without {described}{command if conversation_id else ''}"


def _confirm_sending(questions: Sequence[UnansweredQuestion], app: AppContext) -> bool | None:
    """Ask on the terminal whether to send the unanswered questions, too; return None if there is none to ask on."""
    from ask.safety.approval import confirm

    for question in questions:
        app.console.print_notice(f"not sent: {_describe_question(question)}")
    subject = "the unanswered question" if len(questions) == 1 else f"the {len(questions)} unanswered questions"
    return confirm(f"Send {subject} too?")


def add_unanswered(prepared: PreparedRun) -> PreparedRun:
    """Return the run with a message that begins with the unanswered questions; refused ones are left out.

    Raises:
        UsageError: there are none.
    """
    questions = [question for question in prepared.unanswered if not question.is_refused]
    if not questions:
        raise UsageError("there is no unanswered question to send", "leave out --unanswered")
    request, messages = prepared.request, [question.message for question in questions]
    if request.user_message.content:
        messages.append(request.user_message)
    [message] = merge_user_messages(messages)
    return prepared._replace(
        request=request._replace(user_message=message),
        unanswered=_select_refused(prepared.unanswered),
        replaced_runs=[question.run_number for question in questions if question.run_number is not None],
    )


def confirm_unanswered(prepared: PreparedRun, app: AppContext) -> PreparedRun:
    """Ask on the terminal whether to send the unanswered questions too; return the run with or without them.

    Without a terminal, it is returned unchanged, and a notice will say that they are left out.
    """
    questions = [question for question in prepared.unanswered if not question.is_refused]
    if not questions:
        return prepared
    answer = _confirm_sending(questions, app)
    if answer:
        return add_unanswered(prepared)
    return prepared if answer is None else prepared._replace(unanswered=_select_refused(prepared.unanswered))


def _select_refused(questions: Sequence[UnansweredQuestion]) -> list[UnansweredQuestion]:
    return [question for question in questions if question.is_refused]


def print_unanswered(questions: Sequence[UnansweredQuestion], app: AppContext) -> None:
    """Print the questions of the conversation that are not sent again automatically."""
    for question in questions:
        command = "" if question.is_refused else "; --unanswered sends it"
        app.console.print_notice(f"not sent: {_describe_question(question)}{command}")


def report_left_out(prepared: PreparedRun, on_event: Callable[[Event], None]) -> None:
    """Report the questions of the conversation that this run does not send."""
    request = prepared.request
    for notice in _describe_left_out(prepared.unanswered, request.conversation_id if request.settings.save else ""):
        on_event(Notice(notice))
