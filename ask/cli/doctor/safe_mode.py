"""Checks of what safe mode needs on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from tempfile import TemporaryDirectory

from ask.agent.workspace import Workspace
from ask.cli.doctor.finding import OK, PROBLEM, WARNING, Finding
from ask.cli.safe import try_out
from ask.settings import resolve


def safe_mode_findings(workspace: Workspace) -> Iterator[Finding]:
    """Whether the sandbox can be opened and holds, in an empty folder with another beside it for what it notes.

    A problem only where safe mode is switched on for every run.
    """
    settings = resolve({}, workspace.environment, workspace.config)
    with TemporaryDirectory() as empty:
        work = Path(empty, "work")
        work.mkdir()
        noting_elsewhere = copy(workspace)
        noting_elsewhere.places = workspace.places._replace(data=Path(empty, "data"))
        findings = list(try_out(settings, work, noting_elsewhere))
    for finding in findings:
        if finding.state == PROBLEM:
            yield finding._replace(state=PROBLEM if settings.safe else WARNING, check="safe mode")
            return
    words = "on for every run" if settings.safe else "to be had with --safe"
    yield Finding(OK, "safe mode", f"{words}, by {findings[0].found}: `ask safe` tells more")
