"""The response of a provider that does not use HTTP, in the form of an `HttpResponse`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from ask.messages import EMPTY_MAPPING
from ask.plugin_api.provider import ServerEvent


class PluginResponse:
    """The events that a provider's `provider_send` yields. `LoadedProvider` limits the time that each takes."""

    status = 200
    headers: Mapping[str, str] = EMPTY_MAPPING
    end_marker_seen = complete = False
    """Set by the caller, as for an `HttpResponse`. The end of the events is the end of the answer, too."""

    def __init__(self, events: Iterator[ServerEvent]) -> None:
        self._events = events

    def __enter__(self) -> PluginResponse:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._events, Generator):
            self._events.close()

    def is_stream(self) -> bool:
        return True

    def iter_event_batches(self) -> Iterator[list[ServerEvent]]:
        """Yield the events as they arrive."""
        for event in self._events:
            yield [event]
        self.end_marker_seen = True

    def mark_progress(self) -> None:
        """Do nothing: the time limit begins anew with each event."""

    def read_unexpected_text(self) -> str:
        """Return "": there is no body besides the events."""
        return ""

    def read_text(self) -> str:
        """Return the data of all events."""
        return "".join(event.data for event in self._events)
