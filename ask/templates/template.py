"""Parse templates: TOML front matter between two lines of +++, followed by the text of the prompt.

A file without front matter contains only the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple
from ask.settings import check_options, format_unknown_key
from ask.templates.placeholders import INPUT_NAME, find_placeholders

FENCE, YAML_FENCE = "+++", "---"
FIELD_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys(("description", "system", "provider", "model"), (str, "a string")),
    "tools": ((bool, list), "true, false or a list of names"),
    "options": (dict, "a table"),
    "tasks": (dict, "a table of strings"),
}
"""The keys of the front matter, with their types and a description of the type for error messages."""
NAME_PATTERN = re.compile(r"\w[\w-]*")
NAME_RULE = "names consist of letters, digits, - and _"
LINE_NUMBER_PATTERN = re.compile(r" \(at line (\d+), column \d+\)$")


class Template(NamedTuple):
    """A template, as selected with -t NAME or -t NAME:TASK."""

    name: str
    file: Path
    description: str = ""
    """A short description for lists."""
    system: str = ""
    """An addition to the system prompt."""
    prompt: str = ""
    """The text to send; if empty, the user's prompt is sent."""
    provider: str = ""
    """Empty for the default provider."""
    model: str = ""
    """Empty for the default model."""
    tools: bool | tuple[str, ...] = True
    """Whether the model may use tools, or the names of those that it may use."""
    options: Mapping[str, Any] = EMPTY_MAPPING
    """Model parameters."""
    tasks: Mapping[str, str] = EMPTY_MAPPING
    """Alternative texts by task name, each replacing `prompt`."""

    @property
    def variables(self) -> list[str]:
        """The unique names of the placeholders that --var fills in."""
        texts = (self.system, self.prompt, *self.tasks.values())
        names = dict.fromkeys(placeholder.name for text in texts for placeholder in find_placeholders(text))
        return [name for name in names if name != INPUT_NAME]


def parse_template(name: str, file: Path, text: str) -> Template:
    """Parse the text of a prompt file, or raise a ConfigError that names the line."""
    front_matter, body = split_front_matter(file, text)
    values = parse_front_matter(file, front_matter)
    if isinstance(values.get("tools"), list):
        values["tools"] = tuple(values["tools"])
    template = Template(name, file, prompt=body.strip(), **values)
    if any(placeholder.name == INPUT_NAME for placeholder in find_placeholders(template.system)):
        hint = "use it in the prompt instead: input must not become part of the system prompt"
        raise make_template_error(file, find_key_line(front_matter, "system"), "{{input}} is used in system", hint)
    return template


def split_front_matter(file: Path, text: str) -> tuple[list[str], str]:
    """Split a text into the lines of its front matter and its body.

    The first line of the front matter is empty in place of the opening +++, so that line numbers stay correct.
    """
    lines = text.split("\n")
    first_line = lines[0].rstrip()
    if first_line == YAML_FENCE:
        raise make_template_error(file, 1, "it starts with ---", "put TOML between two +++ lines")
    if first_line != FENCE:
        return [], text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return ["", *lines[1:number]], "\n".join(lines[number + 1 :])
    raise make_template_error(file, 1, "the second +++ line is missing", "add it after the TOML")


def parse_front_matter(file: Path, lines: Sequence[str]) -> dict[str, Any]:
    """Parse and validate the TOML in these lines."""
    import tomllib

    try:
        values = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError) as error:
        location = LINE_NUMBER_PATTERN.search(str(error))
        reason = LINE_NUMBER_PATTERN.sub("", str(error)).removesuffix(" (at end of document)")
        line = int(location[1]) if location else len(lines)
        raise make_template_error(file, line, f"invalid TOML ({reason})") from error
    for key, value in values.items():
        line = find_key_line(lines, key)
        if key not in FIELD_TYPES:
            hint = f"known keys: {', '.join(FIELD_TYPES)}"
            raise make_template_error(file, line, format_unknown_key(key, FIELD_TYPES), hint)
        if not is_valid_value(key, value):
            raise make_template_error(file, line, f"{key} must be {FIELD_TYPES[key][1]}")
    for task in values.get("tasks", {}):
        if not NAME_PATTERN.fullmatch(task):
            raise make_template_error(file, find_key_line(lines, task), f"{task!r} is not a valid task name", NAME_RULE)
    check_options(f"{file}, line {find_key_line(lines, 'options')}", values.get("options", {}))
    return values


def is_valid_value(key: str, value: Any) -> bool:
    """Check whether a value has the type of its key."""
    strings = value if isinstance(value, list) else value.values() if key == "tasks" and isinstance(value, dict) else ()
    return isinstance(value, FIELD_TYPES[key][0]) and all(isinstance(item, str) for item in strings)


def find_key_line(lines: Sequence[str], key: str) -> int:
    """Find the first line that seems to contain a key or its table; 1 if there is none."""
    pattern = re.compile(rf"""\s*\[?\s*(\w+\s*\.\s*)?["']?{re.escape(key)}["']?\s*[\]=.]""")
    return next((number for number, line in enumerate(lines, start=1) if pattern.match(line)), 1)


def make_template_error(file: Path, line: int, reason: str, hint: str = "correct that line") -> ConfigError:
    return ConfigError(f"{file}, line {line}: {reason}", hint)
