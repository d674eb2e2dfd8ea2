"""A named prompt as a value, and its file read: TOML between two lines of +++, and then the text of what is asked.

A file without such lines is all text. What is filled in, and who is asked, is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ask.errors import ConfigError
from ask.messages import EMPTY_MAPPING
from ask.settings import check_options, format_unknown_key
from ask.templates.placeholders import INPUT_NAME, find_placeholders

FENCE, YAML_FENCE = "+++", "---"
FIELD_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "description": (str, "a string"),
    "system": (str, "a string"),
    "provider": (str, "a string"),
    "model": (str, "a string"),
    "tools": ((bool, list), "true, false or a list of names"),
    "options": (dict, "a table"),
    "tasks": (dict, "a table of strings"),
}
"""What may stand between the lines of +++, with its type and what to say of it."""
NAME_PATTERN = re.compile(r"\w[\w-]*")
NAME_RULE = "a name is letters, digits, - and _"
LINE_NUMBER_PATTERN = re.compile(r" \(at line (\d+), column \d+\)$")


class Template(NamedTuple):
    """A named prompt.

    Attributes:
        name: what -t takes.
        file: where it is from.
        description: what it is for, in a few words.
        system: added to the system prompt.
        prompt: what is asked; "" leaves that to the user.
        provider: whom to ask; "" for whoever is asked else.
        model: what to ask; "" for that, too.
        tools: whether tools may be offered, or the names of those that may.
        options: model parameters.
        tasks: further texts by name, each to be asked in the place of `prompt`.
    """

    name: str
    file: Path
    description: str = ""
    system: str = ""
    prompt: str = ""
    provider: str = ""
    model: str = ""
    tools: bool | tuple[str, ...] = True
    options: Mapping[str, Any] = EMPTY_MAPPING
    tasks: Mapping[str, str] = EMPTY_MAPPING

    @property
    def variables(self) -> list[str]:
        """The names of all placeholders that --var fills in, each once."""
        texts = (self.system, self.prompt, *self.tasks.values())
        every = dict.fromkeys(place.name for text in texts for place in find_placeholders(text))
        return [name for name in every if name != INPUT_NAME]


def parse_template(name: str, file: Path, text: str) -> Template:
    """The named prompt that a text describes; `file` is named in what is wrong with it.

    Raises:
        ConfigError: it is broken.
    """
    front, body = split_front_matter(file, text)
    values = parse_front_matter(file, front)
    if isinstance(values.get("tools"), list):
        values["tools"] = tuple(values["tools"])
    template = Template(name, file, prompt=body.strip(), **values)
    if any(place.name == INPUT_NAME for place in find_placeholders(template.system)):
        advice = "put it into what is asked: what is piped in must not become system text"
        raise make_template_error(file, find_key_line(front, "system"), "{{input}} stands in system", advice)
    return template


def split_front_matter(file: Path, text: str) -> tuple[list[str], str]:
    """The lines up to the second line of +++, the first emptied so that they keep their numbers; then the rest.

    Raises:
        ConfigError: there is no second one, or the first is one of YAML.
    """
    lines = text.split("\n")
    first = lines[0].rstrip()
    if first == YAML_FENCE:
        raise make_template_error(file, 1, "it begins with ---", "write TOML between two lines of +++")
    if first != FENCE:
        return [], text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == FENCE:
            return ["", *lines[1:number]], "\n".join(lines[number + 1 :])
    raise make_template_error(file, 1, "there is no second line of +++", "write it where the TOML ends")


def parse_front_matter(file: Path, lines: Sequence[str]) -> dict[str, Any]:
    """The checked values of the TOML in these lines.

    Raises:
        ConfigError: it is not TOML, or not what a named prompt has.
    """
    import tomllib

    try:
        values = tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError) as fault:
        at = LINE_NUMBER_PATTERN.search(str(fault))
        reason = LINE_NUMBER_PATTERN.sub("", str(fault)).removesuffix(" (at end of document)")
        raise make_template_error(
            file, int(at[1]) if at else len(lines), f"this is not valid TOML ({reason})"
        ) from fault
    for key, value in values.items():
        if key not in FIELD_TYPES:
            raise make_template_error(
                file,
                find_key_line(lines, key),
                format_unknown_key(key, list(FIELD_TYPES)),
                f"known are {', '.join(FIELD_TYPES)}",
            )
        if not is_valid_value(key, value):
            raise make_template_error(file, find_key_line(lines, key), f"{key} must be {FIELD_TYPES[key][1]}")
    for task in values.get("tasks", {}):
        if not NAME_PATTERN.fullmatch(task):
            raise make_template_error(file, find_key_line(lines, task), f"{task!r} is no name of a task", NAME_RULE)
    check_options(f"{file}, line {find_key_line(lines, 'options')}", values.get("options", {}))
    return values


def is_valid_value(key: str, value: Any) -> bool:
    """Whether a value has the type of its key."""
    strings = value if isinstance(value, list) else value.values() if key == "tasks" and isinstance(value, dict) else ()
    return isinstance(value, FIELD_TYPES[key][0]) and all(isinstance(one, str) for one in strings)


def find_key_line(lines: Sequence[str], key: str) -> int:
    """The number of the first line that looks as though a key, or its table, stood in it."""
    looks = re.compile(rf"""\s*\[?\s*(\w+\s*\.\s*)?["']?{re.escape(key)}["']?\s*[\]=.]""")
    return next((number for number, line in enumerate(lines, start=1) if looks.match(line)), 1)


def make_template_error(file: Path, line: int, reason: str, hint: str = "correct that line") -> ConfigError:
    """The error for a file that cannot be understood."""
    return ConfigError(f"{file}, line {line}: {reason}", hint)
