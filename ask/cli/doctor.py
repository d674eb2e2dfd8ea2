"""`ask doctor`: run all checks of `ask.cli.doctor_checks` and print their results."""

from __future__ import annotations

import click

from ask.agent.app_context import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.errors import ConfigError


@subcommand("doctor")
@click.option("--offline", is_flag=True, help="Do not contact the providers.")
@JSON_OPTION
def command(*, offline: bool, as_json: bool) -> None:
    """Look for what is missing or broken, and say what to do about it.

    Nothing is changed, and nothing that costs money is asked: of the providers that you use, and of those that need
    no key, the models list. Exit code 4 tells of a problem; warnings are none.
    """
    from ask.cli.doctor_checks import print_results, run_checks

    problems = print_results(run_checks(AppContext(), offline=offline), as_json=as_json)
    if problems:
        summary = "1 problem" if problems == 1 else f"{problems} problems"
        raise ConfigError(f"{summary} found")
