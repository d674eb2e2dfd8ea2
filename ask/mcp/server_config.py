"""Configured MCP servers, from config.toml or from the files of other programs.

Environment variables in them are expanded when a server is used, so that files need not contain secrets.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

from ask.config.base_url import split_server_url
from ask.config.config_file import Config, decode_config, parse_toml
from ask.config.key_repair import is_valid_key
from ask.config.mcp_servers import (
    FOREIGN_DISABLED_TOOLS,
    SERVER_KEYS,
    SERVER_NAME_PATTERN,
    OAuthConfig,
    ServerConfig,
    check_server_tables,
    parse_server_table,
)
from ask.errors import ConfigError
from ask.parsing import read_dict, read_list
from ask.records import NamedTuple
from ask.regular_files import read_regular_file
from ask.text import describe_parse_error

MCP_EXTRA = "mcp"
"""The extra that installs the MCP SDK."""
JSON_FILE_NAME = "mcp.json"
"""A file next to config.toml that is read without being configured."""
_PACKAGE_RUNNERS = frozenset(
    {
        *("npx", "npm exec", "npm x", "bunx", "bun x", "pnpx", "pnpm dlx", "yarn dlx", "uv run", "pipx run"),
        *("deno run", "dnx"),
    }
)
"""Programs that prefer what the working directory contains, or load packages from where it says.

`uvx` ignores it. deno obeys its `deno.json` and `.npmrc`, dnx its `NuGet.config`.
"""
_WRAPPERS = frozenset(
    {
        *("arch", "caffeinate", "command", "doas", "env", "exec", "ionice", "nice", "nohup", "setsid", "stdbuf"),
        *("sudo", "time", "timeout", "xvfb-run", "!", "{", "do", "else", "then"),
    }
)
"""Programs and words of a shell that run the command after them."""
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_PROJECT_PROGRAMS = frozenset(
    {
        *("cd", "pwd", "git", "devbox", "devenv", "docker", "flox", "hatch", "pdm", "pipenv", "pixi", "podman"),
        *("poetry", "rye"),
    }
)
"""Programs that a server names because it belongs to the project, as in `poetry run -- python -m server`."""
_WORKING_DIRECTORY = re.compile(r"\$\{?PWD\b|(?:\$\(|`)\s*(?:pwd|git)\b")
"""How a shell inserts the working directory, or the root of its repository."""
_FILE_SUFFIXES = (
    *(".cjs", ".js", ".mjs", ".mts", ".ts", ".py", ".json", ".yaml", ".yml", ".toml", ".txt", ".md", ".csv", ".db"),
    ".sqlite",
)


class ConfiguredServers(NamedTuple):
    """Servers by name, in the order of the files, and warnings about entries that cannot be used."""

    servers: Mapping[str, ServerConfig]
    warnings: Sequence[str] = ()


def find_servers(config: Config, config_dir: Path) -> ConfiguredServers:
    """Read all configured servers.

    If several files define a name, config.toml takes precedence, then the mcp.json next to it, then the files in
    `mcp.files` in their order.
    """
    config_file = config_dir / "config.toml"
    servers = {
        name: parse_server_table(name, table, config_file) for name, table in config.get("mcp.servers", {}).items()
    }
    warnings = config.list_skipped("mcp")
    json_files = [config_dir / os.path.expanduser(file) for file in config.get("mcp.files", ())]
    if (config_dir / JSON_FILE_NAME).exists():
        json_files.insert(0, config_dir / JSON_FILE_NAME)
    for path in dict.fromkeys(json_files):
        try:
            file_servers = read_servers(path)
        except ConfigError as error:
            warnings.append(str(error))
            continue
        warnings += file_servers.warnings
        taken = servers.keys() | {key.removeprefix("mcp.servers.") for key in config.errors}
        servers |= {name: server for name, server in file_servers.servers.items() if name not in taken}
    return ConfiguredServers(servers, warnings)


def to_server_table(server: ServerConfig) -> dict[str, Any]:
    """Convert a server to a table for config.toml, without keys that have their default value."""
    defaults = ServerConfig(server.name, server.origin, type="http" if server.url else "stdio")
    table = {key: value for key, value in server._asdict().items() if value != getattr(defaults, key)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}


STRING_PATTERN = r'("(?:\\.|[^"\\])*")'
JSONC_PATTERNS = tuple(
    re.compile(f"{STRING_PATTERN}|{syntax}", re.DOTALL) for syntax in (r"//[^\n]*|/\*.*?\*/", r",(?=\s*[}\]])")
)
"""Extensions of JSON that VS Code accepts: comments and trailing commas.

The patterns match strings first, in which neither has a meaning.
"""
_LIST_KEYS = ("context_servers", "mcp_servers")
"""Where Zed's settings.json and Codex's config.toml have their servers."""
_OPENCODE_VARIABLE = re.compile(r"(?<!\$)\{env:(\w+)\}")
TYPE_ALIASES = {
    **dict.fromkeys(("streamable-http", "streamableHttp", "streamable_http", "remote"), "http"),
    "local": "stdio",  # of OpenCode (https://opencode.ai/docs/mcp-servers) and GitHub Copilot, as "remote" is
}


def read_servers(path: Path, read_content: Callable[[Path], bytes] = read_regular_file) -> ConfiguredServers:
    """Read the servers in a file of another program, with warnings about those that cannot be used.

    Raises:
        ConfigError: the file cannot be read or has no list of servers.
    """
    content = read_dict(_read_file(path, read_content))
    mcp = read_dict(content.get("mcp"))  # of OpenCode; that of VS Code's settings.json has "servers"
    lists = (*map(content.get, ("mcpServers", "servers", *_LIST_KEYS)), mcp.get("servers"), content.get("mcp"))
    tables = next((tables for tables in lists if tables is not None), None)
    if not isinstance(tables, dict):
        raise ConfigError(f"{path} contains no MCP servers", 'it must contain {"mcpServers": {NAME: ...}}')
    servers: dict[str, ServerConfig] = {}
    warnings = []
    for name, entry in tables.items():
        server_name = normalize_server_name(name)
        try:
            table = _normalize_server_entry(read_dict(entry), f"{path}: mcp.servers.{server_name}")
            warnings += check_server_tables(path, {server_name: table})
        except ConfigError as error:
            warnings.append(f"{error.message}; skipping it")
            continue
        if server_name in servers:
            warnings.append(f"{path}: skipping {name!r}, because {server_name} is already taken")
        servers.setdefault(server_name, parse_server_table(server_name, table, path))
    return ConfiguredServers(servers, warnings)


def _read_file(path: Path, read_content: Callable[[Path], bytes]) -> Any:
    """Read a TOML file, or a JSON file, which may contain comments and trailing commas.

    Raises:
        ConfigError: the file cannot be read or is invalid.
    """
    syntax_name = "TOML" if path.suffix == ".toml" else "JSON"
    try:
        content = read_content(path)
        if syntax_name == "TOML":
            return parse_toml(content)
        text = decode_config(content)
        for pattern in JSONC_PATTERNS:
            # Line breaks stay, so that an error names the right line.
            text = pattern.sub(lambda match: match[1] or "\n" * match[0].count("\n") or " ", text)
        return json.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read {path} ({error.strerror})", "correct mcp.files in config.toml") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not valid {syntax_name} ({describe_parse_error(error)})", "correct that line"
        ) from error


def _convert_keys(entry: Mapping[str, Any], server_key: str) -> Mapping[str, Any]:
    """Return a server entry with the keys of config.toml in place of those of OpenCode, Zed, Codex and Gemini CLI."""
    command = entry.get("command")
    if words := read_list(command):  # OpenCode
        entry = {"env": entry.get("environment"), **entry, "command": words[0], "args": words[1:]}
    elif path := read_dict(command).get("path"):  # Zed, until 2025
        entry = {**entry, **read_dict(command), "command": path}
    variables = read_dict(entry.get("env_http_headers"))
    headers = {**read_dict(entry.get("http_headers")), **{name: f"${{{value}}}" for name, value in variables.items()}}
    if variable := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    tools = entry.get("tools")
    if tools is None or isinstance(tools, dict):  # Codex has a table for each tool that the user has approved
        tools = entry.get("enabled_tools", entry.get("includeTools"))
    disabled = [_read_disabled_tools(entry, key, server_key) for key in ("disabled_tools", *FOREIGN_DISABLED_TOOLS)]
    return {"headers": headers or None, **entry, "tools": tools, "disabled_tools": list(chain.from_iterable(disabled))}


def _read_disabled_tools(entry: Mapping[str, Any], key: str, server_key: str) -> Sequence[str]:
    """Return the tools that a server entry turns off.

    Raises:
        ConfigError: the value is not a list of names, as a pattern is not.
    """
    names = entry.get(key)
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) and not re.search(r"[*?(]", name) for name in names)
    ):
        raise ConfigError(f"{server_key}.{key} is not a list of the names of tools")
    return names or []


def _normalize_server_entry(entry: Mapping[str, Any], server_key: str) -> dict[str, Any]:
    """Convert a server entry of another program to the keys of config.toml, and drop all other keys."""
    entry = _convert_keys(entry, server_key)
    # Other programs use milliseconds, or mean the timeout of a call.
    accepted_keys = set(SERVER_KEYS) - {"timeout", "oauth"}
    table = {key: value for key, value in entry.items() if key in accepted_keys and value not in (None, "")}
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if url and "command" not in table:
        table["url"] = url
    types = [name for key in ("type", "transport", "transportType") if isinstance(name := entry.get(key), str) and name]
    if types:
        table["type"] = TYPE_ALIASES.get(types[0], types[0])
    if entry.get("disabled") is True:
        table["enabled"] = False
    for key in ("env", "headers"):
        if isinstance(table.get(key), dict):
            values = {name: value for name, value in table[key].items() if value is not None}
            table[key] = {name: v if isinstance(v, str) else _format_json(v) for name, v in values.items()}
    if isinstance(args := table.get("args"), list):
        table["args"] = [str(arg) if type(arg) in (int, float) else arg for arg in args]
    # GitHub Copilot writes all tools as ["*"].
    if "*" in read_list(table.get("tools")):
        del table["tools"]
    return {key: _convert_variables(value) for key, value in table.items()}


def _format_json(value: Any) -> str:
    """Format a value as JSON, but a date of a TOML file without quotes."""
    return json.dumps(value, default=str).strip('"')


def _convert_variables(value: Any) -> Any:
    """Return a value of a server entry in which variables have the syntax of config.toml."""
    if isinstance(value, str):
        return _OPENCODE_VARIABLE.sub(r"${\1}", value)
    if isinstance(value, list):
        return list(map(_convert_variables, value))
    return {key: _convert_variables(each) for key, each in value.items()} if isinstance(value, dict) else value


def normalize_server_name(name: str) -> str:
    """Convert the name of a server in another program to a valid name."""
    if re.fullmatch(SERVER_NAME_PATTERN, name):
        return name
    valid_name = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name))[:32]
    return valid_name if re.fullmatch(SERVER_NAME_PATTERN, valid_name) else "server"


BRACED_PATTERN = r"\$\{(?:env:)?(?P<name>\w+|input:[^}]*)(?::-(?P<default>[^}]*))?\}"
BRACED_VARIABLE = re.compile(BRACED_PATTERN + r"|(?P<dollar>\$\$)(?=\{)")
"""`${NAME}`, `${NAME:-default}`, `${env:NAME}` as in VS Code, and `$${` for `${`."""
ANY_VARIABLE = re.compile(BRACED_PATTERN + r"|\$(?P<bare>[A-Za-z_]\w*)|(?P<dollar>\$\$)")
"""`BRACED_VARIABLE`, `$NAME`, and `$$` for a dollar sign."""


def expand_variables(server: ServerConfig, environment: Mapping[str, str], directory: Path) -> ServerConfig:
    """Expand all variables in a server's configuration: `$NAME` only in `env` and `headers`, `${NAME}` everywhere.

    `${workspaceFolder}`, as in VS Code, is the working directory.

    Raises:
        ConfigError: a variable is not set and has no default, the URL is not valid, or a header cannot be sent.
    """
    values = {"workspaceFolder": str(directory), "userHome": str(Path.home()), **environment}

    def expand(text: str, key: str, pattern: re.Pattern[str] = BRACED_VARIABLE) -> str:
        def expand_match(match: re.Match[str]) -> str:
            groups = match.groupdict()
            if groups.get("dollar"):
                return "$"
            name = groups["name"] or groups["bare"]
            value = values.get(name, groups["default"])
            if value is None:
                raise ConfigError(f"skipping the MCP server {server.name}: its {key} needs ${name}", f"set {name}")
            return value

        return pattern.sub(expand_match, text)

    url = expand(server.url, "url")
    headers = {name: expand(text, f"headers.{name}", ANY_VARIABLE).strip() for name, text in server.headers.items()}
    problem = "its url is not a valid URL" if url and not split_server_url(url, ("http", "https")) else ""
    for name, value in headers.items():
        if not is_valid_key(value):  # the HTTP library would quote it
            problem = f"its headers.{name} contains a character that cannot be sent"
    if problem:
        raise ConfigError(f"skipping the MCP server {server.name}: {problem}", f"correct mcp.servers.{server.name}")
    return server._replace(
        command=expand(server.command, "command"),
        args=tuple(expand(text, "args") for text in server.args),
        cwd=expand(server.cwd, "cwd"),
        url=url,
        env={name: expand(text, f"env.{name}", ANY_VARIABLE) for name, text in server.env.items()},
        headers=headers,
        oauth=cast(
            "OAuthConfig",
            {name: expand(str(text), f"oauth.{name}", ANY_VARIABLE) for name, text in server.oauth.items()},
        ),
    )


def list_variables(server: ServerConfig) -> list[str]:
    """Return the names of the variables in a server's configuration whose values it gets."""
    own = [text for values in (server.env, server.headers, server.oauth) for text in map(str, values.values())]
    matches = [match for text in own for match in ANY_VARIABLE.finditer(text)]
    for text in (server.url, server.command, server.cwd, *server.args):
        matches += BRACED_VARIABLE.finditer(text)
    names = (match["name"] or match.groupdict().get("bare") for match in matches)
    return list(dict.fromkeys(name for name in names if name and name not in ("workspaceFolder", "userHome")))


def uses_client_credentials(server: ServerConfig) -> bool:
    """Check whether a server is used with the credentials of a client, without a user's sign-in."""
    return "private_key" in server.oauth or server.oauth.get("grant_type") == "client_credentials"


def resolve_server_folder(server: ServerConfig, directory: Path) -> Path:
    """Return the folder in which a server is started."""
    return directory / os.path.expanduser(server.cwd)


def starts_in_empty_folder(server: ServerConfig, directory: Path) -> bool:
    """Check whether a server without `cwd` must not be started in the working directory, which could replace it.

    `npx` prefers the folder's `node_modules` and obeys its `.npmrc`, `uv run` installs its project, and `python -m`
    imports from the folder. A program of the folder, or an argument or variable such as `.` or `server.ts`, needs it.
    """
    lines = list(_split_commands([os.path.expanduser(server.command), *server.args]))
    commands = [command for line in lines for command in _find_commands(line)]
    if server.cwd or not any(map(_runs_from_folder, commands)):
        return False
    words = [word for line in lines for word in (line[1:] if line[:1] == ["."] else line)]  # "." is also `source`
    values = [*(word.rpartition("=")[2] for word in words), *server.env.values()]
    python_path = filter(None, server.env.get("PYTHONPATH", "").split(os.pathsep))
    return not (
        any(_needs_folder(command[0], directory) for command in commands)
        or any(map(_is_relative_path, values))
        or not all(map(os.path.isabs, python_path))
    )


def _split_commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a command line without the script of its shell, then the commands of the script."""
    shells = (command for command in _find_commands(words) if os.path.basename(command[0]) in _SHELLS)
    scripts = [text for command in shells for option, text in pairwise(command) if re.fullmatch(r"-\w*c", option)]
    if not scripts:
        yield words
        return
    yield [word for word in words if word != scripts[0]]
    lexer = shlex.shlex(scripts[0].replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    line: list[str] = []
    try:
        for token in [*lexer, ";"]:
            if token.strip("();<>|&"):
                line.append(token)
            else:
                yield from _split_commands(line)
                line = []
    except ValueError:  # a quotation that does not end: the shell fails, too
        return


def _find_commands(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield what a command line may run: its program, the command that this one wraps, and what follows `--`."""
    start = next(_find_operands(words), len(words))
    if command := words[start:]:
        yield command
        if os.path.basename(command[0]) in _WRAPPERS:
            for index in _find_operands(command[1:], 1):
                yield from _find_commands(command[index:])
        elif "--" in command and not _names_project(command):
            yield from _find_commands(command[command.index("--") + 1 :])


def _find_operands(words: Sequence[str], offset: int = 0) -> Iterator[int]:
    """Yield where the first word is that is no option, variable or number. The value of an option may look like it."""
    for index, word in enumerate(words):
        if not re.match(r"-|\w+=|\d[\d.]*[smhd]?$", word):
            yield index + offset
            if index == 0 or not words[index - 1].startswith("-"):
                return


def _runs_from_folder(command: Sequence[str]) -> bool:
    program, arguments = os.path.basename(command[0]), command[1:]
    subcommands = (arguments[index] for index in _find_operands(arguments))
    if not _PACKAGE_RUNNERS.isdisjoint((program, *(f"{program} {name}" for name in subcommands))):
        return not _names_project(command)
    return bool(re.fullmatch(r"(?:python|pypy)[\d.]*", program)) and _names_module(arguments)


def _names_project(command: Sequence[str]) -> bool:
    """Check whether uv gets the folder of its project. That of another program may be a project in a cloud."""
    is_uv = os.path.basename(command[0]) == "uv"
    return is_uv and any(argument.startswith(("--project", "--directory")) for argument in command)


def _needs_folder(program: str, directory: Path) -> bool:
    """Check whether a program is in the working directory, or is one that works on the project there."""
    is_in_folder = "/" in program and (not program.startswith(("/", "~")) or Path(program).is_relative_to(directory))
    return is_in_folder or program in _PROJECT_PROGRAMS


def _names_module(arguments: Sequence[str]) -> bool:
    """Check whether Python's arguments name a module, as in `-X utf8 -m NAME`, or contain code."""
    for before, argument in pairwise(("", *arguments)):
        if re.match(r"-[bBdEiIOPqRsSuvx]*[mc]", argument):
            return True
        if not argument.startswith("-") and before not in ("-X", "-W"):
            return False
    return False


def _is_relative_path(value: str) -> bool:
    name = re.sub(r"(?<=\.py):\w+$", "", value)  # FastMCP's FILE:OBJECT
    is_file_name = name.endswith(_FILE_SUFFIXES) and not name.startswith(("/", "~", "@", "$")) and "://" not in name
    return is_file_name or value.startswith(".") or bool(_WORKING_DIRECTORY.search(value))
