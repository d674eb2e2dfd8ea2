"""Parse the short form of a JSON Schema: `name, age int, tags [string]`.

    form    = fields | "{" fields "}" | "[" type "]"
    fields  = field, separated by commas or new lines
    field   = name ["?"] [type] [":" description]          ? for an optional field; string without a type
    type    = one ["|" one]...
    one     = string | int | float | bool | null | any | object | date | time | datetime | email | url
            | "[" type "]" | "{" fields "}" | "a text"     quoted: exactly this text
            | integer ".." integer                         an integer in this range, such as 1..5

Names and descriptions with other characters must be quoted. Additional fields are not allowed in the answer.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from ask.errors import UsageError
from ask.text import format_suggestion

SchemaDict = dict[str, Any]

TYPES: dict[str, SchemaDict] = {
    "string": {"type": "string"},
    "str": {"type": "string"},
    "text": {"type": "string"},
    "int": {"type": "integer"},
    "integer": {"type": "integer"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
    "object": {"type": "object"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "datetime": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "url": {"type": "string", "format": "uri"},
}
TYPES_HINT = f'use {", ".join(TYPES)}, 1..5, [type], {{name type}} or fixed values: "a"|"b"'
FIELDS_HINT = 'write fields like "name, age int"; quote other names'
NAME_PATTERN = r"[^\W\d][\w-]*"
RANGE_PATTERN = r"[-+]?\d{1,9}\s*\.\.\s*[-+]?\d{1,9}(?![\w.])"
VALUES_PATTERN = r"\w[\w -]*(?:\|\s*\w[\w -]*)+"
"""What looks like fixed values without quotes, such as bug|order."""
QUOTED_PATTERN = r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'"
MAX_DEPTH = 50


def parse_short_form(text: str) -> SchemaDict:
    """Convert the short form to a JSON Schema.

    Raises:
        UsageError: it is invalid; the message says where.
    """
    parser = _ShortFormParser(text)
    parser.take(r"\s+")
    schema = parser.parse_type() if text.strip().startswith(("[", "{")) else parser.parse_fields()
    parser.take(r"\s+")
    parser.expect(r"\Z", "unexpected {}")
    return schema


class _ShortFormParser:
    """A recursive descent parser for the short form."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def is_next(self, pattern: str) -> re.Match[str] | None:
        return re.compile(pattern).match(self._text, self._position)

    def take(self, pattern: str) -> str:
        """Skip what matches the pattern, and the spaces after it; return the match, or "" if there is none."""
        match = self.is_next(rf"({pattern})[ \t\r]*")
        if match is None:
            return ""
        self._position = match.end()
        return match[1]

    def expect(self, pattern: str, message: str, hint: str = 'for example "name, age int, tags [string]"') -> str:
        """Skip what matches the pattern; fail if nothing does, with the next word in the message."""
        if not self.is_next(pattern):
            next_word = self._text[self._position :].split(maxsplit=1)
            self.fail(message.format(repr(next_word[0][:20]) if next_word else "the end"), hint)
        return self.take(pattern)

    def fail(self, message: str, hint: str) -> NoReturn:
        """Raise a UsageError that gives the current position."""
        line = self._text.count("\n", 0, self._position) + 1
        character = self._position - self._text.rfind("\n", 0, self._position)
        location = f"line {line}, character {character}" if "\n" in self._text.strip() else f"character {character}"
        raise UsageError(f"--schema: {message} ({location})", hint)

    def parse_fields(self) -> SchemaDict:
        """Parse fields up to a closing brace or the end, and return the object schema."""
        properties: dict[str, SchemaDict] = {}
        required: list[str] = []
        self.take(r"[\s,]+")
        while not properties or not self.is_next(r"\}|\Z"):
            name = self.take_quoted() or self.expect(NAME_PATTERN, "expected a field name, not {}", FIELDS_HINT)
            if name in properties:
                self.fail(f"duplicate field {name!r}", "remove one of them")
            if not self.take(r"\?"):
                required.append(name)
            properties[name] = self.parse_field()
            has_range = self.is_next(RANGE_PATTERN)
            hint = (
                f"a range needs no type: {name} 1..5" if has_range else "separate fields with commas; age? is optional"
            )
            self.expect(r"[,\n]|(?=\})|\Z", "unexpected {}", hint)
            self.take(r"[\s,]+")
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def parse_field(self) -> SchemaDict:
        """Parse the type and the description after the name of a field."""
        schema = TYPES["string"] if self.is_next(r"[,\n:}]|\Z") else self.parse_type()
        if not self.take(":"):
            return schema
        if self.is_next(rf"{VALUES_PATTERN}\s*(?:[,\n}}]|\Z)"):
            self.fail(
                "a description restricts nothing", f"for fixed values, write {self._quote_values()} without the colon"
            )
        description = self.take_quoted() or self.take(r"[^,\n}]+").strip()
        return schema | ({"description": description} if description else {})

    def parse_type(self) -> SchemaDict:
        """Parse a type, which may be a union of several."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail("nested too deeply", "use a JSON Schema")
        choices = [self.parse_single_type()]
        while self.take(r"\|\s*"):
            choices.append(self.parse_single_type())
        self._depth -= 1
        return _make_union(choices)

    def parse_single_type(self) -> SchemaDict:
        """Parse one member of a union."""
        if self.take(r"\[\s*"):
            schema = {"type": "array", "items": self.parse_type()}
            self.expect(r"\s*\]", "missing ] before {}")
            return schema
        if self.take(r"\{"):
            schema = self.parse_fields()
            self.expect(r"\}", "missing }} before {}")
            return schema
        if self.is_next("[\"']"):
            return {"type": "string", "enum": [self.take_quoted()]}
        if self.is_next(r"[-+]?\d"):
            return self.parse_range()
        match = self.is_next(NAME_PATTERN)
        if match and match[0] not in TYPES:
            hint = f"put fixed values in quotes: {self._quote_values()}" if self.is_next(VALUES_PATTERN) else TYPES_HINT
            self.fail(f"unknown type {match[0]!r}", format_suggestion(match[0], TYPES, hint))
        return TYPES[self.expect(NAME_PATTERN, "{} is not a type", TYPES_HINT)]

    def _quote_values(self) -> str:
        """Put the fixed values at the current position in quotes."""
        match = self.is_next(VALUES_PATTERN)
        return "|".join(f'"{value.strip()}"' for value in match[0].split("|")) if match else ""

    def parse_range(self) -> SchemaDict:
        """Parse a range of integers, such as 1..5."""
        text = self.expect(RANGE_PATTERN, "{} is not a range", "write a range as 1..5")
        low, high = map(int, text.split(".."))
        if low >= high:
            self.fail(f"the range {text} has no levels", "write the lower number first, such as 1..5")
        return {"type": "integer", "minimum": low, "maximum": high}

    def take_quoted(self) -> str:
        """Skip a quoted text, in which a backslash escapes the next character; return its content."""
        if not self.is_next("[\"']"):
            return ""
        return re.sub(r"\\(.)", r"\1", self.expect(QUOTED_PATTERN, "unclosed quote")[1:-1])


def _make_union(choices: list[SchemaDict]) -> SchemaDict:
    """Return a schema that accepts what any of the given schemas accepts."""
    if {} in choices:
        return {}
    quoted_values = list(dict.fromkeys(text for choice in choices for text in choice.get("enum", ())))
    schemas = [choice for i, choice in enumerate(choices) if "enum" not in choice and choice not in choices[:i]]
    if quoted_values:
        schemas.insert(0, {"type": "string", "enum": quoted_values})
    if len(schemas) == 1:
        return schemas[0]
    if all(choice.keys() == {"type"} for choice in schemas):
        return {"type": [choice["type"] for choice in schemas]}
    return {"anyOf": schemas}
