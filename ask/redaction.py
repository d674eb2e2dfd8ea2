"""Redaction of secrets in everything that is sent, shown or stored. `ask.api_keys` collects the secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ask.messages import Message, ToolCall
from ask.text import repair_surrogates

REDACTED = "[key removed]"
_JSON_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)


class Redactor:
    """Replaces secrets by `REDACTED`.

    A secret is also found in the forms that JSON encoders commonly write, such as `pass\\"word` for `pass"word`. Other
    encodings, such as Base64, are not recognized.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if secret for form in _list_json_forms(secret)}
        self._secrets = tuple(sorted(forms, key=len, reverse=True))  # a longer one may contain a shorter one
        self._pattern = re.compile("|".join(map(re.escape, self._secrets)))

    def redact(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self._pattern.sub(REDACTED, text) if any(secret in text for secret in self._secrets) else text

    def redact_json(self, text: str) -> str:
        """Replace the secrets in a JSON text, even escaped ones. The text may be invalid JSON."""
        if not self._secrets:
            return text
        if "\\" in text:
            try:
                value = json.loads(text, strict=False)
            except (ValueError, RecursionError):
                unescaped = repair_surrogates(_JSON_ESCAPE.sub(_unescape, text))
                redacted = self.redact(unescaped)
                return self.redact(text) if redacted == unescaped else redacted
            redacted = self.redact_value(value)
            if redacted != value:
                text = json.dumps(redacted, ensure_ascii=False)
        return self.redact(text)

    def redact_value(self, value: Any) -> Any:
        """Replace the secrets in all strings of a JSON value, including object keys."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact_value(name): self.redact_value(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(item) for item in value]
        return value

    def redact_call(self, call: ToolCall) -> ToolCall:
        """Replace the secrets in a tool call."""
        return ToolCall(self.redact(call.id), self.redact(call.name), self.redact_json(call.arguments))

    def redact_message(self, message: Message) -> Message:
        """Replace the secrets in a message, except for the data of attached files.

        Native parts that contain a secret are removed: a provider would reject signed parts that were changed.
        """
        if not self._secrets:
            return message
        native = message.native
        if native and json.dumps(self.redact_value(native.data)) != json.dumps(dict(native.data)):
            native = None
        return message._replace(
            content=self.redact(message.content),
            tool_calls=tuple(map(self.redact_call, message.tool_calls)),
            tool_call_id=self.redact(message.tool_call_id),
            tool_name=self.redact(message.tool_name),
            attachments=tuple(file._replace(name=self.redact(file.name)) for file in message.attachments),
            native=native,
        )

    def open_stream(self) -> StreamRedactor:
        """Create a redactor for a text that arrives in chunks."""
        return StreamRedactor(self._secrets, self._pattern)


NO_SECRETS = Redactor()


class StreamRedactor:
    """Replaces secrets in a text that arrives in chunks.

    Only an end of the text that may be the beginning of a secret is held back.
    """

    def __init__(self, secrets: tuple[str, ...], pattern: re.Pattern[str]) -> None:
        self._secrets = secrets
        self._pattern = pattern
        self._max_secret_length = len(secrets[0]) if secrets else 0
        self._first_characters = {secret[0] for secret in secrets}
        self._held_back = ""

    def feed(self, chunk: str) -> str:
        """Add a chunk; return the redacted text that cannot change any more."""
        text = self._held_back + chunk
        safe_end = len(text) - self._count_held_back(text)
        pieces, position = [], 0
        if any(secret in text for secret in self._secrets):
            for match in self._pattern.finditer(text):
                if match.start() >= safe_end:
                    break
                pieces += [text[position : match.start()], REDACTED]
                position = match.end()
        end = max(position, safe_end)
        self._held_back = text[end:]
        return "".join([*pieces, text[position:end]])

    def finish(self) -> str:
        """Return the rest of the text at its end."""
        text, self._held_back = self._held_back, ""
        return self._pattern.sub(REDACTED, text) if text else ""

    def _count_held_back(self, text: str) -> int:
        """Count the characters at the end that may be the beginning of a secret."""
        for start in range(max(0, len(text) - self._max_secret_length + 1), len(text)):
            if text[start] in self._first_characters:
                end = text[start:]
                if any(len(secret) > len(end) and secret.startswith(end) for secret in self._secrets):
                    return len(end)
        return 0


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}.get(match[2], match[2])


def _list_json_forms(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as JSON encoders write it inside a string."""
    yield secret
    for ensure_ascii in (False, True):
        escaped = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
