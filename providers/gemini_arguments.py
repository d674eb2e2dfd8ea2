"""Arguments of calls that Gemini streams in fragments."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from ask.parsing import read_str

PATH_STEP_PATTERN = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]""")


def set_argument(call: dict[str, Any], fragment: dict[str, Any]) -> None:
    """Set the argument at a fragment's JSONPath, such as "$.places[0].name"; more of a string is appended.

    Raises:
        LookupError: the path does not exist.
    """
    path = read_str(fragment.get("jsonPath"))
    matches = list(PATH_STEP_PATTERN.finditer(path))
    if not matches or "$" + "".join(match[0] for match in matches) != path:
        raise LookupError(path)
    steps = ["args", *(int(match[2]) if match[2] else str(match[match.lastindex or 0]) for match in matches)]
    container: Any = call
    for step, next_step in pairwise(steps):
        container = enter_step(container, step, [] if isinstance(next_step, int) else {})
    value = next((fragment[name] for name in ("stringValue", "numberValue", "boolValue") if name in fragment), None)
    old_value = enter_step(container, steps[-1], None)
    container[steps[-1]] = old_value + value if isinstance(old_value, str) and isinstance(value, str) else value


def enter_step(container: Any, step: str | int, default: Any) -> Any:
    """Return the value one step further in an object or array, inserting `default` if missing.

    Raises:
        LookupError: the step does not exist.
    """
    if isinstance(container, dict) and isinstance(step, str):
        return container.setdefault(step, default)
    if isinstance(container, list) and isinstance(step, int) and step <= len(container):
        if step == len(container):
            container.append(default)
        return container[step]
    raise LookupError(step)
