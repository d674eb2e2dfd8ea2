"""`ask acp`: be an agent in an editor."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

from ask.app import AppContext
from ask.cli.ask import create_run_options, select_options
from ask.cli.click_helpers import subcommand
from ask.config.installation import require_package
from ask.errors import UsageError


@subcommand("acp")
def command(**flags: Any) -> None:
    """Be an agent in an editor, by the Agent Client Protocol on stdin and stdout.

    The options apply to all sessions. The mode of a session is confirm until the user of the editor selects another.
    """
    require_package("acp", "acp", "ask acp")
    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin else 0
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):  # asyncio cannot wait for /dev/null
        raise UsageError("ask acp needs a pipe from an editor as stdin", "configure it in the editor")
    from ask.acp.server import serve

    serve(create_run_options(flags), AppContext())


command.params += select_options(
    *("provider", "model", "max_cost", "max_rounds", "safe", "safe_files", "allow_dirs", "timeout", "server_tools")
)
