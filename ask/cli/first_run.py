"""The warning before the first run in which the model can act, with and without safe mode."""

from __future__ import annotations

from contextlib import suppress

from ask.agent.request import RunRequest
from ask.app import AppContext
from ask.atomic_files import create_marker_file
from ask.config.settings import FILES_LEVEL

_WARNINGS = {
    "warned": "ask: the model can run commands and change files, just as you can.\n"
    "ask: --confirm asks before each action; --no-tools disables tools. (Shown once.)",
    "warned-safe": "ask: the model can run commands, confined to this folder and without network.\n"
    "ask: --confirm asks before each one; --allow-dir adds folders. (Shown once.)",
    "warned-safe-files": "ask: the model can read and write files in this folder, but run no commands.\n"
    "ask: --confirm asks before each write; --allow-dir adds folders. (Shown once.)",
}
"""The warnings by the name of the marker file that prevents another."""


def warn_on_first_run(request: RunRequest, app: AppContext) -> None:
    """Warn once, on a terminal, that the model can run commands and change files."""
    if not request.tools or not app.console.is_terminal or app.console.is_quiet:
        return
    name = "warned"
    if request.settings.safe:
        name = "warned-safe-files" if request.settings.safe_level == FILES_LEVEL else "warned-safe"
    marker_file = app.app_dirs.data / name
    if marker_file.exists():
        return
    with suppress(OSError):  # its earlier name
        marker_file.with_name(name.replace("warned", "told")).rename(marker_file)
        return
    if create_marker_file(marker_file):
        app.console.print_line(_WARNINGS[name])
