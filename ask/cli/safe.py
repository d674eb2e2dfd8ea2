"""`ask safe`: test safe mode in the current folder, and print the results."""

from __future__ import annotations

from ask.agent.app_context import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.errors import SafetyError
from ask.settings import get_working_directory, resolve_settings


@subcommand("safe")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """Say what --safe would do in this folder, after trying to get out of it.

    What is tried is what every run with --safe tries before anything is sent: writing outside, reading keys,
    connecting, gaining privileges. Exit code 8 tells that safe mode cannot be had here.
    """
    from ask.cli.doctor_checks import print_results, probe_sandbox

    app, directory = AppContext(), get_working_directory()
    settings = resolve_settings({}, app.environment, app.config)
    if print_results(probe_sandbox(settings, directory, app), as_json=as_json):
        raise SafetyError(f"safe mode does not work in {directory}", "see the hints above")
