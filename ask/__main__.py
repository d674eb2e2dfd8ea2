"""The program's entry, and the one place where errors become messages and exit codes."""

from __future__ import annotations

# First, because Ctrl-C during the imports below would print a traceback.
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler and (
    __name__ == "__main__" or sys.argv[0].rpartition("/")[2] == "ask"
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `run_process` can handle it

import gc
import os
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED_EXIT_CODE, UNEXPECTED_ERROR_EXIT_CODE = 130, 1


def main() -> None:
    """Run the command line of this process, and leave at once: the kernel takes back sooner than Python what it had."""
    try:
        code = run_process()
    except KeyboardInterrupt:  # a second one, while the first is handled
        code = INTERRUPTED_EXIT_CODE
    os._exit(code)


def run_process() -> int:
    """Run the command line of this process; return the exit code. All output is written then."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # In a locale without UTF-8, a model's commands and file names could not be said to the system.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - ourselves
    gc.disable()  # looking for garbage in what is being imported takes a tenth of a start; `converse` enables it
    code = INTERRUPTED_EXIT_CODE
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for ending in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(ending) is not signal.SIG_IGN:  # as nohup has it
                signal.signal(ending, _exit_on_signal)
        code = run_and_report_errors(sys.argv[1:])
    except KeyboardInterrupt:
        pass
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else UNEXPECTED_ERROR_EXIT_CODE
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is done cannot be interrupted any more
    _flush_output()
    return code


def run_and_report_errors(arguments: Sequence[str]) -> int:
    """Run a command line; say on standard error why it failed, if it did. Returns the exit code."""
    from ask.errors import AskError, BrokenOutputError, to_ask_error

    try:
        return _dispatch(arguments)
    except (BrokenPipeError, BrokenOutputError):
        return 0
    except Exception as fault:  # noqa: BLE001 - the last resort
        failure = fault if isinstance(fault, AskError) else to_ask_error(fault)
        _print_error(str(failure))
        return failure.exit_code


def _dispatch(arguments: Sequence[str]) -> int:
    """Run a command line; return the exit code."""
    if arguments[:1] == ["--complete"]:  # before Click is loaded, which takes longer than the rest of it
        from ask.completion import write_completions

        return write_completions(arguments[1:])
    if arguments and arguments[0].partition("=")[0] == "--profile":  # before Click, so that it is timed too
        from ask.profile import run_profiled

        return run_profiled(arguments, run_and_report_errors)
    import click

    from ask.cli import run_command_line

    try:
        return run_command_line(arguments)
    except click.exceptions.Abort:
        return INTERRUPTED_EXIT_CODE
    except click.ClickException as error:
        _print_error(format_usage_error(error))
        return error.exit_code


def format_usage_error(error: Exception) -> str:
    """What Click found wrong, as one line."""
    message: str = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    program = context.command_path if context else "ask"
    return f"{message.rstrip('.')}: {program} --help lists the options" + (", -- ends them" if program == "ask" else "")


def _print_error(message: str) -> None:
    from ask.text import format_one_line, repair_surrogates

    if sys.stderr is None:
        return
    try:
        sys.stderr.buffer.write(f"ask: {repair_surrogates(format_one_line(message))}\n".encode())
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _exit_on_signal(signal_number: int, _: FrameType | None) -> None:
    """End the run as a signal asks, by way of everything that must be stopped first."""
    sys.exit(128 + signal_number)


def _flush_output() -> None:
    """Write what waits to be written; what cannot be is forgotten, since it was told of before."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


if __name__ == "__main__":
    sys.exit(run_process())
