"""A chat's state: the question that the next message completes, and what becomes of it. Each message is a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ask.agent.model_selection import Wish, choose, first_model, name_and_model
from ask.agent.request import (
    Question,
    confine_run,
    means_of,
    new_id,
    read_all_but_prompt,
    read_settings,
    tell_of,
    tell_once,
)
from ask.agent.run import converse_as_settled, recorded_exit_code
from ask.agent.tool_loop import Outcome
from ask.agent.workspace import Workspace
from ask.cli.chat.conversation import delete, last_exchange, read_again
from ask.cli.run import open_renderer
from ask.console import Console
from ask.context_window import Told
from ask.errors import Interrupted, UsageError
from ask.events import Event
from ask.messages import Message

if TYPE_CHECKING:
    from ask.inputs.prompt_inputs import Given


class Session:
    """A chat.

    Args:
        flags: the options by name, as `ask` has them.
        workspace: what is installed and configured.
        console: takes lines for the user.
        cleanup: is closed when the chat is over.

    Attributes:
        question: what is settled of the next question: everything but the message.
        used: all that was used so far, and how many rounds.
        messages: how many messages were sent.
        saved: whether anything of the conversation is saved.

    Raises:
        AskError: something in it makes no sense, or cannot be read.
    """

    def __init__(self, flags: Mapping[str, Any], workspace: Workspace, console: Console, cleanup: ExitStack) -> None:
        self.flags = dict(flags)
        self.workspace = workspace
        self.console = console
        self._always = Console(workspace.environment, quiet=False, plain=flags["plain"])
        self._cleanup = cleanup
        self.question, self._chosen = read_all_but_prompt(self.flags, workspace, console, cleanup)
        self._opening = self._chosen if self._chosen and self._chosen.asks else None
        self._given = self._read(flags["files"]) if flags["files"] else None
        self._tools: bool | None = None
        self.used = Outcome([])
        self.messages = 0
        self.saved = bool(self.question.past)

    # Messages

    def say(self, text: str) -> None:
        """Send a message, and show the answer.

        Raises:
            AskError: what ended the run, after everything that was said is shown. The chat can go on.
        """
        asked = self._message(text)
        outcome, saved = self._work(asked)
        self._go_on(outcome, saved=saved)

    def _message(self, text: str) -> Message:
        """The next message: what was said, with the files that were added to it.

        Raises:
            ParameterError: the model does not take one of them; they are left out of later messages.
        """
        given, opening = self._given, self._opening
        self._given = None
        if given is None:
            self._opening = None
            return Message("user", opening.question(text) if opening else text)
        from ask.agent.request import check_taken, compose_message

        check_taken(given.attachments, self.question.target)
        self._opening = None
        return compose_message(text, given, opening)

    def retry(self) -> None:
        """Ask the last message again. What was answered before goes once there is another answer.

        Raises:
            UsageError: there is none, or the conversation has gone on elsewhere.
            AskError: what ended the run.
        """
        last, before = last_exchange(self.question, self.workspace), self.question
        self.question = before._replace(past=before.past[: last.place], told=Told())
        outcome, saved = self._work(last.asked)
        if outcome.answered or not last.answered:
            delete(last.run, self.workspace)
        else:
            self.question = before
            delete(last_exchange(before, self.workspace).run if saved else None, self.workspace)
            outcome.messages = list(before.past)
        self._go_on(outcome, saved=saved)

    def drop(self) -> None:
        """Take the last message and its answer out of the conversation.

        Raises:
            UsageError: there is none, or the conversation has gone on elsewhere.
            FileError: the history cannot be written.
        """
        last = last_exchange(self.question, self.workspace)
        delete(last.run, self.workspace)
        self.question = self.question._replace(past=self.question.past[: last.place], told=Told())
        self.question = read_again(self.question, self.workspace)
        self.saved = self.saved and bool(self.question.past)

    def _work(self, asked: Message) -> tuple[Outcome, bool]:
        """Let the agent work on a message, and show it."""
        question = self.question._replace(asked=asked)
        tell_once(question, self.flags, self.workspace, self.console)
        renderer = open_renderer(self.flags, question, self.console)
        try:
            outcome, saved = converse_as_settled(question, self.workspace, renderer.show)
        except KeyboardInterrupt:  # outside of the agent's work
            self.question = read_again(self.question, self.workspace)
            raise Interrupted("interrupted") from None
        self.saved = self.saved or saved
        self.messages += 1
        self._count(outcome)
        in_json = self.flags["as_json"] or self.flags["as_events"]
        with recorded_exit_code(outcome, question, self.workspace):
            renderer.finish(outcome, question.conversation if saved and in_json else "")
        return outcome, saved

    def _go_on(self, outcome: Outcome, *, saved: bool) -> None:
        """Go on from what was said.

        Raises:
            AskError: what ended the run.
        """
        self.question = self.question._replace(past=outcome.messages, told=Told())
        if saved:
            self.question = read_again(self.question, self.workspace)
        if outcome.failure is not None:
            raise outcome.failure

    # What is settled

    def choose_model(self, model: str) -> None:
        """Ask this model from now on, of the same provider unless another is named with it.

        Raises:
            AskError: there is no such provider, or no key.
        """
        self._retarget(Wish(model=model, last=(self.question.target.name, "")))

    def choose_provider(self, provider: str) -> None:
        """Ask this provider from now on.

        Raises:
            AskError: there is no such one, or no key.
        """
        self._retarget(Wish(provider=provider))

    def _retarget(self, wish: Wish) -> None:
        current = self.question.target
        if name_and_model(self.workspace, wish)[0] == current.name:
            wish = wish._replace(base_url=current.base_url, key=current.key)
        target = choose(self.workspace, wish)
        secrets = self.workspace.secrets(target.key, current.key)
        self.console.redact = secrets.redact
        if not target.model:
            target = target._replace(model=first_model(target, self._notice, self.question.settings))
        self.question = self.question._replace(target=target, secrets=secrets, told=Told())

    def add_to_system(self, text: str) -> None:
        """Add this to the system prompt, in place of what was added before."""
        self.question = self.question._replace(system=text)
        self._settle()

    def offer_tools(self, *, wanted: bool) -> None:
        """Offer tools from now on, or none."""
        self._tools = wanted
        self._settle()

    def confine(self) -> None:
        """Confine the tools from now on.

        Raises:
            SafetyError: that cannot be had here.
        """
        self.flags["safe"] = True
        try:
            self._settle()
        except BaseException:
            self.flags["safe"] = self.question.confined is not None
            raise

    def _settle(self) -> None:
        """Have the settings and tools agree with what is wanted now."""
        question = self.question
        settings = read_settings(self.flags, question.system, self.workspace, self._chosen)
        if self._tools is not None:
            settings = settings._replace(tools=self._tools)
        tools = question.toolbox.offered(settings, self._chosen)
        confined = question.confined
        if settings.safe and not confined:
            place = (question.directory, question.conversation, self.workspace, self.console)
            confined = self._cleanup.enter_context(confine_run(settings, *place))
        if confined:
            tools = confined.offered(tools)
        self.question = question._replace(settings=settings, tools=tools, confined=confined)

    def add_file(self, typed: str) -> Given:
        """Add what a path names, or several, to the next message; what that is.

        Raises:
            AskError: it cannot be had, or is nothing that the model takes.
        """
        from ask.agent.request import check_taken
        from ask.inputs.sources import dropped_paths

        given = self._read(dropped_paths(typed))
        check_taken(given.attachments, self.question.target)
        self._given = self._given.and_more(given) if self._given else given
        return given

    def _read(self, sources: Sequence[str]) -> Given:
        """Read files for the next message: standard input is what is typed."""
        from ask.inputs.sources import gather

        given = gather(sources, means_of(self.question, self.console, None))
        if self.flags["verbose"]:
            tell_of(given, self.console)
        return given

    def compact(self) -> None:
        """Have a summary stand for what is old.

        Raises:
            AskError: there is none; nothing has changed then.
        """
        from ask.agent.compaction import compact, summarised
        from ask.agent.request import read_compaction
        from ask.agent.run import converse_and_save

        if not self.question.past:
            raise UsageError("there is nothing to summarise yet", "type a message")

        def converse(question: Question, workspace: Workspace, show: Callable[[Event], None]) -> tuple[Outcome, bool]:
            outcome, saved = converse_and_save(question, workspace, show)
            self._count(outcome)
            return outcome, saved

        part = read_compaction(self.question.settings, self.question.conversation, self.workspace)
        question = self.question._replace(compaction=part, asked=Message("user", ""))
        of_summary = compact(question, self.workspace, self.console, converse)
        past = summarised(of_summary, self.workspace, self.console, converse)
        self.question = self.question._replace(past=past, told=Told())

    def clear(self) -> None:
        """Begin a new conversation."""
        self.question = self.question._replace(conversation=new_id(), past=(), told=Told())
        self.saved = False

    def tell(self, text: str) -> None:
        """Say what the user wanted to know, or must: --quiet is about everything else."""
        self._always.line(self.redact(text))

    def redact(self, text: str) -> str:
        """The text without the keys that are known by now."""
        return self.console.redact(text)

    def _notice(self, text: str) -> None:
        self.console.line(f"ask: {text}")

    def _count(self, outcome: Outcome) -> None:
        self.used.usage += outcome.usage
        self.used.rounds += outcome.rounds
