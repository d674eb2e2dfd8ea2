"""`ask doctor`: run all checks of `ask.cli.doctor_checks` and print their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ask.agent.app_context import AppContext
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput
from ask.errors import AskError, ConfigError, to_ask_error
from ask.render.table import write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ask.cli.doctor_checks import (
        CheckResult,
    )


@subcommand("doctor")
@click.option("--offline", is_flag=True, help="Do not try to reach the providers.")
@JSON_OPTION
def command(*, offline: bool, as_json: bool) -> None:
    """Look for what is missing or broken, and say what to do about it.

    Nothing is changed, and nothing that costs money is asked: of the providers that you use, and of those that need
    no key, the models list. Exit code 4 tells of a problem; warnings are none.
    """
    from ask.cli.doctor_checks import PROBLEM

    output = StandardOutput()
    results = run_checks(AppContext(), offline=offline)
    to_terminal = output.is_terminal and not as_json
    rows = [result.to_terminal_row() if to_terminal else result._asdict() for result in results]
    write_table(output, rows, as_json=as_json, wrap_last=True)
    problems = sum(result.state == PROBLEM for result in results)
    if problems:
        summary = "1 problem was" if problems == 1 else f"{problems} problems were"
        raise ConfigError(f"{summary} found", "what to do stands beside each")


def run_checks(app: AppContext, *, offline: bool) -> list[CheckResult]:
    """Run all checks in the order in which they are shown; redact the results."""
    from ask.cli.doctor_checks import (
        check_completions,
        check_config_file,
        check_default_model,
        check_folders,
        check_history,
        check_keys,
        check_launcher,
        check_mcp_servers,
        check_packages,
        check_providers,
        check_safe_mode,
        check_shell,
        check_tool_plugins,
        check_tools,
        check_variables,
        check_versions,
    )

    def providers(app: AppContext) -> Iterator[CheckResult]:
        return check_providers(app, offline=offline)

    checks: list[Callable[[AppContext], Iterator[CheckResult]]] = [
        *(check_versions, check_launcher, check_packages),
        *(check_config_file, check_variables, check_keys),  # first: they replace invalid settings for the others
        *(check_folders, check_history, check_tools, check_tool_plugins, check_mcp_servers, check_safe_mode),
        *(check_shell, check_completions, check_default_model, providers),
    ]
    results = [result for check in checks for result in run_check(check, app)]
    redact = app.collect_secrets().redact
    return [result._replace(found=redact(result.found), fix=redact(result.fix)) for result in results]


def run_check(check: Callable[[AppContext], Iterator[CheckResult]], app: AppContext) -> Iterator[CheckResult]:
    """Run a check; if it fails, its error is a result too."""
    from ask.cli.doctor_checks import PROBLEM, CheckResult

    try:
        yield from check(app)
    except Exception as error:  # noqa: BLE001 - a failed check must not prevent the others
        ask_error = error if isinstance(error, AskError) else to_ask_error(error)
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        yield CheckResult(
            PROBLEM, subject, ask_error.brief, ask_error.advice or "see whether it is there, and whether you may use it"
        )
