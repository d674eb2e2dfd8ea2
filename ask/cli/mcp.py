"""`ask mcp`: list, add, remove and test MCP servers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from ask.app import AppContext
from ask.cli.ask import create_run_options, parse_seconds, select_options
from ask.cli.click_helpers import JSON_OPTION, NO_BROWSER_OPTION, TEXT, CommandGroup, print_notice
from ask.cli.config import change_setting
from ask.cli.tools import to_tool_row
from ask.config.config_editor import UNSET
from ask.config.mcp_servers import ServerConfig, check_server_tables, parse_server_table
from ask.errors import ConfigError, UsageError
from ask.inputs.file_option import MCP_PREFIX
from ask.mcp.completion_cache import write_addresses
from ask.mcp.offered_tools import (
    ADD_SERVER_HINT,
    check_mcp_installed,
    collect_server_tools,
    create_lazy_servers,
    format_server_hint,
    open_sign_ins,
    open_tool_list_cache,
)
from ask.mcp.server_config import (
    expand_variables,
    find_servers,
    list_variables,
    read_servers,
    to_server_table,
    uses_client_credentials,
)
from ask.render.amounts import format_count
from ask.render.table import write_table
from ask.text import format_one_line

if TYPE_CHECKING:
    from mcp import Client

    from ask.mcp.lazy_servers import LazyServers
    from ask.mcp.tool_listing import ServerTools

T = TypeVar("T")


@click.group("mcp", cls=CommandGroup)
def command() -> None:
    """Manage MCP servers, whose tools a model can call. Without a command, list them."""


def _read_configured_servers(app: AppContext) -> Mapping[str, ServerConfig]:
    """Read all configured servers; print a notice for each invalid one."""
    server_index = find_servers(app.config, app.app_dirs.config)
    for warning in (*app.config.warnings, *server_index.warnings):
        print_notice(warning)
    return server_index.servers


def _get_server(servers: Mapping[str, ServerConfig], name: str, problem: str = "unknown MCP server") -> ServerConfig:
    """Return the server of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in servers:
        raise UsageError(f"{problem} {name!r}", format_server_hint(name, servers))
    return servers[name]


def _select_servers(app: AppContext, names: Sequence[str]) -> list[ServerConfig]:
    """Select the servers to start: those with these names, or all that are enabled.

    Raises:
        MissingDependencyError: the package mcp is not installed.
        UsageError: there is no server of a name.
        ConfigError: the server of a name is invalid.
    """
    check_mcp_installed()
    for name in names:
        app.config.check_entry(f"mcp.servers.{name}")
    servers = _read_configured_servers(app)
    if names:
        return [_get_server(servers, name) for name in names]
    return [server for server in servers.values() if server.enabled]


@command.command("list", short_help="List the MCP servers, or the tools of one.")
@click.argument("names", metavar="[SERVER]...", type=TEXT, nargs=-1)
@click.option("--tools", is_flag=True, help="Start all servers and list their tools.")
@JSON_OPTION
def list_command(*, names: tuple[str, ...], tools: bool, as_json: bool) -> None:
    """List the MCP servers and where they are configured. With a name, start that server and list its tools."""
    app = AppContext()
    if tools or names:
        found = _query_servers(app, names, lambda servers, started: collect_server_tools(started, servers, app))
        rows = [{**to_tool_row(tool), "server": server.name} for server, tools in found for tool in tools]
    else:
        rows = [_to_server_row(server, as_json=as_json) for server in _read_configured_servers(app).values()]
    write_table(
        rows,
        as_json=as_json,
        empty=_describe_no_entries("tools"),
        optional=("from", "transport", "parameters", "runs_or_writes", "server", "enabled"),
    )


def _describe_no_entries(kind: str) -> str:
    """Describe an empty list of what MCP servers offer."""
    app = AppContext()
    servers = find_servers(app.config, app.app_dirs.config).servers.values()  # notices are printed already
    if not servers:
        return f"no MCP servers are configured; {ADD_SERVER_HINT}"
    return f"the MCP servers offer no {kind}" if any(server.enabled for server in servers) else "all are disabled"


def _to_server_row(server: ServerConfig, *, as_json: bool) -> dict[str, Any]:
    """Convert a server to a table row.

    Credentials and queries of URLs and the values of variables and headers are left out: they may be secret.
    """
    target = shlex.join([server.command, *server.args])
    if server.url:
        url = urlsplit(server.url)
        target = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}{'?...' if url.query else ''}"
    row: dict[str, Any] = {
        "name": server.name,
        "transport": server.type,
        "target": target,
        "enabled": server.enabled,
        "from": str(server.origin),
    }
    if as_json:
        row |= {"env": list(server.env), "headers": list(server.headers), "tools": server.tools}
        row["disabled_tools"] = server.disabled_tools
    return row


@command.command("resources", short_help="List the resources of MCP servers, for -f.")
@click.argument("names", metavar="[SERVER]...", type=TEXT, nargs=-1)
@JSON_OPTION
def resources_command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start the MCP servers, all or those that are named, and list their resources.

    ask -f attaches a resource by its address. In the address of a template, replace {...} first.
    """
    from ask.mcp.resources import list_resources

    rows = []
    for server, listings in _request_lists(names, list_resources):
        addresses = ((each.uri, each.description or each.name) for each in listings)
        write_addresses(AppContext().app_dirs.cache, server.name, "resources", addresses)
        for listing in listings:
            row: dict[str, Any] = {"address": f"{MCP_PREFIX}{server.name}/{listing.uri}", "type": listing.media_type}
            row |= {"name": listing.name, "description": listing.description}
            if as_json:
                row |= {"server": server.name, "size": listing.size, "template": listing.is_template}
            rows.append(row)
    write_table(rows, as_json=as_json, empty=_describe_no_entries("resources"), optional=("type", "name"))


@command.command("prompts", short_help="List the prompts of MCP servers, for -t.")
@click.argument("names", metavar="[SERVER]...", type=TEXT, nargs=-1)
@JSON_OPTION
def prompts_command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start the MCP servers, all or those that are named, and list their prompts.

    ask -t uses a prompt by its address; --var NAME=VALUE sets an argument. Optional arguments end in a question mark.
    """
    from ask.mcp.prompts import list_prompts

    rows = []
    for server, prompts in _request_lists(names, list_prompts):
        addresses = ((each.name, each.description) for each in prompts)
        write_addresses(AppContext().app_dirs.cache, server.name, "prompts", addresses)
        for prompt in prompts:
            arguments = [
                {"name": each.name, "required": each.required, "description": each.description}
                for each in prompt.arguments
            ]
            shown_arguments = ", ".join(f"{each['name']}{'' if each['required'] else '?'}" for each in arguments)
            row: dict[str, Any] = {"address": f"{MCP_PREFIX}{server.name}/{prompt.name}"}
            row |= {"arguments": arguments if as_json else shown_arguments, "description": prompt.description}
            rows.append({**row, "server": server.name} if as_json else row)
    write_table(rows, as_json=as_json, empty=_describe_no_entries("prompts"))


def _query_servers(
    app: AppContext, names: Sequence[str], query: Callable[[LazyServers, ServerTools], Sequence[T]]
) -> list[tuple[ServerConfig, Sequence[T]]]:
    """Start servers, all or those with these names, and return the result of a query to each.

    A notice is printed for each server that fails.

    Raises:
        ConfigError: all of them fail.
    """
    from ask.mcp.connection import RequestError

    configured = _select_servers(app, names)
    results = []
    with app.cleanup:
        servers = create_lazy_servers(app)
        for started in servers.start(configured):
            failure = started.failure
            if not failure:
                try:
                    results.append((started.server, query(servers, started)))
                except RequestError as error:
                    failure = f"the MCP server {started.server.name} failed: {error}"
            if failure:
                app.console.print_notice(failure)
    if configured and not results:
        raise ConfigError("no MCP server works", "ask mcp test shows why")
    return results


def _request_lists(
    names: Sequence[str], fetch_list: Callable[[Client], Awaitable[Sequence[T]]]
) -> list[tuple[ServerConfig, Sequence[T]]]:
    """Start servers and return what `fetch_list` fetches from each."""

    def query(servers: LazyServers, started: ServerTools) -> Sequence[T]:
        return servers.request(started.server, fetch_list, started.server.timeout)

    return _query_servers(AppContext(), names, query)


@command.command("add", short_help="Add an MCP server to config.toml.")
@click.argument("words", metavar="[SERVER] [URL] [-- COMMAND...]", type=TEXT, nargs=-1)
@click.option("--env", metavar="K=V", type=TEXT, multiple=True, help="Environment variable for the command.")
@click.option("--header", "headers", metavar="K=V", type=TEXT, multiple=True, help="HTTP header for the URL.")
@click.option("--oauth", metavar="K=V", type=TEXT, multiple=True, help="Setting for signing in, such as client_id.")
@click.option("--cwd", metavar="DIR", type=TEXT, help="Working directory of the command.")
@click.option("--timeout", metavar="S", type=parse_seconds, help="Allow S seconds for starting (10).")
@click.option("--only", "tools", metavar="TOOL", type=TEXT, multiple=True, help="Offer only this tool; repeatable.")
@click.option("--sse", "type", flag_value="sse", help="Use the older SSE transport for the URL.")
@click.option("--from", "source", metavar="FILE", type=TEXT, help="Import servers from another program's settings.")
def add_command(*, words: tuple[str, ...], source: str | None, **options: Any) -> None:
    """Add an MCP server to config.toml: a command, which is started when a model calls its tools, or a URL.

    In the values of --env, --header and --oauth, $NAME is replaced with the variable when the server is used. Put
    such values in single quotes to keep secrets out of the file.

    \b
    ask mcp add time -- uvx mcp-server-time
    ask mcp add wiki https://example.com/mcp --header 'X-Key=$WIKI_KEY'
    ask mcp add --from .mcp.json
    """
    app = AppContext()
    table = {key: list(value) if isinstance(value, tuple) else value for key, value in options.items() if value}
    if source is not None:
        if table:
            raise UsageError("--from cannot be combined with other options", "leave out the other options")
        servers = _read_servers_file(Path(os.path.expanduser(source)), words)
    else:
        servers = [_parse_server(words, table, app.app_dirs.config_file)]
    for server in _select_new_servers(app, servers, can_skip=source is not None and not words):
        change_setting(app, ("mcp", "servers", server.name), to_server_table(server))
        open_tool_list_cache(app).delete(server.name)
        click.echo(
            f"Added {server.name} to {app.app_dirs.config_file}; ask mcp test {server.name} checks it.", err=True
        )
        if source is not None and (names := list_variables(server)):
            values = format_one_line(", ".join(names))
            print_notice(f"{server.name} ({format_one_line(server.url or server.command)}) gets the values of {values}")


def _select_new_servers(app: AppContext, servers: Sequence[ServerConfig], *, can_skip: bool) -> list[ServerConfig]:
    """Return the servers that are not in config.toml; print a notice about each of the others if they can be skipped.

    Raises:
        UsageError: one of the others cannot be skipped, or there is no new server.
    """
    names = {*app.config.get("mcp.servers", {}), *(key.removeprefix("mcp.servers.") for key in app.config.errors)}
    known = [server.name for server in servers if server.name in names]
    if known and (not can_skip or len(known) == len(servers)):
        raise UsageError(f"the MCP server {known[0]} already exists", f"run ask mcp remove {known[0]} first")
    for name in known:
        print_notice(f"the MCP server {name} already exists; skipping it")
    return [server for server in servers if server.name not in known]


def _read_servers_file(path: Path, names: Sequence[str]) -> list[ServerConfig]:
    """Read the servers with these names from a file; without names, all of them.

    Without names, or if the file does not contain one of them, print why servers of the file cannot be used.

    Raises:
        UsageError, ConfigError: the file is invalid, or contains no usable server, or not all that are named.
    """
    try:
        server_index = read_servers(path, Path.read_bytes)  # a pipe, too, as of <(...)
    except ConfigError as error:
        raise ConfigError(error.message, "pass a file with MCP servers") from None
    servers = server_index.servers
    if not servers:
        warning = next(iter(server_index.warnings), f"{path} contains no MCP servers").removesuffix("; skipping it")
        raise ConfigError(warning, "pass a file with MCP servers")
    if not names or not set(names) <= servers.keys():
        for warning in server_index.warnings:  # one may say why a named server is missing
            print_notice(warning)
    return [_get_server(servers, name, f"{path} contains no usable MCP server") for name in names or servers]


OPTION_NAMES = {"env": "--env", "cwd": "--cwd", "headers": "--header", "oauth": "--oauth", "type": "--sse"}
"""The options that are for a command or for a URL only, by their key in config.toml."""


def _parse_server(words: Sequence[str], options: Mapping[str, Any], origin: Path) -> ServerConfig:
    """Parse the server that the arguments and options describe.

    Raises:
        UsageError: they are incomplete or contradictory.
    """
    if len(words) < 2:
        problem = "its command or URL is missing" if words else "no server given"
        raise UsageError(problem, "ask mcp add NAME -- COMMAND..., or ask mcp add NAME URL")
    name, target, *arguments = words
    is_url = target.startswith(("http://", "https://"))
    if is_url and arguments:
        raise UsageError(f"unexpected argument {arguments[0]!r} after the URL", "add one server at a time")
    if " " in target and not arguments and shutil.which(target) is None:
        raise UsageError(f"{target!r} is not a program", f"leave out the quotes: ask mcp add {name} -- {target}")
    for key in ("env", "cwd") if is_url else ("headers", "oauth", "type"):
        if key in options:
            kind = "URL" if is_url else "command"
            raise UsageError(f"{OPTION_NAMES[key]} cannot be used with a {kind}", "leave it out")
    table: dict[str, Any] = {**options, "url" if is_url else "command": target}
    if arguments:
        table["args"] = arguments
    for key, separators in (("env", "="), ("headers", "=:"), ("oauth", "=")):
        if key in table:
            table[key] = _parse_pairs(table[key], OPTION_NAMES[key], separators)
    try:
        check_server_tables(origin, {name: table})
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.hint) from None
    return parse_server_table(name, table, origin)


def _parse_pairs(values: Sequence[str], option: str, separators: str) -> dict[str, str]:
    """Parse names and values such as K=V.

    Raises:
        UsageError: an argument has no separator or no name.
    """
    pairs = {}
    for text in values:
        match = re.fullmatch(rf"([^\s{separators}]+)[{separators}]\s*(.*)", text, re.DOTALL)
        if not match:
            raise UsageError(f"{option} needs a name and a value", f"{option} NAME=VALUE")
        pairs[match[1]] = match[2]
    return pairs


@command.command("remove", short_help="Remove an MCP server from config.toml.")
@click.argument("name", metavar="SERVER", type=TEXT)
def remove_command(*, name: str) -> None:
    """Remove an MCP server from config.toml."""
    app = AppContext()
    if f"mcp.servers.{name}" not in app.config.errors:
        server = _get_server(_read_configured_servers(app), name)
        if name not in app.config.get("mcp.servers", {}):
            raise UsageError(f"the MCP server {name} is configured in {server.origin}", "remove it there")
    change_setting(app, ("mcp", "servers", name), UNSET)
    open_tool_list_cache(app).delete(name)
    _sign_out(app, name)
    click.echo(f"Removed {name} from {app.app_dirs.config_file}.", err=True)


@command.command("login", short_help="Sign in to a remote MCP server in the browser.")
@click.argument("name", metavar="SERVER", type=TEXT)
@NO_BROWSER_OPTION
def login_command(*, name: str, no_browser: bool) -> None:
    """Sign in to a remote MCP server (OAuth). Later runs use and refresh the sign-in.

    The browser is redirected to a port on this machine. With --no-browser, for example over SSH, open the printed
    URL on any machine and paste the URL to which the browser is redirected; that page need not load.
    """
    app = AppContext()
    [server] = _select_servers(app, [name])
    if not server.url or uses_client_credentials(server):
        problem = "uses client credentials" if server.url else "is a local command"
        raise UsageError(f"{server.name} {problem} and needs no sign-in", f"ask mcp test {server.name} starts it")
    import asyncio

    from ask.cli.sign_in_page import can_open_browser, read_redirect, show_page
    from ask.mcp.browser_sign_in import sign_in

    opens_browser = not no_browser and can_open_browser()
    signing_in = sign_in(
        expand_variables(server, app.environment, Path.cwd()),
        open_sign_ins(app),
        environment=app.environment,
        directory=Path.cwd(),
        open_page=lambda url: show_page(server.name, url, opens_browser=opens_browser),
        read_redirect=None if opens_browser else read_redirect,
    )
    tools = asyncio.run(signing_in)
    open_tool_list_cache(app).delete(server.name)
    if tools is None:
        click.echo(f"{server.name} did not require a sign-in.", err=True)
    else:
        click.echo(f"Signed in to {server.name}; it has {format_count(len(tools.tools), 'tool')}.", err=True)


@command.command("logout", short_help="Sign out of a remote MCP server.")
@click.argument("name", metavar="SERVER", type=TEXT)
def logout_command(*, name: str) -> None:
    """Delete the sign-in to a remote MCP server, and revoke its tokens if the server offers that."""
    app = AppContext()
    open_tool_list_cache(app).delete(name)
    if not _sign_out(app, name):
        raise UsageError(f"not signed in to {name!r}", f"ask mcp login {name} signs in")
    click.echo(f"Signed out of {name}.", err=True)


def _sign_out(app: AppContext, name: str) -> bool:
    """Delete the sign-in to a server and revoke its tokens; return whether there was one."""
    record = open_sign_ins(app).delete(name)
    if "tokens" not in record:
        return False
    from ask.mcp.revocation import revoke_tokens

    if problem := revoke_tokens(record, app.environment):
        print_notice(f"the tokens for {name} may remain valid until they expire: {problem}")
    return True


@command.command("test", short_help="Start MCP servers and check that they work.")
@click.argument("names", metavar="[SERVER]...", type=TEXT, nargs=-1)
@JSON_OPTION
def test_command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start MCP servers, by default all, and check that they work.

    Exit code 4 means that one of them cannot be used.
    """
    app = AppContext()
    servers = _select_servers(app, names)
    if not servers:
        raise UsageError("no MCP servers are configured", ADD_SERVER_HINT)
    with app.cleanup:
        results = create_lazy_servers(app).start(servers)
    rows = [
        {
            "name": server_status.server.name,
            "state": "failed" if server_status.failure else "ok",
            "version": server_status.version,
            "tools": None if server_status.failure else len(server_status.tools),
            "seconds": round(server_status.seconds, 2),
            "found": server_status.failure,
        }
        for server_status in results
    ]
    write_table(rows, as_json=as_json, optional=("seconds", "tools", "version"), wrapped="found")
    failed = sum(bool(status.failure) for status in results)
    if failed:
        raise ConfigError(f"{format_count(failed, 'MCP server')} failed", "see the reasons above")


@command.command("serve", short_help="Be an MCP server that asks models.")
@click.option("--tools", is_flag=True, help="Offer tools to the models that are asked.")
@click.option("--history", is_flag=True, help="Let callers search the saved conversations.")
def serve_command(*, tools: bool, history: bool, **flags: Any) -> None:
    """Be an MCP server on stdin and stdout, with which other agents ask models.

    A caller cannot change the options. --max-cost limits all calls together.
    """
    check_mcp_installed()
    if not sys.stdin or sys.stdin.isatty():
        raise UsageError("ask mcp serve reads MCP messages on stdin", "configure it in an MCP client")
    from ask.mcp.ask_server import serve

    app = AppContext()
    if flags["max_cost"] is None:
        flags["max_cost"] = app.config.get("max_cost")
    options = create_run_options(flags, no_tools=not tools, no_context=not tools)
    serve(options, app.app_dirs.results, searches_history=history)


serve_command.params += select_options(
    *("provider", "model", "max_cost", "max_rounds", "confirm", "safe", "safe_files", "timeout", "no_save")
)
