"""Commands of installed packages: entry points in the group `ask.commands`, whose values are Click commands.

They are found in the plugin index and loaded only when they are called. A command of `ask` is never replaced.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from ask.cli.click_helpers import print_notice
from ask.cli.commands import find_plugin_commands
from ask.errors import AskError, ConfigError, PluginError
from ask.plugin_api.import_guard import import_plugin
from ask.plugin_api.installed_plugins import select_entry
from ask.plugin_api.output_capture import capture_output
from ask.process.time_limit import limit_time
from ask.text import format_one_line
from ask.tools.plugins.tool_loading import format_plugin_error

COMPLETION_SECONDS = 3.0
"""The time limit for completing the arguments of a package's command, for which it is loaded."""
_HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
was_called = False
"""Whether the command of a package has run, which may have left threads, and functions to call at the exit."""


def load_plugin_command(name: str) -> click.Command:
    """Import the command of a package.

    Raises:
        ConfigError: two distributions have it, it cannot be loaded, or it is not a Click command.
    """
    entry = select_entry(tuple(find_plugin_commands(name)[name]), "command")

    def check(command: object) -> click.Command:
        if isinstance(command, click.Command):
            return command
        expected = f"{entry.target} must be a Click command (a function decorated with @click.command)"
        title = f"{name} ({entry.distribution})"
        raise ConfigError(
            f"cannot load the command {title}: {expected}, not {type(command).__name__}",
            f"report it to the authors of {entry.distribution}, or uninstall it",
        )

    return import_plugin(entry, "command", print_notice, check)


def run_plugin_command(name: str, arguments: Sequence[str]) -> int:
    """Run the command of a package, which owns standard output; return its exit code.

    As in Click, that is 0 unless the command exits with another.

    Raises:
        AskError: the command cannot be loaded, or has failed.
        click.UsageError: the arguments are invalid.
    """
    global was_called  # noqa: PLW0603 - there is one command in a process
    was_called = True
    distribution = find_plugin_commands(name)[name][0].distribution
    return run_click_command(load_plugin_command(name), name, arguments, distribution)


def complete_arguments(word: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield completions of a word behind the name of a package's command and further words, with descriptions.

    The first pair is the name itself with its distribution; there is none if no package has the command. Then, nothing
    is offered if the command cannot be loaded, fails or takes too long, or for a file.
    """
    entries = find_plugin_commands(words[0]).get(words[0]) if words else None
    if not entries:
        return
    name, distribution = words[0], entries[0].distribution
    yield name, distribution
    items: Sequence[CompletionItem] = ()
    with (
        suppress(Exception, SystemExit),
        capture_output(name, lambda _: None),  # also of functions that complete values
        limit_time(COMPLETION_SECONDS, partial(TimeoutError, name)),
    ):
        command = load_plugin_command(name)
        completer = ShellComplete(command, {**_HELP_OPTIONS, **command.context_settings}, f"ask {name}", "")
        items = completer.get_completions(list(words[1:]), word)
    yield from ((item.value, item.help or "") for item in items if item.type == "plain")


def get_plugin_help(command: click.Command, names: Sequence[str]) -> str:
    """Return the help of a package's command, or of its subcommand with these names.

    Raises:
        PluginError: the command fails to make it.
    """
    try:
        settings = {**_HELP_OPTIONS, **command.context_settings}
        return command.get_help(command.context_class(command, info_name=" ".join(("ask", *names)), **settings))
    except Exception as error:
        raise PluginError(f"the help of {names[0]} failed ({format_plugin_error(error)})") from error


def run_click_command(command: click.Command, name: str, arguments: Sequence[str], distribution: str) -> int:
    """Run a command as `ask NAME`, with the results of `run_plugin_command`."""
    gc.enable()  # it is disabled for short runs, and the command may run for hours
    hint = f"report it to the authors of {distribution}"
    try:
        with command.make_context(
            f"ask {name}", list(arguments), None, **{**_HELP_OPTIONS, **command.context_settings}
        ) as context:
            result = command.invoke(context)
    except (AskError, BrokenPipeError, KeyboardInterrupt, click.exceptions.Abort, click.UsageError):
        raise
    except click.ClickException as error:
        raise _make_error(error.format_message(), error.exit_code) from error
    except (SystemExit, click.exceptions.Exit) as error:
        code: object = error.code if isinstance(error, SystemExit) else error.exit_code
        if code is None or isinstance(code, int):
            return code or os.EX_OK
        raise _make_error(str(code), 1) from error
    except BaseException as error:
        raise PluginError(f"the command {name} failed ({format_plugin_error(error)})", hint) from error
    if iscoroutine(result):
        result.close()
        raise PluginError(f"the command {name} is an async function, which Click does not await", hint)
    return os.EX_OK


def _make_error(message: str, exit_code: int) -> AskError:
    """Return an error with the exit code that a command has chosen."""
    error = AskError(format_one_line(message))
    error.exit_code = exit_code
    return error
