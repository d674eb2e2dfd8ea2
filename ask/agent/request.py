"""Everything that a command line asks for, read and checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.agent.model_selection import Target, Wish, choose, dialled, first_model
from ask.agent.toolbox import Toolbox
from ask.agent.workspace import Workspace
from ask.api_keys import Secrets
from ask.atomic_files import PRIVATE_FILE, create_private_folder
from ask.attachments import (
    described,
    what_is_taken,
)
from ask.console import Console
from ask.context_window import Told
from ask.errors import ParameterError, UsageError
from ask.inputs.prompt_inputs import Given, Means
from ask.inputs.text import compose_prompt, decode, marked, read_file, read_options, read_stdin
from ask.messages import Attachment, Message
from ask.settings import Settings, resolve, working_directory
from ask.text import INVISIBLE, as_text
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.agent.response_schema import Shape
    from ask.agent.safe_mode import Confined
    from ask.agent.template_selection import Chosen
    from ask.history.conversations import Compaction, Continuation
    from ask.inputs.prompt_inputs import Given, Means
if TYPE_CHECKING:
    from ask.agent.model_selection import Target
    from ask.agent.template_selection import Chosen


FIRST_RUN = """\
ask: the model can run commands and change files here, as you could. --confirm asks before it does,
ask: --no-tools keeps it from it, and [tools] in {config} says so for good. (This is said once.)"""
FIRST_SAFE_RUN = """\
ask: the model can run commands here. --safe lets them change files in this folder and each --allow-dir alone,
ask: and keeps them off the network. --confirm asks before each. (This is said once.)"""
FORMS = ("cmd", "code", "schema")
"""The forms of an answer that the user can ask for: each is an option, and a prompt."""


class Question(NamedTuple):
    """What to ask, whom, and how.

    Attributes:
        conversation: the id of the conversation.
        past: what was said in it before.
        asked: the user's message.
        system: what the user adds to the system prompt for this conversation.
        directory: where the run takes place.
        toolbox: the tools that there are.
        tools: what to offer.
        settings: how the run works.
        target: whom to ask.
        secrets: the keys, to be kept out of everything.
        told: what is known of the size of `past`.
        compaction: what a summary is to stand for before the question is asked; None for no summary.
        confined: the run's safe mode; None without.
        compacts: for a question that asks for a summary, the number of the first run that it does not stand for.
        form: the form that the answer is to have, of `FORMS`; "" for any.
        shape: the shape of an answer in the form "schema"; None for any other.
    """

    conversation: str
    past: Sequence[Message]
    asked: Message
    system: str
    directory: Path
    toolbox: Toolbox
    tools: Sequence[Tool]
    settings: Settings
    target: Target
    secrets: Secrets
    told: Told = Told()
    compaction: Compaction | None = None
    compacts: int | None = None
    confined: Confined | None = None
    form: str = ""
    shape: Shape | None = None


def read_question(
    flags: Mapping[str, Any], words: Sequence[str], workspace: Workspace, console: Console, cleanup: ExitStack
) -> Question:
    """Read all that the run needs, and in safe mode open the sandbox: before anything is sent.

    Args:
        flags: the options by name.
        words: the prompt's words.
        workspace: what is installed and configured.
        console: takes lines for the user.
        cleanup: is closed when the run is over.

    Raises:
        AskError: something in it makes no sense, or cannot be read.
    """
    question, chosen = read_all_but_prompt(flags, workspace, console, cleanup)
    asked = read_prompt(flags, words, question, console, chosen)
    if asked.attachments:
        check_taken(asked.attachments, question.target)
    tell_once(question, flags, workspace, console)
    return question._replace(asked=asked)


def read_all_but_prompt(
    flags: Mapping[str, Any], workspace: Workspace, console: Console, cleanup: ExitStack
) -> tuple[Question, Chosen | None]:
    """The question without what is asked, and the named prompt that asks it; all else as `read_question` has it."""
    directory = working_directory()
    past = read_past(flags, workspace, directory)
    chosen = read_template(flags, workspace)
    shape = read_schema(flags["schema"])
    system = read_system(flags["system"], past, chosen.system if chosen else "")
    settings = read_settings(flags, system, workspace, chosen)
    compaction = read_compaction(settings, past.id if past else "", workspace) if flags["compact"] else None
    for warning in workspace.config.warnings:
        console.line(f"ask: {warning}")
    target = dialled(choose(workspace, read_wish(flags, past, chosen)))
    conversation = past.id if past else new_id()
    toolbox = Toolbox(workspace, console, cleanup, flags["functions"])
    tools = toolbox.offered(settings, chosen)
    secrets = workspace.secrets(target.key)
    console.redact = secrets.redact
    confined = confine_run(settings, directory, conversation, workspace, console) if settings.safe else None
    if confined:
        tools = cleanup.enter_context(confined).offered(tools)
    if not target.model:
        target = target._replace(model=first_model(target, lambda text: console.line(f"ask: {text}"), settings))
    question = Question(
        conversation=conversation,
        past=past.messages if past else (),
        asked=Message("user", ""),
        system=system,
        directory=directory,
        toolbox=toolbox,
        tools=tools,
        settings=settings,
        target=target,
        secrets=secrets,
        confined=confined,
        told=past.told if past and (past.provider, past.model) == (target.name, target.model) else Told(),
        compaction=compaction,
        form=next((form for form in FORMS if flags[form]), ""),
        shape=shape,
    )
    return question, chosen


def new_id() -> str:
    """An id for a conversation. It begins with a letter, so that no number in a list can be the beginning of one."""
    number = os.urandom(6)
    return "abcdef"[number[0] % 6] + number.hex()[1:]


def read_past(flags: Mapping[str, Any], workspace: Workspace, directory: Path) -> Continuation | None:
    """The conversation that goes on, if one does.

    Raises:
        UsageError: there is no such conversation.
        FileError: it cannot be read.
    """
    wanted = flags["resume"]
    if wanted is None and not flags["go_on"]:
        return None
    if wanted is not None and flags["go_on"]:
        raise UsageError("--continue and --resume name two conversations", "use one of them")
    from ask.history.conversations import continuation, find, newest_here
    from ask.history.store import Store
    from ask.history.terminal_id import this_terminal

    with Store(workspace.history, create=False) as store:
        if wanted is not None:
            return continuation(store, find(store, as_text(wanted)))
        return continuation(store, newest_here(store, this_terminal(workspace.environment), as_text(str(directory))))


def read_template(flags: Mapping[str, Any], workspace: Workspace) -> Chosen | None:
    """The named prompt that is asked with, if one is.

    Raises:
        UsageError: there is none of that name, or it lacks a value, or has no use for one.
        ConfigError: it is broken.
    """
    if flags["template"] is None and not flags["variables"]:
        return None
    from ask.agent.template_selection import choose_template

    return choose_template(flags["template"], flags["variables"], workspace.prompts)


def read_schema(given: str | None) -> Shape | None:
    """The shape that the answer is to have; None for any.

    Raises:
        UsageError: it makes no sense.
        FileError: its file cannot be read.
    """
    if given is None:
        return None
    from ask.agent.response_schema import read_shape

    return read_shape(given)


def read_wish(flags: Mapping[str, Any], past: Continuation | None, chosen: Chosen | None) -> Wish:
    """What is said of the target: by flags, by a named prompt, and by the conversation that goes on."""
    last = (past.provider, past.model) if past else ("", "")
    named = (chosen.template.provider, chosen.template.model) if chosen else ("", "")
    return Wish(flags["provider"], flags["model"], flags["base_url"], flags["key"], last, named)


def read_compaction(settings: Settings, conversation: str, workspace: Workspace) -> Compaction:
    """What of the conversation a summary is to stand for.

    Raises:
        UsageError: no conversation goes on, or nothing is saved.
        FileError: it cannot be read.
    """
    if not conversation:
        raise UsageError("--compact needs a conversation to go on with", "use it with -c or --resume ID")
    if not settings.save:
        raise UsageError("--compact saves a summary, and nothing is to be saved", "leave out --no-save")
    from ask.history.conversations import compaction, find
    from ask.history.store import Store

    with Store(workspace.history) as store:
        return compaction(store, find(store, conversation))


def read_system(given: str | None, past: Continuation | None, named: str) -> str:
    """What the user adds to the system prompt, or as before in this conversation where nothing is said now.

    Args:
        given: what the option says.
        past: the conversation that goes on.
        named: what a named prompt says, which comes before what the option says.
    """
    if given is None:
        return named or (past.system if past else "")
    own = read_file(given[1:]) if given.startswith("@") else as_text(given)
    return "\n\n".join(filter(None, (named, own)))


def read_settings(flags: Mapping[str, Any], system: str, workspace: Workspace, chosen: Chosen | None) -> Settings:
    """The settings, with options read that name something else.

    Raises:
        UsageError: an option is given that has no meaning without another, or beside it.
    """
    forms = [f"--{form}" for form in FORMS if flags[form]]
    if len(forms) > 1:
        raise UsageError(f"{' and '.join(forms)} are different forms of an answer", "use one of them")
    options = {**(chosen.template.options if chosen else {}), **read_options(map(as_text, flags["options"]))}
    read = {"option": options, "system": system}
    read["no_tools"] = flags["no_tools"] or flags["cmd"]
    settings = resolve({**flags, **read}, workspace.environment, workspace.config)
    for flag in ("allow_dirs", "allow_hosts", "allow_tools"):
        if flags[flag] and not settings.safe:
            raise UsageError(f"--{flag.replace('_', '-').rstrip('s')} has no meaning without --safe", "add --safe")
    return settings


def confine_run(
    settings: Settings, directory: Path, conversation: str, workspace: Workspace, console: Console
) -> Confined:
    """The run's safe mode, opened, with a line for what it does not cover.

    Raises:
        SafetyError: it cannot be had here.
    """
    from ask.agent.safe_mode import Confined

    spill = workspace.results / conversation
    return Confined(settings, directory, spill, workspace, lambda text: console.line(f"ask: {text}"))


def read_prompt(
    flags: Mapping[str, Any], words: Sequence[str], question: Question, console: Console, chosen: Chosen | None
) -> Message:
    """The user's message, from a named prompt, words, files and standard input."""
    piped = partial(read_stdin, question.settings.stdin_limit, lambda text: console.line(f"ask: {text}"))
    said = as_text(" ".join(words))
    if not INVISIBLE.sub("", said).strip():
        said = ""
    read = b"" if flags["no_stdin"] or "-" in flags["files"] else piped()
    if not flags["files"] and not needs_look(read):
        text = decode(read, "standard input")
        if chosen and chosen.asks:
            return Message("user", chosen.question(marked(said, (), text)))
        if flags["compact"] and not words and not text.strip():
            return Message("user", "")
        return Message("user", compose_prompt(said, (), text))
    from ask.inputs.sources import gather, of_stdin

    means = means_of(question, console, None if flags["no_stdin"] else partial(piped, typed=True))
    given = gather(flags["files"], means).and_more(of_stdin(read))
    if flags["verbose"]:
        tell_of(given, console)
    return compose_message(said, given, chosen)


def needs_look(data: bytes) -> bool:
    """Whether a content may be something else than text."""
    return b"\0" in data or data.lstrip().startswith((b"%PDF-", b"\xff"))


def means_of(question: Question, console: Console, stdin: Callable[[], bytes] | None) -> Means:
    """What it takes to read what -f names."""
    from ask.inputs.prompt_inputs import Means

    environment = question.secrets.clean_environment()
    return Means(question.settings.command_timeout, environment, lambda text: console.line(f"ask: {text}"), stdin)


def tell_of(given: Given, console: Console) -> None:
    """Say what goes along with the text, and what of a folder does not."""
    for line in given.lines:
        console.dim(f"· {line}\n")


def tell_once(question: Question, flags: Mapping[str, Any], workspace: Workspace, console: Console) -> None:
    """Say on a terminal, the first time that it is so, that the model can run things."""
    if not question.tools or not console.terminal or flags["quiet"]:
        return
    told = workspace.places.data / ("told-safe" if question.settings.safe else "told")
    try:
        create_private_folder(told.parent)
        told.touch(PRIVATE_FILE, exist_ok=False)
    except OSError:
        return
    said = FIRST_SAFE_RUN if question.settings.safe else FIRST_RUN
    console.line(said.format(config=workspace.places.config / "config.toml"))


def compose_message(words: str, given: Given, chosen: Chosen | None = None) -> Message:
    """The user's message: a named prompt's text or the words, then the texts as marked blocks, and the attachments.

    Raises:
        UsageError: there is no question.
    """
    names = f"[attached: {', '.join(attachment.name for attachment in given.attachments)}]"
    alone = given.attachments and not (words or given.texts or given.piped.strip())
    said = names if alone else words
    if chosen and chosen.asks:
        text = chosen.question(marked(said, given.texts, given.piped))
    else:
        text = compose_prompt(said, given.texts, given.piped)
    if len(given.attachments) > 1 and not alone:
        text = f"{text}\n\n{names}"
    return Message("user", text, attachments=given.attachments)


def check_taken(attachments: Sequence[Attachment], target: Target) -> None:
    """Refuse what the model that is to be asked does not take.

    Raises:
        ParameterError: there is such an attachment.
    """
    takes = partial(target.provider.takes, target.model)
    for attachment in attachments:
        if not takes(attachment.media_type):
            what = f"{described(attachment.media_type)} ({attachment.name})"
            taken = what_is_taken(takes)
            advice = f"it takes {taken}" if taken else "it takes text alone; name another model with -m, or -p"
            raise ParameterError(f"{target.model} of {target.name} takes no {what}", advice)
