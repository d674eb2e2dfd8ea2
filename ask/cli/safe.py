"""`ask safe`: test safe mode in the current folder, and print the results."""

from __future__ import annotations

import click

from ask.app import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.config.directories import get_working_directory
from ask.config.options import RunOptions
from ask.config.resolution import resolve_settings
from ask.config.settings import FILES_LEVEL
from ask.errors import SafetyError


@subcommand("safe")
@click.option("--files", is_flag=True, help="Check --safe-files instead.")
@JSON_OPTION
def command(*, files: bool, as_json: bool) -> None:
    """Check whether safe mode works in this folder, by trying to break out of it.

    Every run with --safe makes the same attempts before it sends anything: to write outside, read keys, connect, and
    gain privileges. The level is the one in config.toml. If safe mode does not work here, the exit code is 8.
    """
    from ask.cli.doctor_checks import print_results, probe_safe_mode

    app, directory = AppContext(), get_working_directory()
    settings = resolve_settings(RunOptions(), app.environment, app.config)
    if files:
        settings = settings._replace(safe_level=FILES_LEVEL)
    if print_results(probe_safe_mode(settings, directory, app), as_json=as_json):
        raise SafetyError(f"safe mode does not work in {directory}", "see the hints above")
