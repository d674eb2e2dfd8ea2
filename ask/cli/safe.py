"""`ask safe`: tries what `--safe` rests on, in this folder, and says what holds and what to do about what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ask.cli.groups import JSON_OPTION, listing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ask.agent.workspace import Workspace
    from ask.cli.doctor.finding import Finding
    from ask.settings import Settings


@listing("safe")
@JSON_OPTION
def command(*, as_json: bool) -> None:
    """Say what --safe would do in this folder, after trying to get out of it.

    What is tried is what every run with --safe tries before anything is sent: writing outside, reading keys,
    connecting, gaining privileges. Exit code 8 tells that safe mode cannot be had here.
    """
    from ask.agent.workspace import Workspace
    from ask.cli.doctor.finding import PROBLEM
    from ask.console import Output
    from ask.errors import SafetyError
    from ask.render.table import write_table
    from ask.settings import resolve, working_directory

    output, workspace, directory = Output(), Workspace(), working_directory()
    settings = resolve({}, workspace.environment, workspace.config)
    findings = list(try_out(settings, directory, workspace))
    to_terminal = output.terminal and not as_json
    rows = [finding.as_row() if to_terminal else finding._asdict() for finding in findings]
    write_table(output, rows, as_json=as_json, whole=True)
    if any(finding.state == PROBLEM for finding in findings):
        raise SafetyError(f"safe mode cannot be had in {directory}", "what to do stands beside the problem")


def try_out(settings: Settings, directory: Path, workspace: Workspace) -> Iterator[Finding]:
    """What holds there, tried in a sandbox that is closed again; of what does not hold, the first.

    Raises:
        ConfigError, UsageError: the settings make no sense.
    """
    from ask.agent.request import new_id
    from ask.agent.safe_mode import as_host, confinement, tripwires
    from ask.cli.doctor.finding import OK, PROBLEM, WARNING, Finding
    from ask.errors import SafetyError
    from ask.safety.bubblewrap import find_bubblewrap, find_version
    from ask.safety.sandbox import Sandbox

    wires = ", ".join(wire.name for wire in tripwires(settings.tripwires))
    hosts = ", ".join(map(as_host, settings.allow_hosts))
    try:
        program = find_bubblewrap()
        yield Finding(OK, "bubblewrap", f"{program} {'.'.join(map(str, find_version(program)))}".rstrip())
        confined = confinement(settings, directory, workspace.results / new_id(), workspace)
        with Sandbox(confined) as sandbox:
            yield from (Finding(OK, finding.name, "tried: it cannot be done") for finding in sandbox.findings)
            yield from (Finding(WARNING, "what is guarded", warning) for warning in sandbox.warnings)
    except SafetyError as error:
        yield Finding(PROBLEM, "sandbox", error.message, error.advice)
        return
    yield Finding(OK, "can be written", ", ".join(map(str, confined.writable)))
    yield Finding(
        OK, "can be fetched from", f"{hosts}; other hosts after asking" if hosts else "any host, after asking"
    )
    yield Finding(OK, "refused before it starts", wires)
    yield Finding(OK, "on for every run", "yes" if settings.safe else "no, with --safe alone")
