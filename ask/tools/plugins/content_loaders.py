"""Run the function of a loader in the plugin's own process, as a tool whose result is what the function returns."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ask.errors import AskError
from ask.messages import Attachment, ToolSpec
from ask.plugin_api.types import PromptTemplate
from ask.text import format_size
from ask.tools.base import Tool, ToolContext, ToolResult
from ask.tools.plugins.functions import await_result, to_items
from ask.tools.plugins.type_hints import ToolDefinitionError

LOADER_TOOL, REST = "load", "rest"
"""The name of the tool, and of its argument."""
MAX_RESULT_BYTES, MAX_RESULT_FILES = 60_000_000, 10_000
"""The limits of what a call returns, so that it can be passed on; those of attachments are lower."""
EXPECTED_RESULT = "a loader returns text, an ask.Attachment, a list of them, or an ask.PromptTemplate"


def create_loader_tool(function: Callable[[str], Any]) -> Tool:
    """Return a tool that calls a loader's function, and encodes its result, or the `AskError` that it raises, as JSON.

    Raises:
        ToolDefinitionError: it is not a function.
    """
    if isinstance(function, type | ModuleType) or not callable(function):
        kind = "module" if isinstance(function, ModuleType) else type(function).__name__
        raise ToolDefinitionError(f"the entry point must name a function, such as module:load, not a {kind}")

    def run(arguments: Mapping[str, Any], _: ToolContext) -> ToolResult:
        try:
            value = await_result(function(arguments[REST]))
        except AskError as error:
            return ToolResult(json.dumps({"error": str(error)}))
        return ToolResult(json.dumps(_encode_content(value)))

    return Tool(ToolSpec(LOADER_TOOL, "", {"type": "object"}), run)


def _encode_content(value: object) -> dict[str, Any]:
    """Return what a loader has returned as JSON: a template, or files with their names, "" for a text without.

    If it is too large, that is an error.

    Raises:
        ToolDefinitionError: it is of another type.
    """
    if isinstance(value, PromptTemplate):
        fields = value._asdict()
        for name, text in fields.items():
            if not isinstance(text, str):
                raise ToolDefinitionError(f"it returned a PromptTemplate whose {name} is {text!r}, not text")
        return {"template": fields}
    files: list[list[str]] = []
    size = 0
    for part in to_items(value):
        file = _to_file(part)
        size += len(file.data)
        if size > MAX_RESULT_BYTES or len(files) == MAX_RESULT_FILES:
            limits = f"{format_size(MAX_RESULT_BYTES)} or {MAX_RESULT_FILES:,} files"
            return {"error": f"the loader returned more than {limits}: name a part of it"}
        files.append([file.name, b2a_base64(file.data, newline=False).decode()])
    return {"files": files}


def _to_file(part: object) -> Attachment:
    if isinstance(part, str):
        part = Attachment("", "", str.encode(part, "utf-8", "backslashreplace"))
    if not isinstance(part, Attachment):
        raise ToolDefinitionError(f"it returned {type(part).__name__}; {EXPECTED_RESULT}")
    if not isinstance(part.data, bytes) or not isinstance(part.name, str):
        raise ToolDefinitionError("it returned an Attachment whose name is not text, or whose data is not bytes")
    return part
