"""Generates the parts of the shell completion scripts that follow from the Click commands.

`make generated` writes them into completions/.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import click

from ask.cli.ask import command as root
from ask.cli.commands import COMMANDS
from ask.config.settings import SETTINGS
from ask.config.sign_in_services import SIGN_IN_SERVICES
from ask.hooks.claude_code import CLAUDE_EVENTS
from ask.profiles import EFFORTS
from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB

SCRIPTS = Path(__file__).parents[1] / "completions"
BEGIN = "# make generated writes from here\n"
END = "# to here\n"
OPTION_VALUES = {
    "--provider": "provider",
    "--model": "model",
    "--fallback": "fallback",
    "--resume": "conversation",
    "--system": "system",
    "--option": "parameter",
    "--effort": f"choice:{','.join(EFFORTS)}",
    "--disable-tool": "tool",
    "--server-tool": "choice:web_search,web_fetch,code_execution,tool_search,x_search",
    "--allow-tool": "tool",
    "--tool": "file",
    "--template": "prompt",
    "--file": "attachment",
    "--schema": "file",
    **dict.fromkeys(("--judge", "--combine"), "model"),
    "--engine": "choice:dask",
    "--shard": "choice:auto",
    "--encoding": "choice:utf-8,utf-16,cp1252,cp1250,cp1251,cp932,gb18030",
    "map --forget": "job",
    "map --review": "nothing",
}
"""Completions of option values whose metavar does not determine them, by option, or by command and option."""
WORDS = {
    "": "file",
    **dict.fromkeys(("config get", "config unset"), "key"),
    "config set": "setting",
    **dict.fromkeys(("templates delete", "templates edit", "templates show"), "template"),
    **dict.fromkeys(("compare", "templates new"), "nothing"),
    "hooks test": f"choice:{','.join(CLAUDE_EVENTS)}",
    **dict.fromkeys(("skills show", "skills update", "skills remove"), "skill"),
    "tools forget": "approval",
    **dict.fromkeys(("map", "mcp add"), "file"),
    **dict.fromkeys(("login", "logout"), f"choice:{','.join(SIGN_IN_SERVICES)}"),
}
"""Completions of command arguments whose metavars do not determine them."""
METAVARS = {
    "PATH": "file",
    "FILE": "file",
    **dict.fromkeys(("DIR", "FOLDER", "SOURCE"), "directory"),
    "ID": "conversation",
    "PROVIDER": "provider",
    "COMMAND": f"choice:{','.join(COMMANDS)}",
    "SERVER": "server",
    **dict.fromkeys(("TOOL", "URL", "KEY", "KEYS", "N", "C", "NAME", "S", "USD", "AGE", "HOST"), "nothing"),
    **dict.fromkeys(("VALUE", "WORDS", "K=V", "TIME", "NAMES", "COLUMN", "REF"), "nothing"),
}
PARAMETERS = (
    *("frequency_penalty", "max_tokens", "presence_penalty", "reasoning_effort", "seed", "stop"),
    *("temperature", "top_k", "top_p"),
)
"""Parameters that -o sets most often."""


class CompletionOption(NamedTuple):
    """An option with its names, help and the completion of its value ("" for a flag)."""

    names: tuple[str, ...]
    about: str
    value: str
    metavar: str
    repeatable: bool


class CompletionCommand(NamedTuple):
    """A command ("" for `ask`, else as "history show") with the completion of its arguments and its subcommands."""

    path: str
    options: tuple[CompletionOption, ...]
    words: str
    commands: dict[str, str]


def list_commands() -> Iterator[CompletionCommand]:
    """Return all commands, `ask` itself first."""
    yield describe_command("", root, dict(COMMANDS))
    for name in COMMANDS:
        one: click.Command = import_module(f"ask.cli.{name}").command
        yield from list_with_subcommands(name, one)


def list_with_subcommands(path: str, command: click.Command) -> Iterator[CompletionCommand]:
    parts: dict[str, click.Command] = {}
    if isinstance(command, click.Group):
        with command.context_class(command) as context:
            found = ((name, command.get_command(context, name)) for name in command.list_commands(context))
            parts = {name: part for name, part in found if part is not None and not part.hidden}
    yield describe_command(path, command, {name: part.get_short_help_str(80) for name, part in parts.items()})
    for name, part in parts.items():
        yield from list_with_subcommands(f"{path} {name}", part)


def describe_command(path: str, command: click.Command, parts: dict[str, str]) -> CompletionCommand:
    command = copy(command)
    vars(command)["_help_option"] = None  # Click caches it with the command name used first in this process
    with command.context_class(command) as context:
        params = command.get_params(context)
    options = [describe_option(path, param) for param in params if isinstance(param, click.Option) and not param.hidden]
    arguments = [param for param in params if isinstance(param, click.Argument)]
    words = WORDS.get(path) or (find_value_completion(path, arguments[0]) if arguments else "nothing")
    return CompletionCommand(path, tuple(options), "nothing" if parts and path else words, parts)


def describe_option(path: str, param: click.Option) -> CompletionOption:
    flag = param.is_flag or param.count
    names = (*param.opts, *param.secondary_opts)
    metavar = param.metavar or param.type.name.upper()
    value = "" if flag else find_value_completion(path, param)
    return CompletionOption(tuple(names), (param.help or "").rstrip("."), value, metavar, param.multiple)


def find_value_completion(path: str, param: click.Parameter) -> str:
    """Return the completion of an option's or argument's value; exits if none is known here."""
    name = max(param.opts, key=len)
    if isinstance(param.type, click.Choice):
        return f"choice:{','.join(param.type.choices)}"
    metavar = (param.metavar or param.name or "").strip("[].").upper()
    value = OPTION_VALUES.get(f"{path} {name}") or OPTION_VALUES.get(name) or METAVARS.get(metavar)
    if value is None:
        raise SystemExit(f"say in {Path(__file__).name} what completes {name} {metavar} of ask {path}".rstrip())
    return value


# bash


def generate_bash(every: Sequence[CompletionCommand]) -> str:
    """Generate a function that sets what a command takes."""
    lines = ["_ask_about() {  # COMMAND: what it takes", "    case $1 in"]
    for one in every:
        names = [name for each in one.options for name in each.names]
        values = [f"{name}={each.value}" for each in one.options if each.value for name in each.names]
        lines += [
            f"        {shlex.quote(one.path)})",
            f"            commands={shlex.quote(' '.join(one.commands))}",
            f"            options={shlex.quote(' '.join(names))}",
            f"            values={shlex.quote(' '.join(values))}",
            f"            rest='{one.words}' ;;",
        ]
    lines += ["    esac", "}", *(f"{name}={shlex.quote(' '.join(words))}" for name, words in LISTS.items())]
    return "\n".join(lines) + "\n"


def tool_names() -> list[str]:
    return [*(tool.spec.name for tool in BUILTIN_TOOLS), SEARCH_WEB.name]


LISTS = {
    "_ask_tools": tool_names(),
    "_ask_keys": list(SETTINGS),
    "_ask_parameters": list(PARAMETERS),
    "_ask_efforts": list(EFFORTS),
}


# zsh


def generate_zsh(every: Sequence[CompletionCommand]) -> str:
    """Generate a function that calls _arguments for a command."""
    lines = ["_ask_arguments() {  # COMMAND", "  case $1 in"]
    for one in every:
        lines += [f"    {shlex.quote(one.path)})", "      _arguments -s -S -A '-*' \\"]
        lines += [f"        {shlex.quote(spec)} \\" for each in one.options for spec in zsh_specs(each)]
        first = ["1: :_ask_first"] if one.commands else []
        lines += [f"        {shlex.quote(spec)} \\" for spec in first]
        lines += [f"        {shlex.quote('*: :' + zsh_action(one.words))} ;;"]
    lines += ["  esac", "}", "_ask_commands() {  # COMMAND: what it consists of", "  case $1 in"]
    for one in every:
        if one.commands:
            named = " ".join(shlex.quote(f"{name}:{about.rstrip('.')}") for name, about in one.commands.items())
            lines += [f"    {shlex.quote(one.path)}) reply=({named}) ;;"]
    lines += ["    *) reply=() ;;", "  esac", "}"]
    lines += [f"{name}=({' '.join(words)})" for name, words in LISTS.items()]
    return "\n".join(lines) + "\n"


def zsh_specs(option: CompletionOption) -> Iterator[str]:
    """Return the _arguments specs of an option, one for each of its names."""
    about = "".join(f"\\{c}" if c in "[]\\:" else c for c in option.about)
    exclude = "*" if option.repeatable else f"({' '.join(option.names)})"
    for name in option.names:
        if not option.value:
            yield f"{exclude}{name}[{about}]"
        else:
            sign = "=" if name.startswith("--") else "+"
            metavar = option.metavar.replace(":", "\\:")
            yield f"{exclude}{name}{sign}[{about}]:{metavar}:{zsh_action(option.value)}"


def zsh_action(value: str) -> str:
    if value.startswith("choice:"):
        return f"({value.removeprefix('choice:').replace(',', ' ')})"
    return {"nothing": "", "file": "_files", "directory": "_files -/"}.get(value, f"_ask_{value}")


# fish


def generate_fish(every: Sequence[CompletionCommand]) -> str:
    """Generate the `complete` lines and a function that lists the options with a value."""
    lines = ["function __ask_valued -a command  # the options of a command that take a value", '    switch "$command"']
    for one in every:
        valued = [name for each in one.options if each.value for name in each.names]
        lines += [
            f"        case {fish_quote(one.path)}",
            f"            string split ' ' -- {fish_quote(' '.join(valued))}",
        ]
    lines += ["    end", "end", "function __ask_commands -a command  # what a command consists of"]
    lines += ['    switch "$command"']
    for one in every:
        if one.commands:
            lines += [
                f"        case {fish_quote(one.path)}",
                f"            string split ' ' -- {fish_quote(' '.join(one.commands))}",
            ]
    lines += ["    end", "end"]
    lines += [f"set -g _{name} {' '.join(words)}" for name, words in LISTS.items()]
    for one in every:
        inside, first = (fish_quote(f"{test} {fish_quote(one.path)}") for test in ("__ask_in", "__ask_first"))
        for name, about in one.commands.items():
            lines += [f"complete -c ask -n {first} -f -a {name} -d {fish_quote(about.rstrip('.'))}"]
        for each in one.options:
            lines += [f"complete -c ask -n {inside} {fish_names(each)} -d {fish_quote(each.about)}"]
        words = fish_quote(f"__ask_words {fish_quote(one.path)}")
        if one.path and one.words != "file":
            lines += [f"complete -c ask -n {words} -f{fish_action(one.words)}"]
    return "\n".join(lines) + "\n"


def fish_case(path: str, words: Iterable[str]) -> list[str]:
    return [f"        case {fish_quote(path)}", f"            string split ' ' -- {fish_quote(' '.join(words))}"]


def fish_names(option: CompletionOption) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
    if not option.value:
        return names
    if option.value == "attachment":
        return f"{names} -r -F{fish_action(option.value)}"
    return f"{names} -r -F" if option.value == "file" else f"{names} -x{fish_action(option.value)}"


def fish_action(value: str) -> str:
    if value.startswith("choice:"):
        return f" -a {fish_quote(value.removeprefix('choice:').replace(',', ' '))}"
    if value == "directory":
        return " -a '(__fish_complete_directories)'"
    order = " -k" if value in ("conversation", "job") else ""  # newest first
    return "" if value == "nothing" else f"{order} -a '(__ask_{value})'"


def fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[Sequence[CompletionCommand]], str]] = {
    "ask.bash": generate_bash,
    "ask.zsh": generate_zsh,
    "ask.fish": generate_fish,
}


def split_script(script: str) -> tuple[str, str, str]:
    """Split a script into the text before, in and after its generated part."""
    before, _, rest = (SCRIPTS / script).read_text().partition(BEGIN)
    generated, _, after = rest.partition(END)
    return before, generated, after


def generate() -> dict[Path, str]:
    """Return the scripts with their generated parts replaced, by path."""
    commands = list(list_commands())
    scripts = {}
    for script, generate_part in SHELLS.items():
        before, _, after = split_script(script)
        scripts[SCRIPTS / script] = before + BEGIN + generate_part(commands) + END + after
    return scripts
