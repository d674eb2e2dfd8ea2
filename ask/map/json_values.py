"""JSON values: read one by one from a stream, as text, and what a JSON Schema says about them."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import Any

from ask.errors import FileError
from ask.messages import EMPTY_MAPPING
from ask.records import NamedTuple

READ_BYTES = 1 << 16
MAX_VALUE_CHARACTERS = 1 << 26
"""The limit for one value, which is in memory."""
MAX_INDENTATION = 200
"""How many characters before a value are kept to find others of the same indentation."""
NOT_UTF8, HAS_NUL, NOT_JSON = "not UTF-8", "contains a NUL character", "not JSON"
NO_END = "the array has no end"
INT64_RANGE = range(-(1 << 63), 1 << 63)
_SEPARATORS = re.compile(r"[ \t\r\n\ufeff\x1e]*")
"""What may be between values: \x1e begins each one in a JSON text sequence (RFC 7464), as of `jq --seq` and GDAL."""
_ELEMENT_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_INVALID_BYTES = re.compile("[\udc80-\udcff]")
_TOKENS = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?|[\[\]{}]')
"""A string, which ends with its line at the latest, or a bracket."""
_OTHER_VALUE = re.compile(r"[^\n]+")
_OTHER_ELEMENT = re.compile(r"[^\n,\]]+|.")
_LONGEST_WORD = "-Infinity"


def _parse_finite(text: str) -> float | str:
    """Parse a number; return the text of one that is too large."""
    number = float(text)
    return number if math.isfinite(number) else text


encode_json = json.JSONEncoder(ensure_ascii=False).encode
# Python writes NaN and Infinity, which are not JSON. As in JavaScript, they become null.
_decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite)
decode_json = _decoder.decode
_lenient_decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite, strict=False)
_OBJECT_START = re.compile(r"\s*\{\s*(?=\")")
_COLON = re.compile(r"\s*:\s*")
_LAST_BRACE = r"(?=\}\s*(?:,\s*)?\Z)"
_MEMBER_END = re.compile(rf'\s*(?:,\s*(?:{_LAST_BRACE}|(?="[^"\\]*(?:\\.[^"\\]*)*"\s*:))|{_LAST_BRACE})')
"""What follows a complete member of an object: another name, or the end of the text."""


def to_valid_text(value: Any) -> str:
    r"""Return text, and other values as JSON. A lone surrogate is written as in JSON: "\ud800"."""
    text = value if isinstance(value, str) else encode_json(value)
    return text.encode("utf-8", "backslashreplace").decode()


def has_invalid_bytes(text: str) -> bool:
    """Check whether a text contains bytes that were not UTF-8, which "surrogateescape" has decoded."""
    return not text.isascii() and _INVALID_BYTES.search(text) is not None


def get_properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the schemas of the fields of answers; empty if an answer is one value."""
    properties = schema.get("properties") if schema and schema.get("type") == "object" else None
    return properties or EMPTY_MAPPING


def list_types(schema: Mapping[str, Any]) -> list[str]:
    """Return the types that a JSON Schema names, without null."""
    types = schema.get("type")
    names = types if isinstance(types, list) else [types]
    return [name for name in names if isinstance(name, str) and name != "null"]


def parse_json_answer(text: str) -> Any:
    """Parse an answer that matches a schema; an empty one, or one that is not JSON, has no values."""
    try:
        return decode_json(text)
    except (ValueError, RecursionError):
        return None


def parse_first_members(text: str) -> dict[str, Any]:
    """Return the members of an invalid object up to the error, without those that contain a NUL character."""
    members = {}
    place = _OBJECT_START.match(text)
    try:
        while place and text[place.end()] == '"':
            start = place.end()
            name, end = _lenient_decoder.raw_decode(text, start)
            colon = _COLON.match(text, end)
            if colon is None:
                break
            value, end = _lenient_decoder.raw_decode(text, colon.end())
            place = _MEMBER_END.match(text, end)
            if place and "\0" not in text[start:end]:
                members[name] = value
    except (ValueError, RecursionError):
        pass
    return members


class JsonValue(NamedTuple):
    """A value.

    Attributes:
        location: its line, and the column if it does not begin the line, as in "7" or "1:25".
        value: the value; if it has an error, what can be read of an object.
        error: what is wrong with it; "" for nothing.
        is_element: whether it is an element of an array.
    """

    location: str
    value: Any
    error: str
    is_element: bool


def read_json_values(name: str, stream: BufferedReader) -> Iterator[JsonValue]:
    """Yield the elements of arrays, and the values that are not in an array. One that is invalid costs only itself.

    `name` is that of the input for errors.

    Raises:
        FileError: a value is too long.
    """
    source = _JsonSource(name, stream)
    in_array = False
    while char := source.skip(_ELEMENT_SEPARATORS if in_array else _SEPARATORS):
        if char == ("]" if in_array else "["):
            in_array = not in_array
            source.position += 1
        else:
            yield source.read_value(in_array=in_array)
    if in_array:
        yield JsonValue(source.locate(), None, NO_END, is_element=True)


class _JsonSource:
    """JSON text, of which only the part that is being read is in memory.

    Attributes:
        position: where in that part the next value is.
    """

    def __init__(self, name: str, stream: BufferedReader) -> None:
        self._name = name
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text = ""
        self._is_complete = False
        self._has_invalid_bytes = False
        self.position = self._counted_position = 0
        self._line, self._line_start, self._value_line = 1, 0, 0

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Skip what matches a pattern, and return the next character; "" at the end."""
        while True:
            match = pattern.match(self._text, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self._text) or self._is_complete:
                return self._text[self.position : self.position + 1]
            self._fill()

    def locate(self) -> str:
        """Return the line of the position; with the column if it is not that of the first value in this line."""
        self._count_lines()
        is_first, self._value_line = self._line > self._value_line, self._line
        return str(self._line) if is_first else f"{self._line}:{self.position - self._line_start + 1}"

    def read_value(self, *, in_array: bool) -> JsonValue:
        """Read the value at the position.

        Raises:
            FileError: it is too long.
        """
        while True:
            value, end, error = self._parse(in_array=in_array)
            if end is not None or self._is_complete:
                break
            if len(self._text) - self.position > MAX_VALUE_CHARACTERS:
                message = f"{self._name}:{self.locate()}: a value is longer than {MAX_VALUE_CHARACTERS:,} characters"
                raise FileError(message, "split it, for example with jq --stream")
            self._fill()
        location, start, self.position = self.locate(), self.position, len(self._text) if end is None else end
        if error:
            value = parse_first_members(self._text[start : self.position])
        if self._has_invalid_bytes and _INVALID_BYTES.search(self._text, start, self.position):
            error = NOT_UTF8
        elif error and "\0" in self._text[start : self.position]:
            error = HAS_NUL
        return JsonValue(location, value, error, in_array)

    def _parse(self, *, in_array: bool) -> tuple[Any, int | None, str]:
        """Return the value, where it ends, and its error; None for the end if more text is needed."""
        text, start = self._text, self.position
        try:
            value, end = _decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            is_open = error.msg.startswith("Unterminated string") or error.pos > len(text) - len(_LONGEST_WORD)
            if is_open and not self._is_complete:
                return None, None, NOT_JSON
        except (ValueError, RecursionError):  # a number with too many digits, or brackets that are nested too deeply
            pass
        else:
            is_end = self._is_complete or end < len(text) or text[end - 1] in '}]"'  # a number may continue
            return value, end if is_end else None, ""
        return None, self._find_end(in_array=in_array), NOT_JSON

    def _find_end(self, *, in_array: bool) -> int | None:
        """Return where the invalid value at the position ends; None if more text is needed."""
        text, start = self._text, self.position
        if text[start] not in "[{":
            match = (_OTHER_ELEMENT if in_array else _OTHER_VALUE).match(text, start)
            end = match.end() if match else start + 1
            return end if end < len(text) else None
        closing = self._find_closing_bracket(start)
        indentation = text[text.rfind("\n", 0, start) + 1 : start]
        if indentation.strip(" \t"):
            return closing
        # Elements that begin lines have the same indentation.
        next_value = re.compile(rf"\n{indentation}(?=\{{)|\n[ \t]*(?=\]\s*\Z)")
        match = next_value.search(text, start, len(text) if closing is None else closing)
        return match.end() if match else closing

    def _find_closing_bracket(self, start: int) -> int | None:
        depth = 0
        for token in _TOKENS.finditer(self._text, start):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            if depth == 0:
                return token.end()
        return None

    def _count_lines(self) -> None:
        """Count the line breaks up to the position."""
        count = self._text.count("\n", self._counted_position, self.position)
        if count:
            self._line += count
            self._line_start = self._text.rindex("\n", self._counted_position, self.position) + 1
        self._counted_position = self.position

    def _fill(self) -> None:
        """Read more text: what has arrived, or as much as a long value has already."""
        self._count_lines()
        is_near = self._line_start >= 0 and self.position - self._line_start <= MAX_INDENTATION
        kept = self._line_start if is_near else self.position
        parts = [self._text[kept:]]
        self.position, self._line_start = self.position - kept, self._line_start - kept
        self._counted_position = self.position
        missing = len(parts[0]) if len(parts[0]) > READ_BYTES else 1
        while missing > 0 and not self._is_complete:
            chunk = self._stream.read1(READ_BYTES)
            parts.append(self._decode(chunk, not chunk))
            self._is_complete = not chunk
            missing -= len(chunk)
        self._text = "".join(parts)
        self._has_invalid_bytes = has_invalid_bytes(self._text)
