"""Long output of a command in the user's pager."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from subprocess import Popen

from ask.console import STDOUT, StandardOutput
from ask.errors import BrokenOutputError, UsageError

DEFAULT_PAGER = "less"
PAGER_DEFAULTS = {"LESS": "FRX", "LESSCHARSET": "utf-8", "LV": "-c"}
"""Unless the user has set others: quit if the text fits on the screen, show colors, keep the screen; in any locale."""

EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def page_output(environment: Mapping[str, str]) -> Iterator[StandardOutput]:
    """Provide standard output, which $PAGER (or less) shows page by page if it is a terminal.

    PAGER=cat shows everything at once. A pager that the user quits early ends the block.

    Raises:
        UsageError: the pager failed, so that its user has perhaps seen nothing.
    """
    output = StandardOutput({**environment, "FORCE_HYPERLINK": "0"})  # older versions of less show their codes
    command = environment.get("PAGER", DEFAULT_PAGER).strip()
    if not output.is_terminal or environment.get("TERM") in (None, "", "dumb") or command in ("", "cat"):
        yield output
        return
    pager_input, pipe = os.pipe()
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, EXIT_SIGNALS)  # until the pager would be ended, too
    restore_mask = partial(signal.pthread_sigmask, signal.SIG_SETMASK, previous_mask)
    variables = {**PAGER_DEFAULTS, **environment}
    try:
        pager = Popen(shlex.split(command), stdin=pager_input, env=variables, preexec_fn=restore_mask)  # noqa: PLW1509
    except (OSError, ValueError):  # it is not installed
        restore_mask()
        os.close(pipe)
        yield output
        return
    finally:
        os.close(pager_input)
    interrupt_handler = signal.getsignal(signal.SIGINT)
    try:
        restore_mask()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is a key of the pager
        terminal = os.dup(STDOUT)
        os.dup2(pipe, STDOUT)
        os.close(pipe)
        try:
            yield output
        except BrokenOutputError:
            pass
        finally:
            os.dup2(terminal, STDOUT)  # this closes the pipe, so that the pager knows the end
            os.close(terminal)
        pager.wait()
    except SystemExit:  # a signal; the pager restores the modes of the terminal
        pager.terminate()
        raise
    finally:
        pager.wait()
        signal.signal(signal.SIGINT, interrupt_handler)
    if pager.returncode > 0:
        failure = f"the pager {command!r} failed with exit status {pager.returncode}"
        raise UsageError(failure, "PAGER=cat shows everything at once")
