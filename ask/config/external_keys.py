"""API keys that are stored outside ask: printed by a command of the user's, or in the system keyring."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from ask.config.installation import format_install_command
from ask.errors import ConfigError, MissingDependencyError
from ask.process.process_tree import kill_process_tree, mark_environment
from ask.text import format_one_line

if TYPE_CHECKING:
    from types import ModuleType

COMMAND_TIMEOUT_SECONDS = 60.0
"""Seconds for a key command: a password manager may have to ask for a passphrase."""
KEYRING_SERVICE = "ask"
MAX_OUTPUT_CHARACTERS = 200
"""The limit for the error output of a key command in an error message."""


def run_key_command(
    name: str, command: str, environment: Mapping[str, str], timeout: float = COMMAND_TIMEOUT_SECONDS
) -> str:
    """Run a provider's key_command in a shell and return the first line that it prints.

    It runs in the home directory: in the working directory, a cloned project or a model in safe mode could replace a
    module or a tool version that it loads. Its standard input is the terminal, because a passphrase must not be read
    from what is piped into ask.

    Raises:
        ConfigError: it failed, took too long or printed no key.
    """
    hint = f"check key_command in [providers.{name}] with ask config edit"
    marked_environment, mark = mark_environment(environment)
    home = environment.get("HOME", "")
    with ExitStack() as stack:
        try:
            terminal = stack.enter_context(open("/dev/tty", "rb"))
        except OSError:
            terminal = None
        # In ask's own process group: a background group could not read from the terminal.
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=terminal or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=marked_environment,
            cwd=home if os.path.isdir(home) and os.access(home, os.X_OK) else "/",
        )
        try:
            output, error_output = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"key_command of {name} timed out after {timeout:g} s", hint) from None
        finally:
            if process.returncode is None:
                kill_process_tree(None, mark)
                process.kill()  # where there is no /proc, only the shell can be found
                process.wait()
    if process.returncode:
        reason = format_one_line(error_output.decode(errors="replace").strip(), MAX_OUTPUT_CHARACTERS)
        message = f"key_command of {name} failed with exit code {process.returncode}"
        raise ConfigError(f"{message} ({reason})" if reason else message, hint)
    key = output.decode(errors="replace").partition("\n")[0].strip()
    if not key:
        raise ConfigError(f"key_command of {name} printed no key on its first line", hint)
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"key_command of {name} printed something other than a key", hint)
    return key


def read_keyring(name: str) -> str:
    """Return a provider's key from the keyring.

    Raises:
        ConfigError: the keyring is not available, or does not contain the key.
        MissingDependencyError: the package is not installed.
    """
    key = find_in_keyring(name)
    if not key:
        raise ConfigError(f"the key for {name} is no longer in the keyring", f"ask keys set --keyring {name}")
    return key


def find_in_keyring(name: str) -> str:
    """Return what the keyring contains under a name, or "".

    Raises:
        ConfigError: the keyring is not available.
        MissingDependencyError: the package is not installed.
    """
    with _open_keyring() as keyring:
        return str(keyring.get_password(KEYRING_SERVICE, name) or "").strip()


def check_keyring() -> None:
    """Check that the keyring can be used.

    Raises:
        ConfigError: the keyring is not available.
        MissingDependencyError: the package is not installed.
    """
    with _open_keyring() as keyring:
        keyring.get_password(KEYRING_SERVICE, "")


def write_keyring(name: str, key: str) -> None:
    """Store a provider's key in the keyring; an empty `key` deletes it.

    Raises:
        ConfigError: the keyring is not available.
        MissingDependencyError: the package is not installed.
    """
    with _open_keyring() as keyring:
        if key:
            keyring.set_password(KEYRING_SERVICE, name, key)
        elif keyring.get_password(KEYRING_SERVICE, name) is not None:
            keyring.delete_password(KEYRING_SERVICE, name)


@contextmanager
def _open_keyring() -> Iterator[ModuleType]:
    """Import the package; convert the errors of its backends to `ConfigError`."""
    try:
        import keyring
    except ModuleNotFoundError:
        hint = format_install_command("keyring")
        raise MissingDependencyError("the system keyring needs the package keyring", hint) from None
    try:
        yield keyring
    except Exception as error:
        reason = format_one_line(str(error) or type(error).__name__, MAX_OUTPUT_CHARACTERS)
        hint = "python -m keyring diagnose shows its configuration"
        raise ConfigError(f"the system keyring cannot be used ({reason})", hint) from error
