"""A limit on the number of unsolicited messages from a server."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ask.text import format_one_line

UNSOLICITED_LIMIT = 10_000
"""Maximum number of other messages that a server may send between two responses."""


class LimitedStream:
    """Wraps a message stream of the SDK, and ends it after too many unsolicited messages."""

    def __init__(self, stream: Any) -> None:
        self.failure = ""
        """Why the stream was ended, if the server is at fault."""
        self.invalid_input = ""
        """The beginning of the last input that was not a valid message."""
        self.closed = False
        self._stream = stream
        self._unsolicited_count = 0

    @property
    def last_context(self) -> Any:
        """The context that some streams of the SDK store for the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        from anyio import EndOfStream

        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise EndOfStream from None

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self.failure:
            raise StopAsyncIteration
        try:
            item = await self._stream.__anext__()
        except BaseException:
            self.closed = True
            raise
        if isinstance(item, Exception):
            self.invalid_input = format_invalid_input(item)
        message = getattr(item, "message", None)
        is_response = hasattr(message, "result") or hasattr(message, "error")
        self._unsolicited_count = 0 if is_response else self._unsolicited_count + 1
        if self._unsolicited_count > UNSOLICITED_LIMIT:
            self.failure = f"it sent more than {UNSOLICITED_LIMIT:,} messages that nobody asked for"
            self.closed = True
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self.closed = True
        suppresses_error: bool | None = await self._stream.__aexit__(exc_type, exc, traceback)
        return suppresses_error


def format_invalid_input(error: Exception) -> str:
    """Return the beginning of the invalid input that a validation error contains."""
    errors: list[dict[str, Any]] = getattr(error, "errors", list)()
    value = errors[0].get("input") if errors else None
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return format_one_line(str(value if value is not None else error), 80)
