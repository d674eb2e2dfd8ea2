"""Checks of what makes `ask` a part of the shell: its integration, and completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, WARNING, Finding
from ask.cli.init import EVALS, RC_FILES, SHELLS, completion_script, installed_at, is_ours


def shell_of(workspace: Workspace) -> str:
    """The name of the user's shell; "" where it is none that `ask init` knows."""
    name = Path(workspace.environment.get("SHELL", "")).name
    return name if name in SHELLS else ""


def check_shell(workspace: Workspace) -> Iterator[Finding]:
    """Whether the integration is on in the shell that this was started from."""
    shell, check = shell_of(workspace), "shell"
    if workspace.environment.get("ASK_SESSION"):
        yield Finding(OK, check, "the integration is on ($ASK_SESSION is set)")
    elif shell:
        yield Finding(OK, check, "the integration is off", f"{EVALS[shell]} in {RC_FILES[shell]} switches it on")
    else:
        yield Finding(OK, check, f"the integration is off; it is for {', '.join(SHELLS)}")


def check_completions(workspace: Workspace) -> Iterator[Finding]:
    """Whether completions are where the user's shell looks for them, and are those of this version."""
    shell, check = shell_of(workspace), "completions"
    if not shell:
        return
    file, fix = installed_at(shell, workspace.environment), f"ask init {shell} --install"
    if not is_ours(file):
        if workspace.environment.get("ASK_SESSION"):
            yield Finding(OK, check, "they come with the integration")
        else:
            yield Finding(OK, check, f"not installed for {shell}", f"{fix} does it")
    elif file.read_bytes() != completion_script(shell).read_bytes():
        yield Finding(WARNING, check, f"{file} is of another version of ask", fix)
    else:
        yield Finding(OK, check, str(file))
