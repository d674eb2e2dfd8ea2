"""`ask doctor`: looks at everything a run needs, and says what to do about what is missing or broken.

Each check is a function of the workspace in the module of its subject; here they are called, and shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ask.cli.groups import JSON_OPTION, listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ask.agent.workspace import Workspace
    from ask.cli.doctor.finding import Finding


@listing("doctor")
@click.option("--offline", is_flag=True, help="Do not try to reach the providers.")
@JSON_OPTION
def command(*, offline: bool, as_json: bool) -> None:
    """Look for what is missing or broken, and say what to do about it.

    Nothing is changed, and nothing that costs money is asked: of the providers that you use, and of those that need
    no key, the models list. Exit code 4 tells of a problem; warnings are none.
    """
    from ask.agent.workspace import Workspace
    from ask.cli.doctor.finding import PROBLEM
    from ask.console import Output
    from ask.errors import ConfigError
    from ask.render.table import write_table

    output = Output()
    findings = examine(Workspace(), offline=offline)
    to_terminal = output.terminal and not as_json
    rows = [finding.as_row() if to_terminal else finding._asdict() for finding in findings]
    write_table(output, rows, as_json=as_json, whole=True)
    problems = sum(finding.state == PROBLEM for finding in findings)
    if problems:
        things = "1 problem was" if problems == 1 else f"{problems} problems were"
        raise ConfigError(f"{things} found", "what to do stands beside each")


def examine(workspace: Workspace, *, offline: bool) -> list[Finding]:
    """All findings, without keys, in the order in which they are shown."""
    from ask.cli.doctor.configuration import (
        check_choice,
        check_config_file,
        check_keys,
        check_tools,
        check_variables,
    )
    from ask.cli.doctor.folders import check_folders, check_history
    from ask.cli.doctor.installation import check_packages, check_program, check_versions
    from ask.cli.doctor.mcp import check_mcp_servers
    from ask.cli.doctor.providers import check_providers
    from ask.cli.doctor.safe_mode import safe_mode_findings
    from ask.cli.doctor.shell import check_completions, check_shell
    from ask.cli.doctor.tool_plugins import check_tool_plugins

    def providers(workspace: Workspace) -> Iterator[Finding]:
        return check_providers(workspace, offline=offline)

    checks: list[Callable[[Workspace], Iterator[Finding]]] = [
        *(check_versions, check_program, check_packages),
        *(check_config_file, check_variables, check_keys),  # first: the others rely on what these replace
        *(check_folders, check_history, check_tools, check_tool_plugins, check_mcp_servers, safe_mode_findings),
        *(check_shell, check_completions, check_choice, providers),
    ]
    findings = [finding for check in checks for finding in results(check, workspace)]
    redact = workspace.secrets().redact
    return [finding._replace(found=redact(finding.found), fix=redact(finding.fix)) for finding in findings]


def results(check: Callable[[Workspace], Iterator[Finding]], workspace: Workspace) -> Iterator[Finding]:
    """What a check finds; also that it failed."""
    from ask.cli.doctor.finding import PROBLEM, Finding
    from ask.errors import AskError, unforeseen

    try:
        yield from check(workspace)
    except Exception as fault:  # noqa: BLE001 - one check must not keep the others from being told
        error = fault if isinstance(fault, AskError) else unforeseen(fault)
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        yield Finding(
            PROBLEM, subject, error.brief, error.advice or "see whether it is there, and whether you may use it"
        )
