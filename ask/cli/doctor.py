"""`ask doctor`: looks at everything a run needs, and says what to do about what is missing or broken.

Each check is a function of the workspace in the module of its subject; here they are called, and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ask.agent.app_context import AppContext
from ask.cli.doctor_checks import (
    PROBLEM,
    CheckResult,
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
from ask.cli.groups import JSON_OPTION, subcommand
from ask.console import StandardOutput
from ask.errors import AskError, ConfigError, to_ask_error
from ask.render.table import write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@subcommand("doctor")
@click.option("--offline", is_flag=True, help="Do not try to reach the providers.")
@JSON_OPTION
def command(*, offline: bool, as_json: bool) -> None:
    """Look for what is missing or broken, and say what to do about it.

    Nothing is changed, and nothing that costs money is asked: of the providers that you use, and of those that need
    no key, the models list. Exit code 4 tells of a problem; warnings are none.
    """
    output = StandardOutput()
    findings = run_checks(AppContext(), offline=offline)
    to_terminal = output.is_terminal and not as_json
    rows = [finding.to_terminal_row() if to_terminal else finding._asdict() for finding in findings]
    write_table(output, rows, as_json=as_json, wrap_last=True)
    problems = sum(finding.state == PROBLEM for finding in findings)
    if problems:
        things = "1 problem was" if problems == 1 else f"{problems} problems were"
        raise ConfigError(f"{things} found", "what to do stands beside each")


def run_checks(app: AppContext, *, offline: bool) -> list[CheckResult]:
    """All findings, without keys, in the order in which they are shown."""

    def providers(workspace: AppContext) -> Iterator[CheckResult]:
        return check_providers(workspace, offline=offline)

    checks: list[Callable[[AppContext], Iterator[CheckResult]]] = [
        *(check_versions, check_launcher, check_packages),
        *(check_config_file, check_variables, check_keys),  # first: the others rely on what these replace
        *(check_folders, check_history, check_tools, check_tool_plugins, check_mcp_servers, check_safe_mode),
        *(check_shell, check_completions, check_default_model, providers),
    ]
    findings = [finding for check in checks for finding in run_check(check, app)]
    redact = app.collect_secrets().redact
    return [finding._replace(found=redact(finding.found), fix=redact(finding.fix)) for finding in findings]


def run_check(check: Callable[[AppContext], Iterator[CheckResult]], app: AppContext) -> Iterator[CheckResult]:
    """What a check finds; also that it failed."""
    try:
        yield from check(app)
    except Exception as fault:  # noqa: BLE001 - one check must not keep the others from being told
        error = fault if isinstance(fault, AskError) else to_ask_error(fault)
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        yield CheckResult(
            PROBLEM, subject, error.brief, error.advice or "see whether it is there, and whether you may use it"
        )
