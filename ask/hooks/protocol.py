"""What a hook's command reads and prints, as JSON: in ask's own words, and in those of Claude Code.

Scripts that were written as hooks of Claude Code work unchanged. https://code.claude.com/docs/en/hooks
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ask.config.hooks import HookEvent
from ask.parsing import read_dict
from ask.records import NamedTuple
from ask.text import format_one_line

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
_DENIALS, _APPROVALS = ("deny", "block"), ("allow", "approve")
MAX_REASON_CHARACTERS = 10_000
DENIED_STATUS = 2
"""The exit status by which a hook denies."""


class HookResponse(NamedTuple):
    """What a hook's command answered.

    Attributes:
        decision: "deny", "ask" for a question to the user, or "" for no objection.
        reason: why, for the model.
        arguments: the arguments to run the call with; None to leave them unchanged.
        context: a text for the model, beside the result of the call.
        message: a text for the user.
        problem: what is wrong with the answer; "" for nothing.
    """

    decision: str = ""
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    context: str = ""
    message: str = ""
    problem: str = ""


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


def _restore_arguments(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of Claude Code as ask has them."""
    names = {theirs: ours for ours, theirs in _CLAUDE_ARGUMENTS.get(name, {}).items()}
    restored = {names.get(key, key): value for key, value in arguments.items()}
    if name == "bash":
        restored.pop("description", None)
        if isinstance(timeout := restored.get("timeout"), int | float):
            restored["timeout"] = timeout / 1000
    return restored


def parse_response(stdout: str, stderr: str, status: int, tool_name: str = "") -> HookResponse:
    """Parse the output of a hook's command that has ended with an exit status.

    Args:
        stdout: its output, a JSON object or anything else, which is ignored.
        stderr: its errors, the reason of a denial.
        status: its exit status.
        tool_name: the tool of the call, whose arguments may have Claude Code's names.
    """
    if status == DENIED_STATUS:
        return HookResponse("deny", _shorten(stderr) or _shorten(stdout))
    if status:
        lines = stderr.strip().splitlines() or [""]
        return HookResponse(problem=f"exit status {status}{': ' if lines[0] else ''}{format_one_line(lines[0], 200)}")
    if not stdout.lstrip().startswith("{"):
        return HookResponse()
    try:
        answer = read_dict(json.loads(stdout))
    except (ValueError, RecursionError):
        return HookResponse(problem="its output is not valid JSON")
    return _parse_answer(answer, tool_name)


def _parse_answer(answer: Mapping[str, Any], tool_name: str) -> HookResponse:
    """Parse a JSON object, in which the fields of Claude Code are as good as ask's own."""
    specific = read_dict(answer.get("hookSpecificOutput"))
    problems = []

    def read_text(*values: object) -> str:
        return next((_shorten(value) for value in values if isinstance(value, str) and value), "")

    decision = specific.get("permissionDecision", answer.get("permissionDecision", answer.get("decision")))
    reason = read_text(
        *(specific.get("permissionDecisionReason"), answer.get("permissionDecisionReason"), answer.get("reason"))
    )
    if answer.get("continue") is False:
        decision, reason = "deny", read_text(answer.get("stopReason")) or reason
    if decision in _DENIALS:
        decision = "deny"
    elif decision is None or decision in _APPROVALS:
        decision = ""
    elif decision != "ask":
        problems.append(f"{decision!r} is not a decision")
        decision = ""
    arguments = answer.get("arguments")
    if arguments is None and "updatedInput" in specific:
        arguments = specific["updatedInput"]
        if isinstance(arguments, dict):
            arguments = _restore_arguments(tool_name, arguments)
    if arguments is not None and not isinstance(arguments, dict):
        problems.append("arguments is not an object")
        arguments = None
    return HookResponse(
        decision,
        reason,
        arguments,
        read_text(specific.get("additionalContext"), answer.get("additionalContext")),
        read_text(answer.get("systemMessage")),
        "; ".join(format_one_line(problem, 200) for problem in problems),
    )


def _shorten(text: str) -> str:
    return text.strip()[:MAX_REASON_CHARACTERS]
