"""The program's entry point, the only place where errors become messages and exit codes."""

from __future__ import annotations

# First, because Ctrl-C during the imports below would print a traceback.
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler and (
    __name__ == "__main__" or sys.argv[0].rpartition("/")[2] == "ask"
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `run_process` installs its handler

import _thread
import gc
import os
import time
from collections.abc import Sequence
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ask.errors import AskError

SIGNAL_PAUSE_SECONDS = 0.01
"""Seconds before a signal is repeated whose exception Python has discarded."""
EVENT_OPTIONS = {"--events", "--input-events", "stream-json", "--output-format=stream-json"}
"""The words of a command line whose output is a stream of events."""
INTERRUPTED_EXIT_CODE, UNEXPECTED_ERROR_EXIT_CODE = 130, 1


def main() -> None:
    """Run the command line and exit with `os._exit`. Skipping interpreter teardown saves about 10 ms.

    After the command of a package, Python waits for its threads, and calls what it has registered for the exit.
    """
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    handlers = dict(zip(numbers, map(signal.getsignal, numbers), strict=True))
    try:
        code = run_process()
    except KeyboardInterrupt:  # a second Ctrl-C while the first is being handled
        code = INTERRUPTED_EXIT_CODE
        _end_line()
    except SystemExit as error:  # a second signal, such as the SIGHUP that both a shell and its terminal send
        code = error.code if isinstance(error.code, int) else UNEXPECTED_ERROR_EXIT_CODE
    if saved_sign_in := sys.modules.get("ask.client.saved_sign_in"):
        for number in handlers:  # a token that is lost here ends the sign-in
            signal.signal(number, signal.SIG_IGN)
        saved_sign_in.finish_refreshes()
    if traces := sys.modules.get("ask.traces.lifecycle"):
        received: list[int] = []
        for number in numbers:  # a signal ends the wait, and not the process with another exit code
            signal.signal(number, lambda number, _: received.append(number))
        traces.flush_traces(code, received)
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    plugin_commands = sys.modules.get("ask.cli.plugin_commands")
    if plugin_commands and plugin_commands.was_called:
        for number, handler in handlers.items():  # those of `run_process` would not end the wait for a thread
            signal.signal(number, handler)
        sys.exit(code)
    os._exit(code)


def run_process() -> int:
    """Run the command line of this process, flush the output and return the exit code."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        # In a locale without UTF-8, a model's commands and file names could not be passed to the system.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - this program itself
    gc.disable()  # collections during imports take a tenth of the start-up time; `run_request` enables it again
    if not os.environ.get("HOME", "").startswith("/"):  # files would be written in the working directory, or in /
        os.environ.pop("HOME", None)
        if os.path.expanduser("~") == "~":  # a user without an entry in the user database, as in containers
            os.environ["HOME"] = "/"
    # If the parent process ignores this signal, the exit codes of children are lost, and Python returns 0 for them.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = INTERRUPTED_EXIT_CODE
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not in the handler, which may interrupt the import of this module.
        from ask.errors import SignalExit

        def exit_on_signal(signal_number: int, _: FrameType | None) -> None:
            """Exit by an exception, so that context managers stop what they started."""
            raise SignalExit(128 + signal_number)

        for signal_number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signal_number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
                signal.signal(signal_number, exit_on_signal)
        sys.unraisablehook = _repeat_discarded_signal
        code = run_and_report_errors(sys.argv[1:])
    except KeyboardInterrupt:
        _end_line()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else UNEXPECTED_ERROR_EXIT_CODE
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done; only the output is left to flush
    _flush_output()
    return code


def _repeat_discarded_signal(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a signal whose exception Python discards: in a destructor or a callback, such as one of each import."""
    error = unraisable.exc_value
    if isinstance(error, SystemExit) and error.code in (128 + signal.SIGTERM, 128 + signal.SIGHUP):
        number = int(error.code) - 128
    elif unraisable.exc_type is KeyboardInterrupt:
        number = signal.SIGINT
    else:
        sys.__unraisablehook__(unraisable)
        return
    main_thread = _thread.get_ident()

    def repeat() -> None:
        time.sleep(SIGNAL_PAUSE_SECONDS)
        signal.pthread_kill(main_thread, number)

    with suppress(RuntimeError):  # no thread is available
        _thread.start_new_thread(repeat, ())


def run_and_report_errors(arguments: Sequence[str]) -> int:
    """Run a command line, print its error if it fails, and return the exit code."""
    from ask.errors import BrokenOutputError, to_ask_error

    try:
        if arguments[:1] == ["--complete"]:  # before Click, whose import takes longer than completion
            from ask.cli.completion import write_completions

            return write_completions(arguments[1:])
        if arguments and arguments[0].partition("=")[0] == "--profile":  # also before Click, so that it is timed too
            return _run_profiled(arguments[0].partition("=")[2], arguments[1:])
        from ask.cli.commands import run_command_line

        return run_command_line(arguments)
    except (BrokenPipeError, BrokenOutputError):
        return 0
    except (KeyboardInterrupt, SystemExit) as error:
        _end_events(arguments, to_ask_error(error))
        raise
    except Exception as error:  # noqa: BLE001 - the last resort
        ask_error = to_ask_error(error)
        _print_error(str(ask_error))
        _end_events(arguments, ask_error)
        return ask_error.exit_code


def _end_events(arguments: Sequence[str], error: AskError) -> None:
    """With --events, end the output with the result event of a run that did not start."""
    names = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not EVENT_OPTIONS.isdisjoint(names):
        from ask.render.json_events import write_failed_result

        with suppress(Exception):  # nobody reads the output any more
            write_failed_result(error)


def _run_profiled(file: str, arguments: Sequence[str]) -> int:
    """Run a command line under cProfile, and write the result to a file for pstats.

    Raises:
        UsageError: the file name is empty.
        FileError: the file cannot be written.
    """
    from cProfile import Profile

    from ask.errors import FileError, UsageError

    if not file:
        raise UsageError("--profile needs a file", "use --profile=FILE")
    profile = Profile()
    try:
        return profile.runcall(run_and_report_errors, arguments)
    finally:
        try:
            profile.dump_stats(file)
        except OSError as error:
            raise FileError(f"cannot write {file} ({error.strerror})") from error
        sys.stderr.write(f"ask: python -m pstats {file} shows the profile\n")


def _print_error(message: str) -> None:
    from ask.console import STDERR, wrap_for_terminal
    from ask.text import format_one_line, repair_surrogates

    if sys.stderr is None:
        return
    text = wrap_for_terminal(f"ask: {repair_surrogates(format_one_line(message))}", STDERR)
    try:
        sys.stderr.buffer.write(f"{text}\n".encode())
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def _flush_output() -> None:
    """Flush stdout and stderr, ignoring errors: they were already reported."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _end_line() -> None:
    """Start a new line on a terminal, where the cursor is after the ^C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if os.isatty(2):
            os.write(2, b"\n")
    except OSError:  # the terminal was closed
        pass


if __name__ == "__main__":
    sys.exit(run_process())
