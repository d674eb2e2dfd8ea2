"""Guards against a server that sends without end, and notes what it sends that makes no sense."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ask.text import format_one_line

UNASKED_LIMIT = 10_000
"""Messages that a server may send between two answers."""


class LimitedStream:
    """A stream of messages, as the SDK reads it, that ends when too many come that nobody asked for.

    Args:
        stream: where they come from.

    Attributes:
        failure: why it ended, where that is the server's fault.
        invalid_input: the beginning of the last thing that was no message.
        closed: whether nothing comes any more.
    """

    def __init__(self, stream: Any) -> None:
        self.failure = ""
        self.invalid_input = ""
        self.closed = False
        self._stream = stream
        self._unsolicited_count = 0

    @property
    def last_context(self) -> Any:
        """What the SDK keeps beside a message, where it does."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """The next message."""
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
        answered = hasattr(getattr(item, "message", None), "result") or hasattr(getattr(item, "message", None), "error")
        self._unsolicited_count = 0 if answered else self._unsolicited_count + 1
        if self._unsolicited_count > UNASKED_LIMIT:
            self.failure = f"it sent more than {UNASKED_LIMIT:,} messages that nobody asked for"
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
        closed: bool | None = await self._stream.__aexit__(exc_type, exc, traceback)
        return closed


def format_invalid_input(error: Exception) -> str:
    """The beginning of what could not be read, as the fault tells it."""
    errors: list[dict[str, Any]] = getattr(error, "errors", list)()
    value = errors[0].get("input") if errors else None
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return format_one_line(str(value if value is not None else error), 80)
