"""One run: connects the model, the tools and the history, and runs the tool loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from ask.agent.backups import Originals
from ask.agent.call_explanation import explain
from ask.agent.context_limit import context_limit
from ask.agent.model_selection import cost_counter, open_exchange
from ask.agent.request import Question
from ask.agent.system_prompt import system_prompt
from ask.agent.tool_loop import Agent, Job, Outcome
from ask.agent.tool_runner import CallRunner
from ask.agent.workspace import Workspace
from ask.errors import AskError, Interrupted, ReaderGone, unforeseen
from ask.events import CallOutput, Event, Notice
from ask.safety.approval import anything, ask_on_terminal
from ask.safety.policy import Policy, Proposal
from ask.safety.tool_call_log import AuditLog
from ask.text import as_text
from ask.tools.base import ToolContext

if TYPE_CHECKING:
    pass

CUT_ADVICE = " (all of it stays saved, and ask -c --compact replaces what is old by a summary)"


def converse_as_settled(
    question: Question, workspace: Workspace, show: Callable[[Event], None]
) -> tuple[Outcome, bool]:
    """Let the agent work, and save what happens unless that is not wanted; returns too whether it is saved."""
    question = question._replace(asked=question.secrets.redactor.redact_message(question.asked))
    if question.settings.save:
        return converse_and_save(question, workspace, show)
    return converse(question, workspace, show), False


def converse_and_save(question: Question, workspace: Workspace, show: Callable[[Event], None]) -> tuple[Outcome, bool]:
    """Let the agent work, and save all that happens; returns too whether it is saved.

    What is shown was saved before, since a reader that leaves ends the run.
    """
    from ask.history.recorder import About, Recorder
    from ask.history.terminal_id import this_terminal

    about = About(
        conversation=question.conversation,
        provider=question.target.name,
        model=question.target.model,
        system=question.secrets.redact(question.system),
        directory=as_text(str(question.directory)),
        terminal=this_terminal(workspace.environment),
        compacts=question.compacts,
    )
    recorder = Recorder(workspace.history, about, lambda text: show(Notice(text)))

    def save_and_show(event: Event) -> None:
        recorder.show(event)
        show(event)

    recorder.begin(question.asked)
    try:
        outcome = converse(question, workspace, save_and_show)
    except BaseException as ending:
        recorder.end(exit_code_of(ending))
        raise
    recorder.end(outcome.failure.exit_code if outcome.failure else 0, outcome.failure, outcome.usage)
    outcome.saved_run = recorder.run if recorder.saving else None
    return outcome, recorder.saving


@contextmanager
def recorded_exit_code(outcome: Outcome, question: Question, workspace: Workspace) -> Iterator[None]:
    """Correct the exit code in the history if an exception ends the process after the run is over."""
    try:
        yield
    except BaseException as error:
        failure = error if isinstance(error, AskError) else None
        if failure is not None:
            failure.take_out(question.secrets.redact)
        record_exit_code(outcome, workspace, exit_code_of(error), failure)
        raise


def record_exit_code(outcome: Outcome, workspace: Workspace, exit_code: int, failure: AskError | None = None) -> None:
    """Correct the exit code of a run in the history, if it is saved there."""
    if outcome.saved_run is not None:
        from ask.history.recorder import correct_exit_code

        correct_exit_code(workspace.history, outcome.saved_run, exit_code, failure)


def exit_code_of(error: BaseException) -> int:
    """Find the exit code of the process that this exception ends."""
    match error:
        case SystemExit(code=int(code)):
            return code
        case KeyboardInterrupt():
            return Interrupted.exit_code
        case BrokenPipeError():
            return ReaderGone.exit_code
        case AskError():
            return error.exit_code
        case Exception():
            return unforeseen(error).exit_code
    return AskError.exit_code


def converse(question: Question, workspace: Workspace, show: Callable[[Event], None]) -> Outcome:
    """Wire the parts together and let the agent work.

    Args:
        question: what to ask.
        workspace: where logs and long results go.
        show: takes the events.
    """
    settings, target = question.settings, question.target
    exchange = open_exchange(target, lambda text: show(Notice(text)), settings, question.secrets.redactor)
    system = partial(
        system_prompt,
        own=settings.system,
        today=date.today(),
        directory=question.directory,
        environment=workspace.environment,
        placeholders=question.confined.placeholders if question.confined else (),
    )
    job = Job(
        target.model,
        partial(system, form=question.form, schema=question.shape.words if question.shape else ""),
        [tool.spec for tool in question.tools],
        settings.options,
        settings.stream,
        settings.max_rounds,
        told=question.told,
        context_limit=context_limit(target, workspace.places.cache, settings, continued=bool(question.past)),
        cut_advice=CUT_ADVICE if settings.save else "",
        only_answer=question.compacts is not None,
    )
    if question.shape is not None:
        job = job._replace(schema=question.shape.schema, problem=question.shape.problem)
    if settings.max_cost is not None:
        job = job._replace(max_cost=settings.max_cost, cost=cost_counter(target, exchange))
    with Originals(question, workspace, show) as originals:
        calls = call_runner(question, workspace, partial(explain, exchange, target.model, system), originals, show)
        if not gc.isenabled():  # in a chat, once: what it leaves behind after each message is to be collected
            gc.freeze()
            gc.enable()
        outcome = Agent(exchange, calls, show).run([*question.past, question.asked], job)
    if outcome.failure is not None:
        outcome.failure.take_out(question.secrets.redact)  # before it is saved
    return outcome


def call_runner(
    question: Question,
    workspace: Workspace,
    explain: Callable[[Proposal], str],
    originals: Originals,
    show: Callable[[Event], None],
) -> CallRunner:
    """What carries out the calls of a run."""
    settings, secrets, confined = question.settings, question.secrets, question.confined
    context = ToolContext(
        directory=question.directory,
        environment=secrets.clean_environment(),
        command_timeout=settings.command_timeout,
        spill_directory=confined.confinement.spill if confined else workspace.results,
        on_output=lambda text: show(CallOutput(secrets.redact(text))),
        keep_original=originals.keep,
        redactor=secrets.redactor,
        restrict_hosts=confined.hosts if confined else None,
    )
    return CallRunner(
        question.tools,
        context,
        confined.policy if confined else Policy(confirm=settings.confirm, yes=settings.yes),
        approve=partial(ask_on_terminal, explain=explain, may_read=confined.may_read if confined else anything),
        log=AuditLog(workspace.places.data / "audit.jsonl", question.conversation),
        redactor=secrets.redactor,
        show=show,
        prepare=originals.prepare,
    )
