"""Questions that got no answer: later requests leave them out, unless the user wants to send them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ask.app import AppContext
from ask.messages import UnansweredQuestion
from ask.text import format_one_line

MAX_EXCERPT_LENGTH = 60


def describe_question(question: UnansweredQuestion) -> str:
    """Describe a question by whether it was refused and the beginning of its text."""
    kind = "refused" if question.is_refused else "unanswered"
    return f"the {kind} question {format_one_line(question.message.content, MAX_EXCERPT_LENGTH)!r}"


def describe_left_out(questions: Sequence[UnansweredQuestion], conversation_id: str) -> Iterator[str]:
    """Yield notices about the questions that are left out.

    `conversation_id` is for the command that sends them; "" if the conversation is not saved.
    """
    refused = [question for question in questions if question.is_refused]
    sendable = [question for question in questions if not question.is_refused]
    if refused:
        described = describe_question(refused[0]) if len(refused) == 1 else f"{len(refused)} refused questions"
        yield f"continuing without {described}"
    if sendable:
        described = describe_question(sendable[0]) if len(sendable) == 1 else f"{len(sendable)} unanswered questions"
        command = f"; ask --resume {conversation_id} --unanswered sends {'it' if len(sendable) == 1 else 'them'}"
        yield f"continuing without {described}{command if conversation_id else ''}"


def confirm_sending(questions: Sequence[UnansweredQuestion], app: AppContext) -> bool | None:
    """Ask on the terminal whether to send the unanswered questions, too; return None if there is none to ask on."""
    from ask.safety.approval import confirm

    for question in questions:
        app.console.print_notice(f"not sent: {describe_question(question)}")
    subject = "the unanswered question" if len(questions) == 1 else f"the {len(questions)} unanswered questions"
    return confirm(f"Send {subject} too?")
