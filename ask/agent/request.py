"""The complete request of a command line, read and checked before anything is sent."""

from __future__ import annotations

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
    resolve_fallbacks,
    start_preconnection,
)
from ask.agent.toolset import Toolset, has_context_files
from ask.atomic_files import PRIVATE_FILE_MODE, create_private_folder
from ask.console import StderrConsole
from ask.errors import ParameterError, UsageError
from ask.history.ids import generate_conversation_id, identify_terminal
from ask.inputs.readers import decode_text, read_stdin, read_text_file
from ask.messages import Message, ReportedUsage
from ask.prompt_blocks import compose_prompt, format_blocks
from ask.secrets import Secrets
from ask.settings import FILES_LEVEL, Settings, get_working_directory, parse_model_options, resolve_settings
from ask.text import INVISIBLE_CHARACTERS, decode_argument
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.agent.project_context import ProjectContext
    from ask.agent.response_schema import ResponseSchema
    from ask.agent.safe_mode import SafeModeContext
    from ask.agent.template_selection import SelectedTemplate
    from ask.history.conversations import ResumedConversation
    from ask.inputs.prompt_inputs import InputReaders, PromptInputs


FIRST_RUN_WARNING = (
    "ask: the model can run commands and change files, just as you can.\n"
    "ask: --confirm asks before each action; --no-tools disables tools. (Shown once.)"
)
FIRST_SAFE_RUN_WARNING = (
    "ask: the model can run commands, confined to this folder and without network.\n"
    "ask: --confirm asks before each one; --allow-dir adds folders. (Shown once.)"
)
FIRST_FILES_RUN_WARNING = (
    "ask: the model can read and write files in this folder, but run no commands.\n"
    "ask: --confirm asks before each write; --allow-dir adds folders. (Shown once.)"
)
OUTPUT_FORMATS = ("cmd", "code", "schema")
"""The output formats; each is a command line option and a prompt."""


class RunRequest(NamedTuple):
    """The input of one run: the message, the model, the tools and the settings.

    Attributes:
        conversation_id: the ID of the conversation.
        message_history: the earlier messages of the conversation.
        user_message: the message to answer.
        extra_system_prompt: the user's addition to the system prompt of this conversation.
        directory: the working directory.
        tools: the tools to offer.
        settings: the settings of the run.
        endpoint: the provider and model to ask.
        secrets: the API keys, to be redacted.
        reported_usage: the known size of `message_history`.
        safe_mode: the run's safe mode; None if it is off.
        summary_end_run: for a request that asks for a summary, the number of the first run that it does not cover.
        output_format: one of `OUTPUT_FORMATS`; "" for any format.
        response_schema: the schema of an answer in the format "schema"; None for any other format.
        fallbacks: the providers and models to ask in turn if `endpoint` cannot answer.
        project_context: the project's instructions, and the skills; None if there are none or tools are off.
    """

    conversation_id: str
    message_history: Sequence[Message]
    user_message: Message
    extra_system_prompt: str
    directory: Path
    tools: Sequence[Tool]
    settings: Settings
    endpoint: ModelEndpoint
    secrets: Secrets
    reported_usage: ReportedUsage = ReportedUsage()
    summary_end_run: int | None = None
    safe_mode: SafeModeContext | None = None
    output_format: str = ""
    response_schema: ResponseSchema | None = None
    fallbacks: Sequence[ModelEndpoint] = ()
    project_context: ProjectContext | None = None


def prepare_request(
    flags: Mapping[str, Any], words: Sequence[str], app: AppContext, console: StderrConsole, cleanup: ExitStack
) -> RunRequest:
    """Read everything the run needs and, in safe mode, open the sandbox.

    Args:
        flags: the command line options by name.
        words: the words of the prompt.
        app: the user's installation.
        console: prints notices.
        cleanup: is closed at the end of the run.

    Raises:
        AskError: an option or the configuration is invalid, or an input cannot be read.
    """
    toolset = Toolset(app, console, cleanup, flags["functions"])
    request, template = prepare_without_prompt(flags, app, console, cleanup, toolset)
    message = read_user_message(flags, words, request, console, template)
    if message.attachments:
        from ask.agent.user_message import check_attachments_supported

        check_attachments_supported(message.attachments, request.endpoint)
    warn_on_first_run(request, flags, app, console)
    return request._replace(user_message=message)


def prepare_without_prompt(
    flags: Mapping[str, Any],
    app: AppContext,
    console: StderrConsole,
    cleanup: ExitStack,
    toolset: Toolset,
    *,
    template: SelectedTemplate | None = None,
) -> tuple[RunRequest, SelectedTemplate | None]:
    """Prepare the request without its message.

    Returns it with the selected template, by default that of -t, and raises the errors of `prepare_request`.
    """
    directory = get_working_directory()
    continuation = read_continuation(flags, app, directory)
    template = template or read_selected_template(flags, app)
    response_schema = read_schema(flags["schema"])
    extra_system_prompt = read_extra_system_prompt(
        flags["system"], continuation, template.system_prompt if template else ""
    )
    settings = read_settings(flags, extra_system_prompt, app, template)
    for warning in app.config.warnings:
        console.print_notice(warning)
    project_context = read_project_context(flags, settings, app, console, toolset, template=template)
    endpoint = resolve_endpoint(app, read_model_selection(flags, continuation, template))
    endpoint = start_preconnection(endpoint, settings)
    fallbacks = resolve_fallbacks(app, settings.fallback, endpoint)
    conversation_id = continuation.id if continuation else generate_conversation_id()
    tools = toolset.select_tools(settings, template)
    secrets = app.collect_secrets(endpoint.key, *(fallback.key for fallback in fallbacks))
    console.redact = secrets.redact
    safe_mode = open_safe_mode(settings, directory, conversation_id, app, console) if settings.safe else None
    if safe_mode:
        tools = cleanup.enter_context(safe_mode).confine_tools(tools)
    if not endpoint.model:
        endpoint = endpoint._replace(model=fetch_first_model(endpoint, console.print_notice, settings))
    is_same_model = read_last_model(continuation) == (endpoint.provider_name, endpoint.model)
    request = RunRequest(
        conversation_id=conversation_id,
        message_history=continuation.messages if continuation else (),
        user_message=Message("user", ""),
        extra_system_prompt=extra_system_prompt,
        directory=directory,
        tools=tools,
        settings=settings,
        endpoint=endpoint,
        secrets=secrets,
        safe_mode=safe_mode,
        reported_usage=continuation.reported_usage if continuation and is_same_model else ReportedUsage(),
        output_format=next((form for form in OUTPUT_FORMATS if flags[form]), ""),
        response_schema=response_schema,
        fallbacks=fallbacks,
        project_context=project_context,
    )
    return request, template


def add_models(
    request: RunRequest, models: Sequence[str], flags: Mapping[str, Any], app: AppContext
) -> tuple[RunRequest, ...]:
    """Return the request, and the same request for each of the other models.

    Raises:
        AskError: one of them cannot be used.
    """
    requests = [request]
    for model in models:
        endpoint = resolve_endpoint(app, ModelSelection(flags["provider"], model, flags["base_url"], flags["key"]))
        if not endpoint.model:
            raise ParameterError(f"-m {model} does not name a model", "write provider:model")
        requests.append(request._replace(endpoint=endpoint, secrets=app.collect_secrets(endpoint.key)))
    return tuple(requests)


def read_project_context(
    flags: Mapping[str, Any],
    settings: Settings,
    app: AppContext,
    console: StderrConsole,
    toolset: Toolset,
    *,
    template: SelectedTemplate | None,
) -> ProjectContext | None:
    """Read the instructions of the project and the skills; add the tool that reads skills to the toolset.

    Returns None if tools are off or there are no such files.

    Raises:
        UsageError: the options contradict each other.
        FileError: the user's earlier decisions cannot be read.
    """
    if flags["context"] and flags["no_context"]:
        raise UsageError("--context and --no-context contradict each other", "use one of them")
    directory = get_working_directory()
    has_tools = settings.tools and (template is None or template.template.tools)
    if not has_tools or not has_context_files(directory, settings, app):
        return None
    from ask.agent.project_context import load_project_context
    from ask.context.skills import create_skill_tool

    allowed = True if flags["context"] else False if flags["no_context"] else None
    context = load_project_context(app, settings.context_files, directory, console, allowed=allowed)
    if context.skills:
        toolset.skill_tools = (create_skill_tool(context.skills),)
    return context


def check_saves_summary(settings: Settings) -> None:
    """Raise `UsageError` if a summary cannot be saved."""
    if not settings.save:
        raise UsageError("a summary must be saved, but saving is disabled", "see history.enabled in ask config")


def read_continuation(flags: Mapping[str, Any], app: AppContext, directory: Path) -> ResumedConversation | None:
    """Load the conversation to continue; None for a new one.

    Raises:
        UsageError: there is no such conversation.
        FileError: it cannot be read.
    """
    conversation_id = flags["resume"]
    if conversation_id is None and not flags["go_on"]:
        return None
    if conversation_id is not None and flags["go_on"]:
        raise UsageError("--continue and --resume cannot be combined", "use one of them")
    from ask.history.conversations import find_conversation, find_current_conversation, load_conversation
    from ask.history.store import Store

    with Store(app.app_dirs.history_file, create=False) as store:
        if conversation_id is not None:
            return load_conversation(store, find_conversation(store, decode_argument(conversation_id)))
        return load_conversation(
            store, find_current_conversation(store, identify_terminal(app.environment), decode_argument(str(directory)))
        )


def read_selected_template(flags: Mapping[str, Any], app: AppContext) -> SelectedTemplate | None:
    """Return the template selected by -t; None without -t.

    Raises:
        UsageError: there is no such prompt, a value is missing, or it has no placeholder for one.
        ConfigError: it is invalid.
    """
    if flags["template"] is None and not flags["variables"]:
        return None
    from ask.agent.template_selection import select_template

    return select_template(flags["template"], flags["variables"], app.app_dirs.templates)


def read_schema(option_value: str | None) -> ResponseSchema | None:
    """Read the schema given by --schema; None without --schema.

    Raises:
        UsageError: it is invalid.
        FileError: its file cannot be read.
    """
    if option_value is None:
        return None
    from ask.agent.response_schema import read_response_schema

    return read_response_schema(option_value)


def read_model_selection(
    flags: Mapping[str, Any], continuation: ResumedConversation | None, selected_template: SelectedTemplate | None
) -> ModelSelection:
    """Collect what options, template and conversation say about the model."""
    template_model = (
        (selected_template.template.provider, selected_template.template.model) if selected_template else ("", "")
    )
    return ModelSelection(
        flags["provider"],
        flags["model"],
        flags["base_url"],
        flags["key"],
        read_last_model(continuation),
        template_model,
    )


def read_last_model(continuation: ResumedConversation | None) -> tuple[str, str]:
    """Return provider and model of a conversation; ("", "") without one."""
    return (continuation.provider, continuation.model) if continuation else ("", "")


def read_extra_system_prompt(
    option_value: str | None, continuation: ResumedConversation | None, template_text: str
) -> str:
    """Return the user's addition to the system prompt.

    The text of a template comes before the option's. Without either, the conversation's earlier addition still
    applies.
    """
    if option_value is None:
        return template_text or (continuation.system if continuation else "")
    option_text = read_text_file(option_value[1:]) if option_value.startswith("@") else decode_argument(option_value)
    return "\n\n".join(filter(None, (template_text, option_text)))


def read_settings(
    flags: Mapping[str, Any], extra_system_prompt: str, app: AppContext, selected_template: SelectedTemplate | None
) -> Settings:
    """Resolve the settings, including model options and options that imply others.

    Raises:
        UsageError: an option conflicts with another, or has no effect without one.
    """
    format_options = [f"--{output_format}" for output_format in OUTPUT_FORMATS if flags[output_format]]
    if len(format_options) > 1:
        raise UsageError(f"{' and '.join(format_options)} cannot be combined", "use one of them")
    options = {
        **(selected_template.template.options if selected_template else {}),
        **parse_model_options(map(decode_argument, flags["options"])),
    }
    parsed_flags = {"option": options, "system": extra_system_prompt}
    parsed_flags["no_tools"] = flags["no_tools"] or flags["cmd"]
    settings = resolve_settings({**flags, **parsed_flags}, app.environment, app.config)
    for flag in ("allow_dirs", "allow_hosts", "allow_tools"):
        if flags[flag] and not settings.safe:
            raise UsageError(f"--{flag.replace('_', '-').rstrip('s')} needs --safe", "add --safe or --safe-files")
    return settings


def open_safe_mode(
    settings: Settings, directory: Path, conversation_id: str, app: AppContext, console: StderrConsole
) -> SafeModeContext:
    """Open the run's safe mode, printing what it does not protect.

    Raises:
        SafetyError: safe mode is not available here.
    """
    from ask.agent.safe_mode import SafeModeContext

    overflow_directory = app.app_dirs.results / conversation_id
    return SafeModeContext(settings, directory, overflow_directory, app, console.print_notice)


def read_user_message(
    flags: Mapping[str, Any],
    words: Sequence[str],
    request: RunRequest,
    console: StderrConsole,
    selected_template: SelectedTemplate | None,
) -> Message:
    """Read the user's message from all its sources.

    These are a template, the command line, files and standard input.
    """
    read_piped = partial(read_stdin, request.settings.stdin_limit, console.print_notice)
    prompt_text = decode_argument(" ".join(words))
    if not INVISIBLE_CHARACTERS.sub("", prompt_text).strip():
        prompt_text = ""
    piped_data = b"" if flags["no_stdin"] or "-" in flags["files"] else read_piped()
    if not flags["files"] and not is_likely_binary(piped_data):
        text = decode_text(piped_data, "stdin")
        if selected_template and selected_template.has_prompt:
            return Message("user", selected_template.render_prompt(format_blocks(prompt_text, (), text)))
        return Message("user", compose_prompt(prompt_text, (), text))
    from ask.agent.user_message import compose_message
    from ask.inputs.sources import parse_stdin_content, read_inputs

    stdin_reader = None if flags["no_stdin"] else partial(read_piped, allow_terminal=True)
    readers = create_input_readers(request, console, stdin_reader)
    inputs = read_inputs(flags["files"], readers).merge(parse_stdin_content(piped_data))
    if flags["verbose"]:
        print_input_notes(inputs, console)
    return compose_message(prompt_text, inputs, selected_template)


def is_likely_binary(data: bytes) -> bool:
    """Check cheaply whether content may be an attachment instead of text."""
    return b"\0" in data or data.lstrip().startswith((b"%PDF-", b"\xff"))


def create_input_readers(
    request: RunRequest, console: StderrConsole, stdin_reader: Callable[[], bytes] | None
) -> InputReaders:
    from ask.inputs.prompt_inputs import InputReaders

    environment = request.secrets.build_child_environment()
    return InputReaders(request.settings.command_timeout, environment, console.print_notice, stdin_reader)


def print_input_notes(inputs: PromptInputs, console: StderrConsole) -> None:
    """Print which attachments are sent and which files of folders are left out."""
    for line in inputs.notes:
        console.print_dim(f"· {line}\n")


def warn_on_first_run(request: RunRequest, flags: Mapping[str, Any], app: AppContext, console: StderrConsole) -> None:
    """Warn once, on a terminal, that the model can run commands and change files."""
    if not request.tools or not console.is_terminal or flags["quiet"]:
        return
    marker_name, warning = "told", FIRST_RUN_WARNING
    if request.settings.safe:
        marker_name, warning = "told-safe", FIRST_SAFE_RUN_WARNING
        if request.settings.safe_level == FILES_LEVEL:
            marker_name, warning = "told-safe-files", FIRST_FILES_RUN_WARNING
    marker_file = app.app_dirs.data / marker_name
    try:
        create_private_folder(marker_file.parent)
        marker_file.touch(PRIVATE_FILE_MODE, exist_ok=False)
    except OSError:
        return
    console.print_line(warning)
