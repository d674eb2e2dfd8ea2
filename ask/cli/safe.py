"""`ask safe`: test safe mode in the current folder, and forget what it remembers."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ask.app import AppContext
from ask.cli.groups import JSON_OPTION, print_text, subcommand
from ask.config.directories import get_working_directory
from ask.config.options import RunOptions
from ask.config.resolution import resolve_settings
from ask.config.settings import FILES_LEVEL
from ask.errors import SafetyError, UsageError
from ask.safety.scan_record import forget_paths
from ask.text import decode_argument


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
    from ask.cli.doctor_checks import print_results, probe_safe_mode

    app, directory = AppContext(), get_working_directory()
    if forget is not None:
        if files or as_json:
            raise UsageError("--forget cannot be used with --files or --json", "use it alone")
        print_text(_forget(app, directory / Path(forget).expanduser()))
        return
    settings = resolve_settings(RunOptions(), app.environment, app.config)
    if files:
        settings = settings._replace(safe_level=FILES_LEVEL)
    if print_results(probe_safe_mode(settings, directory, app), as_json=as_json):
        raise SafetyError(f"safe mode does not work in {directory}", "see the hints above")


def _forget(app: AppContext, path: Path) -> str:
    """Forget what safe mode remembers about a path and the paths in it, and describe that."""
    path = Path(os.path.realpath(path))
    name = decode_argument(str(path))
    count = forget_paths(app.app_dirs.scan_record.parent, path)
    if not count:
        raise UsageError(f"safe mode remembers nothing about {name}", "ask safe names some of what it remembers")
    return f"Forgot {count:,} {'path' if count == 1 else 'paths'} in {name}."
