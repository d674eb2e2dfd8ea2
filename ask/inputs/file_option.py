"""Sources that -f names: files, folders, patterns, stdin, the clipboard, web pages, MCP resources and loaders.

Content is classified by its bytes, not by its name.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote

from ask.attachments import MAX_FILE_BYTES, describe_media_type
from ask.config.foreign_links import check_input
from ask.errors import AskError, FileError, ParameterError, UsageError
from ask.inputs.content_types import parse_content
from ask.inputs.prompt_inputs import MAX_FILES, InputReaders, PromptInputs
from ask.inputs.stdin_and_files import MAX_TEXT_BYTES, STDIN_NAMES, read_bytes
from ask.text import decode_argument, format_one_line
from ask.tools.file_names import find_equivalent_path

CLIPBOARD = "clipboard:"
WEB_PREFIXES = ("http://", "https://")
MCP_PREFIX = "mcp://"
LOADER_PATTERN = re.compile(r"([a-z][a-z0-9_-]*):(.*)", re.DOTALL)
"""A source for a loader: a prefix, and the text that its function gets."""
LINES_PATTERN = re.compile(r"(.+?)(?::\d+(?:-\d+)?)+")
"""A path with the line numbers that editors and compilers add."""
MAX_NAMED_FILES = 3
"""How many skipped files a notice names."""
MAX_ENCODING_NOTES = 4
"""How many files that are not valid UTF-8 are named."""
FILE_URL_PATTERN = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
"""The part of a file URL before its path: RFC 8089 allows an empty host, "localhost" and none."""


def read_inputs(sources: Sequence[str], readers: InputReaders) -> PromptInputs:
    """Read all sources of -f, in order.

    Raises:
        UsageError: standard input is named but cannot be read, or is named twice.
        FileError: a source cannot be read, is too long, or is of a type that no provider accepts.
        NetworkError: a web page cannot be fetched.
        MissingDependencyError: the program that reads the clipboard, or the package mcp, is not installed.
    """
    if sum(source in STDIN_NAMES for source in sources) > 1:
        raise UsageError("-f - is given twice", "stdin can be read only once")
    inputs = PromptInputs()
    for source in sources:
        inputs = inputs.merge(_read_source(source, readers))
    notes = inputs.encoding_notes
    for note in notes if len(notes) <= MAX_ENCODING_NOTES else notes[: MAX_ENCODING_NOTES - 1]:
        readers.notify(note)
    if len(notes) > MAX_ENCODING_NOTES:
        readers.notify(f"{len(notes) - MAX_ENCODING_NOTES + 1:,} more files are not valid UTF-8")
    return inputs


def _read_source(source: str, readers: InputReaders) -> PromptInputs:
    """Read one source of -f. Raises the errors of `read_inputs`."""
    if source in STDIN_NAMES:
        if readers.read_stdin is None:
            raise UsageError(f"-f {source} reads stdin, which is disabled here", "use a file instead")
        return parse_stdin_content(readers.read_stdin(), keep_location=readers.keep_location)
    if source == CLIPBOARD:
        from ask.inputs.clipboard import read_clipboard

        return parse_content("clipboard", read_clipboard(readers.environment), keep_location=readers.keep_location)
    if source.lower().startswith(WEB_PREFIXES):
        from ask.inputs.web_pages import read_url

        return read_url(source, readers)
    if source.lower().startswith(MCP_PREFIX) and readers.read_resource:
        return readers.read_resource(source, readers.timeout)
    if readers.load and LOADER_PATTERN.match(source) and not path_exists(source):
        inputs = readers.load(source, readers)
        if inputs is not None:
            return inputs
    return _read_path(_parse_file_url(source), readers)


def _parse_file_url(source: str) -> str:
    """Return the path in a file URL, or the source unchanged if it is not one."""
    scheme = FILE_URL_PATTERN.match(source)
    return unquote(source[scheme.end() :]) if scheme else source


def parse_stdin_content(data: bytes, *, keep_location: bool) -> PromptInputs:
    """Convert the content of standard input to prompt inputs.

    Raises:
        FileError: it is of a type that no provider accepts.
    """
    inputs = parse_content("stdin", data, keep_location=keep_location)
    return inputs._replace(texts=(), stdin_text="".join(text for _, text in inputs.texts))


def _read_path(path: str, readers: InputReaders) -> PromptInputs:
    """Read a file, a folder, or the files that match a pattern such as 'src/*.py'.

    Raises:
        FileError: it cannot be read, is too long, or is of a type that no provider accepts.
    """
    if not path:
        raise FileError("cannot read a file without a name", "check the variable in the argument of -f")
    name = decode_argument(path)
    try:
        expanded_path = find_equivalent_path(Path(os.path.expanduser(path)))
        if readers.app_dirs:
            check_input(expanded_path, readers.app_dirs)
        if expanded_path.is_dir():
            from ask.inputs.folders import read_folder

            return read_folder(expanded_path, name, readers.environment, readers.notify)
        if glob.has_magic(path) and not expanded_path.exists():
            return _read_glob(str(expanded_path), name, readers)
        data = read_bytes(expanded_path, max(MAX_TEXT_BYTES, *MAX_FILE_BYTES.values()), readers.timeout, readers.notify)
    except OSError as error:
        hint = _suggest_source(path) if isinstance(error, FileNotFoundError) else ""
        raise FileError(f"cannot read {name} ({error.strerror})", hint) from error
    except ValueError as error:  # a null byte in the path
        raise FileError(f"cannot read {name} ({error})") from error
    if not data:
        readers.notify(f"{name} is empty")
    return parse_content(name, data, MAX_TEXT_BYTES, keep_location=readers.keep_location, accepts=readers.accepts)


def _suggest_source(path: str) -> str:
    """Return a hint for a path that does not exist but looks like another kind of source; "" for none."""
    if "://" in path:
        return f"-f fetches only {' and '.join(WEB_PREFIXES)} addresses"
    if path == CLIPBOARD.removesuffix(":"):
        return f"-f {CLIPBOARD} attaches the clipboard"
    lines = LINES_PATTERN.fullmatch(path)
    if lines and path_exists(lines[1]):
        return f"-f attaches complete files: use -f {decode_argument(lines[1])}, or pipe the lines in"
    names = path.split(",")
    if all(names) and all(map(path_exists, names)):
        return "repeat -f for each file"
    return ""


def _read_glob(pattern: str, display_name: str, readers: InputReaders) -> PromptInputs:
    """Read the files that match a pattern, in which `**` matches nested folders; skip those that cannot be sent.

    Raises:
        FileError: no or too many files match, or none of them can be read.
        ParameterError: the model accepts none of them.
    """
    # File systems contain names in either form, and glob compares characters.
    patterns = {pattern, *(() if pattern.isascii() else (normalize("NFC", pattern), normalize("NFD", pattern)))}
    matches = {path for each in patterns for path in _iter_glob(each)}
    paths = [path for path in sorted(matches) if Path(path).is_file()]
    if not paths:
        raise FileError(f"no files match {display_name}", "check the pattern and the folder")
    inputs, size = PromptInputs(), 0
    errors: list[AskError] = []
    for path in paths:
        try:
            found = _read_path(path, readers)
            _check_types(found, readers)
        except (FileError, ParameterError) as error:
            errors.append(error)
            continue
        size += sum(len(text) for _, text in found.texts)
        if size > MAX_TEXT_BYTES or len(paths) > MAX_FILES:
            raise FileError(f"too many files match {display_name}", "name fewer")
        inputs = inputs.merge(found)
    if len(errors) == len(paths):
        raise errors[0]
    if errors:
        reasons = "; ".join(error.message for error in errors[:MAX_NAMED_FILES])
        more = "; ..." if len(errors) > MAX_NAMED_FILES else ""
        readers.notify(f"skipped {len(errors)} of the {len(paths)} files that match {display_name}: {reasons}{more}")
    return inputs


def _iter_glob(pattern: str) -> Iterator[str]:
    """Yield the paths that match a pattern. Unlike in glob, `**` does not follow links, which could lead in circles."""
    start, *rest = re.split(r"(?:^|(?<=/))\*\*(?:/|$)", pattern, maxsplit=1)
    if not rest:
        yield from glob.iglob(pattern)
        return
    for base in glob.iglob(start) if start else (".",):
        for folder, names, _ in os.walk(base):
            names[:] = [name for name in names if not name.startswith(".")]
            parent = folder if start else folder.removeprefix(".").removeprefix("/")
            yield from _iter_glob(os.path.join(glob.escape(parent), rest[0] or "*"))


def _check_types(inputs: PromptInputs, readers: InputReaders) -> None:
    for file in inputs.attachments:
        if not readers.accepts(file.media_type):
            description = f"{format_one_line(file.name)} ({describe_media_type(file.media_type)})"
            raise ParameterError(f"the model does not accept {description}", "choose another model with -m")


def parse_dropped_paths(text: str) -> list[str]:
    """Split typed or dropped text into paths. A terminal quotes dropped paths and separates them by spaces."""
    import shlex

    if path_exists(text):
        return [text]
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    return words if len(words) == 1 or (words and all(map(path_exists, words))) else [text]


def path_exists(path: str) -> bool:
    try:
        return find_equivalent_path(Path(os.path.expanduser(_parse_file_url(path)))).exists()
    except (OSError, ValueError):
        return False
