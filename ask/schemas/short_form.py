"""Parse the short form of a JSON Schema: `name, age int, tags [string]`.

    form    = fields | "{" fields "}" | "[" type "]"
    fields  = field, separated by commas or new lines
    field   = name ["?"] [type] [":" description]          ? for one that may be left out; string without a type
    type    = one ["|" one]...
    one     = string | int | float | bool | null | any | object | date | time | datetime | email | url
            | "[" type "]" | "{" fields "}" | "a text"     quoted: this very text

Names and descriptions with other characters must be quoted. Additional fields are not allowed in the answer.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from ask.errors import UsageError
from ask.suggestions import suggest

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
TYPES_HINT = f"there are {', '.join(TYPES)}, [type] and {{name type}}"
NAME_PATTERN = re.compile(r"[^\W\d][\w-]*")
QUOTED_PATTERN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|' + r"'((?:[^'\\\n]|\\.)*)'")
DESCRIPTION_PATTERN = re.compile(r"[^,\n}]*")
MAX_DEPTH = 50


def parse_short_form(text: str) -> SchemaDict:
    """Convert the short form to a JSON Schema, or raise a UsageError that says where."""
    parser = _ShortFormParser(text)
    parser.skip(" \t\r\n")
    schema = parser.parse_type() if parser.next_character in ("[", "{") else parser.parse_fields()
    parser.skip(" \t\r\n")
    if parser.next_character:
        parser.fail(f"{parser.quote_next_word()} comes unexpected")
    return schema


class _ShortFormParser:
    """A recursive descent parser for the short form."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    @property
    def next_character(self) -> str:
        """The next character; "" at the end."""
        return self._text[self._position : self._position + 1]

    def skip(self, characters: str = " \t\r") -> None:
        """Skip any of these characters."""
        while self.next_character and self.next_character in characters:
            self._position += 1

    def accept(self, character: str) -> bool:
        """Skip the next character if it is this one, and return whether it was."""
        is_next = self.next_character == character
        self._position += is_next
        return is_next

    def quote_next_word(self) -> str:
        """Quote the next word for an error message."""
        rest = self._text[self._position :].split(maxsplit=1)
        return repr(rest[0][:20]) if rest else "the end"

    def fail(self, message: str, hint: str = 'for example "name, age int, tags [string]"') -> NoReturn:
        """Raise a UsageError that gives the current position."""
        line = self._text.count("\n", 0, self._position) + 1
        character = self._position - self._text.rfind("\n", 0, self._position)
        location = f"line {line}, character {character}" if "\n" in self._text.strip() else f"character {character}"
        raise UsageError(f"--schema: {message} ({location})", hint)

    def parse_fields(self) -> SchemaDict:
        """Parse fields up to a closing brace or the end, and return the object schema."""
        properties: dict[str, SchemaDict] = {}
        required: list[str] = []
        self.skip(" \t\r\n,")
        if self.next_character in ("", "}"):
            self.fail("there are no fields", 'for example "name, age int"')
        while self.next_character not in ("", "}"):
            name = self.parse_name()
            if name in properties:
                self.fail(f"the field {name!r} is there twice", "leave one out")
            if not self.accept("?"):
                required.append(name)
            properties[name] = self.parse_field()
            self.skip()
            if self.next_character not in ("", "}", ",", "\n"):
                self.fail(f"{self.quote_next_word()} comes unexpected", "fields are separated by commas")
            self.skip(" \t\r\n,")
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def parse_name(self) -> str:
        """Parse the name of a field, which may be quoted."""
        if self.next_character in ('"', "'"):
            return self.parse_quoted()
        match = NAME_PATTERN.match(self._text, self._position)
        if match is None:
            self.fail(f"{self.quote_next_word()} is no name of a field", "names with other signs are quoted")
        self._position = match.end()
        return match[0]

    def parse_field(self) -> SchemaDict:
        """Parse the type and the description after the name of a field."""
        self.skip()
        schema = TYPES["string"] if self.next_character in ("", ",", "\n", ":", "}") else self.parse_type()
        self.skip()
        if self.next_character == "?":
            self.fail("the ? stands behind the type", "it comes right after the name: age? int")
        if not self.accept(":"):
            return schema
        self.skip()
        if self.next_character in ('"', "'"):
            return schema | {"description": self.parse_quoted()}
        match = DESCRIPTION_PATTERN.match(self._text, self._position)
        description = match[0] if match else ""
        self._position += len(description)
        return schema | ({"description": description.strip()} if description.strip() else {})

    def parse_type(self) -> SchemaDict:
        """Parse a type, which may be a union of several."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail("this is too deep")
        choices = [self.parse_single_type()]
        self.skip()
        while self.accept("|"):
            self.skip(" \t\r\n")
            choices.append(self.parse_single_type())
            self.skip()
        self._depth -= 1
        return make_union(choices)

    def parse_single_type(self) -> SchemaDict:
        """Parse one member of a union."""
        if self.accept("["):
            self.skip(" \t\r\n")
            if self.next_character == "]":
                self.fail("the list does not say what it holds", "for example [string], or [{name, age int}]")
            items = self.parse_type()
            self.expect("]")
            return {"type": "array", "items": items}
        if self.accept("{"):
            schema = self.parse_fields()
            self.expect("}")
            return schema
        if self.next_character in ('"', "'"):
            return {"type": "string", "enum": [self.parse_quoted()]}
        match = NAME_PATTERN.match(self._text, self._position)
        if match is None:
            self.fail(f"{self.quote_next_word()} is no type", TYPES_HINT)
        if match[0] not in TYPES:
            suggestion = suggest(match[0], TYPES)
            self.fail(f"there is no type {match[0]!r}", f"did you mean {suggestion}?" if suggestion else TYPES_HINT)
        self._position = match.end()
        return TYPES[match[0]]

    def expect(self, bracket: str) -> None:
        """Skip a closing bracket, or fail if it is missing."""
        self.skip(" \t\r\n")
        if not self.accept(bracket):
            self.fail(f"a {bracket} is missing before {self.quote_next_word()}")

    def parse_quoted(self) -> str:
        """Parse a quoted text, in which a backslash escapes the next character."""
        match = QUOTED_PATTERN.match(self._text, self._position)
        if match is None:
            self.fail("this quote does not end")
        self._position = match.end()
        return re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])


def make_union(choices: list[SchemaDict]) -> SchemaDict:
    """Return a schema that accepts what any of the given schemas accepts."""
    if {} in choices:
        return {}
    quoted_values = list(dict.fromkeys(text for choice in choices for text in choice.get("enum", ())))
    schemas = [
        choice for position, choice in enumerate(choices) if "enum" not in choice and choice not in choices[:position]
    ]
    if quoted_values:
        schemas.insert(0, {"type": "string", "enum": quoted_values})
    if len(schemas) == 1:
        return schemas[0]
    if all(choice.keys() == {"type"} for choice in schemas):
        return {"type": [choice["type"] for choice in schemas]}
    return {"anyOf": schemas}
