"""Everything that a command line asks for, read and checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.agent.app_context import AppContext
from ask.agent.model_selection import (
    ModelEndpoint,
    ModelSelection,
    fetch_first_model,
    resolve_endpoint,
    start_preconnection,
)
from ask.agent.toolset import Toolset
from ask.api_keys import Secrets
from ask.atomic_files import PRIVATE_FILE_MODE, create_private_folder
from ask.attachments import (
    describe_media_type,
    format_supported_types,
)
from ask.console import StderrConsole
from ask.context_window import ReportedUsage
from ask.errors import ParameterError, UsageError
from ask.inputs.prompt_inputs import InputReaders, PromptInputs
from ask.inputs.text import compose_prompt, decode_text, format_blocks, parse_model_options, read_stdin, read_text_file
from ask.messages import Attachment, Message
from ask.settings import Settings, get_working_directory, resolve_settings
from ask.text import INVISIBLE_CHARACTERS, decode_argument
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.agent.response_schema import ResponseSchema
    from ask.agent.safe_mode import SafeModeContext
    from ask.agent.template_selection import SelectedTemplate
    from ask.history.conversations import Compaction, ResumedConversation
    from ask.inputs.prompt_inputs import InputReaders, PromptInputs
if TYPE_CHECKING:
    from ask.agent.model_selection import ModelEndpoint
    from ask.agent.template_selection import SelectedTemplate


FIRST_RUN_WARNING = """\
ask: the model can run commands and change files here, as you could. --confirm asks before it does,
ask: --no-tools keeps it from it, and [tools] in {config} says so for good. (This is said once.)"""
FIRST_SAFE_RUN_WARNING = """\
ask: the model can run commands here. --safe lets them change files in this folder and each --allow-dir alone,
ask: and keeps them off the network. --confirm asks before each. (This is said once.)"""
OUTPUT_FORMATS = ("cmd", "code", "schema")
"""The forms of an answer that the user can ask for: each is an option, and a prompt."""


class RunRequest(NamedTuple):
    """What to ask, whom, and how.

    Attributes:
        conversation_id: the id of the conversation.
        message_history: what was said in it before.
        user_message: the user's message.
        extra_system_prompt: what the user adds to the system prompt for this conversation.
        directory: where the run takes place.
        toolset: the tools that there are.
        tools: what to offer.
        settings: how the run works.
        endpoint: whom to ask.
        secrets: the keys, to be kept out of everything.
        reported_usage: what is known of the size of `past`.
        compaction: what a summary is to stand for before the question is asked; None for no summary.
        safe_mode: the run's safe mode; None without.
        summary_end_run: for a question that asks for a summary, the number of the first run that it does not stand for.
        output_format: the form that the answer is to have, of `OUTPUT_FORMATS`; "" for any.
        response_schema: the shape of an answer in the form "schema"; None for any other.
    """

    conversation_id: str
    message_history: Sequence[Message]
    user_message: Message
    extra_system_prompt: str
    directory: Path
    toolset: Toolset
    tools: Sequence[Tool]
    settings: Settings
    endpoint: ModelEndpoint
    secrets: Secrets
    reported_usage: ReportedUsage = ReportedUsage()
    compaction: Compaction | None = None
    summary_end_run: int | None = None
    safe_mode: SafeModeContext | None = None
    output_format: str = ""
    response_schema: ResponseSchema | None = None


def prepare_request(
    flags: Mapping[str, Any], words: Sequence[str], app: AppContext, console: StderrConsole, cleanup: ExitStack
) -> RunRequest:
    """Read all that the run needs, and in safe mode open the sandbox: before anything is sent.

    Args:
        flags: the options by name.
        words: the prompt's words.
        app: what is installed and configured.
        console: takes lines for the user.
        cleanup: is closed when the run is over.

    Raises:
        AskError: something in it makes no sense, or cannot be read.
    """
    question, chosen = prepare_without_prompt(flags, app, console, cleanup)
    asked = read_user_message(flags, words, question, console, chosen)
    if asked.attachments:
        check_attachments_supported(asked.attachments, question.endpoint)
    warn_on_first_run(question, flags, app, console)
    return question._replace(user_message=asked)


def prepare_without_prompt(
    flags: Mapping[str, Any], app: AppContext, console: StderrConsole, cleanup: ExitStack
) -> tuple[RunRequest, SelectedTemplate | None]:
    """The question without what is asked, and the named prompt that asks it; all else as `prepare_request` has it."""
    directory = get_working_directory()
    past = read_continuation(flags, app, directory)
    chosen = read_selected_template(flags, app)
    shape = read_schema(flags["schema"])
    system = read_extra_system_prompt(flags["system"], past, chosen.system_prompt if chosen else "")
    settings = read_settings(flags, system, app, chosen)
    compaction = read_compaction(settings, past.id if past else "", app) if flags["compact"] else None
    for warning in app.config.warnings:
        console.print_line(f"ask: {warning}")
    target = start_preconnection(resolve_endpoint(app, read_model_selection(flags, past, chosen)))
    conversation = past.id if past else generate_conversation_id()
    toolbox = Toolset(app, console, cleanup, flags["functions"])
    tools = toolbox.select_tools(settings, chosen)
    secrets = app.collect_secrets(target.key)
    console.redact = secrets.redact
    confined = open_safe_mode(settings, directory, conversation, app, console) if settings.safe else None
    if confined:
        tools = cleanup.enter_context(confined).sandbox_tools(tools)
    if not target.model:
        target = target._replace(
            model=fetch_first_model(target, lambda text: console.print_line(f"ask: {text}"), settings)
        )
    question = RunRequest(
        conversation_id=conversation,
        message_history=past.messages if past else (),
        user_message=Message("user", ""),
        extra_system_prompt=system,
        directory=directory,
        toolset=toolbox,
        tools=tools,
        settings=settings,
        endpoint=target,
        secrets=secrets,
        safe_mode=confined,
        reported_usage=past.reported_usage
        if past and (past.provider, past.model) == (target.provider_name, target.model)
        else ReportedUsage(),
        compaction=compaction,
        output_format=next((form for form in OUTPUT_FORMATS if flags[form]), ""),
        response_schema=shape,
    )
    return question, chosen


def generate_conversation_id() -> str:
    """An id for a conversation. It begins with a letter, so that no number in a list can be the beginning of one."""
    number = os.urandom(6)
    return "abcdef"[number[0] % 6] + number.hex()[1:]


def read_continuation(flags: Mapping[str, Any], app: AppContext, directory: Path) -> ResumedConversation | None:
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
    from ask.history.conversations import find_conversation, find_current_conversation, load_conversation
    from ask.history.store import Store
    from ask.history.terminal_id import identify_terminal

    with Store(app.history_file, create=False) as store:
        if wanted is not None:
            return load_conversation(store, find_conversation(store, decode_argument(wanted)))
        return load_conversation(
            store, find_current_conversation(store, identify_terminal(app.environment), decode_argument(str(directory)))
        )


def read_selected_template(flags: Mapping[str, Any], app: AppContext) -> SelectedTemplate | None:
    """The named prompt that is asked with, if one is.

    Raises:
        UsageError: there is none of that name, or it lacks a value, or has no use for one.
        ConfigError: it is broken.
    """
    if flags["template"] is None and not flags["variables"]:
        return None
    from ask.agent.template_selection import select_template

    return select_template(flags["template"], flags["variables"], app.prompts_directory)


def read_schema(option_value: str | None) -> ResponseSchema | None:
    """The shape that the answer is to have; None for any.

    Raises:
        UsageError: it makes no sense.
        FileError: its file cannot be read.
    """
    if option_value is None:
        return None
    from ask.agent.response_schema import read_response_schema

    return read_response_schema(option_value)


def read_model_selection(
    flags: Mapping[str, Any], continuation: ResumedConversation | None, selected_template: SelectedTemplate | None
) -> ModelSelection:
    """What is said of the target: by flags, by a named prompt, and by the conversation that goes on."""
    last = (continuation.provider, continuation.model) if continuation else ("", "")
    named = (selected_template.template.provider, selected_template.template.model) if selected_template else ("", "")
    return ModelSelection(flags["provider"], flags["model"], flags["base_url"], flags["key"], last, named)


def read_compaction(settings: Settings, conversation_id: str, app: AppContext) -> Compaction:
    """What of the conversation a summary is to stand for.

    Raises:
        UsageError: no conversation goes on, or nothing is saved.
        FileError: it cannot be read.
    """
    if not conversation_id:
        raise UsageError("--compact needs a conversation to go on with", "use it with -c or --resume ID")
    if not settings.save:
        raise UsageError("--compact saves a summary, and nothing is to be saved", "leave out --no-save")
    from ask.history.conversations import find_conversation, load_compaction
    from ask.history.store import Store

    with Store(app.history_file) as store:
        return load_compaction(store, find_conversation(store, conversation_id))


def read_extra_system_prompt(
    option_value: str | None, continuation: ResumedConversation | None, template_text: str
) -> str:
    """What the user adds to the system prompt, or as before in this conversation where nothing is said now.

    Args:
        option_value: what the option says.
        continuation: the conversation that goes on.
        template_text: what a named prompt says, which comes before what the option says.
    """
    if option_value is None:
        return template_text or (continuation.system if continuation else "")
    own = read_text_file(option_value[1:]) if option_value.startswith("@") else decode_argument(option_value)
    return "\n\n".join(filter(None, (template_text, own)))


def read_settings(
    flags: Mapping[str, Any], extra_system_prompt: str, app: AppContext, selected_template: SelectedTemplate | None
) -> Settings:
    """The settings, with options read that name something else.

    Raises:
        UsageError: an option is given that has no meaning without another, or beside it.
    """
    forms = [f"--{form}" for form in OUTPUT_FORMATS if flags[form]]
    if len(forms) > 1:
        raise UsageError(f"{' and '.join(forms)} are different forms of an answer", "use one of them")
    options = {
        **(selected_template.template.options if selected_template else {}),
        **parse_model_options(map(decode_argument, flags["options"])),
    }
    read = {"option": options, "system": extra_system_prompt}
    read["no_tools"] = flags["no_tools"] or flags["cmd"]
    settings = resolve_settings({**flags, **read}, app.environment, app.config)
    for flag in ("allow_dirs", "allow_hosts", "allow_tools"):
        if flags[flag] and not settings.safe:
            raise UsageError(f"--{flag.replace('_', '-').rstrip('s')} has no meaning without --safe", "add --safe")
    return settings


def open_safe_mode(
    settings: Settings, directory: Path, conversation_id: str, app: AppContext, console: StderrConsole
) -> SafeModeContext:
    """The run's safe mode, opened, with a line for what it does not cover.

    Raises:
        SafetyError: it cannot be had here.
    """
    from ask.agent.safe_mode import SafeModeContext

    spill = app.results_directory / conversation_id
    return SafeModeContext(settings, directory, spill, app, lambda text: console.print_line(f"ask: {text}"))


def read_user_message(
    flags: Mapping[str, Any],
    words: Sequence[str],
    request: RunRequest,
    console: StderrConsole,
    selected_template: SelectedTemplate | None,
) -> Message:
    """The user's message, from a named prompt, words, files and standard input."""
    piped = partial(read_stdin, request.settings.stdin_limit, lambda text: console.print_line(f"ask: {text}"))
    said = decode_argument(" ".join(words))
    if not INVISIBLE_CHARACTERS.sub("", said).strip():
        said = ""
    read = b"" if flags["no_stdin"] or "-" in flags["files"] else piped()
    if not flags["files"] and not is_likely_binary(read):
        text = decode_text(read, "standard input")
        if selected_template and selected_template.has_prompt:
            return Message("user", selected_template.render_prompt(format_blocks(said, (), text)))
        if flags["compact"] and not words and not text.strip():
            return Message("user", "")
        return Message("user", compose_prompt(said, (), text))
    from ask.inputs.sources import parse_stdin_content, read_inputs

    means = create_input_readers(request, console, None if flags["no_stdin"] else partial(piped, allow_terminal=True))
    given = read_inputs(flags["files"], means).merge(parse_stdin_content(read))
    if flags["verbose"]:
        print_input_notes(given, console)
    return compose_message(said, given, selected_template)


def is_likely_binary(data: bytes) -> bool:
    """Whether a content may be something else than text."""
    return b"\0" in data or data.lstrip().startswith((b"%PDF-", b"\xff"))


def create_input_readers(
    request: RunRequest, console: StderrConsole, stdin_reader: Callable[[], bytes] | None
) -> InputReaders:
    """What it takes to read what -f names."""
    from ask.inputs.prompt_inputs import InputReaders

    environment = request.secrets.build_child_environment()
    return InputReaders(
        request.settings.command_timeout, environment, lambda text: console.print_line(f"ask: {text}"), stdin_reader
    )


def print_input_notes(inputs: PromptInputs, console: StderrConsole) -> None:
    """Say what goes along with the text, and what of a folder does not."""
    for line in inputs.notes:
        console.print_dim(f"· {line}\n")


def warn_on_first_run(request: RunRequest, flags: Mapping[str, Any], app: AppContext, console: StderrConsole) -> None:
    """Say on a terminal, the first time that it is so, that the model can run things."""
    if not request.tools or not console.is_terminal or flags["quiet"]:
        return
    told = app.app_dirs.data / ("told-safe" if request.settings.safe else "told")
    try:
        create_private_folder(told.parent)
        told.touch(PRIVATE_FILE_MODE, exist_ok=False)
    except OSError:
        return
    said = FIRST_SAFE_RUN_WARNING if request.settings.safe else FIRST_RUN_WARNING
    console.print_line(said.format(config=app.app_dirs.config / "config.toml"))


def compose_message(words: str, inputs: PromptInputs, selected_template: SelectedTemplate | None = None) -> Message:
    """The user's message: a named prompt's text or the words, then the texts as marked blocks, and the attachments.

    Raises:
        UsageError: there is no question.
    """
    names = f"[attached: {', '.join(attachment.name for attachment in inputs.attachments)}]"
    alone = inputs.attachments and not (words or inputs.texts or inputs.stdin_text.strip())
    said = names if alone else words
    if selected_template and selected_template.has_prompt:
        text = selected_template.render_prompt(format_blocks(said, inputs.texts, inputs.stdin_text))
    else:
        text = compose_prompt(said, inputs.texts, inputs.stdin_text)
    if len(inputs.attachments) > 1 and not alone:
        text = f"{text}\n\n{names}"
    return Message("user", text, attachments=inputs.attachments)


def check_attachments_supported(attachments: Sequence[Attachment], endpoint: ModelEndpoint) -> None:
    """Refuse what the model that is to be asked does not take.

    Raises:
        ParameterError: there is such an attachment.
    """
    takes = partial(endpoint.provider.supports_attachment, endpoint.model)
    for attachment in attachments:
        if not takes(attachment.media_type):
            what = f"{describe_media_type(attachment.media_type)} ({attachment.name})"
            taken = format_supported_types(takes)
            advice = f"it takes {taken}" if taken else "it takes text alone; name another model with -m, or -p"
            raise ParameterError(f"{endpoint.model} of {endpoint.provider_name} takes no {what}", advice)
