"""The tools `read_file`, `write_file`, `edit_file` and `list_dir`."""

from __future__ import annotations

import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate, islice
from typing import Any

from ask.text import DecodedText, find_similar, format_size
from ask.text_diff import TextDiff, compare_texts
from ask.tools.base import RunToolContext, ToolError, ToolResult
from ask.tools.file_access import (
    escape_for_display,
    open_listing,
    read_allowed_file,
    use_path,
    write_regular_file,
)
from ask.tools.output_limits import MAX_RESULT_CHARACTERS

_MAX_ENTRIES = 1_000
_MAX_NOTE_CHARACTERS = 200
_BYTE_ORDER_MARK = "\ufeff"
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


def read_file(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Return the text of a file, or the requested lines, up to the result limit; an image, a PDF or audio is attached.

    Raises:
        ToolError: it cannot be read, is another binary file, or has no such lines.
    """
    name = arguments["filepath"]
    with use_path(name, context) as path:
        data = read_allowed_file(name, path, context)
    decoded = decode_file(data)
    if (decoded is None or data.startswith(b"%PDF-")) and (result := _read_attachment(name, data)):
        return result
    if decoded is None:
        raise ToolError(_describe_binary_file(name, data, has_bash=not context.confinement))
    lines = _select_lines(decoded.text, arguments.get("offset"), arguments.get("limit"))
    if decoded.encoding == "utf-8":
        return ToolResult(lines)
    newline = "" if lines.endswith("\n") else "\n"
    return ToolResult(f"{lines}{newline}[the file is encoded in {decoded.title}; write_file and edit_file keep that]")


def write_file(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Write a file atomically. A file that exists keeps its encoding, its line ends and its byte order mark.

    Raises:
        ToolError: it cannot be written.
    """
    name = arguments["filepath"]
    content, note = _replace_lone_surrogates(arguments["content"])
    with use_path(name, context) as path:
        if name.endswith("/"):
            raise ToolError(f"{name} is a directory, not a file")
        decoded, old_size = None, 0
        with suppress(OSError, ToolError):  # there is no such file, or writing it fails with the better message
            old_content = read_allowed_file(name, path, context)
            decoded, old_size = decode_file(old_content), len(old_content)
        if decoded:
            content = adapt_line_ends(content, decoded.text)
        data, encoding_note = _encode_content(name, content, decoded or DecodedText(""))
        note = encoding_note + note
        created = write_regular_file(name, path, data, context)
    if created or decoded:
        diff = compare_texts(decoded.text if decoded else "", content)
    else:
        diff = TextDiff(
            note=f"it was binary, {format_size(old_size)}" if old_size else "its old content could not be read"
        )
    return ToolResult(f"{'created' if created else 'overwrote'} {name}: {format_size(len(data))}{note}", diff=diff)


def edit_file(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """Replace the only occurrence of a text in a file, in its encoding; all other bytes stay unchanged.

    Raises:
        ToolError: the text does not occur exactly once, or the file cannot be read or written.
    """
    name = arguments["filepath"]
    new_text, note = _replace_lone_surrogates(arguments["new_text"])
    with use_path(name, context) as path:
        old_content = read_allowed_file(name, path, context)
        decoded = decode_for_editing(old_content, arguments["old_text"])
        try:
            new_content, line = replace_once(decoded.text, arguments["old_text"], new_text)
        except ToolError as error:
            raise ToolError(f"{name} is unchanged: {error}") from None
        data, encoding_note = _encode_content(name, new_content, decoded)
        write_regular_file(name, path, data, context)
    if decode_file(old_content) is None:
        diff = TextDiff(note=f"it is binary, {format_size(len(data))}")
    else:
        diff = compare_texts(decoded.text, new_content)
    return ToolResult(f"edited {name} at line {line}{encoding_note}{note}", diff=diff)


def list_dir(arguments: Mapping[str, Any], context: RunToolContext) -> ToolResult:
    """List a directory, one entry per line, sorted by name.

    Raises:
        ToolError: it is not a directory, or cannot be read.
    """
    name = arguments["dirpath"]
    with use_path(name, context, "directory") as path:
        try:
            with open_listing(path, context) as (folder, entries):
                entries.sort(key=lambda entry: entry.name)
                lines = [_format_entry(entry, folder) for entry in entries[:_MAX_ENTRIES]]
        except NotADirectoryError:
            if not context.confinement and not path.exists():  # a parent is the file
                raise
            raise ToolError(f"{name} is not a directory") from None
    if len(entries) > _MAX_ENTRIES:
        lines.append(f"[{len(entries) - _MAX_ENTRIES:,} more entries are not shown]")
    return ToolResult("\n".join(lines) or f"{name} is empty")


def _select_lines(text: str, offset: int | None, limit: int | None) -> str:
    """Return up to `limit` lines from line `offset` (from 1); a last line says if there are more."""
    first = 1 if offset is None else offset
    if first < 1 or (limit is not None and limit < 1):
        raise ToolError("offset and limit count lines, starting at 1")
    # Not splitlines(): like grep and sed, only a newline ends a line.
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    if not lines and first == 1:
        return "[the file is empty]"
    if first > len(lines):
        total = "1 line" if len(lines) == 1 else f"{len(lines):,} lines"
        raise ToolError(f"the file has only {total}, so none from {first:,} on")
    selected = lines[first - 1 :] if limit is None else lines[first - 1 : first - 1 + limit]
    if len(selected) == len(lines) and len(text) <= MAX_RESULT_CHARACTERS:
        return text
    max_length = MAX_RESULT_CHARACTERS - _MAX_NOTE_CHARACTERS
    count = sum(length <= max_length for length in accumulate(map(len, selected)))
    last = first - 1 + count
    if not count:
        note = f"[line {first:,} of {len(lines):,} is truncated: {max_length:,} of {len(selected[0]):,} characters]"
        return f"{selected[0][:max_length]}\n{note}"
    shown_text = "".join(selected[:count])
    newline = "" if shown_text.endswith("\n") else "\n"
    hint = f"; continue with offset {last + 1}" if last < len(lines) else ""
    return f"{shown_text}{newline}[lines {first:,} to {last:,} of {len(lines):,}{hint}]"


def decode_file(data: bytes) -> DecodedText | None:
    """Decode the content of a file in its encoding; return None if it is binary."""
    with suppress(UnicodeDecodeError):
        if not data.startswith(BOM_UTF8) and b"\0" not in data:
            return DecodedText(data.decode())
    from ask.tools.text_encoding import decode_bytes

    return decode_bytes(data)


def decode_for_editing(data: bytes, old_text: str) -> DecodedText:
    """Decode the content of a file so that encoding its text yields the same bytes.

    What is binary, damaged, or without the first line of `old_text` is UTF-8 with surrogates for bytes that are no
    characters.
    """
    decoded = decode_file(data)
    if decoded and old_text.partition("\n")[0] in decoded.text and decoded.encode(decoded.text) == data:
        return decoded
    return DecodedText(data.decode("utf-8", "surrogateescape"))


def _encode_content(name: str, content: str, old_content: DecodedText) -> tuple[bytes, str]:
    """Encode the new content of a file as its old content; return it with a note about the encoding.

    Raises:
        ToolError: the encoding lacks a character.
    """
    if old_content.byte_order_mark:
        content = content.removeprefix(_BYTE_ORDER_MARK)
    if old_content.encoding == "utf-8":
        return old_content.byte_order_mark + content.encode("utf-8", "surrogateescape"), ""
    try:
        return old_content.encode(content), f", in {old_content.title} as before"
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{name} is unchanged: it is encoded in {old_content.title}, which lacks {content[error.start]!r}; leave "
            "out that character, or first convert the file to UTF-8 with iconv in bash"
        ) from None


def _read_attachment(name: str, data: bytes) -> ToolResult | None:
    """Return an image, a PDF or audio as a result; None for other data."""
    from ask.attachments import find_attachment

    attachment = find_attachment(name.rpartition("/")[2], data)
    return attachment and ToolResult(f"{name}: {len(data):,} bytes\n", attachments=(attachment,))


def _describe_binary_file(name: str, data: bytes, *, has_bash: bool) -> str:
    from mimetypes import guess_type

    media_type = guess_type(name)[0] or "unknown type"
    advice = "; inspect it with file, strings or xxd in bash" if has_bash else ""
    return f"{name} is binary ({media_type}, {len(data):,} bytes), not text{advice}"


def _replace_lone_surrogates(text: str) -> tuple[str, str]:
    """Replace lone surrogates, which broken JSON escapes leave.

    Return the text, and a note if there were any.
    """
    replaced, count = _LONE_SURROGATE.subn("\ufffd", text)
    return replaced, f" (unpaired surrogates, replaced by U+FFFD: {count})" if count else ""


def _format_entry(entry: os.DirEntry[str], folder: int) -> str:
    name = escape_for_display(entry.name)
    try:
        if entry.is_symlink():
            return f"link {name} -> {escape_for_display(os.readlink(entry.name, dir_fd=folder))}"
        if entry.is_dir(follow_symlinks=False):
            return f"dir {name}"
        if entry.is_file(follow_symlinks=False):
            return f"file {entry.stat(follow_symlinks=False).st_size} {name}"
    except OSError:  # gone since the directory was read
        pass
    return f"other {name}"


_MAX_OCCURRENCES_COUNTED = 100
_MAX_COMPOSED_CHARACTERS = 10_000
"""Composing characters takes quadratic time if accents of several kinds follow a letter."""
_MAX_CHARACTER_PARTS = 4
_MAX_LINES_LISTED = 5
_MAX_LINES_COMPARED = 5_000
_MAX_WHITESPACE_SEARCH_COST = 50_000_000
"""Characters of the text times words to find, up to which differences in white space are ignored: about a second."""
_MAX_EXCERPT_CHARACTERS = 200


def adapt_line_ends(content: str, old_text: str) -> str:
    """Give a text the line ends of the text that it replaces: CR LF if most lines of that end with it."""
    has_crlf = old_text.count("\r\n") * 2 > old_text.count("\n")
    return content.replace("\r\n", "\n").replace("\n", "\r\n") if has_crlf else content


def replace_once(text: str, old_text: str, new_text: str) -> tuple[str, int]:
    """Replace the only occurrence of `old_text`; return the new text and the line number.

    A newline in `old_text` also matches CR LF, and `new_text` then gets the line endings used there. This does not
    apply if a line of `old_text` itself ends with CR. Characters may be composed differently, such as `é` as one
    character or two, and `new_text` is then composed as the text is: https://github.com/anomalyco/opencode/issues/31786

    The search takes linear time, because both texts are untrusted.

    Raises:
        ToolError: `old_text` is empty, equal to `new_text`, missing, or found more than once.
    """
    if not old_text:
        raise ToolError("old_text is empty; use write_file to write a complete file")
    if old_text == new_text:
        raise ToolError("old_text and new_text are identical")
    match_exactly = "\r\n" in old_text or old_text.endswith("\r")
    haystack = text if match_exactly else text.replace("\r\n", "\n")
    offsets = list(islice(_find_occurrences(old_text, haystack), _MAX_OCCURRENCES_COUNTED + 1))
    if not offsets and not old_text.isascii() and len(old_text) + len(new_text) <= _MAX_COMPOSED_CHARACTERS:
        old_text, new_text = _compose_like(haystack, old_text, new_text)
        found = islice(_find_occurrences(old_text, haystack), _MAX_OCCURRENCES_COUNTED + 1)
        offsets = [offset for offset in found if _ends_character(haystack, offset + len(old_text))]
    if not offsets:
        raise ToolError(f"old_text was not found{_suggest_match(text, old_text)}")
    if len(offsets) > 1:
        raise ToolError(_format_ambiguous_error(haystack, offsets))
    start, end = offsets[0], offsets[0] + len(old_text)
    line = _get_line_number(haystack, start)
    if len(haystack) < len(text):
        start, end = _to_crlf_offset(text, start), _to_crlf_offset(text, end)
    # The line ends of what is replaced count, or else those of the file.
    example = text[start:end] if "\n" in text[start:end] else text
    if not match_exactly:
        new_text = adapt_line_ends(new_text, example)
    return text[:start] + new_text + text[end:], line


def _compose_like(text: str, old_text: str, new_text: str) -> tuple[str, str]:
    """Compose or decompose the characters of both arguments so that `old_text` occurs in the text, if that helps."""
    from unicodedata import normalize

    pairs = ((normalize(form, old_text), normalize(form, new_text)) for form in ("NFC", "NFD"))
    return next((pair for pair in pairs if pair[0] in text), (old_text, new_text))


def _ends_character(text: str, end: int) -> bool:
    """Check whether a character ends there, rather than before an accent or the last letter of a Korean syllable."""
    from unicodedata import normalize

    last, following = text[max(end - _MAX_CHARACTER_PARTS, 0) : end], text[end : end + 1]
    return normalize("NFC", last + following) == normalize("NFC", last) + following


def _find_occurrences(old_text: str, text: str) -> Iterator[int]:
    """Yield the offset of every occurrence, overlapping ones too: those are ambiguous as well."""
    offset = text.find(old_text)
    while offset >= 0:
        yield offset
        offset = text.find(old_text, offset + 1)


def _to_crlf_offset(text: str, offset: int) -> int:
    """Convert an offset in the text with LF to the offset in the same text with CR LF."""
    start = 0
    for line in text.split("\r\n"):
        if offset <= len(line):
            break
        offset -= len(line) + 1
        start += len(line) + 2
    return start + offset


def _get_line_number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _format_ambiguous_error(text: str, offsets: list[int]) -> str:
    count = str(len(offsets)) if len(offsets) <= _MAX_OCCURRENCES_COUNTED else f"more than {_MAX_OCCURRENCES_COUNTED}"
    lines = ", ".join(str(_get_line_number(text, offset)) for offset in offsets[:_MAX_LINES_LISTED])
    more = ", ..." if len(offsets) > _MAX_LINES_LISTED else ""
    return f"old_text occurs {count} times (lines {lines}{more}): include more of the surrounding text"


def _suggest_match(text: str, old_text: str) -> str:
    """Suggest what the model may have meant by an `old_text` that was not found."""
    words = old_text.split()
    if not words:
        return ""
    if len(text) * len(words) <= _MAX_WHITESPACE_SEARCH_COST:
        match = re.search(r"\s+".join(map(re.escape, words)), text)
        if match:
            line = _get_line_number(text, match.start())
            # With the white space around the words, which may be all that is different.
            start = len(text[: match.start()].rstrip(" \t"))
            end = len(text) - len(text[match.end() :].lstrip(" \t"))
            excerpt = text[start:end][:_MAX_EXCERPT_CHARACTERS]
            return f", but the same words with different white space start at line {line}: {excerpt!r}"
    first_line = next(line for line in old_text.split("\n") if line.strip())
    similar_lines = find_similar(first_line, text.split("\n", _MAX_LINES_COMPARED)[:_MAX_LINES_COMPARED], 1)
    return (
        f"; the nearest line is {similar_lines[0]!r}"
        if similar_lines
        else ("; it must match exactly, including white space")
    )
