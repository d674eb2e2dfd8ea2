"""`ask init`: prints what makes `ask` a part of a shell, and puts completions where that shell looks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from ask.atomic_files import write_private_file
from ask.cli.groups import subcommand
from ask.errors import FileError

SHELLS = ("bash", "zsh", "fish")
COMPLETIONS_MARKER = "# ask: completions for "
"""What a file of ours begins with, or has in its second line."""
RC_FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc, behind compinit", "fish": "~/.config/fish/config.fish"}
EVAL_LINES = {"bash": 'eval "$(ask init bash)"', "zsh": 'eval "$(ask init zsh)"', "fish": "ask init fish | source"}
KEY_PATTERN = re.compile(r"alt-([a-z0-9])|ctrl-([abe-hkln-z])|([a-z0-9])")
"""A key; those left out are Enter, Tab and the keys that interrupt and end."""
NO_KEY = "none"


class KeySequenceType(click.ParamType[str]):
    """A key or several in a row: alt-a, ctrl-g, "ctrl-x a"; or none."""

    name = "KEYS"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        keys = value.lower().split()
        fits = all(KEY_PATTERN.fullmatch(key) for key in keys) and keys and len(keys[0]) > 1
        if not fits and value != NO_KEY:
            self.fail(f"{value!r} is not a key: alt-a, ctrl-g, 'ctrl-x a', or none", param, ctx)
        return " ".join(keys)


@subcommand("init")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.option(
    "--key", metavar="KEYS", type=KeySequenceType(), help="Turn words into a command by this key (alt-a); or none."
)
@click.option(
    "--explain-key", metavar="KEYS", type=KeySequenceType(), help="Explain a failure by this key (alt-e); or none."
)
@click.option("--install", is_flag=True, help="Put completions where the shell looks for them.")
@click.option("--uninstall", is_flag=True, help="Take them away again.")
def command(*, shell: str, key: str | None, explain_key: str | None, install: bool, uninstall: bool) -> None:
    """Print what makes ask a part of bash, zsh or fish: eval "$(ask init bash)" in ~/.bashrc.

    A key turns the words on the line into a command, another explains the last command that failed, Tab completes,
    and -c means this shell's conversation.
    """
    if install and uninstall:
        raise click.UsageError("--install and --uninstall are opposites")
    if install:
        install_completions(shell, os.environ)
    elif uninstall:
        uninstall_completions(shell, os.environ)
    else:
        click.echo(build_integration_script(shell, key, explain_key), nl=False)


def build_integration_script(shell: str, key: str | None, explain_key: str | None) -> str:
    """The script that a shell evaluates. A key that is None is the usual one, which yields to the user's bindings."""
    import ask_shell

    script = Path(str(ask_shell.__file__)).with_name(f"init.{shell}").read_text(encoding="utf-8")
    values = {
        "key": format_key_sequence(shell, key or "alt-a"),
        "explain_key": format_key_sequence(shell, explain_key or "alt-e"),
        "key_named": "1" if key else "0",
        "explain_key_named": "1" if explain_key else "0",
        "completions": quote_for_shell(shell, str(find_completion_script(shell))),
        "completions_folder": quote_for_shell(shell, str(find_completion_script(shell).parent)),
    }
    return re.sub(r"'\{\{(\w+)\}\}'", lambda match: values[match[1]], script)


def format_key_sequence(shell: str, keys: str) -> str:
    """The keys as the shell's `bind` takes them; '' for none."""
    if keys == NO_KEY:
        return "''"
    forms = {
        "bash": ("\\e{}", "\\C-{}"),
        "zsh": ("^[{}", "^{}"),
        "fish": ("\\e{}", "\\c{}"),
    }
    alt, control = forms[shell]
    found = (KEY_PATTERN.fullmatch(key) for key in keys.split())
    text = "".join(
        alt.format(match[1]) if match[1] else control.format(match[2]) if match[2] else match[3]
        for match in found
        if match
    )
    return text if shell == "fish" else f"'{text}'"  # fish knows its escapes outside of quotes alone


def quote_for_shell(shell: str, text: str) -> str:
    """The text as a word of the shell."""
    if shell == "fish":
        text = text.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{text}'"
    return "'" + text.replace("'", "'\\''") + "'"


def find_completion_script(shell: str) -> Path:
    """The completions that come with this version."""
    import ask_completions

    return Path(str(ask_completions.__file__)).with_name(f"ask.{shell}")


def find_install_path(shell: str, environment: Mapping[str, str]) -> Path:
    """Where the shell looks for a user's completions for `ask`."""
    home = Path(environment.get("HOME") or "/")
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local/share")
    if shell == "bash":
        own = environment.get("BASH_COMPLETION_USER_DIR")
        return Path(own) / "completions/ask" if own else data / "bash-completion/completions/ask"
    if shell == "zsh":
        return data / "zsh/site-functions/_ask"
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/ask.fish"


def is_installed_by_ask(file: Path) -> bool:
    """Whether a file holds completions that came from here.

    Raises:
        FileError: it cannot be read.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return any(line.startswith(COMPLETIONS_MARKER) for line, _ in zip(lines, range(2), strict=False))
    except FileNotFoundError:
        return False
    except OSError as fault:
        raise FileError(f"cannot read {file} ({fault.strerror})") from fault


def install_completions(shell: str, environment: Mapping[str, str]) -> None:
    """Put the completions in their place, and say so.

    Raises:
        FileError: they cannot be written, or something else is there.
    """
    file = find_install_path(shell, environment)
    if os.path.lexists(file) and not is_installed_by_ask(file):
        raise FileError(f"{file} is not from ask", "move it away first")
    try:
        write_private_file(file, find_completion_script(shell).read_bytes(), keep_mode=True)
    except OSError as fault:
        raise FileError(f"cannot write {file} ({fault.strerror})") from fault
    click.echo(f"The completions for {shell} are in {file}.", err=True)
    if shell == "zsh":
        click.echo(f"zsh finds them with this in ~/.zshrc, before compinit: fpath+=({file.parent})", err=True)
    elif shell == "bash":
        click.echo("bash finds them if the package bash-completion is on, or with the line below.", err=True)
    click.echo(f"For the keys and ask -c, put this into {RC_FILES[shell]}: {EVAL_LINES[shell]}", err=True)


def uninstall_completions(shell: str, environment: Mapping[str, str]) -> None:
    """Take the completions away, and say so.

    Raises:
        FileError: they cannot be removed, or are not ours.
    """
    file = find_install_path(shell, environment)
    if not os.path.lexists(file):
        click.echo(f"There are no completions in {file}.", err=True)
        return
    if not is_installed_by_ask(file):
        raise FileError(f"{file} is not from ask", "nothing was removed")
    try:
        file.unlink()
    except OSError as fault:
        raise FileError(f"cannot remove {file} ({fault.strerror})") from fault
    click.echo(f"Removed {file}. What stands in {RC_FILES[shell].partition(',')[0]} is yours to remove.", err=True)
