"""Sessions of aichat: YAML files with the messages of a conversation."""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ask.attachments import SUFFIXES
from ask.history.export_format import ConversationExport
from ask.history.importer import SourceConversation
from ask.imports.model_names import ModelResolver
from ask.imports.runs import (
    AssistantMessage,
    SourceMessage,
    ToolResult,
    Turn,
    UserMessage,
    make_export,
    make_tool_call,
)
from ask.imports.source_data import ImportNotes, SourceFolder, make_conversation_id
from ask.messages import Attachment

PROGRAM = "aichat"
DATA_URL_PATTERN = re.compile(r"data:([^;,]*);base64,(.*)", re.DOTALL)


def read_session(folder: SourceFolder, models: ModelResolver, path: Path, name: str) -> Iterator[SourceConversation]:
    """Yield the conversation of a session, if its file can be read.

    Its first message is part of the id: a session that was emptied and used again is another conversation.
    """
    session = folder.read_yaml(path)
    if not isinstance(session, dict):
        return
    messages = [
        message
        for key in ("compressed_messages", "messages")
        if isinstance(session.get(key), list)
        for message in session[key]
        if isinstance(message, dict)
    ]
    first = next((message for message in messages if message.get("role") == "user"), None)
    if first is None:
        return
    try:
        text = json.dumps(first, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # YAML has keys and cycles that JSON cannot express
        folder.notes.problems.append(f"cannot read {path} ({error})")
        return
    conversation_id = make_conversation_id(PROGRAM, name, text)
    time = path.stat().st_mtime
    model = models.resolve(str(session.get("model") or ""))

    title = re.sub(r"\d{8}T\d{6}-?", "", path.stem)  # a session that aichat has named begins with its time

    def load() -> ConversationExport | None:
        try:
            converted, system = _convert_messages(messages, folder.notes)
        except (TypeError, ValueError, RecursionError) as error:
            folder.notes.problems.append(f"cannot read {path} ({error})")
            return None
        return make_export(conversation_id, PROGRAM, [Turn(converted, time, *model)], system=system, name=title)

    yield SourceConversation(conversation_id, time, load)


def _convert_messages(messages: Iterable[dict[str, Any]], notes: ImportNotes) -> tuple[list[SourceMessage], str]:
    """Return the messages, and the system prompt."""
    system = ""
    converted: list[SourceMessage] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        if message.get("role") == "system":
            # A compressed session begins with another one, which contains the summary.
            system = system or read_content(content, notes)[0]
        else:
            converted += _convert_message(message.get("role"), content, number, notes)
    return converted, system


def _convert_message(role: Any, content: Any, number: int, notes: ImportNotes) -> Iterator[SourceMessage]:
    if isinstance(content, dict):  # the calls of an answer with their results
        yield from convert_calls(content, number)
        return
    text, files = read_content(content, notes)
    if role == "assistant":
        yield AssistantMessage(text, attachments=files)
    else:
        yield UserMessage(text, files)


def convert_calls(content: dict[str, Any], number: int) -> Iterator[SourceMessage]:
    calls, results = [], []
    listed = content.get("tool_results")
    for position, result in enumerate(listed if isinstance(listed, list) else ()):
        call = result.get("call") if isinstance(result, dict) else None
        if not isinstance(call, dict):
            continue
        call_id = str(call.get("id") or f"call_{number}_{position}")
        name, output = str(call.get("name") or ""), result.get("output")
        calls.append(make_tool_call(call_id, name, call.get("arguments")))
        results.append(
            ToolResult(call_id, name, output if isinstance(output, str) else json.dumps(output, ensure_ascii=False))
        )
    yield AssistantMessage(str(content.get("text") or ""), tuple(calls))
    yield from results


def read_content(content: Any, notes: ImportNotes) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text and the files of a message."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else "", ()
    texts, files = [], []
    for part in content:
        image = part.get("image_url") if isinstance(part, dict) else None
        if isinstance(image, dict):
            url = str(image.get("url") or "")
            if file := _read_data_url(url):
                files.append(file)
            else:
                notes.count("image", "of which only the URL was saved")
                texts.append(f"[image: {url[:500]}]")
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "\n\n".join(texts), tuple(files)


def _read_data_url(url: str) -> Attachment | None:
    match = DATA_URL_PATTERN.fullmatch(url)
    if not match:
        return None
    try:
        data = a2b_base64(match[2])
    except Base64Error:
        return None
    return Attachment(f"image.{SUFFIXES.get(match[1]) or match[1].rpartition('/')[2] or 'bin'}", match[1], data)
