"""The complete request of a command line, read and checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from ask.agent.provider_selection import ModelSelection, check_decision_model, resolve_endpoint, resolve_fallbacks
from ask.agent.toolset import Toolset, has_context_files, limit_tools_with_data
from ask.app import AppContext
from ask.client.endpoint import ModelEndpoint, fetch_first_model
from ask.config.config_file import find_misspelled_options
from ask.config.directories import AppDirs, get_working_directory
from ask.config.options import RunOptions
from ask.config.precedence import resolve_settings
from ask.config.secrets import Secrets
from ask.config.settings import FILES_LEVEL, Settings
from ask.errors import AskError, ParameterError, UsageError
from ask.history.entries import generate_conversation_id
from ask.inputs.stdin_and_files import STDIN_NAMES, decode_text, is_stdin_piped, read_stdin, read_text_file
from ask.messages import (
    EMPTY_MAPPING,
    Attachment,
    DecisionQuestion,
    Message,
    ReportedUsage,
    ResumedConversation,
    UnansweredQuestion,
)
from ask.records import NamedTuple
from ask.text import decode_argument, format_blocks, format_one_line, is_blank, split_prompt
from ask.tools.base import Tool

if TYPE_CHECKING:
    from ask.hooks.hook_runner import HookRunner, PreparedHook
    from ask.inputs.prompt_inputs import PromptInputs
    from ask.project.project_context import ProjectContext
    from ask.safety.safe_mode import SafeModeSession
    from ask.schemas.schema import ResponseSchema
    from ask.templates.template import Template


OUTPUT_FORMATS = ("cmd", "code", "schema")
"""The output formats; each is a command line option and a prompt."""


class MissingQuestionError(UsageError):
    """There is no question: no words, no files and no piped text."""


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
        output_format: one of `OUTPUT_FORMATS`; "" for any format.
        response_schema: the schema of an answer in the format "schema"; None for any other format.
        questions: the questions of `--decide`, whose answers match `response_schema`; () for an answer in text.
        fallbacks: the providers and models to ask in turn if `endpoint` cannot answer.
        project_context: the project's instructions, and the skills; None if there are none or tools are off.
        opening_messages: the messages of a template, between `message_history` and `user_message`.
        shows_text: whether text without an `output_format` is shown while it arrives, not only once it is complete.
        hooks: the commands to run at events of the run.
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
    safe_mode: SafeModeSession | None = None
    output_format: str = ""
    response_schema: ResponseSchema | None = None
    questions: Sequence[DecisionQuestion] = ()
    fallbacks: Sequence[ModelEndpoint] = ()
    project_context: ProjectContext | None = None
    opening_messages: Sequence[Message] = ()
    shows_text: bool = True
    hooks: Sequence[PreparedHook] = ()

    def get_results_folder(self, app_dirs: AppDirs) -> Path:
        """Return the folder for long results: the conversation's, or one that only this run has if it is not saved."""
        name = self.conversation_id if self.settings.save else f"{self.conversation_id}-{os.getpid()}"
        return app_dirs.results / name

    def open_hooks(self, notify: Callable[[str], None]) -> HookRunner | None:
        """Return the object that runs the hooks; None if there are none."""
        if not self.hooks:
            return None
        from ask.hooks.hook_runner import HookRunner

        description = {
            "session_id": self.conversation_id,
            "provider": self.endpoint.provider_name,
            "model": self.endpoint.model,
            "safe_mode": self.safe_mode.level if self.safe_mode else "",
            "permission_mode": "default" if self.settings.confirm else "bypassPermissions",
        }
        return HookRunner(self.hooks, self.directory, self.secrets, description, notify)


class PreparedRun(NamedTuple):
    """A request, and what it was prepared with.

    Attributes:
        request: the request.
        toolset: all tools, of which those of the request were selected.
        template: the template; None without one.
        unanswered: the earlier questions of the conversation that are not sent because they have no answer.
        replaced_runs: the numbers of the runs whose questions the request contains.
        runs_replaced_by_answer: the numbers of the runs that are replaced if there is an answer.
        title: the title of the conversation if it is new; "" for the beginning of the question.
        stdin_data: what was read from standard input to choose the tools; b"" if it has not been read.
    """

    request: RunRequest
    toolset: Toolset
    template: Template | None = None
    unanswered: Sequence[UnansweredQuestion] = ()
    replaced_runs: Sequence[int] = ()
    runs_replaced_by_answer: Sequence[int] = ()
    title: str = ""
    stdin_data: bytes = b""


def make_template_title(template: Template, words: str, message: Message) -> str:
    """Return the title of a conversation that begins with a template."""
    from ask.history.titles import make_title

    return make_title(message.content, template.name, words)


def prepare_request(options: RunOptions, app: AppContext) -> PreparedRun:
    """Read everything the run needs and, in safe mode, open the sandbox.

    Args:
        options: the prompt and the options.
        app: the user's installation, whose `cleanup` is closed at the end of the run.

    Raises:
        AskError: an option or the configuration is invalid, or an input cannot be read.
    """
    prepared = prepare_without_message(options, app, reads_stdin=not options.no_stdin)
    try:
        message = read_user_message(options, prepared, app)
        template, words = prepared.template, decode_argument(" ".join(options.words))
        title = make_template_title(template, words, message) if template else ""
        prepared = prepared._replace(request=prepared.request._replace(user_message=message), title=title)
    except MissingQuestionError:
        if not options.unanswered:
            if prepared.unanswered:
                from ask.agent.unanswered import print_unanswered

                print_unanswered(prepared.unanswered, app)
            raise
    if options.unanswered:
        from ask.agent.unanswered import add_unanswered

        if options.resume is None and not options.continue_last:
            raise UsageError("--unanswered needs a conversation", "add -c or --resume ID")
        prepared = add_unanswered(prepared)
    if attachments := prepared.request.user_message.attachments:
        check_attachments_supported(attachments, prepared.request.endpoint)
    return prepared


def _select_model(options: RunOptions, conversation: ResumedConversation, template: Template | None) -> ModelSelection:
    """Return the user's choice of a model. The key of a row is that of its job."""
    template_model = (template.provider, template.model) if template else ("", "")
    return ModelSelection(
        *(options.provider, options.model, options.base_url, options.key, conversation.last_model, template_model),
        key_origin="" if options.is_row else "--key",
        other_base_urls=options.other_base_urls,
    )


def prepare_without_message(
    options: RunOptions, app: AppContext, *, has_columns: bool = False, reads_stdin: bool = False
) -> PreparedRun:
    """Prepare a request without its message.

    With `reads_stdin`, data on stdin will be sent. With `has_columns`, the request is one for many rows: their columns
    fill in the template, and safe mode is opened where a row runs tools. Raises the errors of `prepare_request`.
    """
    directory, toolset = get_working_directory(), Toolset(app, options.function_tools)
    conversation, template = ResumedConversation(options.new_conversation or generate_conversation_id()), None
    if options.resume is not None or options.continue_last:
        from ask.history.continue_option import read_conversation

        conversation = read_conversation(options, app, directory, _confirm)
    if options.template is not None or options.variables:
        template = _read_template(options, app, toolset, has_columns=has_columns)
    has_schema = options.schema is not None or options.decide
    response_schema, questions = _read_schema(options, app) if has_schema else (None, ())
    extra_system_prompt = _read_extra_system_prompt(options.system, conversation, template, app)
    settings = read_settings(options, extra_system_prompt, app, template)
    stdin_data = b""
    if reads_stdin and settings.tools and settings.piped_tools != "all":  # only then does it matter what is piped
        stdin_data = read_stdin(settings.stdin_limit, app.console.print_notice)
        settings = limit_tools_with_data(settings, stdin_data)
    skipped = app.config.list_skipped("aliases", "providers", "tools.allow")
    for warning in (*app.config.warnings, *skipped, *find_misspelled_options(settings.options)):
        app.console.print_notice(warning)
    endpoint = resolve_endpoint(app, _select_model(options, conversation, template))
    if endpoint.base_url and not settings.replay:
        from ask.client.preconnect import preconnect

        endpoint = endpoint._replace(preconnection=preconnect(endpoint.base_url))
    skip = None if options.fallback else app.console.print_notice  # one that is configured may be for another day
    fallbacks = resolve_fallbacks(app, settings.fallback, endpoint, skip) if settings.fallback else ()
    secrets = app.collect_secrets()
    app.console.redact = secrets.redact
    request = RunRequest(
        conversation_id=conversation.id,
        message_history=(),
        user_message=Message("user", ""),
        extra_system_prompt=extra_system_prompt,
        directory=directory,
        tools=(),
        settings=settings,
        endpoint=endpoint,
        secrets=secrets,
        output_format=next(filter(partial(getattr, options), OUTPUT_FORMATS), ""),
        response_schema=response_schema,
        questions=tuple(question.redact(secrets.redact) for question in questions),
        fallbacks=fallbacks,
        opening_messages=template.opening_messages if template else (),
    )
    request = continue_conversation(request, conversation)
    for message in request.opening_messages:
        check_attachments_supported(message.attachments, endpoint)
    prepared = PreparedRun(request, toolset, template, conversation.unanswered, stdin_data=stdin_data)
    request = apply_settings(prepared, settings, options, app, opens_safe_mode=not has_columns)
    request = _complete_endpoint(request, app.console.print_notice)
    return prepared._replace(request=_limit_files(request) if questions else request)


def _confirm(question: str) -> bool | None:
    from ask.safety.approval import confirm

    return confirm(question)


def _limit_files(request: RunRequest) -> RunRequest:
    """Return a request with questions, whose model accepts only the files that its decisions API accepts."""
    endpoint = request.endpoint
    return request._replace(endpoint=endpoint._replace(provider=endpoint.provider.limit_attachments(endpoint.model)))


def _complete_endpoint(request: RunRequest, notify: Callable[[str], None]) -> RunRequest:
    """Return the request with a model, by default the first that the provider lists; check that it has the tools of -T.

    If the list cannot be fetched, the first fallback takes the provider's place.

    Raises:
        AskError: there is no model, or it lacks one of the tools.
    """
    endpoint, fallbacks = request.endpoint, [*request.fallbacks]
    while not endpoint.model:
        try:
            endpoint = endpoint._replace(model=fetch_first_model(endpoint, notify, request.settings))
        except AskError as error:
            from ask.client.error_classification import can_other_model_help

            if not fallbacks or not can_other_model_help(error):
                raise
            failed_provider, endpoint = endpoint.provider_name, fallbacks.pop(0)
            notify(f"{failed_provider} cannot answer: {error.summary}; continuing with {endpoint.full_name}")
    check_decision_model(endpoint, request.questions, request.settings.options)
    _check_server_tools(request.settings, endpoint, notify)
    return request._replace(endpoint=endpoint, fallbacks=tuple(fallbacks))


def _check_server_tools(settings: Settings, endpoint: ModelEndpoint, notify: Callable[[str], None]) -> None:
    if settings.server_tools:
        from ask.tools.server_tools import check_server_tools

        check_server_tools(settings, endpoint, notify)


def apply_settings(
    prepared: PreparedRun, settings: Settings, options: RunOptions, app: AppContext, *, opens_safe_mode: bool = True
) -> RunRequest:
    """Return the request with these settings and the tools that they allow. Opens safe mode if they require it.

    Raises:
        AskError: the settings are invalid, or safe mode is not available here.
    """
    if settings.allow or settings.deny:
        from ask.safety.command_rules import select_valid_rules
        from ask.safety.tool_policy import ToolPolicy

        settings = settings._replace(allow=select_valid_rules("tools.allow", settings.allow, app.console.print_notice))
        ToolPolicy.from_settings(settings)  # an invalid rule that denies is an error before anything is sent
    request, toolset, template = prepared.request, prepared.toolset, prepared.template
    context, safe_mode = request.project_context, request.safe_mode
    if context is None and settings.tools and (template is None or template.tools):
        if has_context_files(request.directory, settings, app):
            from ask.project.project_context import load_project_context

            allowed = True if options.context else False if options.no_context else None
            context = load_project_context(
                app,
                settings.context_files,
                request.directory,
                allowed=allowed,
                confirm=_confirm,
                footer="always" if settings.verbose else settings.footer,
            )
        if context and context.skills:
            from ask.project.skills import create_skill_tool

            toolset.skill_tools = (create_skill_tool(context.skills, context.is_accepted),)
    tools = toolset.select_tools(settings, template, options.allow_tools)
    if settings.safe and opens_safe_mode and not safe_mode:
        from ask.safety.safe_mode import SafeModeSession

        safe_mode = SafeModeSession(
            settings,
            request.directory,
            request.conversation_id,
            app,
            results_folder=request.get_results_folder(app.app_dirs),
            uses_network=bool(request.endpoint.base_url) and not settings.replay,
            programs=toolset.list_programs(),
            list_idle_programs=toolset.list_idle_programs,
        )
        app.cleanup.enter_context(safe_mode)
    if safe_mode:
        tools = safe_mode.confine_tools(tools)
    hooks: Sequence[PreparedHook] = ()
    if "hooks" in app.config.values:
        from ask.hooks.hook_runner import prepare_hooks

        hooks = prepare_hooks(app, safe_mode)
    secrets = app.collect_secrets()  # loading the tools may have retrieved the key of a search engine
    app.console.redact = secrets.redact
    return request._replace(
        settings=settings, tools=tools, safe_mode=safe_mode, project_context=context, secrets=secrets, hooks=hooks
    )


def continue_conversation(request: RunRequest, conversation: ResumedConversation) -> RunRequest:
    """Return the request with the messages of a conversation, and with their size if the same model reported it."""
    is_same_model = conversation.last_model == (request.endpoint.provider_name, request.endpoint.model)
    return request._replace(
        conversation_id=conversation.id,
        message_history=conversation.messages,
        reported_usage=conversation.reported_usage if is_same_model else ReportedUsage(),
    )


def add_models(
    request: RunRequest, models: Sequence[str], options: RunOptions, app: AppContext, *, may_decide: bool = False
) -> tuple[RunRequest, ...]:
    """Return the request, and the same request for each of the other models.

    With `may_decide`, they include models that only make decisions, although the request has no questions yet.

    Raises:
        AskError: one of them cannot be used.
    """
    requests = [request]
    for model in models:
        selection = ModelSelection(options.provider, model, options.base_url, options.key)
        endpoint = resolve_endpoint(app, selection._replace(other_base_urls=options.other_base_urls))
        if not endpoint.model:
            raise ParameterError(f"-m {model} does not name a model", "write provider:model")
        _check_server_tools(request.settings, endpoint, app.console.print_notice)
        if not may_decide:
            check_decision_model(endpoint, request.questions, request.settings.options)
        requests.append(request._replace(endpoint=endpoint, secrets=app.collect_secrets()))
    return tuple(requests)


def _read_schema(options: RunOptions, app: AppContext) -> tuple[ResponseSchema | None, Sequence[DecisionQuestion]]:
    """Return the schema of the answer, and the questions of --decide.

    Raises:
        AskError: there is no schema, it cannot be read, or a field of it is no question.
    """
    from ask.schemas.response_schema import parse_decision_schema, read_response_schema

    if options.schema is None:
        raise UsageError("--decide needs a --schema", 'such as --schema "urgent bool, anger 1..5"')
    schema = read_response_schema(
        options.schema, partial(read_text_file, app_dirs=app.app_dirs, notify=app.console.print_notice)
    )
    return parse_decision_schema(schema) if options.decide else (schema, ())


def _read_template(options: RunOptions, app: AppContext, toolset: Toolset, *, has_columns: bool) -> Template:
    """Return the template selected by -t, which may be a prompt of an MCP server, or come from a loader.

    `has_columns` says whether the columns of rows fill in the placeholders of its text that have no value.

    Raises:
        AskError: there is no such prompt, a value is missing, it has no placeholder for one, or it is invalid.
    """
    name, variables = options.template, options.variables
    from ask.inputs.file_option import MCP_PREFIX
    from ask.templates.template import fill_template, select_template

    if name is None or not name.lower().startswith(MCP_PREFIX):
        if name is not None and ":" in name:
            from ask.templates.loaded_template import is_loaded_template, read_loaded_template

            if is_loaded_template(name, app):
                settings = resolve_settings(options, app.environment, app.config)
                template = read_loaded_template(name, settings, app)
                return fill_template(template, variables, has_columns=has_columns)
        return select_template(name, variables, app.app_dirs.templates, has_columns=has_columns)
    from ask.mcp.addresses import select_mcp_prompt

    return select_mcp_prompt(name, variables, app, toolset.mcp_servers, has_columns=has_columns)


def _read_extra_system_prompt(
    option_value: str | None,
    conversation: ResumedConversation,
    template: Template | None,
    app: AppContext,
) -> str:
    """Return the user's addition to the system prompt.

    The text of a template comes before the option's. Without either, the conversation's earlier addition still
    applies.
    """
    template_text = template.system_prompt if template else ""
    if option_value is None:
        return template_text or conversation.system
    if option_value.startswith("@"):
        option_text = read_text_file(option_value[1:], app.app_dirs, app.console.print_notice)
    else:
        option_text = decode_argument(option_value)
        if os.path.isfile(option_value):
            name = format_one_line(option_text)
            app.console.print_notice(f'the system prompt is the text {name!r}; -s "@{name}" reads the file')
    return "\n\n".join(filter(None, (template_text, option_text)))


def read_settings(
    options: RunOptions, extra_system_prompt: str, app: AppContext, template: Template | None
) -> Settings:
    """Resolve the settings, including model options and options that imply others.

    Raises:
        UsageError: an option conflicts with another, or has no effect without one.
    """
    formats = list(filter(partial(getattr, options), (*OUTPUT_FORMATS, "extract")))
    if len(formats) > 1:
        raise UsageError(f"--{' and --'.join(formats)} cannot be combined", "use one of them")
    if options.context and options.no_context:
        raise UsageError("--context and --no-context cannot be combined", "use one of them")
    settings = resolve_settings(
        # With --cmd, the user runs the command, not the model.
        options._replace(no_tools=options.no_tools or options.cmd or options.decide),
        app.environment,
        app.config,
        system=extra_system_prompt,
        template_parameters=template.options if template else EMPTY_MAPPING,
    )
    for name in ("allow_dirs", "allow_git", "allow_hosts", "allow_command_hosts", "allow_tools"):
        if not getattr(options, name):
            continue
        option, needs_commands = f"--{name.replace('_', '-').rstrip('s')}", name in ("allow_git", "allow_command_hosts")
        if not settings.safe:
            raise UsageError(f"{option} needs --safe", f"add --safe{'' if needs_commands else ' or --safe-files'}")
        if needs_commands and settings.safe_level == FILES_LEVEL:
            raise UsageError(f"{option} has no effect with --safe-files, which runs no commands", "use --safe")
    return _limit_to_decisions(settings, options) if options.decide else settings


def _limit_to_decisions(settings: Settings, options: RunOptions) -> Settings:
    """Return the settings of a run with --decide: without streaming, tools, and options that are meant for text.

    Raises:
        UsageError: the command line has an option that decisions do not have.
    """
    if options.server_tools:
        raise UsageError("-T has no effect with --decide, which asks for no text", "leave out -T")
    given = {name: value for name, value in settings.options.items() if name in settings.given_options}
    return settings._replace(stream=False, server_tools=(), options=given)


def read_user_message(options: RunOptions, prepared: PreparedRun, app: AppContext) -> Message:
    """Read the user's message from all its sources.

    These are a template, the command line, files and standard input.
    """
    request, template = prepared.request, prepared.template
    notify = app.console.print_notice

    def read_piped(*, allow_terminal: bool = options.words == ("-",)) -> bytes:
        limit = request.settings.stdin_limit
        return prepared.stdin_data or read_stdin(limit, notify, allow_terminal=allow_terminal)

    prompt_text = decode_argument(" ".join(options.words))
    if is_blank(prompt_text) or options.words == ("-",):
        prompt_text = ""
    is_file = not STDIN_NAMES.isdisjoint(options.files)  # it is read where -f names it
    piped_data = b"" if options.no_stdin or is_file else read_piped()
    # JPEG and MP3 files begin with 0xFF; the other types of attachments contain NUL bytes.
    may_be_attachment = b"\0" in piped_data or piped_data.lstrip().startswith((b"%PDF-", b"\xff"))
    if not options.files and not may_be_attachment and not (template and template.inputs):
        try:
            return compose_message(prompt_text, template, stdin_text=decode_text(piped_data, "stdin", notify))
        except UsageError as error:
            if not options.no_stdin and is_stdin_piped():
                error.message += ", and stdin is empty"
            raise
    from ask.inputs.file_option import parse_stdin_content

    stdin_reader = None if options.no_stdin else partial(read_piped, allow_terminal=True)
    piped_inputs = parse_stdin_content(piped_data, keep_location=request.settings.keep_location)
    for note in piped_inputs.encoding_notes:
        notify(note)
    inputs = read_files(options.files, request, prepared.toolset, app, stdin_reader).merge(piped_inputs)
    if template and template.inputs:
        inputs = template.inputs.merge(inputs)
    print_input_notes(inputs, request, app)
    return compose_message(prompt_text, template, inputs.texts, inputs.stdin_text, inputs.attachments)


def read_files(
    files: Sequence[str],
    request: RunRequest,
    toolset: Toolset,
    app: AppContext,
    stdin_reader: Callable[[], bytes] | None = None,
) -> PromptInputs:
    """Read the files, folders and URLs to attach to a message.

    Args:
        files: their names, as the values of -f.
        request: the request that they are for.
        toolset: the tools of the run, with the MCP servers that may have them.
        app: the user's installation.
        stdin_reader: reads standard input, for "-"; None if it must not be read.

    Raises:
        AskError: one cannot be read.
    """
    from ask.inputs.file_option import read_inputs
    from ask.inputs.prompt_inputs import InputReaders

    def read_resource(address: str, timeout: float) -> PromptInputs:
        from ask.mcp.addresses import read_mcp_resource

        return read_mcp_resource(address, timeout, app, toolset.mcp_servers, keep_location=settings.keep_location)

    def load(source: str, readers: InputReaders) -> PromptInputs | None:
        from ask.inputs.loaders import load_inputs

        return load_inputs(source, readers, app)

    settings, environment = request.settings, request.secrets.build_child_environment()
    readers = InputReaders(
        settings.command_timeout,
        environment,
        app.console.print_notice,
        stdin_reader,
        settings.keep_location,
        read_resource,
        load,
        partial(request.endpoint.provider.supports_attachment, request.endpoint.model),
        app.app_dirs,
    )
    return read_inputs(files, readers)


def print_input_notes(inputs: PromptInputs, request: RunRequest, app: AppContext) -> None:
    """With --verbose, print which attachments are sent and which files of folders are left out."""
    for line in inputs.notes if request.settings.verbose else ():
        app.console.print_dim(f"· {line}\n")


def compose_message(
    words: str,
    template: Template | None = None,
    texts: Sequence[tuple[str, str]] = (),
    stdin_text: str = "",
    attachments: tuple[Attachment, ...] = (),
) -> Message:
    """Compose the user's message from text and inputs, or a template and inputs.

    Piped text without anything else is the prompt. Otherwise files and piped text become tagged blocks.

    Raises:
        MissingQuestionError: there is no prompt.
    """
    attachment_names = _format_attachment_names(attachments) if attachments else ""
    is_attachment_only = attachments and not (words or texts or stdin_text.strip())
    prompt_text = attachment_names if is_attachment_only else words
    if template and template.prompt:
        text = template.render_prompt(format_blocks(prompt_text, texts, stdin_text))
    elif stdin_text.strip() and not prompt_text and not texts:
        text = stdin_text.strip("\n")
    elif not (text := format_blocks(prompt_text, texts, stdin_text)):
        raise MissingQuestionError(
            "no question given", 'try: ask "why is the sky blue?" (ask chat opens a chat, ask --help lists options)'
        )
    if len(attachments) > 1 and not is_attachment_only:
        text = f"{text}\n\n{attachment_names}"
    return Message("user", text, attachments=attachments)


def _format_attachment_names(attachments: Sequence[Attachment]) -> str:
    return f"[attached: {', '.join(attachment.name for attachment in attachments)}]"


def remove_file(message: Message, name: str) -> Message:
    """Return a message without the files of this name, which may be attachments or texts; unchanged if it has none."""
    kept, content = tuple(each for each in message.attachments if each.name != name), message.content
    if len(kept) < len(message.attachments):
        old_names = _format_attachment_names(message.attachments)
        names_are_shown = len(kept) > 1 or (kept and content == old_names)
        content = content.replace(old_names, _format_attachment_names(kept) if names_are_shown else "")
    for part in split_prompt(content):
        if part.title and name in (part.title, PurePath(part.title).name):
            content = content.replace(part.source, "", 1)
    return message._replace(content=content.strip("\n"), attachments=kept)


def check_attachments_supported(attachments: Sequence[Attachment], endpoint: ModelEndpoint) -> None:
    """Reject attachments that the model does not accept.

    Raises:
        ParameterError: there is one.
    """
    if not attachments:
        return
    from ask.attachments import describe_refused_type, format_supported_types, is_document
    from ask.client.attachment_limits import find_limit_problem

    is_supported = partial(endpoint.provider.supports_attachment, endpoint.model)
    for attachment in attachments:
        if not is_supported(attachment.media_type) and not is_document(attachment.media_type):
            description = f"{describe_refused_type(attachment.media_type, is_supported)} ({attachment.name})"
            supported_types = format_supported_types(is_supported)
            advice = f"it accepts {supported_types}"
            if not supported_types:
                advice = "it accepts only text; choose another model with -m"
            raise ParameterError(f"{endpoint.model} of {endpoint.provider_name} does not accept {description}", advice)
    if problem := find_limit_problem(attachments, endpoint.provider.find_profile(endpoint.model)):
        file, limit = problem
        message = f"{endpoint.model} of {endpoint.provider_name} does not accept {format_one_line(file.name)}"
        raise ParameterError(message, f"it accepts {limit}")
