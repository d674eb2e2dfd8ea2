"""`ask doctor`: run all checks of `ask.cli.doctor_checks` and print their results."""

from __future__ import annotations

import click

from ask.app import AppContext
from ask.cli.click_helpers import JSON_OPTION, subcommand
from ask.errors import ConfigError
from ask.render.amounts import format_count


@subcommand("doctor")
@click.option("--offline", is_flag=True, help="Do not contact the providers.")
@click.option("-v", "--verbose", is_flag=True, help="Also show the versions of packages.")
@JSON_OPTION
def command(*, offline: bool, verbose: bool, as_json: bool) -> None:
    """Check the installation and suggest fixes.

    Nothing is changed, and nothing that costs money is sent: only the models lists of the providers that you use, and
    of those that need no key, are fetched. Exit code 4 means that there is a problem; warnings and notes do
    not change it. A note is about something that is not set up and need not be.
    """
    from ask.cli.doctor_checks import run_checks
    from ask.cli.doctor_results import print_results

    problems = print_results(run_checks(AppContext(), offline=offline, verbose=verbose or as_json), as_json=as_json)
    if problems:
        raise ConfigError(f"{format_count(problems, 'problem')} found")
