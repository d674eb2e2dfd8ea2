"""`ask mcp add`: one more server into config.toml, or those that another program's file names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ask.cli.groups import listing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ask.agent.workspace import Workspace
    from ask.mcp.server_config import Server


@listing("add")
@click.argument("words", metavar="[SERVER] [URL] [-- COMMAND...]", nargs=-1)
@click.option("--env", "variables", metavar="K=V", multiple=True, help="Set a variable for the command.")
@click.option("--header", "headers", metavar="K=V", multiple=True, help="Send a header to the URL.")
@click.option("--cwd", metavar="DIR", help="Run the command in this folder.")
@click.option("--timeout", metavar="S", type=float, help="Let it take S s to start (10).")
@click.option("--only", metavar="TOOL", multiple=True, help="Offer this tool of it, and no other that is not named.")
@click.option("--sse", is_flag=True, help="Speak to the URL as older servers want it.")
@click.option("--from", "source", metavar="FILE", help="Take servers over from the mcp.json of another program.")
def command(
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
    from ask.agent.workspace import Workspace
    from ask.errors import UsageError
    from ask.text import as_text

    words = tuple(map(as_text, words))
    workspace = Workspace()
    given = any((variables, headers, cwd, timeout, only, sse))
    if source is not None:
        if given:
            raise UsageError("--from takes the servers as they are", "leave the other options out")
        found = read_source(as_text(source), words)
    else:
        table = {
            "type": "sse" if sse else None,
            "env": pairs(variables, "--env", "="),
            "headers": pairs(headers, "--header", "=:"),
            "cwd": as_text(cwd) if cwd else None,
            "timeout": timeout,
            "tools": list(map(as_text, only)),
        }
        found = [described(words, {key: value for key, value in table.items() if value}, workspace.config_file)]
    for server in found:
        refuse_known(server.name, workspace)
    for server in found:
        keep(server, workspace)


def read_source(source: str, names: Sequence[str]) -> list[Server]:
    """The servers that a file names, all of them or those of the names.

    Raises:
        UsageError, ConfigError: there is no such one, or the file cannot be understood.
    """
    from pathlib import Path

    from ask.cli.mcp.servers import suggest_server
    from ask.errors import ConfigError, UsageError
    from ask.mcp.server_config import read_servers

    path = Path(source).expanduser()
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


def described(words: Sequence[str], table: dict[str, object], origin: Path) -> Server:
    """The server that the words and options describe.

    Raises:
        UsageError: they make no sense.
    """
    from ask.errors import ConfigError, UsageError
    from ask.mcp.server_config import from_table
    from ask.mcp_settings import check_servers

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
        list(check_servers(origin, {name: table}))
    except ConfigError as error:
        raise UsageError(error.message.partition(": ")[2], error.advice) from None
    return from_table(name, table, origin)


def pairs(values: Sequence[str], option: str, signs: str) -> dict[str, str]:
    """Names and values from words such as K=V.

    Raises:
        UsageError: one is no such word.
    """
    import re

    from ask.errors import UsageError
    from ask.text import as_text

    found = {}
    for word in map(as_text, values):
        match = re.fullmatch(rf"([^\s{signs}]+)[{signs}]\s*(.*)", word, re.DOTALL)
        if not match:
            raise UsageError(f"{option} needs a name and a value", f"{option} NAME=VALUE")
        found[match[1]] = match[2]
    return found


def refuse_known(name: str, workspace: Workspace) -> None:
    """Keep what is configured.

    Raises:
        UsageError: there is a server of that name in config.toml.
    """
    from ask.errors import UsageError

    if name in workspace.config.get("mcp.servers", {}):
        raise UsageError(f"there is an MCP server {name} already", f"ask mcp remove {name} takes it out")


def keep(server: Server, workspace: Workspace) -> None:
    """Write a server into config.toml, and say so."""
    from ask.agent.mcp_tools import kept_lists
    from ask.config_file import change
    from ask.mcp.server_config import as_table

    change(workspace.config_file, ("mcp", "servers", server.name), as_table(server))
    kept_lists(workspace).forget(server.name)
    click.echo(f"{server.name} is in {workspace.config_file}; ask mcp test {server.name} tries it.", err=True)
