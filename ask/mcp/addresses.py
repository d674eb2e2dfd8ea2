"""Addresses that begin with mcp://: resources (`-f mcp://SERVER/URI`) and prompts (`-t mcp://SERVER/PROMPT`).

The user has named the server, so it is started in safe mode, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ask.app import AppContext
from ask.config.mcp_servers import ServerConfig
from ask.errors import AskError, ConfigError, FileError, UsageError
from ask.inputs.content_types import parse_content
from ask.inputs.file_option import MCP_PREFIX
from ask.inputs.prompt_inputs import PromptInputs
from ask.mcp.completion_cache import write_addresses
from ask.mcp.connection import RequestError
from ask.mcp.lazy_servers import LazyServers
from ask.mcp.offered_tools import check_mcp_installed, format_server_hint
from ask.mcp.prompts import PromptMessage, get_prompt, list_prompts
from ask.mcp.resources import ResourceContent, read_resource
from ask.mcp.server_config import find_servers
from ask.messages import Message
from ask.templates.placeholders import COLUMN_PATTERN, INPUT_NAME, VARIABLE_PATTERN, escape_placeholders
from ask.templates.template import Template, parse_variables
from ask.text import decode_argument, format_blocks, format_one_line, format_suggestion


def read_mcp_resource(
    address: str, timeout: float, app: AppContext, servers: LazyServers, *, keep_location: bool
) -> PromptInputs:
    """Read a resource, such as mcp://notes/file:///plan.md. Photos lose their position unless `keep_location` is set.

    Raises:
        FileError: the server cannot be used, or the resource cannot be read or is of a type that no provider accepts.
        MissingDependencyError: the package mcp is not installed.
    """
    server, uri = _find_server(address, app, "resources", FileError)
    try:
        contents = servers.request(server, lambda client: read_resource(client, uri), timeout)
    except RequestError as error:
        hint = f"ask mcp resources {server.name} lists its resources"
        raise FileError(f"cannot read {format_one_line(decode_argument(address))} ({error})", hint) from None
    return _to_prompt_inputs(contents, keep_location=keep_location)


def select_mcp_prompt(
    address: str, variables: Iterable[str], app: AppContext, servers: LazyServers, *, has_columns: bool
) -> Template:
    """Get a prompt, such as mcp://notes/review, with the values of --var as its arguments.

    With `has_columns`, a required argument without a value becomes a placeholder for the column of that name.

    Raises:
        UsageError: there is no such prompt, a value is missing, or it has no argument for one.
        ConfigError: the server cannot be used, or the prompt cannot be used as a template.
        FileError: the prompt contains a file that no provider accepts.
        MissingDependencyError: the package mcp is not installed.
    """
    server, name = _find_server(address, app, "prompts", UsageError)
    title = format_one_line(decode_argument(address))
    try:
        prompts = {prompt.name: prompt for prompt in servers.request(server, list_prompts, server.timeout)}
        addresses = ((prompt.name, prompt.description) for prompt in prompts.values())
        write_addresses(app.app_dirs.cache, server.name, "prompts", addresses)
        if name not in prompts:
            others = f"its prompts: {', '.join(prompts)}" if prompts else "it has no prompts"
            hint = format_suggestion(name, prompts, others, prefix=f"{MCP_PREFIX}{server.name}/")
            raise UsageError(f"the MCP server {server.name} has no prompt {name!r}", hint)
        arguments = prompts[name].arguments
        values = parse_variables(map(decode_argument, variables), title, [each.name for each in arguments])
        missing = [each.name for each in arguments if each.required and each.name not in values]
        if missing and not has_columns:
            options = " ".join(f"--var {argument}=VALUE" for argument in missing)
            raise UsageError(f"the template {title} needs a value for {', '.join(missing)}", f"add {options}")
        placeholders = {argument: f"{{{{{argument}}}}}" for argument in missing}
        messages = servers.request(
            server, lambda client: get_prompt(client, name, {**values, **placeholders}), server.timeout
        )
    except RequestError as error:
        hint = f"ask mcp prompts {server.name} lists its prompts"
        raise ConfigError(f"cannot use {title} ({error})", hint) from None
    prompt = messages.pop() if messages and messages[-1].role == "user" else PromptMessage("user", "")
    if messages and has_columns:
        hint = "write a template with ask templates new"
        raise ConfigError(f"{title} has messages of an assistant, and ask map sends one message for a row", hint)
    text = escape_placeholders(prompt.text, COLUMN_PATTERN if has_columns else VARIABLE_PATTERN)
    for placeholder in placeholders.values():
        text = text.replace(f"\\{placeholder}", placeholder)
    if messages and not text:
        text = f"{{{{{INPUT_NAME}}}}}"
    return Template(
        title,
        server.origin,
        prompt=text.strip(),
        inputs=_to_prompt_inputs(prompt.resources) if prompt.resources else None,
        opening_messages=tuple(map(_to_message, messages)),
    )


def _to_message(message: PromptMessage) -> Message:
    """Convert a message of a prompt to one of the conversation."""
    inputs = _to_prompt_inputs(message.resources)
    text = "\n\n".join(filter(None, (message.text, format_blocks("", inputs.texts, ""))))
    return Message(message.role, text, attachments=inputs.attachments)


def _find_server(address: str, app: AppContext, kind: str, error_class: type[AskError]) -> tuple[ServerConfig, str]:
    """Return the server of an address, and what the address names there, which is one of its `kind`.

    Raises:
        AskError: the address is incomplete, or the server is unknown or disabled; of the class `error_class`.
        MissingDependencyError: the package mcp is not installed.
    """
    text = decode_argument(address)
    name, _, rest = text[len(MCP_PREFIX) :].partition("/")
    servers = find_servers(app.config, app.app_dirs.config).servers
    title = format_one_line(text)
    if name not in servers:
        raise error_class(f"unknown MCP server {name!r} in {title}", format_server_hint(name, servers))
    if not rest:
        raise error_class(f"{title} names only a server", f"ask mcp {kind} {name} lists its {kind}")
    if not servers[name].enabled:
        raise error_class(f"the MCP server {name} is disabled", f"remove enabled = false in {servers[name].origin}")
    check_mcp_installed()
    return servers[name], rest


def _to_prompt_inputs(contents: Sequence[ResourceContent], *, keep_location: bool = False) -> PromptInputs:
    """Convert resources to texts and attachments, by the type of their content.

    Raises:
        FileError: one is too large, or of a type that no provider accepts.
    """
    inputs = PromptInputs()
    for name, data in contents:
        if isinstance(data, str):
            inputs = inputs.merge(PromptInputs(texts=((name, data),)))
        else:
            inputs = inputs.merge(parse_content(name, data, keep_location=keep_location))
    return inputs
