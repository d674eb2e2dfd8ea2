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

Schema = dict[str, Any]

TYPES: dict[str, Schema] = {
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
ALL_TYPES = f"there are {', '.join(TYPES)}, [type] and {{name type}}"
NAME = re.compile(r"[^\W\d][\w-]*")
QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"|' + r"'((?:[^'\\\n]|\\.)*)'")
DESCRIPTION = re.compile(r"[^,\n}]*")
DEEPEST = 50


def parse(text: str) -> Schema:
    """The JSON Schema that a short form stands for.

    Raises:
        UsageError: it makes no sense; says where.
    """
    reader = _Reader(text)
    reader.skip(" \t\r\n")
    schema = reader.type() if reader.next in ("[", "{") else reader.fields()
    reader.skip(" \t\r\n")
    if reader.next:
        reader.fail(f"{reader.word()} comes unexpected")
    return schema


class _Reader:
    """Reads a text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0

    @property
    def next(self) -> str:
        """The next character; "" at the end."""
        return self._text[self._place : self._place + 1]

    def skip(self, characters: str = " \t\r") -> None:
        """Go on behind these."""
        while self.next and self.next in characters:
            self._place += 1

    def take(self, character: str) -> bool:
        """Go on behind a character, if it is the next."""
        found = self.next == character
        self._place += found
        return found

    def word(self) -> str:
        """What stands here, for a message."""
        rest = self._text[self._place :].split(maxsplit=1)
        return repr(rest[0][:20]) if rest else "the end"

    def fail(self, message: str, advice: str = 'for example "name, age int, tags [string]"') -> NoReturn:
        """Say what is wrong, and where."""
        line = self._text.count("\n", 0, self._place) + 1
        character = self._place - self._text.rfind("\n", 0, self._place)
        where = f"line {line}, character {character}" if "\n" in self._text.strip() else f"character {character}"
        raise UsageError(f"--schema: {message} ({where})", advice)

    def fields(self) -> Schema:
        """An object, by its fields: up to a closing brace or the end."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        self.skip(" \t\r\n,")
        if self.next in ("", "}"):
            self.fail("there are no fields", 'for example "name, age int"')
        while self.next not in ("", "}"):
            name = self.name()
            if name in properties:
                self.fail(f"the field {name!r} is there twice", "leave one out")
            if not self.take("?"):
                required.append(name)
            properties[name] = self.field()
            self.skip()
            if self.next not in ("", "}", ",", "\n"):
                self.fail(f"{self.word()} comes unexpected", "fields are separated by commas")
            self.skip(" \t\r\n,")
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def name(self) -> str:
        """The name of a field."""
        if self.next in ('"', "'"):
            return self.quoted()
        found = NAME.match(self._text, self._place)
        if found is None:
            self.fail(f"{self.word()} is no name of a field", "names with other signs are quoted")
        self._place = found.end()
        return found[0]

    def field(self) -> Schema:
        """What stands behind a field's name: its type and its description."""
        self.skip()
        schema = TYPES["string"] if self.next in ("", ",", "\n", ":", "}") else self.type()
        self.skip()
        if self.next == "?":
            self.fail("the ? stands behind the type", "it comes right after the name: age? int")
        if not self.take(":"):
            return schema
        self.skip()
        if self.next in ('"', "'"):
            return schema | {"description": self.quoted()}
        found = DESCRIPTION.match(self._text, self._place)
        description = found[0] if found else ""
        self._place += len(description)
        return schema | ({"description": description.strip()} if description.strip() else {})

    def type(self) -> Schema:
        """A type, or several to choose from."""
        self._depth += 1
        if self._depth > DEEPEST:
            self.fail("this is too deep")
        choices = [self.one()]
        self.skip()
        while self.take("|"):
            self.skip(" \t\r\n")
            choices.append(self.one())
            self.skip()
        self._depth -= 1
        return any_of(choices)

    def one(self) -> Schema:
        """One type."""
        if self.take("["):
            self.skip(" \t\r\n")
            if self.next == "]":
                self.fail("the list does not say what it holds", "for example [string], or [{name, age int}]")
            items = self.type()
            self.close("]")
            return {"type": "array", "items": items}
        if self.take("{"):
            schema = self.fields()
            self.close("}")
            return schema
        if self.next in ('"', "'"):
            return {"type": "string", "enum": [self.quoted()]}
        found = NAME.match(self._text, self._place)
        if found is None:
            self.fail(f"{self.word()} is no type", ALL_TYPES)
        if found[0] not in TYPES:
            near = suggest(found[0], TYPES)
            self.fail(f"there is no type {found[0]!r}", f"did you mean {near}?" if near else ALL_TYPES)
        self._place = found.end()
        return TYPES[found[0]]

    def close(self, bracket: str) -> None:
        """Go on behind a closing bracket."""
        self.skip(" \t\r\n")
        if not self.take(bracket):
            self.fail(f"a {bracket} is missing before {self.word()}")

    def quoted(self) -> str:
        """A text in quotes; a backslash keeps the sign behind it from ending it."""
        found = QUOTED.match(self._text, self._place)
        if found is None:
            self.fail("this quote does not end")
        self._place = found.end()
        return re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2])


def any_of(choices: list[Schema]) -> Schema:
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
