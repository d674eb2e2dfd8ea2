"""`ask mcp`: list, add, remove and test MCP servers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from ask.agent.app_context import AppContext
from ask.agent.mcp_servers import collect_server_tools, create_lazy_servers, is_mcp_installed, open_tool_list_cache
from ask.cli.groups import JSON_OPTION, CommandGroup
from ask.cli.tools import format_parameters
from ask.config_file import UNSET, update_config_file
from ask.console import StandardOutput, StderrConsole
from ask.errors import ConfigError, MissingDependencyError, UsageError
from ask.installation import format_install_command
from ask.mcp.lazy_servers import to_server_tools
from ask.mcp.server_config import (
    MCP_EXTRA,
    ServerConfig,
    find_servers,
    parse_server_table,
    read_servers,
    to_server_table,
)
from ask.render.table import write_table
from ask.settings import check_server_tables
from ask.suggestions import suggest
from ask.text import decode_argument


@click.group("mcp", cls=CommandGroup, default="list")
def command() -> None:
    """See and keep the MCP servers, whose tools a model may call. Without a command it lists them."""


ADD_SERVER_HINT = "ask mcp add --help tells how to add one"


def read_configured_servers(app: AppContext, console: StderrConsole) -> Mapping[str, ServerConfig]:
    """Read all configured servers; print a notice for each invalid one."""
    server_index = find_servers(app.config, app.app_dirs.config)
    for warning in (*app.config.warnings, *server_index.warnings):
        console.print_line(f"ask: {warning}")
    return server_index.servers


def select_servers(servers: Mapping[str, ServerConfig], names: Sequence[str]) -> list[ServerConfig]:
    """Select the servers with these names, or all that are enabled.

    Raises:
        UsageError: there is no server of a name.
    """
    for name in names:
        if name not in servers:
            raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    return [servers[name] for name in names] if names else [server for server in servers.values() if server.enabled]


def suggest_server(name: str, servers: Mapping[str, ServerConfig]) -> str:
    """Suggest what to do about an unknown server name."""
    similar = suggest(name, servers)
    return f"did you mean {similar}?" if similar else f"there are {', '.join(servers)}" if servers else ADD_SERVER_HINT


def check_mcp_installed() -> None:
    """Check that the package mcp is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    if not is_mcp_installed():
        raise MissingDependencyError("the package mcp is not installed", format_install_command(MCP_EXTRA))


def format_server_target(server: ServerConfig) -> str:
    """Return the command of a server, or its URL without credentials and query."""
    if not server.url:
        return shlex.join([server.command, *server.args]) if server.command else ""
    parts = urlsplit(server.url)
    query = "?..." if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}"


@command.command("list", short_help="List the MCP servers, or the tools of one.")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@click.option("--tools", is_flag=True, help="Start all servers, and list their tools.")
@JSON_OPTION
def list_command(*, names: tuple[str, ...], tools: bool, as_json: bool) -> None:
    """List the MCP servers and where they are from. With a name, start that server and list its tools."""
    app = AppContext()
    output, console = StandardOutput(), StderrConsole(app.environment, quiet=False, plain=False)
    servers = read_configured_servers(app, console)
    if tools or names:
        rows = load_tool_rows(select_servers(servers, names), app, console)
    else:
        rows = [to_server_row(server, as_json=as_json) for server in servers.values()]
    write_table(output, rows, as_json=as_json)


def to_server_row(server: ServerConfig, *, as_json: bool) -> dict[str, Any]:
    """Convert a server to a table row.

    Only the names of variables and headers are included: their values may be secret.
    """
    row: dict[str, Any] = {
        "name": server.name,
        "transport": server.type,
        "target": format_server_target(server),
        "enabled": server.enabled,
        "from": str(server.origin),
    }
    if as_json:
        row |= {"env": list(server.env), "headers": list(server.headers), "tools": list(server.tools) or None}
    return row


def load_tool_rows(servers: Sequence[ServerConfig], app: AppContext, console: StderrConsole) -> list[dict[str, Any]]:
    """Start servers and return the rows of their tools.

    A notice is printed for each server that fails.

    Raises:
        ConfigError: all of them fail.
    """
    check_mcp_installed()
    with ExitStack() as cleanup:
        lazy_servers = create_lazy_servers(app, console, cleanup)
        server_tools = [to_server_tools(entry) for entry in lazy_servers.start(servers)]
        tools = [
            (entry.server.name, tool)
            for entry in server_tools
            for tool in collect_server_tools(entry, lazy_servers, console)
        ]
    if server_tools and all(entry.failure for entry in server_tools):
        raise ConfigError("no MCP server can be used", "ask mcp test says more")
    return [
        {
            "name": tool.spec.name,
            "parameters": format_parameters(tool),
            "description": tool.spec.description,
            "runs_or_writes": tool.changes,
            "server": name,
        }
        for name, tool in tools
    ]


@command.command("add", short_help="Add an MCP server to config.toml.")
@click.argument("words", metavar="[SERVER] [URL] [-- COMMAND...]", nargs=-1)
@click.option("--env", "variables", metavar="K=V", multiple=True, help="Set a variable for the command.")
@click.option("--header", "headers", metavar="K=V", multiple=True, help="Send a header to the URL.")
@click.option("--cwd", metavar="DIR", help="Run the command in this folder.")
@click.option("--timeout", metavar="S", type=float, help="Let it take S s to start (10).")
@click.option("--only", metavar="TOOL", multiple=True, help="Offer this tool of it, and no other that is not named.")
@click.option("--sse", is_flag=True, help="Speak to the URL as older servers want it.")
@click.option("--from", "source", metavar="FILE", help="Take servers over from the mcp.json of another program.")
def add_command(
    *,
    words: tuple[str, ...],
    variables: tuple[str, ...],
    headers: tuple[str, ...],
    cwd: str | None,
    timeout: float | None,
    only: tuple[str, ...],
    sse: bool,
    source: str | None,
) -> None:
    """Add an MCP server to config.toml: a command, which is started when a model calls its tools, or a URL.

    In the values of --env and --header, $NAME is filled in when the server is used, so that no secret need stand
    in the file: put it in single quotes.

    \b
    ask mcp add time -- uvx mcp-server-time
    ask mcp add wiki https://example.com/mcp --header 'X-Key=$WIKI_KEY'
    ask mcp add --from .mcp.json
    """
    words = tuple(map(decode_argument, words))
    app = AppContext()
    has_options = any((variables, headers, cwd, timeout, only, sse))
    if source is not None:
        if has_options:
            raise UsageError("--from takes the servers as they are", "leave the other options out")
        servers = read_servers_file(decode_argument(source), words)
    else:
        table = {
            "type": "sse" if sse else None,
            "env": parse_pairs(variables, "--env", "="),
            "headers": parse_pairs(headers, "--header", "=:"),
            "cwd": decode_argument(cwd) if cwd else None,
            "timeout": timeout,
            "tools": list(map(decode_argument, only)),
        }
        servers = [parse_server(words, {key: value for key, value in table.items() if value}, app.app_dirs.config_file)]
    for server in servers:
        check_not_configured(server.name, app)
    for server in servers:
        save_server(server, app)


def read_servers_file(file_name: str, names: Sequence[str]) -> list[ServerConfig]:
    """Read all servers of a file, or those with the given names.

    Raises:
        UsageError, ConfigError: there is no such server, or the file is invalid.
    """
    path = Path(file_name).expanduser()
    try:
        server_index = read_servers(path)
    except ConfigError as error:
        raise ConfigError(error.message, error.advice.replace("correct mcp.files in config.toml", "")) from None
    for name in names:
        if name not in server_index.servers:
            raise UsageError(f"{path} names no MCP server {name!r}", suggest_server(name, server_index.servers))
    if not names and server_index.warnings:
        raise ConfigError(server_index.warnings[0].removesuffix("; it is left out"), "name those that you want")
    return [server_index.servers[name] for name in names or server_index.servers]


def parse_server(words: Sequence[str], table: dict[str, object], origin: Path) -> ServerConfig:
    """Parse the server that the arguments and options describe.

    Raises:
        UsageError: they are incomplete or contradictory.
    """
    if len(words) < 2:
        problem = "its command or URL is missing" if words else "no server is named"
        raise UsageError(problem, "ask mcp add NAME -- COMMAND..., or ask mcp add NAME URL")
    name, target, *arguments = words
    if target.startswith(("http://", "https://")):
        if arguments:
            raise UsageError(f"{arguments[0]!r} stands behind the URL", "name one server at a time")
        table = {**table, "url": target}
    else:
        table = {**table, "command": target} | ({"args": arguments} if arguments else {})
    inapplicable = {"headers", "type"} if "command" in table else {"env", "cwd"}
    for key in sorted(inapplicable & table.keys()):
        option = {"headers": "--header", "type": "--sse"}.get(key, f"--{key}")
        raise UsageError(f"{option} has no meaning for a {'command' if 'command' in table else 'URL'}", "leave it out")
    try:
        check_server_tables(origin, {name: table})
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return parse_server_table(name, table, origin)


def parse_pairs(values: Sequence[str], option: str, separators: str) -> dict[str, str]:
    """Parse names and values such as K=V.

    Raises:
        UsageError: an argument has no separator or no name.
    """
    pairs = {}
    for text in map(decode_argument, values):
        match = re.fullmatch(rf"([^\s{separators}]+)[{separators}]\s*(.*)", text, re.DOTALL)
        if not match:
            raise UsageError(f"{option} needs a name and a value", f"{option} NAME=VALUE")
        pairs[match[1]] = match[2]
    return pairs


def check_not_configured(name: str, app: AppContext) -> None:
    """Check that a server does not replace one in config.toml.

    Raises:
        UsageError: there is a server of that name.
    """
    if name in app.config.get("mcp.servers", {}):
        raise UsageError(f"there is an MCP server {name} already", f"ask mcp remove {name} takes it out")


def save_server(server: ServerConfig, app: AppContext) -> None:
    """Write a server to config.toml, and print how to test it."""
    update_config_file(app.app_dirs.config_file, ("mcp", "servers", server.name), to_server_table(server))
    open_tool_list_cache(app).delete(server.name)
    click.echo(f"{server.name} is in {app.app_dirs.config_file}; ask mcp test {server.name} tries it.", err=True)


@command.command("remove", short_help="Take an MCP server out of config.toml.")
@click.argument("name", metavar="SERVER")
def remove_command(*, name: str) -> None:
    """Take an MCP server out of config.toml."""
    app = AppContext()
    console = StderrConsole(app.environment, quiet=False, plain=False)
    servers, name = read_configured_servers(app, console), decode_argument(name)
    if name not in app.config.get("mcp.servers", {}):
        if name in servers:
            raise UsageError(f"the MCP server {name} is from {servers[name].origin}", "take it out there")
        raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    if not update_config_file(app.app_dirs.config_file, ("mcp", "servers", name), UNSET):
        console.print_line(f"ask: comments in {app.app_dirs.config_file} are lost")
    open_tool_list_cache(app).delete(name)
    click.echo(f"{name} is out of {app.app_dirs.config_file}.", err=True)


@command.command("test", short_help="Start MCP servers, and say what they are.")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@JSON_OPTION
def test_command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start the MCP servers, all or those that are named, and say what they are.

    Exit code 4 tells that one cannot be used.
    """
    app = AppContext()
    output, console = StandardOutput(), StderrConsole(app.environment, quiet=False, plain=False)
    check_mcp_installed()
    servers = select_servers(read_configured_servers(app, console), names)
    if not servers:
        raise UsageError("no MCP server is configured", ADD_SERVER_HINT)
    with ExitStack() as cleanup:
        statuses = create_lazy_servers(app, console, cleanup).start(servers)
    rows = [
        {
            "name": server_status.server.name,
            "state": "failed" if server_status.failure else "ok",
            "version": server_status.version,
            "tools": None if server_status.failure else len(server_status.tools),
            "seconds": round(server_status.seconds, 2),
            "found": server_status.problem,
        }
        for server_status in statuses
    ]
    write_table(output, rows, as_json=as_json, wrap_last=True)
    failed = sum(bool(server_status.failure) for server_status in statuses)
    if failed:
        summary = "1 MCP server" if failed == 1 else f"{failed} MCP servers"
        raise ConfigError(f"{summary} cannot be used", "why stands beside each")
