"""Redaction: replacing secrets in texts, messages and streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from typing import Any

from ask.messages import Message, ToolCall
from ask.text import repair_surrogates

REDACTED = "[key removed]"
_HTML_SAFE_ESCAPES = tuple(
    str.maketrans({character: f"\\u{ord(character):{code_format}}" for character in characters})
    for characters, code_format in (("<>&", "04x"), ("<>&='", "04x"), ("<>&'+`", "04X"))
)
"""How Go (and Rails), Gson, and .NET escape characters, so that their JSON can be part of an HTML page."""
_JSON_ESCAPE = r"(?s)\\u([0-9a-fA-F]{4})|\\(.)"
_AFTER_ESCAPE = r"(?<=\\[a-z])|(?<=%[0-9a-fA-F]{2})|(?<=\\x[0-9a-fA-F]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=[\d\[][mK])"
"""Matches after an escape sequence of JSON, a shell, a URL or a terminal, whose last letter is not part of a word."""
_MAX_ESCAPE_CHARACTERS = 6
MAX_RELEASED_CHARACTERS = 4
"""The beginning of a secret that may be shown: keys of a kind begin alike, and so do words, such as "s" and "sk-"."""
MIN_SECRET_CHARACTERS = 8
MIN_LINE_CHARACTERS = 16
"""The length from which a line of a secret with several is one by itself, such as those of a PEM file."""


class Redactor:
    """Replaces secrets by `REDACTED`.

    A secret is also found in the forms that JSON encoders commonly write, such as `pass\\"word` for `pass"word`. Other
    encodings, such as Base64, are not recognized. A secret that looks like a word is not replaced inside a longer word.
    Of a secret with several lines, each long one without spaces is also found alone: a file may indent or number them.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms: set[str] = set()
        for secret in filter(None, secrets):
            for text in (secret, *_list_long_lines(secret)):
                forms.update(_list_json_forms(text))
        self.secrets = tuple(sorted(forms, key=len, reverse=True))  # a longer one may contain a shorter one

    def add(self, secrets: Iterable[str]) -> None:
        """Replace these secrets, too, from now on, except short ones."""
        long_secrets = (secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS)
        self.secrets = Redactor((*self.secrets, *long_secrets)).secrets
        self.__dict__.pop("_pattern", None)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_build_secret_pattern, self.secrets)))

    def redact(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self._pattern.sub(REDACTED, text) if any(map(text.__contains__, self.secrets)) else text

    def find_secrets(self, text: str, previous_text: str = "") -> list[tuple[int, int]]:
        """Return where the secrets in a text start and end. `previous_text` comes before it."""
        if not any(map(text.__contains__, self.secrets)):
            return []
        offset = len(previous_text)
        matches = self._pattern.finditer(previous_text + text, offset)
        return [(match.start() - offset, match.end() - offset) for match in matches]

    def redact_json(self, text: str) -> str:
        """Replace the secrets in a JSON text, even escaped ones. The text may be invalid JSON."""
        if not self.secrets:
            return text
        if "\\" in text:
            try:
                value = json.loads(text, strict=False)
            except (ValueError, RecursionError):
                unescaped = repair_surrogates(re.sub(_JSON_ESCAPE, _unescape, text))
                redacted = self.redact(unescaped)
                return self.redact(text) if redacted == unescaped else redacted
            redacted = self.redact_value(value)
            if redacted != value:
                text = json.dumps(redacted, ensure_ascii=False)
        return self.redact(text)

    def redact_value(self, value: Any) -> Any:
        """Replace the secrets in all strings of a JSON value, including object keys."""
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return dict(zip(map(self.redact_value, value), map(self.redact_value, value.values()), strict=True))
        if isinstance(value, list | tuple):
            return list(map(self.redact_value, value))
        return value

    def redact_call(self, call: ToolCall) -> ToolCall:
        """Replace the secrets in a tool call."""
        return ToolCall(self.redact(call.id), self.redact(call.name), self.redact_json(call.arguments))

    def redact_message(self, message: Message) -> Message:
        """Replace the secrets in a message, except for the data of attached files.

        Provider state that contains a secret is removed: a provider would reject signed parts that were changed.
        """
        if not self.secrets:
            return message
        attachments, state = message.attachments, message.provider_state
        if attachments:
            attachments = tuple(file._replace(name=self.redact(file.name)) for file in attachments)
        if state and json.dumps(self.redact_value(state.data)) != json.dumps(dict(state.data)):
            state = None
        return message._replace(
            content=self.redact(message.content),
            tool_calls=tuple(map(self.redact_call, message.tool_calls)),
            tool_call_id=self.redact(message.tool_call_id),
            tool_name=self.redact(message.tool_name),
            attachments=attachments,
            provider_state=state,
        )

    def open_stream(self) -> StreamRedactor:
        """Create a redactor for a text that arrives in chunks."""
        return StreamRedactor(self)


NO_SECRETS = Redactor()


class StreamRedactor:
    """Replaces secrets in a text that arrives in chunks.

    Only an end of the text that may be the beginning of a secret is held back.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._max_secret_length = max(map(len, redactor.secrets), default=0)
        self._first_characters = set(map(itemgetter(0), redactor.secrets))
        self._previous_text = ""
        self._held_back = ""
        self._released_count = 0
        """The number of characters at the start of `_held_back` that `release` has returned."""

    def feed(self, chunk: str, *, is_last: bool = False) -> str:
        """Add a chunk; return the redacted text that cannot change any more, and hold back the rest."""
        text = self._held_back + chunk
        end = len(text) if is_last else len(text) - self._count_held_back(text)
        pieces, position = [], self._released_count
        for start, match_end in self._redactor.find_secrets(text, self._previous_text):
            if start < end:
                pieces += [text[position:start], REDACTED]
                position, end = match_end, max(end, match_end)
        self._held_back = text[end:]
        self._released_count = max(self._released_count - end, 0)
        self._previous_text = (self._previous_text + text[max(0, end - _MAX_ESCAPE_CHARACTERS) : end])[
            -_MAX_ESCAPE_CHARACTERS:
        ]
        return "".join([*pieces, text[position:end]])

    def release(self) -> str:
        """Return what is held back if it is only the first characters of a secret, because other output follows.

        If they do begin a secret, the rest of it is replaced.
        """
        held_back, released_count = self._held_back, self._released_count
        if len(held_back) > MAX_RELEASED_CHARACTERS or self._redactor.find_secrets(held_back):
            return ""
        self._released_count = len(held_back)
        return held_back[released_count:]

    def finish(self) -> str:
        """Return the rest of the text at its end."""
        return self.feed("", is_last=True)

    def _count_held_back(self, text: str) -> int:
        """Count the characters at the end that may be the beginning of a secret, or of a word that may continue."""
        for start in range(max(0, len(text) - self._max_secret_length), len(text)):
            if text[start] in self._first_characters:
                end = text[start:]
                for secret in self._redactor.secrets:
                    if secret.startswith(end) and (len(secret) > len(end) or is_word(secret)):
                        return len(end)
        return 0


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(match[2], match[2])


def _list_long_lines(secret: str) -> Iterator[str]:
    """Yield the long lines of a secret that have no spaces. In a variable, line breaks are often escapes."""
    for line in re.split(r"[\r\n]|\\+[rn]", secret):
        if len(line.split()) == 1 and len(line.strip()) >= MIN_LINE_CHARACTERS:
            yield line.strip()


def _list_json_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as JSON encoders write it inside a string."""
    yield secret
    for ensure_ascii in (False, True):
        escaped = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield from map(escaped.translate, _HTML_SAFE_ESCAPES)


def is_word(secret: str) -> bool:
    """Check whether a secret may occur in ordinary text: letters only, or several such words, in ordinary case."""
    if secret.startswith("sk-") or re.fullmatch(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*", secret) is None:
        return False
    return all(word[1:].islower() or word.isupper() or word == word.lower() for word in re.split("[ _-]", secret))


def _build_secret_pattern(secret: str) -> str:
    escaped = re.escape(secret)
    return rf"(?:(?<!\w)|{_AFTER_ESCAPE}){escaped}(?!\w)" if is_word(secret) else escaped
