"""The command line: the first argument may name a subcommand; everything else is a prompt."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ask.config.options import EVENT_SESSION_ARGUMENT, ROW_ARGUMENT
from ask.errors import AskError, FileError, RunInterruptedError, UsageError

if TYPE_CHECKING:
    from ask.plugin_api.installed_plugins import PluginEntry

COMMANDS = {
    "acp": "Be an agent in an editor.",
    "chat": "Chat with a model.",
    "compact": "Summarize older messages of a conversation.",
    "compare": "Ask several models the same question.",
    "config": "Show and change settings.",
    "context": "List or forget trusted projects.",
    "doctor": "Check the installation and suggest fixes.",
    "events": "Print the JSON Schema of events (--events).",
    "help": "Show the help of ask or a command.",
    "history": "List, search, export and delete conversations.",
    "hooks": "List and try the commands that run at events.",
    "import": "Import the data of llm or aichat.",
    "init": "Set up ask in bash, zsh or fish.",
    "keys": "Manage API keys.",
    "login": "Sign in to a provider, in place of a key.",
    "logout": "Sign out of a provider.",
    "map": "Ask one prompt about many rows or files.",
    "mcp": "Manage MCP servers.",
    "models": "List a provider's models.",
    "providers": "List the providers.",
    "safe": "Check whether --safe works here.",
    "skills": "List, install and check Agent Skills.",
    "templates": "Manage prompt templates (-t).",
    "tools": "List the tools available to models, and manage approvals.",
    "undo": "Restore the files that a run changed.",
    "version": "Print the version.",
}
"""The subcommands with their summaries; each is `command` in the module of its name, imported on demand."""
RARE_COMMANDS = ("safe", "version")
"""Those that only the help of `--help --all` lists."""
PATH = os.path.expanduser
"""The type of options whose value is a path: bash leaves the ~ of --output=~/x as it is."""
SYNONYMS = {
    "logs": "history list",
    "logs list": "history list",
    "list": "history list",
    "stats": "history stats",
    "history rm": "history delete",
    "history remove": "history delete",
    **{
        f"{name} ls": f"{name} list"
        for name in ("history", "keys", "mcp", "config", "skills", "templates", "tools", "hooks", "context")
    },
    "models list": "models",
    "models ls": "models",
    "models default": "config set model",
    "providers list": "providers",
    "providers ls": "providers",
    "auth login": "keys set",
    "auth logout": "keys remove",
    "auth list": "keys list",
    "auth status": "keys list",
    "keys add": "keys set",
    "keys delete": "keys remove",
    "keys rm": "keys remove",
    "templates add": "templates new",
    "templates create": "templates new",
    "templates remove": "templates delete",
    "templates rm": "templates delete",
    "mcp delete": "mcp remove",
    "mcp rm": "mcp remove",
    "config delete": "config unset",
    "config remove": "config unset",
}
"""Names of commands in other programs. If the first word is not a command of `ask`, only options may follow."""


RESERVED_NAMES = frozenset({"ask", *COMMANDS, *(name.partition(" ")[0] for name in SYNONYMS)})
"""The names that no command of a package can have."""
PLUGIN_COMMAND_PATTERN = re.compile(r"[a-z][a-z0-9_-]*")
"""The names that a command of a package can have."""


class CommandContext(click.Context):
    """The context of every command: -h is --help, whose layout suits terminals of any width."""

    def __init__(self, command: click.Command, **settings: Any) -> None:
        super().__init__(command, help_option_names=["-h", "--help"], **settings)

    def make_formatter(self) -> click.HelpFormatter:
        from ask.cli.help_format import HelpFormatter

        return HelpFormatter()


def read_all_help(ctx: click.Context, arguments: list[str]) -> list[str]:
    """Read `--all` if it is beside `--help`; return the other arguments."""
    if "--all" not in arguments or {"-h", "--help"}.isdisjoint(arguments):
        return arguments
    ctx.meta[ALL_HELP] = True
    return [word for word in arguments if word != "--all"]


def join_short_options(words: Sequence[str], takes_value: Mapping[str, bool]) -> list[str]:
    """Return the words of a command line with `-mNAME` in place of `-m=NAME`, which Click reads as the value `=NAME`.

    `takes_value` says which options, spelled like "-q" or "--quiet", take a value.
    """
    joined: list[str] = []
    is_value = False
    for position, word in enumerate(words):
        if word == "--" and not is_value:
            return [*joined, *words[position:]]
        options, _, value = word.partition("=")
        # Flags may precede the option, as in -qm=NAME.
        are_known = [takes_value.get(f"-{letter}") for letter in options[1:]] == [False] * (len(options) - 2) + [True]
        joined.append(options + value if are_known and value and not is_value else word)
        is_value = not is_value and "=" not in word and (are_known or takes_value.get(word, False))
    return joined


def find_options_with_value(params: Iterable[click.Parameter]) -> dict[str, bool]:
    """Return the names of options, and whether each takes a value."""
    options = [param for param in params if isinstance(param, click.Option)]
    return {name: not (param.is_flag or param.count) for param in options for name in param.opts}


class SectionedCommand(click.Command):
    """A command whose help has sections of options. Rare options are only in that of `--help --all`.

    Attributes:
        sections: the parameter names of each section, by its title; other options are in a last section.
        rare_options: the parameter names of options that are rarely needed.
    """

    context_class = CommandContext
    sections: Mapping[str, Sequence[str]] = {}
    rare_options: Sequence[str] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, read_all_help(ctx, args))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        params = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        options = {param.name: record for param in params if (record := param.get_help_record(ctx))}
        rare = [record for name in self.rare_options if (record := options.pop(name, None))]
        for title, names in self.sections.items():
            if records := [options.pop(name) for name in names if name in options]:
                with formatter.section(title):
                    formatter.write_dl(records)
        with formatter.section("Other"):
            formatter.write_dl(list(options.values()))
        if ALL_HELP in ctx.meta and rare:
            with formatter.section("Rare"):
                formatter.write_dl(rare)


ALL_HELP = "ask.help.all"
"""The key of the context's `meta` that is set for `--help --all`."""


def run_command_line(arguments: Sequence[str]) -> int:
    """Run a command line; return its exit code.

    Raises:
        AskError: the command failed; `ask.__main__` prints the error.
    """
    if arguments == [ROW_ARGUMENT]:
        from ask.cli.run import run_row

        return run_row()
    if arguments == [EVENT_SESSION_ARGUMENT]:
        session_code: int = importlib.import_module("ask.cli.event_session").run_call_session()
        return session_code
    # `ask` and `ask chat` have -C as an option of their own; before the name of a command, and alone, it is
    # handled here.
    directory, following = _split_directory(arguments)
    opens_chat = not following and is_on_terminal()
    if directory and (opens_chat or find_command(_replace_synonym(following))[0] != "ask"):
        change_directory(directory)
        arguments = following
    if not arguments and opens_chat:
        arguments = ["chat"]
    name, rest = find_command(_replace_synonym(arguments))
    program = "ask" if name == "ask" else f"ask {name}"
    try:
        if name != "ask" and name not in COMMANDS:
            exit_code: int = importlib.import_module("ask.cli.plugin_commands").run_plugin_command(name, rest)
            return exit_code
        command: click.Command = importlib.import_module(f"ask.cli.{name}").command
        # Not command.main(), which turns a broken pipe into exit code 1.
        with _make_context(command, program, rest) as context:
            return command.invoke(context) or 0
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.exceptions.Abort:
        return RunInterruptedError.exit_code
    except (click.UsageError, AskError) as error:
        if isinstance(error, AskError) and name in ("ask", "chat"):
            raise
        from ask.cli.usage_errors import explain_error

        raise explain_error(error, name, arguments) from None


def _make_context(command: click.Command, program: str, arguments: Sequence[str]) -> click.Context:
    """Parse the arguments of a command. Click then prints its help or the version, without `StandardOutput`."""
    try:
        return command.make_context(program, list(arguments))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FileError(f"cannot write to standard output ({error.strerror})") from error


def _split_directory(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Split arguments that begin with -C into the folder, "" for none, and those that follow."""
    name, equals, value = arguments[0].partition("=") if arguments else ("", "", "")
    if name in ("-C", "--cd", "--cwd") and not equals:
        return "".join(arguments[1:2]), arguments[2:]
    if name in ("--cd", "--cwd"):
        return value, arguments[1:]
    return (arguments[0][2:], arguments[1:]) if name.startswith("-C") else ("", arguments)


def change_directory(path: str) -> None:
    """Work in another folder, as if `ask` had been started there.

    Raises:
        UsageError: that is not possible.
    """
    try:
        path = os.path.expanduser(path)
        shell_path, directory = os.environ.get("PWD", ""), os.getcwd()
        os.chdir(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot change to {path} ({reason})", "-C needs a folder") from None
    # As a shell does: safe mode looks for links on the way.
    os.environ["PWD"] = os.path.join(shell_path if os.path.realpath(shell_path) == directory else directory, path)


def _replace_synonym(arguments: Sequence[str]) -> Sequence[str]:
    """Replace the name of a command in another program by its name here."""
    for count in (2, 1):
        name, rest = " ".join(arguments[:count]), arguments[count:]
        if name in SYNONYMS and (arguments[0] in COMMANDS or not rest or rest[0].startswith("-")):
            if name == "models default" and not rest:
                return ["config", "get", "model"]
            return [*SYNONYMS[name].split(), *rest]
    return arguments


def find_command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Find the command that the arguments call, and its arguments.

    For a prompt, the command is "ask". A prompt may begin with "help" or "version": these are commands only if a
    command name, or no word but options, follows. Commands of packages are found in the plugin index, and not loaded.
    """
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    words = [word for word in rest if not word.startswith("-")]
    is_question = name == "version" and bool(words)
    if name == "help" and rest[:1] != ["--help"]:
        is_question = load_command(words) is None
    is_command = name in COMMANDS or (name != "" and name in find_plugin_commands(name))
    return (name, rest) if is_command and not is_question else ("ask", arguments)


def find_plugin_commands(word: str = "") -> Mapping[str, Sequence[PluginEntry]]:
    """Return the entry points of the commands of packages by name; nothing if `word` cannot be one of them."""
    if word and not is_usable_name(word):
        return {}
    from ask.config.directories import AppDirs
    from ask.plugin_api.installed_plugins import find_plugins

    commands = find_plugins(AppDirs.from_environment(os.environ).cache / "plugins.json").commands
    return {name: entries for name, entries in commands.items() if is_usable_name(name)}


def is_usable_name(name: str) -> bool:
    """Check whether a command of a package can have a name."""
    return name not in RESERVED_NAMES and bool(PLUGIN_COMMAND_PATTERN.fullmatch(name))


def get_own_names(names: Sequence[str]) -> Sequence[str]:
    """Return the names of a command here, which other programs may call differently."""
    own_names = SYNONYMS.get(" ".join(names))
    return own_names.split()[:2] if own_names else names


def load_command(names: Sequence[str]) -> click.Command | None:
    """Load a command by its names, such as ["history", "list"].

    Without names, load `ask` itself. Return None if there is no such command.

    Raises:
        ConfigError: the command of a package cannot be loaded.
    """
    names = get_own_names(names)
    command: click.Command | None
    if names and names[0] not in COMMANDS:
        if names[0] not in find_plugin_commands(names[0]):
            return None
        command = importlib.import_module("ask.cli.plugin_commands").load_plugin_command(names[0])
    else:
        command = importlib.import_module(f"ask.cli.{names[0] if names else 'ask'}").command
    for name in names[1:]:
        command = command.get_command(click.Context(command), name) if isinstance(command, click.Group) else None
    return command


def is_on_terminal() -> bool:
    """Check whether standard input and standard output are a terminal."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())
