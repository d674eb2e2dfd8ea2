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
from ask.agent.mcp_tools import collect_server_tools, create_lazy_servers, is_mcp_installed, open_tool_list_cache
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
from ask.mcp_settings import check_server_tables
from ask.render.table import write_table
from ask.suggestions import suggest
from ask.text import decode_argument


@click.group("mcp", cls=CommandGroup, default="list")
def command() -> None:
    """See and keep the MCP servers, whose tools a model may call. Without a command it lists them."""


ADD_SERVER_HINT = "ask mcp add --help tells how to add one"


def read_configured_servers(app: AppContext, console: StderrConsole) -> Mapping[str, ServerConfig]:
    """All configured servers; a line says what is not understood."""
    found = find_servers(app.config, app.app_dirs.config)
    for warning in (*app.config.warnings, *found.warnings):
        console.print_line(f"ask: {warning}")
    return found.servers


def select_servers(servers: Mapping[str, ServerConfig], names: Sequence[str]) -> list[ServerConfig]:
    """The servers of these names; without any, all that are enabled.

    Raises:
        UsageError: there is none of a name.
    """
    for name in names:
        if name not in servers:
            raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    return [servers[name] for name in names] if names else [one for one in servers.values() if one.enabled]


def suggest_server(name: str, servers: Mapping[str, ServerConfig]) -> str:
    """What to do about a server that is not there."""
    near = suggest(name, servers)
    return f"did you mean {near}?" if near else f"there are {', '.join(servers)}" if servers else ADD_SERVER_HINT


def check_mcp_installed() -> None:
    """Say what is missing.

    Raises:
        MissingProgram: the package that speaks to servers is.
    """
    if not is_mcp_installed():
        raise MissingDependencyError("the package mcp is not installed", format_install_command(MCP_EXTRA))


def format_server_target(server: ServerConfig) -> str:
    """What a server is: its command, or its URL without what may be secret in it."""
    if not server.url:
        return shlex.join([server.command, *server.args]) if server.command else ""
    parts = urlsplit(server.url)
    hidden = "?..." if parts.query else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{hidden}"


@command.command("list", short_help="List the MCP servers, or the tools of one.")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@click.option("--tools", is_flag=True, help="Start all servers, and list their tools.")
@JSON_OPTION
def list_command(*, names: tuple[str, ...], tools: bool, as_json: bool) -> None:
    """List the MCP servers and where they are from. With a name, start that server and list its tools."""
    workspace = AppContext()
    output, console = StandardOutput(), StderrConsole(workspace.environment, quiet=False, plain=False)
    servers = read_configured_servers(workspace, console)
    if tools or names:
        rows = load_tool_rows(select_servers(servers, names), workspace, console)
    else:
        rows = [to_server_row(server, as_json=as_json) for server in servers.values()]
    write_table(output, rows, as_json=as_json)


def to_server_row(server: ServerConfig, *, as_json: bool) -> dict[str, Any]:
    """What is shown of a server: of variables and headers the names alone, as their values may be secret."""
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
    """The tools of servers that are started for it; a line says which cannot be.

    Raises:
        ConfigError: none can be.
    """
    check_mcp_installed()
    with ExitStack() as cleanup:
        running = create_lazy_servers(app, console, cleanup)
        offers = [to_server_tools(one) for one in running.start(servers)]
        tools = [(one.server.name, tool) for one in offers for tool in collect_server_tools(one, running, console)]
    if offers and all(one.failure for one in offers):
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
    workspace = AppContext()
    given = any((variables, headers, cwd, timeout, only, sse))
    if source is not None:
        if given:
            raise UsageError("--from takes the servers as they are", "leave the other options out")
        found = read_servers_file(decode_argument(source), words)
    else:
        table = {
            "type": "sse" if sse else None,
            "env": parse_pairs(variables, "--env", "="),
            "headers": parse_pairs(headers, "--header", "=:"),
            "cwd": decode_argument(cwd) if cwd else None,
            "timeout": timeout,
            "tools": list(map(decode_argument, only)),
        }
        found = [parse_server(words, {key: value for key, value in table.items() if value}, workspace.config_file)]
    for server in found:
        check_not_configured(server.name, workspace)
    for server in found:
        save_server(server, workspace)


def read_servers_file(file_name: str, names: Sequence[str]) -> list[ServerConfig]:
    """The servers that a file names, all of them or those of the names.

    Raises:
        UsageError, ConfigError: there is no such one, or the file cannot be understood.
    """
    path = Path(file_name).expanduser()
    try:
        found = read_servers(path)
    except ConfigError as error:
        raise ConfigError(error.message, error.advice.replace("correct mcp.files in config.toml", "")) from None
    for name in names:
        if name not in found.servers:
            raise UsageError(f"{path} names no MCP server {name!r}", suggest_server(name, found.servers))
    if not names and found.warnings:
        raise ConfigError(found.warnings[0].removesuffix("; it is left out"), "name those that you want")
    return [found.servers[name] for name in names or found.servers]


def parse_server(words: Sequence[str], table: dict[str, object], origin: Path) -> ServerConfig:
    """The server that the words and options describe.

    Raises:
        UsageError: they make no sense.
    """
    if len(words) < 2:
        missing = "its command or URL is missing" if words else "no server is named"
        raise UsageError(missing, "ask mcp add NAME -- COMMAND..., or ask mcp add NAME URL")
    name, target, *arguments = words
    if target.startswith(("http://", "https://")):
        if arguments:
            raise UsageError(f"{arguments[0]!r} stands behind the URL", "name one server at a time")
        table = {**table, "url": target}
    else:
        table = {**table, "command": target} | ({"args": arguments} if arguments else {})
    unfit = {"headers", "type"} if "command" in table else {"env", "cwd"}
    for key in sorted(unfit & table.keys()):
        option = {"headers": "--header", "type": "--sse"}.get(key, f"--{key}")
        raise UsageError(f"{option} has no meaning for a {'command' if 'command' in table else 'URL'}", "leave it out")
    try:
        list(check_server_tables(origin, {name: table}))
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return parse_server_table(name, table, origin)


def parse_pairs(values: Sequence[str], option: str, separators: str) -> dict[str, str]:
    """Names and values from words such as K=V.

    Raises:
        UsageError: one is no such word.
    """
    found = {}
    for word in map(decode_argument, values):
        match = re.fullmatch(rf"([^\s{separators}]+)[{separators}]\s*(.*)", word, re.DOTALL)
        if not match:
            raise UsageError(f"{option} needs a name and a value", f"{option} NAME=VALUE")
        found[match[1]] = match[2]
    return found


def check_not_configured(name: str, app: AppContext) -> None:
    """Keep what is configured.

    Raises:
        UsageError: there is a server of that name in config.toml.
    """
    if name in app.config.get("mcp.servers", {}):
        raise UsageError(f"there is an MCP server {name} already", f"ask mcp remove {name} takes it out")


def save_server(server: ServerConfig, app: AppContext) -> None:
    """Write a server into config.toml, and say so."""
    update_config_file(app.config_file, ("mcp", "servers", server.name), to_server_table(server))
    open_tool_list_cache(app).delete(server.name)
    click.echo(f"{server.name} is in {app.config_file}; ask mcp test {server.name} tries it.", err=True)


@command.command("remove", short_help="Take an MCP server out of config.toml.")
@click.argument("name", metavar="SERVER")
def remove_command(*, name: str) -> None:
    """Take an MCP server out of config.toml."""
    workspace = AppContext()
    console = StderrConsole(workspace.environment, quiet=False, plain=False)
    servers, name = read_configured_servers(workspace, console), decode_argument(name)
    if name not in workspace.config.get("mcp.servers", {}):
        if name in servers:
            raise UsageError(f"the MCP server {name} is from {servers[name].origin}", "take it out there")
        raise UsageError(f"there is no MCP server {name!r}", suggest_server(name, servers))
    if not update_config_file(workspace.config_file, ("mcp", "servers", name), UNSET):
        console.print_line(f"ask: comments in {workspace.config_file} are lost")
    open_tool_list_cache(workspace).delete(name)
    click.echo(f"{name} is out of {workspace.config_file}.", err=True)


@command.command("test", short_help="Start MCP servers, and say what they are.")
@click.argument("names", metavar="[SERVER]...", nargs=-1)
@JSON_OPTION
def test_command(*, names: tuple[str, ...], as_json: bool) -> None:
    """Start the MCP servers, all or those that are named, and say what they are.

    Exit code 4 tells that one cannot be used.
    """
    workspace = AppContext()
    output, console = StandardOutput(), StderrConsole(workspace.environment, quiet=False, plain=False)
    check_mcp_installed()
    servers = select_servers(read_configured_servers(workspace, console), names)
    if not servers:
        raise UsageError("no MCP server is configured", ADD_SERVER_HINT)
    with ExitStack() as cleanup:
        started = create_lazy_servers(workspace, console, cleanup).start(servers)
    rows = [
        {
            "name": one.server.name,
            "state": "failed" if one.failure else "ok",
            "version": one.version,
            "tools": None if one.failure else len(one.tools),
            "seconds": round(one.seconds, 2),
            "found": one.problem,
        }
        for one in started
    ]
    write_table(output, rows, as_json=as_json, wrap_last=True)
    failed = sum(bool(one.failure) for one in started)
    if failed:
        those = "1 MCP server" if failed == 1 else f"{failed} MCP servers"
        raise ConfigError(f"{those} cannot be used", "why stands beside each")
