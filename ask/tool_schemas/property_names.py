"""Names of properties that not every provider accepts, and what is sent in their place."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Mapping
from typing import Any

from ask.json_values import as_dict

LEGAL_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use"""


def restore_property_names(schema: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the names of properties that `normalize_tool` replaced."""
    own_names = {name: original for original, name in replace_property_names(schema).items()}

    def restore(value: Any) -> Any:
        if isinstance(value, dict):
            return {own_names.get(name, name): restore(item) for name, item in value.items()}
        return [restore(item) for item in value] if isinstance(value, list) else value

    return restore(arguments) if own_names else arguments


def replace_property_names(schema: Any) -> dict[str, str]:
    """Return the names of properties that not every provider accepts, each with what stands for it."""
    names: dict[str, str] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            for name in as_dict(part.get("properties")):
                if not LEGAL_NAME.fullmatch(name):
                    checksum = crc32(name.encode("utf-8", "backslashreplace"))
                    names[name] = f"{re.sub('[^a-zA-Z0-9_.-]', '_', name)[:55]}_{checksum:08x}"
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return names
