"""Lists of chat messages in JSON, as scripts save them and shell_gpt does for each chat in its folder chat_cache.

The format of shell_gpt is that of its source (https://github.com/TheR1D/shell_gpt, `sgpt/handlers/chat_handler.py`):
the messages of the Chat Completions API, in a file that has the name of the chat, without a suffix.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, BinaryIO

from ask.errors import FileError
from ask.history.export_format import FORMAT, ConversationExport, from_json_value, to_json_value
from ask.imports.aichat_session import read_content
from ask.imports.runs import AssistantMessage, SourceMessage, ToolResult, Turn, UserMessage, make_export
from ask.imports.source_data import ImportNotes, make_conversation_id
from ask.parsing import read_dict, read_str, read_tool_calls

PROGRAM = "messages"
INSTRUCTION_ROLES = ("system", "developer")
MAX_LEADING_BYTES = 100
"""How many bytes are searched for the beginning of an array: other files may be large."""


def read_message_list(file: BinaryIO, name: str, time: float, notes: ImportNotes) -> ConversationExport | None:
    """Return the conversation in a file that is an array of messages with roles; None for a file of another kind.

    Its first question is part of the id: a chat that was emptied and used again is another conversation.

    Raises:
        FileError: no message is a user's or a model's.
    """
    file.seek(0)
    beginning = file.read(MAX_LEADING_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    file.seek(0)
    try:
        is_list = beginning.startswith(b"[") and FORMAT.encode() not in beginning  # or it is an array of exports
        messages = json.loads(file.read()) if is_list else None
    except (ValueError, RecursionError):  # reading it as an export says why
        return None
    if not messages or not all(isinstance(read_dict(message).get("role"), str) for message in messages):
        return None
    instructions = [
        read_content(each.get("content"), notes)[0] for each in messages if each["role"] in INSTRUCTION_ROLES
    ]
    others = [message for message in messages if message["role"] not in INSTRUCTION_ROLES]
    first = next((message for message in others if message["role"] == "user"), others[0] if others else None)
    chat = PurePath(name).name.removesuffix(".json")
    conversation_id = make_conversation_id(PROGRAM, chat, json.dumps(first, sort_keys=True))
    turn = Turn([*_convert_messages(others, notes)], time, model="unknown")
    system = "\n\n".join(filter(None, instructions))
    export = make_export(conversation_id, PROGRAM, [turn], system=system, name=chat)
    if export is None:
        raise FileError(f"{name}: no message of a user or a model")
    return from_json_value(to_json_value(export))  # which replaces lone surrogates


def _convert_messages(messages: Sequence[Mapping[str, Any]], notes: ImportNotes) -> Iterator[SourceMessage]:
    open_calls: dict[str, str] = {}
    for message in messages:
        text, files = read_content(message.get("content"), notes)
        if message["role"] == "assistant":
            calls = read_tool_calls(message.get("tool_calls") or message.get("function_call"))
            open_calls = {call.id: call.name for call in calls}
            yield AssistantMessage(text, tuple(calls), read_str(message.get("reasoning_content")), attachments=files)
        elif message["role"] in ("tool", "function"):
            call_id = read_str(message.get("tool_call_id")) or next(iter(open_calls), "")  # a function_call has no id
            yield ToolResult(call_id, open_calls.pop(call_id, ""), text, attachments=files)
        else:
            yield UserMessage(text, files)
