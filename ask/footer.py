"""When the line with the conversation's id, and other lines for a person at a terminal, are printed."""

from __future__ import annotations

import os

from ask.console import STDERR, STDIN, STDOUT, get_descriptor


def should_show_footer(mode: str) -> bool:
    """Check whether to print lines that only help a person who continues the conversation on this terminal.

    Unless `mode` is "always" or "never", they are printed if an interactive shell started ask (it makes each command
    the leader of a process group, as make, xargs and scripts do not), standard input has no data, and both outputs are
    the same terminal: otherwise they would end up in an editor's buffer, over a pager or in a log.
    """
    if mode != "auto":
        return mode == "always"
    try:
        has_data = not (os.isatty(STDIN) or os.path.samestat(os.fstat(STDIN), os.stat(os.devnull)))
        output, errors = get_descriptor(STDOUT), get_descriptor(STDERR)
        is_one_terminal = os.isatty(output) and os.isatty(errors) and os.path.sameopenfile(output, errors)
    except OSError:
        return False
    return is_one_terminal and not has_data and os.getpgrp() == os.getpid()
