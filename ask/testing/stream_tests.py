# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for the stream reader between the events of a stream."""

from __future__ import annotations

import json

from ask import AskError, RawEvent, ReasoningDelta, TextDelta
from ask.testing.base import ContractBase, remove_end_markers
from ask.testing.conversation import shorten
from ask.testing.sample_changes import find_arguments_text
from ask.testing.samples import ADD_2_3, EXPECTED

KEEP_ALIVES = (RawEvent("ping", ""), RawEvent("ping", '{"type": "ping"}'), RawEvent(None, ""))


class StreamTests(ContractBase):
    """The contract for `response`, `complete` and `size` of the stream reader, which ask reads at any time."""

    def test_response_can_be_called_at_any_time(self) -> None:
        for kind, events in sorted(self.streams.items()):
            alone = self.get_snapshot(self.feed(events)[0])
            reader = self.open_reader()
            for event in events:
                self.get_snapshot(self.feed([event], reader)[0])
            for again in (self.get_snapshot(reader), self.get_snapshot(reader)):
                assert again == alone, (
                    f"response() of the stream reader returns {shorten(again)} instead of {shorten(alone)} for the "
                    f"sample {kind!r} when it was called before. Do not clear or change anything in response(): it may "
                    "be called at any time, and more than once."
                )

    def get_snapshot(self, reader: object) -> str:
        return json.dumps(self.get_response(reader))  # type: ignore[arg-type]

    def test_complete_is_set_at_the_end(self) -> None:
        """After `complete`, only the usage may follow: ask stops reading soon."""
        for kind, events in sorted(self.streams.items()):
            if EXPECTED[kind].error:
                continue
            final_answer, final_calls = self.read_stream(kind)
            reader = self.open_reader()
            for i, event in enumerate(remove_end_markers(events)):
                self.feed([event], reader)
                if not reader.complete:
                    continue
                try:
                    answer, calls = self.read(self.get_response(reader))
                except AskError:
                    break
                is_final = (answer.text, answer.reasoning, len(calls), answer.finish_reason) == (
                    final_answer.text,
                    final_answer.reasoning,
                    len(final_calls),
                    final_answer.finish_reason,
                )
                assert is_final, (
                    f"The stream reader is complete after event {i + 1} of {len(events)} of the sample {kind!r}, "
                    f"{shorten(event.data)}, but the answer goes on: ask would cut it off. Set complete only at the "
                    "end marker."
                )
                break

    def test_size_grows_with_the_answer(self) -> None:
        for kind in sorted(self.streams.keys() - {"error"}):
            reader = self.open_reader()
            if not hasattr(reader, "size"):
                return
            length = 0
            for event in remove_end_markers(self.streams[kind]):
                _, deltas = self.feed([event], reader)
                length += sum(len(delta.text) for delta in deltas if isinstance(delta, TextDelta | ReasoningDelta))
                self.check_size(reader, length, f"after {length} characters of text in the sample {kind!r}")
            response = self.get_response(reader)
            if EXPECTED[kind].calls:
                length += len(find_arguments_text(response, ADD_2_3[1])) or 1
                self.check_size(reader, length, f"after the sample {kind!r}, which has calls with arguments")

    def check_size(self, reader: object, minimum: int, place: str) -> None:
        size = getattr(reader, "size", None)
        assert isinstance(size, int), f"size of the stream reader is {size!r}. Make it an int."
        assert size >= minimum, (
            f"size of the stream reader is {size} {place}. Add the length of every text, reasoning and argument text: "
            "a stream whose size does not grow is aborted after --timeout seconds."
        )

    def test_keep_alives_do_not_add_to_the_size(self) -> None:
        reader, _ = self.feed(self.streams.get("cut", ()))
        if not hasattr(reader, "size"):
            return
        size = reader.size
        for event in KEEP_ALIVES:
            self.feed([event], reader)
            assert reader.size == size, (
                f"size of the stream reader grows from {size} to {reader.size} with the event {event}. Count only the "
                "answer: a server that sends nothing else would keep the stream open."
            )
