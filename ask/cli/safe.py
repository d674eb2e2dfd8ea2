"""`ask safe`: test safe mode in the current folder, and forget what it remembers."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, print_text, subcommand
from ask.config.directories import get_working_directory
from ask.config.settings import FILES_LEVEL
from ask.errors import SafetyError, UsageError
from ask.safety.scan_record import forget_paths, read_hidden_paths
from ask.text import decode_argument, format_one_line, join_names

MAX_NAMES = 10
"""Maximum number of paths that a message names."""


@subcommand("safe")
@click.option("--files", is_flag=True, help="Check --safe-files instead.")
@click.option("--forget", metavar="PATH", help="Forget what earlier runs hid or protected at PATH.")
@JSON_OPTION
def command(*, files: bool, forget: str | None, as_json: bool) -> None:
    """Check whether safe mode works in this folder, by trying to break out of it.

    Every run with --safe makes the same attempts before it sends anything: to write outside, read keys, connect, and
    gain privileges. The level is the one in config.toml. If safe mode does not work here, the exit code is 8.

    With --forget, nothing is checked. The next run finds anew what to hide and protect.
    """
    from ask.cli.doctor_checks import probe_safe_mode
    from ask.cli.doctor_results import print_results

    app, directory = AppContext(), get_working_directory()
    if forget is not None:
        if files or as_json:
            raise UsageError("--forget cannot be used with --files or --json", "use it alone")
        print_text(_forget(app, directory / os.path.expanduser(forget)))
        return
    settings = app.read_settings()
    if files:
        settings = settings._replace(safe_level=FILES_LEVEL)
    if print_results(probe_safe_mode(settings, directory, app), as_json=as_json):
        raise SafetyError(f"safe mode does not work in {directory}", "see the hints above")


def _forget(app: AppContext, path: Path) -> str:
    """Forget what safe mode remembers about a path and the paths in it, and describe that."""
    path = Path(os.path.realpath(path))
    name, state_folder = decode_argument(str(path)), app.app_dirs.scan_record.parent
    forgotten = forget_paths(state_folder, path)
    if not forgotten:
        hidden = list(map(format_one_line, map(decode_argument, read_hidden_paths(state_folder))))
        hint = f"it has hidden {join_names(hidden, MAX_NAMES)}" if hidden else "it has hidden nothing"
        raise UsageError(f"safe mode remembers nothing about {name}", hint)
    names = [format_one_line(decode_argument(os.path.relpath(each, path))) for each in forgotten if each != str(path)]
    shown = f": {join_names(names, MAX_NAMES)}" if names else ""
    return f"Forgot {len(forgotten):,} {'path' if len(forgotten) == 1 else 'paths'} in {name}{shown}."
