"""`ask init`: print the script that integrates `ask` into a shell, and install completions."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click

import ask_completions
import ask_shell
from ask.cli.ask import SYNONYMS
from ask.cli.click_helpers import print_text, subcommand
from ask.cli.commands import COMMANDS
from ask.config.config_editor import replace_file_content
from ask.errors import FileError, UsageError

SHELLS = ("bash", "zsh", "fish")
COMPLETIONS_MARKER = "# ask: completions for "
"""Start of the first or second line of a completion file that ask has installed."""
RC_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc, after compinit", "fish": "~/.config/fish/config.fish"}
EVAL_LINES = {"bash": 'eval "$(ask init bash)"', "zsh": 'eval "$(ask init zsh)"', "fish": "ask init fish | source"}
KEY_PATTERN = re.compile(r"alt-([a-z0-9])|ctrl-([abe-hkln-z])|([a-z0-9])")
"""A key. Ctrl with c (interrupt), d (end of file), i (Tab), j or m (Enter) is not allowed."""
NO_KEY = "none"
QUESTION_COMMANDS = {"chat", "compare", "help", "version"}
"""Commands whose arguments can be the words of a question."""


def _parse_keys(text: str) -> str:
    """Parse one or more keys in a row, such as alt-a, ctrl-g or "ctrl-x a"; or none."""
    keys = text.lower().split()
    # A letter alone is text that the user types.
    is_valid = all(KEY_PATTERN.fullmatch(key) for key in keys) and keys and len(keys[0]) > 1
    if not is_valid and text != NO_KEY:
        raise click.BadParameter(f"must be a key such as alt-a, ctrl-g or 'ctrl-x a', or none, not {text!r}")
    return " ".join(keys)


@subcommand("init")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.option("--key", metavar="KEYS", type=_parse_keys, help="Key that turns words into a command (alt-a), or none.")
@click.option("--explain-key", metavar="KEYS", type=_parse_keys, help="Key that explains a failure (alt-e), or none.")
@click.option("--install", is_flag=True, help="Install completions where the shell finds them.")
@click.option("--uninstall", is_flag=True, help="Remove installed completions.")
def command(*, shell: str, key: str | None, explain_key: str | None, install: bool, uninstall: bool) -> None:
    """Print the integration for bash, zsh or fish, to use in ~/.bashrc: eval "$(ask init bash)".

    One key turns the words on the line into a command, another explains the last command that failed, Tab completes,
    and -c continues this shell's conversation.
    """
    if install and uninstall:
        raise UsageError("--install and --uninstall cannot be combined; see ask init --help")
    if key == explain_key and key not in (None, NO_KEY):
        raise UsageError(f"--key and --explain-key are both {key}", "use two keys, or none for one of them")
    if install:
        _install_completions(shell, os.environ)
    elif uninstall:
        _uninstall_completions(shell, os.environ)
    else:
        print_text(_build_integration_script(shell, key, explain_key))


def _build_integration_script(shell: str, key: str | None, explain_key: str | None) -> str:
    """Build the script that a shell evaluates.

    A key that is None gets its default, which does not override a binding of the user.
    """
    value_options = _find_value_options()
    script = Path(str(ask_shell.__file__)).with_name(f"init.{shell}").read_text(encoding="utf-8")
    values = {
        "key": _format_key_sequence(shell, key or "alt-a"),
        "explain_key": _format_key_sequence(shell, explain_key or "alt-e"),
        "key_named": "1" if key else "0",
        "explain_key_named": "1" if explain_key else "0",
        "value_options": shlex.join(value_options),
        "value_letters": shlex.quote("".join(name[1] for name in value_options if len(name) == 2)),
        "commands": shlex.join(sorted(COMMANDS.keys() - QUESTION_COMMANDS)),
        "completions": shlex.quote(str(find_completion_script(shell))),
        "completions_folder": shlex.quote(str(find_completion_script(shell).parent)),
    }
    return re.sub(r"'\{\{(\w+)\}\}'", lambda match: values[match[1]], script)


def _find_value_options() -> list[str]:
    """Return the options that take a value in the commands whose other arguments are a question."""
    params = [param for name in ("ask", "compare") for param in import_module(f"ask.cli.{name}").command.params]
    valued = [param for param in params if not getattr(param, "is_flag", True)]
    return sorted({name for param in valued for name in (*param.opts, *SYNONYMS.get(param.name or "", ()))})


def _format_key_sequence(shell: str, keys: str) -> str:
    """Format keys for the shell's `bind` command; return '' in quotes for none."""
    if keys == NO_KEY:
        return "''"
    alt, control = {"bash": ("\\e{}", "\\C-{}"), "zsh": ("^[{}", "^{}"), "fish": ("\\e{}", "\\c{}")}[shell]

    def format_key(match: re.Match[str]) -> str:
        return alt.format(match[1]) if match[1] else control.format(match[2]) if match[2] else match[3]

    text = KEY_PATTERN.sub(format_key, keys.replace(" ", ""))
    return text if shell == "fish" else f"'{text}'"  # fish only interprets escapes outside quotes


def find_completion_script(shell: str) -> Path:
    """Return the path of the completion script that comes with this version."""
    return Path(str(ask_completions.__file__)).with_name(f"ask.{shell}")


def find_install_path(shell: str, environment: Mapping[str, str]) -> Path:
    """Return the path where the shell looks for a user's completions for `ask`."""
    home = Path(environment.get("HOME") or "/")
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    if shell == "bash":
        return Path(environment.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions/ask"
    if shell == "zsh":
        return data / "zsh/site-functions/_ask"
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/ask.fish"


def is_installed_by_ask(file: Path) -> bool:
    """Check whether a file is a completion script that ask has installed."""
    if not file.exists():
        return False
    return any(line.startswith(COMPLETIONS_MARKER) for line in file.read_text(errors="replace").splitlines()[:2])


def _install_completions(shell: str, environment: Mapping[str, str]) -> None:
    """Install the completions and print their path.

    Raises:
        FileError: they cannot be written, or another file is in the way.
    """
    file = find_install_path(shell, environment)
    if os.path.lexists(file) and not is_installed_by_ask(file):
        raise FileError(f"{file} was not created by ask", "move it away first")
    replace_file_content(file, find_completion_script(shell).read_bytes())
    click.echo(f"Installed completions for {shell} in {file}.", err=True)
    if shell == "zsh":
        click.echo(f"zsh needs this line in ~/.zshrc, before compinit: fpath+=({file.parent})", err=True)
    elif shell == "bash":
        click.echo("bash finds them if the package bash-completion is installed, or with the line below.", err=True)
    click.echo(f"For the key bindings, add this to {RC_FILES[shell]}: {EVAL_LINES[shell]}", err=True)


def _uninstall_completions(shell: str, environment: Mapping[str, str]) -> None:
    """Remove the completions.

    Raises:
        FileError: they cannot be removed, or are not from ask.
    """
    file = find_install_path(shell, environment)
    if not os.path.lexists(file):
        click.echo(f"There are no completions in {file}.", err=True)
        return
    if not is_installed_by_ask(file):
        raise FileError(f"{file} was not created by ask", "nothing was removed")
    file.unlink()
    click.echo(f"Removed {file}. Lines in {RC_FILES[shell].partition(',')[0]} are unchanged.", err=True)
