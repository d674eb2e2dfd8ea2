"""Tool calls as the protocol describes them: kind, title, locations, and diffs of files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from acp import audio_block, image_block, schema, text_block, tool_content, tool_diff_content

from ask.messages import Attachment
from ask.parsing import parse_json, read_dict
from ask.text import fence_code, format_one_line

KINDS: Mapping[str, schema.ToolKind] = {
    **dict.fromkeys(("read_file", "list_dir", "read_skill"), "read"),
    **dict.fromkeys(("write_file", "edit_file"), "edit"),
    "bash": "execute",
    "search_web": "search",
    "fetch_url": "fetch",
}
"""The kinds of ask's own tools; those of others are "other"."""
PATH_KEYS = "filepath", "dirpath"
SUBJECT_KEYS = "command", *PATH_KEYS, "url", "query"
"""The arguments of ask's own tools that say what a call is about."""
MAX_TITLE_CHARACTERS = 200
_HUNK_HEADER = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)")
ToolContent = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent


def describe_call(name: str, arguments: str, directory: str, diff: str | None = None) -> dict[str, Any]:
    """Return the fields of an update that describe a call: title, kind, locations and input."""
    values = parse_json(arguments)
    fields = read_dict(values)
    path = _find_path(fields, directory)
    subject = next((fields[key] for key in SUBJECT_KEYS if fields.get(key)), "")
    title = str(subject) if name == "bash" and subject else f"{name} {subject}".strip()
    hunk = _HUNK_HEADER.search(diff or "")
    line = int(hunk[1]) if hunk else fields.get("offset")
    line = line if isinstance(line, int) and line > 0 else None
    return {
        "title": format_one_line(title, MAX_TITLE_CHARACTERS),
        "kind": KINDS.get(name, "other"),
        "locations": [schema.ToolCallLocation(path=path, line=line)] if path else None,
        "raw_input": values,
    }


def build_diffs(arguments: str, directory: str, diff: str) -> list[ToolContent]:
    """Convert the hunks of a unified diff to pairs of old and new text."""
    path = _find_path(json.loads(arguments), directory)
    return [tool_diff_content(path, new, old) for old, new in _split_hunks(diff)] if path else []


def build_edit(name: str, arguments: str, directory: str) -> list[ToolContent]:
    """Convert the arguments of an edit to a diff; [] for another call."""
    match parse_json(arguments):
        case {"filepath": str(), "old_text": str(old_text), "new_text": str(new_text)} as values if name == "edit_file":
            return [tool_diff_content(_find_path(values, directory), new_text, old_text)]
    return []


def convert_attachments(files: Iterable[Attachment]) -> Iterator[schema.ImageContentBlock | schema.AudioContentBlock]:
    """Convert the files of a message that are images or audio."""
    for file in files:
        if file.media_type.startswith("image/"):
            yield image_block(file.base64, file.media_type)
        elif file.media_type.startswith("audio/"):
            yield audio_block(file.base64, file.media_type)


def build_text(text: str) -> list[ToolContent]:
    """Return a text as a code block, because editors render Markdown."""
    return [tool_content(text_block(fence_code(text.rstrip())))] if text else []


def _find_path(arguments: Mapping[str, Any], directory: str) -> str:
    """Return the path of the file that a call is about, without links: the user must see which one it writes."""
    path = next((arguments[key] for key in PATH_KEYS if key in arguments), None)
    if not isinstance(path, str):
        return ""
    real_directory = os.path.realpath(directory)
    try:
        real_path = Path(os.path.realpath(os.path.join(real_directory, os.path.expanduser(path))))
    except ValueError:  # it contains what no path can, and the call fails
        return ""
    # The editor knows the files of its folder by the name that it has for the folder.
    is_inside = real_path.is_relative_to(real_directory)
    return str(Path(directory, real_path.relative_to(real_directory)) if is_inside else real_path)


def _split_hunks(diff: str) -> Iterator[tuple[str | None, str]]:
    """Yield the old and new text of each hunk; the old one is None if the file is new."""
    for hunk in re.split(r"^(?=@@ )", diff, flags=re.MULTILINE)[1:]:
        header, *lines = hunk.split("\n")[:-1]
        texts: dict[str, list[str]] = {"-": [], "+": []}
        last: list[str] = []
        for line in lines:
            if line.startswith("\\"):  # no newline at the end of the file
                for sign in last:
                    texts[sign][-1] = texts[sign][-1].removesuffix("\n")
                continue
            last = [line[:1]] if line[:1] in texts else [*texts]
            for sign in last:
                texts[sign].append(f"{line[1:]}\n")
        yield None if header.startswith("@@ -0,0 ") else "".join(texts["-"]), "".join(texts["+"])
