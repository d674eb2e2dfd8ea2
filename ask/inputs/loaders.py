"""Loaders: `-f PREFIX:REST` and `-t PREFIX:REST`, built in or from packages (entry points in `ask.loaders`).

What a loader returns is data, as that of `-f URL`. The function of a package runs in a process of its own, so that it
can neither print into an answer nor outlive its time limit.
"""

from __future__ import annotations

import json
import sys
import time
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ask.app import AppContext
from ask.attachments import MAX_NAME_CHARACTERS
from ask.config.directories import get_working_directory
from ask.config.settings import Settings
from ask.errors import ConfigError, FileError, PluginError
from ask.inputs.content_types import parse_content
from ask.inputs.file_option import LOADER_PATTERN
from ask.inputs.git import load_git
from ask.inputs.github import load_github
from ask.inputs.prompt_inputs import InputReaders, PromptInputs
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES
from ask.plugin_api.import_guard import report_slow_loading
from ask.plugin_api.installed_plugins import PluginEntry, select_entry
from ask.plugin_api.types import PromptTemplate
from ask.process.worker_channel import CALL, START, WorkerDiedError, WorkerTimeoutError
from ask.text import decode_argument, find_misspelled, format_one_line
from ask.tools.plugins.content_loaders import LOADER_TOOL, REST
from ask.tools.plugins.plugin_process import PluginProcess
from ask.tools.plugins.worker import UNEXPECTED_ERROR_PREFIX

BUILTIN_LOADERS: Mapping[str, Callable[[str, InputReaders], PromptInputs]] = {
    "git": load_git,
    **dict.fromkeys(("gh", "github"), load_github),
}
RESERVED_PREFIXES = frozenset({*BUILTIN_LOADERS, "clipboard", "file", "http", "https", "mcp"})
"""The prefixes that no loader of a package can have."""
TEMPLATE_SUFFIX = ".md"
MAX_PRINTED_CHARACTERS, MAX_ERROR_CHARACTERS = 200, 1_000

LoadedContent = PromptInputs | PromptTemplate


def create_readers(settings: Settings, app: AppContext) -> InputReaders:
    """Return what a loader gets to know of the run."""
    return InputReaders(
        settings.command_timeout,
        app.collect_secrets().build_child_environment(),
        app.console.print_notice,
        keep_location=settings.keep_location,
    )


def is_usable_prefix(prefix: str) -> bool:
    """Check whether a loader of a package can have a prefix."""
    return prefix not in RESERVED_PREFIXES and bool(LOADER_PATTERN.fullmatch(f"{prefix}:"))


def find_loaders(app: AppContext) -> Mapping[str, tuple[PluginEntry, ...]]:
    """Return the entry points of the usable loaders of packages by prefix."""
    return {prefix: entries for prefix, entries in app.plugins.loaders.items() if is_usable_prefix(prefix)}


def split_source(source: str, app: AppContext) -> tuple[str, str] | None:
    """Split PREFIX:REST; return None if no loader has the prefix."""
    match = LOADER_PATTERN.fullmatch(source)
    return (match[1], match[2]) if match and (match[1] in BUILTIN_LOADERS or match[1] in find_loaders(app)) else None


def load_inputs(source: str, readers: InputReaders, app: AppContext) -> PromptInputs | None:
    """Run the loader of `-f PREFIX:REST`; return None if no loader has the prefix.

    Raises:
        AskError: it cannot be loaded, has failed, or has returned a template.
    """
    parts = split_source(source, app)
    if parts is None:
        prefix, _, rest = source.partition(":")
        meant = find_misspelled(prefix, [*BUILTIN_LOADERS, *find_loaders(app)])
        if meant:
            raise FileError(f"cannot read {format_one_line(decode_argument(source))}", f"did you mean {meant}:{rest}?")
        return None
    content = _run_loader(*parts, readers, app)
    if isinstance(content, PromptTemplate):
        raise FileError(f"{format_one_line(decode_argument(source))} is a template", f"use it with -t {source}")
    return content


def load_template(source: str, readers: InputReaders, app: AppContext) -> PromptTemplate | str:
    """Run the loader of `-t PREFIX:REST`; return a template, or the text of the file of one.

    Raises:
        AskError: it cannot be loaded, has failed, or has returned something else.
    """
    prefix, _, rest = source.partition(":")
    is_on_github = BUILTIN_LOADERS.get(prefix) is load_github
    content = load_github(rest, readers, TEMPLATE_SUFFIX) if is_on_github else _run_loader(prefix, rest, readers, app)
    return read_template_content(source, content)


def read_template_content(source: str, content: LoadedContent) -> PromptTemplate | str:
    """Return the template, or the text of the file of one, that a loader has returned for a source.

    Raises:
        FileError: it is not a single text.
    """
    if isinstance(content, PromptTemplate):
        return content
    if content.attachments or len(content.texts) != 1:
        name = format_one_line(decode_argument(source))
        raise FileError(f"{name} is not the text of one template", f"-f {source} attaches it")
    return content.texts[0][1]


def _run_loader(prefix: str, rest: str, readers: InputReaders, app: AppContext) -> LoadedContent:
    if prefix in BUILTIN_LOADERS:
        return BUILTIN_LOADERS[prefix](rest, readers)
    kept_processes = app.share(_open_kept_processes) if app.keeps_loader_processes else None
    return run_plugin_loader(select_entry(find_loaders(app)[prefix], "loader"), rest, readers, kept_processes)


def _open_kept_processes(app: AppContext) -> dict[PluginEntry, PluginProcess]:
    """Return the processes of loaders that serve further calls. They are killed at the end of the command."""
    processes: dict[PluginEntry, PluginProcess] = {}

    def close() -> None:
        for process in processes.values():
            process.close(immediately=True)

    app.cleanup.callback(close)
    return processes


def run_plugin_loader(
    entry: PluginEntry, rest: str, readers: InputReaders, kept_processes: dict[PluginEntry, PluginProcess] | None = None
) -> LoadedContent:
    """Run the loader of a package in a process of its own, which is killed unless processes are kept.

    Raises:
        ConfigError: it cannot be loaded.
        PluginError: it has a bug, or took too long.
        FileError: it reports an error, or returned something that no provider accepts.
    """
    title = f"{entry.name} ({entry.distribution})"
    with _explain_process_errors(entry, readers) as on_output:
        reply = _call_in_process(entry, decode_argument(rest), readers, on_output, kept_processes)
    if reply["is_error"]:
        reason = format_one_line(reply["text"].removeprefix(UNEXPECTED_ERROR_PREFIX), MAX_ERROR_CHARACTERS)
        raise PluginError(f"the loader {title} failed ({reason})", f"report it to the authors of {entry.distribution}")
    content = json.loads(reply["text"])
    if "error" in content:
        reason = format_one_line(content["error"], MAX_ERROR_CHARACTERS)
        raise FileError(reason or f"the loader {title} failed without a message")
    return decode_content(content, f"{entry.name}:{decode_argument(rest)}", readers)


def check_loader(entries: tuple[PluginEntry, ...], readers: InputReaders) -> None:
    """Check that the loader of a package can be loaded, without calling it. Raises the errors of a call."""
    entry = select_entry(entries, "loader")
    with _explain_process_errors(entry, readers) as on_output:
        _call_in_process(entry, None, readers, on_output)


@contextmanager
def _explain_process_errors(entry: PluginEntry, readers: InputReaders) -> Iterator[Callable[[str], None]]:
    """Report what a loader prints in the block, which gets a callback for that, and how its process has ended.

    Raises:
        PluginError: the process has ended, or took too long.
    """
    title = f"{entry.name} ({entry.distribution})"
    printed = ""

    def collect(text: str) -> None:
        nonlocal printed
        printed = (printed + text[:MAX_ERROR_CHARACTERS])[:MAX_ERROR_CHARACTERS]

    try:
        yield collect
    except WorkerDiedError as error:
        raise PluginError(f"the loader {title} failed: its process ended ({error})") from None
    except WorkerTimeoutError:
        hint = "--command-timeout raises the limit"
        raise PluginError(f"the loader {title} took longer than {readers.timeout:g} s", hint) from None
    finally:
        if text := format_one_line(printed, MAX_PRINTED_CHARACTERS):
            readers.notify(f"the loader {title} printed: {text}")


def _call_in_process(
    entry: PluginEntry,
    rest: str | None,
    readers: InputReaders,
    on_output: Callable[[str], None],
    kept_processes: dict[PluginEntry, PluginProcess] | None = None,
) -> dict[str, Any]:
    """Load the function of a loader in a process, call it unless `rest` is None, and return the reply.

    A process is used again if it is kept, and kept if it has replied.

    Raises:
        ConfigError: it cannot be loaded.
        WorkerDiedError: the process has ended.
        WorkerTimeoutError: it took longer than the time limit.
    """
    directory, deadline = get_working_directory(), time.monotonic() + readers.timeout
    process = kept_processes.pop(entry, None) if kept_processes else None
    is_loaded = process is not None
    process = process or PluginProcess(directory, readers.environment)
    try:
        if not is_loaded:
            _load_in_process(entry, process, readers, deadline, on_output)
        if rest is None:
            return {}
        call = {
            "tool": LOADER_TOOL,
            "arguments": {REST: rest},
            "directory": str(directory),
            "timeout": readers.timeout,
            "overflow_directory": str(directory),
        }
        reply = process.exchange(CALL, call, deadline, on_output)
        if kept_processes is not None:
            kept_processes[entry] = process
            process = None
        return reply
    finally:
        if process:
            process.close(immediately=True)


def _load_in_process(
    entry: PluginEntry,
    process: PluginProcess,
    readers: InputReaders,
    deadline: float,
    on_output: Callable[[str], None],
) -> None:
    """Load the function of a loader in a process. Raises the errors of `_call_in_process`."""
    title = f"{entry.name} ({entry.distribution})"
    start = {"path": sys.path, "targets": [(*entry.location, False, True, entry.distribution)]}
    with report_slow_loading(title, readers.notify):
        problem = process.exchange(START, start, deadline, on_output)["problem"]
    if problem:
        reason, _, advice = format_one_line(problem).rpartition("; ")
        raise ConfigError(f"cannot load the loader {title}: {reason}", advice)


def decode_content(content: Mapping[str, Any], source: str, readers: InputReaders) -> LoadedContent:
    """Return what the process of a loader has sent: a template, or files, of which one without a name is `source`.

    Raises:
        FileError: a file is too large or of a type that no provider accepts, or there is none.
    """
    if "template" in content:
        return PromptTemplate(**content["template"])
    name = format_one_line(source)
    if not content["files"]:
        raise FileError(f"{name} contains nothing", "name another")
    inputs = PromptInputs()
    for file_name, data in content["files"]:
        part = parse_content(
            format_one_line(file_name, MAX_NAME_CHARACTERS) or name,
            a2b_base64(data),
            MAX_TEXT_BYTES,
            keep_location=readers.keep_location,
        )
        inputs = inputs.merge(part)
    if len(inputs.texts) == 1 and not inputs.texts[0][1] and not inputs.attachments:
        readers.notify(f"{name} is empty")
    return inputs
