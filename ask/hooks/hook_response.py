"""What the exit status and the output of a hook's command mean. Claude Code's fields are accepted, too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ask.hooks.claude_code import restore_arguments
from ask.parsing import read_dict
from ask.records import NamedTuple
from ask.text import format_one_line

_DENIALS, _APPROVALS = ("deny", "block"), ("allow", "approve")
MAX_REASON_CHARACTERS = 10_000
_OBJECT_START = re.compile(r"^[ \t]*(?=\{\s*[\"}])", re.MULTILINE)
_ANSWER_KEY = re.compile(r"""(?:[dD]ecision|["']continue)\\*["']\s*:""")
"""The name of a field that decides, also in the quotes of Python, or in JSON that was encoded twice."""
_MAX_DAMAGED_OBJECTS = 100
"""How many lines may begin like an object without being one; reading each takes time."""
DENIED_STATUS = 2
"""The exit status by which a hook denies."""


class HookResponse(NamedTuple):
    """The response of a hook's command.

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


def parse_response(stdout: str, stderr: str, status: int, tool_name: str = "") -> HookResponse:
    """Parse the output of a hook's command that has ended with an exit status.

    Args:
        stdout: its output: JSON objects, each from the beginning of a line, and anything else, which is ignored.
        stderr: its errors, the reason of a denial.
        status: its exit status.
        tool_name: the tool of the call, whose arguments may have Claude Code's names.
    """
    if status == DENIED_STATUS:
        return HookResponse("deny", _shorten(stderr) or _shorten(stdout))
    if status:
        lines = stderr.strip().splitlines() or [""]
        return HookResponse(problem=f"exit status {status}{': ' if lines[0] else ''}{format_one_line(lines[0], 200)}")
    answers, is_damaged = _find_objects(stdout)
    if is_damaged:  # perhaps by a quote of the call, in the reason of a denial
        return _make_failure("its output is not valid JSON")
    responses = [_parse_answer(answer, tool_name) for answer in answers]
    for response in responses:
        if response.decision == "deny":
            return response
    responses.sort(key=lambda response: response.decision == "ask")  # a question counts most, with its own reason
    return HookResponse(*map(_find_last, zip(*responses, strict=True)))


def _find_last(values: Sequence[Any]) -> Any:
    """Return the last value that an answer has set."""
    return next((value for value in reversed(values) if value not in ("", None)), values[0])


def _make_failure(problem: str) -> HookResponse:
    """Return a denial, because it cannot be known whether the hook allows the call."""
    return HookResponse("deny", f"the hook failed: {problem}", problem=problem)


def _find_objects(stdout: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the JSON objects in an output, and whether one that may be an answer is damaged.

    Programs that a script starts may print text or objects around its own.
    """
    objects: list[dict[str, Any]] = []
    end, failures, others = 0, 0, []
    decoder = json.JSONDecoder(object_pairs_hook=_build_object)
    for match in _OBJECT_START.finditer(stdout):
        if match.end() < end:
            continue
        try:
            value, new_end = decoder.raw_decode(stdout, match.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures > _MAX_DAMAGED_OBJECTS:
                return objects, True
            continue
        objects.append(value)
        others.append(stdout[end : match.end()])
        end = new_end
    others.append(stdout[end:])
    is_damaged = any(map(_ANSWER_KEY.search, others)) or (not objects and stdout.lstrip().startswith("{"))
    return objects, is_damaged


def _build_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object whose names are unique: a second "decision" may come from the text of the call.

    Raises:
        ValueError: they are not.
    """
    if len(value := dict(pairs)) < len(pairs):
        raise ValueError("a name is repeated")
    return value


def _parse_answer(answer: Mapping[str, Any], tool_name: str) -> HookResponse:
    """Parse a JSON object with ask's own fields or those of Claude Code."""
    specific = read_dict(answer.get("hookSpecificOutput"))

    def read_text(*values: object) -> str:
        return next((_shorten(value) for value in values if isinstance(value, str) and value), "")

    decisions = (specific.get("permissionDecision"), answer.get("permissionDecision"), answer.get("decision"))
    reason = read_text(
        *(specific.get("permissionDecisionReason"), answer.get("permissionDecisionReason"), answer.get("reason"))
    )
    for unknown in filter(None, decisions):
        if unknown not in (*_DENIALS, *_APPROVALS, "ask"):
            return _make_failure(format_one_line(f"{unknown!r} is not a decision", 200))
    decision = "ask" if "ask" in decisions else ""
    if any(each in _DENIALS for each in decisions):
        decision = "deny"
    if answer.get("continue") is False:
        decision, reason = "deny", read_text(answer.get("stopReason")) or reason
    arguments = answer.get("arguments")
    if arguments is None and "updatedInput" in specific:
        arguments = specific["updatedInput"]
        if isinstance(arguments, dict):
            arguments = restore_arguments(tool_name, arguments)
    if arguments is not None and not isinstance(arguments, dict):
        return _make_failure("arguments is not an object")
    return HookResponse(
        decision,
        reason,
        arguments,
        read_text(specific.get("additionalContext"), answer.get("additionalContext")),
        read_text(answer.get("systemMessage")),
    )


def _shorten(text: str) -> str:
    return text.strip()[:MAX_REASON_CHARACTERS]
