"""`ask safe`: test safe mode in the current folder, and print the results."""

from __future__ import annotations

from ask.agent.app_context import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput
from ask.errors import SafetyError
from ask.render.table import write_table
from ask.settings import get_working_directory, resolve_settings


@subcommand("safe")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """Say what --safe would do in this folder, after trying to get out of it.

    What is tried is what every run with --safe tries before anything is sent: writing outside, reading keys,
    connecting, gaining privileges. Exit code 8 tells that safe mode cannot be had here.
    """
    from ask.cli.doctor_checks import PROBLEM, probe_sandbox

    output, app, directory = StandardOutput(), AppContext(), get_working_directory()
    settings = resolve_settings({}, app.environment, app.config)
    results = list(probe_sandbox(settings, directory, app))
    to_terminal = output.is_terminal and not as_json
    rows = [result.to_terminal_row() if to_terminal else result._asdict() for result in results]
    write_table(output, rows, as_json=as_json, wrap_last=True)
    if any(result.state == PROBLEM for result in results):
        raise SafetyError(f"safe mode cannot be had in {directory}", "what to do stands beside the problem")
