"""The names that Claude Code has for events, tools and arguments, so that its hooks work unchanged.

https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.config.hooks import HookEvent

CLAUDE_EVENTS: Mapping[HookEvent, str] = {
    "run_start": "UserPromptSubmit",
    "before_tool": "PreToolUse",
    "after_tool": "PostToolUse",
    "run_end": "Stop",
    "notification": "Notification",
}
CLAUDE_TOOLS = {
    "bash": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "list_dir": "LS",
    "fetch_url": "WebFetch",
    "search_web": "WebSearch",
    "read_skill": "Skill",
}
_CLAUDE_ARGUMENTS = {
    "read_file": {"filepath": "file_path"},
    "write_file": {"filepath": "file_path"},
    "edit_file": {"filepath": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "list_dir": {"dirpath": "path"},
}


def split_matchers(matchers: Sequence[str]) -> list[str]:
    """Return the matchers of a hook as rules: `Edit|mcp__x__.*` becomes `Edit` and `mcp__x__*`."""
    rules: list[str] = []
    for matcher in matchers:
        is_pattern = re.fullmatch(r"[\w.*|-]+", matcher) and ("|" in matcher or ".*" in matcher)
        rules += matcher.replace(".*", "*").split("|") if is_pattern else [matcher]
    return rules


def translate_tool_name(name: str, origin: str) -> str:
    """Return the name that Claude Code has for a tool."""
    return f"mcp__{name}" if origin.startswith("mcp:") else CLAUDE_TOOLS.get(name, name)


def translate_arguments(name: str, arguments: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the arguments of a call as Claude Code has them: paths are absolute, timeouts in milliseconds."""
    names = _CLAUDE_ARGUMENTS.get(name, {})
    translated = {names.get(key, key): value for key, value in arguments.items()}
    for path_name in {*names.values()} & {"file_path", "path"}:
        if isinstance(path := translated.get(path_name), str):
            with suppress(ValueError):  # a NUL in the name of a user
                translated[path_name] = os.path.join(directory, os.path.expanduser(path))
    if name == "bash" and "timeout" in translated:
        translated["timeout"] = round(translated["timeout"] * 1000)
    return translated


def restore_arguments(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of Claude Code as ask has them."""
    names = {theirs: ours for ours, theirs in _CLAUDE_ARGUMENTS.get(name, {}).items()}
    restored = {names.get(key, key): value for key, value in arguments.items()}
    if name == "bash":
        restored.pop("description", None)
        if isinstance(timeout := restored.get("timeout"), int | float):
            restored["timeout"] = timeout / 1000
    return restored
