"""The main loop of a chat: interactive on a terminal, otherwise one message per line of standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

from ask.cli.chat.commands import is_exit_command, parse_input
from ask.cli.chat.session import ChatSession
from ask.cli.run import open_session
from ask.config.options import RunOptions
from ask.console import is_output_terminal, should_show_footer
from ask.errors import AskError, BrokenOutputError, FileError, RunInterruptedError, UsageError
from ask.inputs.stdin_and_files import decode_text
from ask.render.amounts import format_count
from ask.text import decode_argument, format_one_line, format_size


def run_chat(options: RunOptions) -> int:
    """Run a chat until the user quits; return the exit code."""
    with open_session(quiet=options.quiet, plain=options.plain, verbose=options.verbose) as app:
        session = ChatSession(options, app)
        app.cleanup.callback(_print_conversation_id, session)
        first_message = decode_argument(" ".join(options.words))
        has_terminal = is_output_terminal() or (sys.stderr is not None and sys.stderr.isatty())
        if sys.stdin is None or not sys.stdin.isatty() or not has_terminal:
            return _run_piped_chat(session, first_message)
        _run_interactive_chat(session, first_message)
    return 0


def _print_conversation_id(session: ChatSession) -> None:
    if session.is_saved and should_show_footer(session.request.settings.footer):
        session.console.print_dim(f"· conversation {session.request.conversation_id}\n")


# On a terminal


def _run_interactive_chat(session: ChatSession, first_message: str) -> None:
    """Read and handle messages and slash commands until the user quits."""
    from ask.cli.chat.prompt import ChatPrompt, prepare_terminal

    session.is_interactive = True
    _print_greeting(session)
    prompt = ChatPrompt(session)
    session.has_typeahead = prompt.has_typeahead
    with prepare_terminal(prompt):
        session.show_unanswered()
        initial_text, session.draft = session.draft, ""
        while True:
            try:
                first_message = first_message or prompt.read_message(initial_text)
                initial_text, first_message, text = "", "", first_message
                if is_exit_command(text):
                    return
                if text.strip():
                    initial_text = _handle_input(session, text)
            except EOFError:
                return
            except KeyboardInterrupt:
                first_message = initial_text = ""
            except RunInterruptedError as error:
                if error.exit_code != RunInterruptedError.exit_code:  # a signal such as SIGTERM, not Ctrl-C
                    raise
                prompt.discard_typeahead()
                session.command_console.print_notice(format_one_line(str(error)))


def _print_greeting(session: ChatSession) -> None:
    request = session.request
    target = f"{request.endpoint.model} ({request.endpoint.provider_name})"
    messages = sum(message.role == "user" for message in request.message_history)
    past = f", continuing {request.conversation_id} ({format_count(messages, 'message')})" if messages else ""
    session.console.print_notice(f"chatting with {target}{past}; /help lists commands, Ctrl-D quits")


def _handle_input(session: ChatSession, text: str) -> str:
    """Execute a slash command or send a message; return text for the user to correct or complete, or ""."""
    try:
        parsed = parse_input(text)
    except UsageError as error:
        session.command_console.print_notice(str(error))
        return text
    if isinstance(parsed, str):
        _report_errors(session, partial(session.send_message, parsed))
    else:
        command, argument = parsed
        _report_errors(session, partial(command.execute, session, argument))
    draft, session.draft = session.draft, ""
    return draft


def _report_errors(session: ChatSession, action: Callable[[], None]) -> int:
    """Execute an action and print its error; return the exit code.

    `BrokenOutputError` and `RunInterruptedError` are for the caller.
    """
    try:
        with session.app.redact_errors(verbose=session.options.verbose):
            action()
    except (BrokenOutputError, RunInterruptedError):
        raise
    except AskError as error:
        session.command_console.print_notice(format_one_line(str(error)))
        return error.exit_code
    return 0


# Without a terminal


def _run_piped_chat(session: ChatSession, first_message: str) -> int:
    """Answer each line of standard input; return the exit code of the last failure, or 0.

    Slash commands are not recognized: the lines may come from an untrusted source.
    """
    code = 0
    notify = session.command_console.print_notice
    for text in _read_messages(first_message, session.request.settings.stdin_limit, notify):
        if isinstance(text, FileError):  # as a message that the provider refuses, it does not end the chat
            notify(format_one_line(str(text)))
            code = text.exit_code
            continue
        if is_exit_command(text):
            break
        code = _report_errors(session, partial(session.send_message, text)) or code
    return code


def _read_messages(first_message: str, limit: int, notify: Callable[[str], None]) -> Iterator[str | FileError]:
    """Yield the first message, if any, then each nonempty line of standard input as it arrives.

    Instead of a line that is not text or is longer than `limit` bytes, its error is yielded.
    """
    if first_message:
        yield first_message
    while sys.stdin is not None:
        try:
            line = sys.stdin.buffer.readline(limit + 1)
        except OSError as error:
            raise FileError(f"cannot read stdin ({error.strerror})") from error
        if not line:
            return
        if len(line) > limit:
            while line and not line.endswith(b"\n"):
                line = sys.stdin.buffer.readline(limit + 1)
            yield FileError(f"a line of stdin is longer than {format_size(limit)}", "raise stdin_limit in config.toml")
            continue
        try:
            text = decode_text(line, "a line of stdin", notify).strip()
        except FileError as error:
            yield error
            continue
        if text:
            yield text
