"""The rules for the front matter of a skill.

They are those of https://agentskills.io/specification, as its reference validator (skills-ref) applies them. A skill
that breaks one about its name or description is not offered; `ask skills check` reports all of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from ask.config.type_checks import WrongTypeError, parse_value
from ask.project.front_matter import FrontMatterError, read_values, split_front_matter
from ask.records import NamedTuple

SKILL_FILE = "SKILL.md"
MAX_NAME_CHARACTERS, MAX_DESCRIPTION_CHARACTERS, MAX_COMPATIBILITY_CHARACTERS = 64, 1024, 500
KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")


class SkillFrontMatter(NamedTuple):
    """The keys of the front matter that are read."""

    name: str = ""
    description: str = ""


def decode_skill_file(data: bytes) -> str:
    return data.decode("utf-8-sig", "backslashreplace")


def read_front_matter(data: bytes) -> SkillFrontMatter:
    """Read the front matter of a SKILL.md. Text that needs quotes in YAML is also read without them.

    Raises:
        FrontMatterError: it has none, or it is too long.
        WrongTypeError: a value is not text.
    """
    lines = split_front_matter(decode_skill_file(data))[0]
    return parse_value(read_values(lines, SkillFrontMatter._fields), SkillFrontMatter)


def find_problem(values: SkillFrontMatter, folder_name: str) -> str:
    """Return why a skill in a folder of this name is not offered; "" if it is."""
    return _find_name_problem(values.name, folder_name) or _find_description_problem(values.description)


def _find_name_problem(name: str, folder_name: str) -> str:
    """Return why a name is invalid, or is not that of its folder; "" for neither."""
    name = unicodedata.normalize("NFKC", name.strip())
    if not name:
        return "it has no name"
    if name != unicodedata.normalize("NFKC", folder_name):
        return f"its name is {name!r}, not that of its folder"
    words = name.split("-")
    if len(name) > MAX_NAME_CHARACTERS or name != name.lower() or not all(word.isalnum() for word in words):
        return (
            f"its name must be at most {MAX_NAME_CHARACTERS} lowercase letters, digits and single hyphens between them"
        )
    return ""


def _find_description_problem(description: str) -> str:
    if not description.strip():
        return "it has no description"
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        return (
            f"its description has {len(description):,} characters, at most {MAX_DESCRIPTION_CHARACTERS:,} are allowed"
        )
    return ""


def find_violations(folder_name: str, data: bytes) -> list[str]:
    """Return how the SKILL.md in a folder of this name violates the specification."""
    try:
        lines = split_front_matter(decode_skill_file(data))[0]
        problem = find_problem(read_front_matter(data), folder_name)
    except (FrontMatterError, WrongTypeError) as error:
        return [str(error)]
    return [*filter(None, [problem]), *_find_strict_violations(lines)]


def _find_strict_violations(lines: Sequence[str]) -> Iterator[str]:
    """Yield what other programs may refuse, although a skill with it is offered."""
    import yaml

    text = "\n".join(lines)
    try:
        values = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it creates only strings, lists and dicts
        features = sorted(set(_find_special_yaml(text)))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        yield f"its front matter is not valid YAML ({getattr(error, 'problem', None) or error}); quote the text"
        return
    if features:
        yield f"its front matter has {' and '.join(features)}, which strict YAML parsers refuse"
    if not isinstance(values, dict):
        return
    if unknown := [str(key) for key in values if key not in KEYS]:
        yield f"its front matter has keys that the specification does not have: {', '.join(unknown)}"
    compatibility: Any = values.get("compatibility", "")
    if not isinstance(compatibility, str):
        yield "its compatibility is not text"
    elif len(compatibility) > MAX_COMPATIBILITY_CHARACTERS:
        yield (
            f"its compatibility has {len(compatibility):,} characters, "
            f"at most {MAX_COMPATIBILITY_CHARACTERS} are allowed"
        )


def _find_special_yaml(text: str) -> Iterator[str]:
    """Yield the features of YAML in a text that StrictYAML, and so the reference validator, refuses."""
    import yaml

    for event in yaml.parse(text, yaml.BaseLoader):
        if isinstance(event, yaml.CollectionStartEvent) and event.flow_style:
            yield "values in brackets"
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            yield "anchors"
        if getattr(event, "tag", None):
            yield "tags"
    root = yaml.compose(text, yaml.BaseLoader)
    if isinstance(root, yaml.MappingNode):
        keys = [key.value for key, _ in root.value]
        if any(keys.count(key) > 1 for key in keys if isinstance(key, str)):
            yield "a key twice"
