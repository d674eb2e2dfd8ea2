"""The short form of a JSON Schema: `name, age int, tags [string]`.

    form    = fields | "{" fields "}" | "[" type "]"
    fields  = field, separated by commas or new lines
    field   = name ["?"] [type] [":" description]          ? for one that may be left out; string without a type
    type    = one ["|" one]...
    one     = string | int | float | bool | null | any | object | date | time | datetime | email | url
            | "[" type "]" | "{" fields "}" | "a text"     quoted: this very text

A name or a description that holds anything else is quoted. Nothing beside the fields may be in the answer.
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
    """The JSON Schema that a short form stands for.

    Raises:
        UsageError: it makes no sense; says where.
    """
    reader = _ShortFormParser(text)
    reader.skip(" \t\r\n")
    schema = reader.parse_type() if reader.next_character in ("[", "{") else reader.parse_fields()
    reader.skip(" \t\r\n")
    if reader.next_character:
        reader.fail(f"{reader.quote_next_word()} comes unexpected")
    return schema


class _ShortFormParser:
    """Reads a text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    @property
    def next_character(self) -> str:
        """The next character; "" at the end."""
        return self._text[self._position : self._position + 1]

    def skip(self, characters: str = " \t\r") -> None:
        """Go on behind these."""
        while self.next_character and self.next_character in characters:
            self._position += 1

    def accept(self, character: str) -> bool:
        """Go on behind a character, if it is the next."""
        found = self.next_character == character
        self._position += found
        return found

    def quote_next_word(self) -> str:
        """What stands here, for a message."""
        rest = self._text[self._position :].split(maxsplit=1)
        return repr(rest[0][:20]) if rest else "the end"

    def fail(self, message: str, hint: str = 'for example "name, age int, tags [string]"') -> NoReturn:
        """Say what is wrong, and where."""
        line = self._text.count("\n", 0, self._position) + 1
        character = self._position - self._text.rfind("\n", 0, self._position)
        where = f"line {line}, character {character}" if "\n" in self._text.strip() else f"character {character}"
        raise UsageError(f"--schema: {message} ({where})", hint)

    def parse_fields(self) -> SchemaDict:
        """An object, by its fields: up to a closing brace or the end."""
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
        """The name of a field."""
        if self.next_character in ('"', "'"):
            return self.parse_quoted()
        found = NAME_PATTERN.match(self._text, self._position)
        if found is None:
            self.fail(f"{self.quote_next_word()} is no name of a field", "names with other signs are quoted")
        self._position = found.end()
        return found[0]

    def parse_field(self) -> SchemaDict:
        """What stands behind a field's name: its type and its description."""
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
        found = DESCRIPTION_PATTERN.match(self._text, self._position)
        description = found[0] if found else ""
        self._position += len(description)
        return schema | ({"description": description.strip()} if description.strip() else {})

    def parse_type(self) -> SchemaDict:
        """A type, or several to choose from."""
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
        """One type."""
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
        found = NAME_PATTERN.match(self._text, self._position)
        if found is None:
            self.fail(f"{self.quote_next_word()} is no type", TYPES_HINT)
        if found[0] not in TYPES:
            near = suggest(found[0], TYPES)
            self.fail(f"there is no type {found[0]!r}", f"did you mean {near}?" if near else TYPES_HINT)
        self._position = found.end()
        return TYPES[found[0]]

    def expect(self, bracket: str) -> None:
        """Go on behind a closing bracket."""
        self.skip(" \t\r\n")
        if not self.accept(bracket):
            self.fail(f"a {bracket} is missing before {self.quote_next_word()}")

    def parse_quoted(self) -> str:
        """A text in quotes; a backslash keeps the sign behind it from ending it."""
        found = QUOTED_PATTERN.match(self._text, self._position)
        if found is None:
            self.fail("this quote does not end")
        self._position = found.end()
        return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2])


def make_union(choices: list[SchemaDict]) -> SchemaDict:
    """The schema that allows what any of these does."""
    if {} in choices:
        return {}
    texts = list(dict.fromkeys(text for choice in choices for text in choice.get("enum", ())))
    others = [choice for place, choice in enumerate(choices) if "enum" not in choice and choice not in choices[:place]]
    if texts:
        others.insert(0, {"type": "string", "enum": texts})
    if len(others) == 1:
        return others[0]
    if all(choice.keys() == {"type"} for choice in others):
        return {"type": [choice["type"] for choice in others]}
    return {"anyOf": others}
