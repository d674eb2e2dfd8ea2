# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for errors and for malformed responses: bodies that are not JSON, and values of the wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ask import AskError, ModelInfo, ProviderError, RawEvent, RetryAction
from ask.testing.base import ContractBase
from ask.testing.conversation import KEY

STATUSES = (200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)
REFUSAL_BODY = '{"error": {"message": "No.", "type": "error"}}'


WRONG_VALUES: tuple[Any, ...] = (None, 7, float("inf"), "x", [{}], {"x": []})
GARBAGE_BODIES = (
    "",
    "no JSON",
    "{",
    "null",
    "true",
    "-1",
    "1e999",
    '"x"',
    "[]",
    "[null]",
    "{}",
    '{"error": null}',
    "[" * 600 + "]" * 600,
    "[" * 10_000,
)
ERROR_BODY = {
    "error": {"message": "No.\nReally.", "code": 400, "metadata": {"raw": '{"error": ["x\\ny"]}'}},
    "detail": "x",
}
HTML_ERROR_PAGE = "<!doctype html>\n<html><head><title>502\nBad Gateway</title></head><body>nginx</body></html>"
MODELS_BODY = {"data": [{"id": "m", "name": "M", "context_length": 8}], "models": [{"name": "m", "details": {}}]}


def generate_corruptions(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value, each with one part of a wrong type."""
    yield from WRONG_VALUES
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for corrupt_part in generate_corruptions(value[key]):
            copy = value.copy()
            copy[key] = corrupt_part
            yield copy


@contextmanager
def allow_only_ask_errors(source: object) -> Iterator[None]:
    """Ignore an `AskError`; fail on any other exception, with a note that shows `source`."""
    try:
        yield
    except AskError:
        pass
    except Exception as error:
        error.add_note(f"This came from reading {str(source)[:500]!r}; only an ask.AskError may come of any input.")
        raise


class FailureTests(ContractBase):
    """The contract for `provider_parse_error`, and for parsing malformed data in every other hook."""

    def error(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> ProviderError:
        error = self.call("provider_parse_error", status=status, headers=headers or {}, body=body)
        assert isinstance(error, ProviderError), "provider_parse_error returns a ProviderError"
        return error

    def test_any_error_reads_as_one_line_without_the_key(self) -> None:
        self.build()  # gives the key to the provider, which must not repeat it in an error
        bodies = [
            *GARBAGE_BODIES,
            HTML_ERROR_PAGE,
            "Bad gateway\r\nTry later",
            *map(json.dumps, generate_corruptions(ERROR_BODY)),
        ]
        for status, body in [*((status, HTML_ERROR_PAGE) for status in STATUSES), *((400, body) for body in bodies)]:
            error = self.error(status, body)
            assert error.message.strip(), f"status {status} has a message, whatever the body: {body[:200]!r}"
            assert len(str(error).splitlines()) == 1, f"the message is one line: {str(error)!r}"
            assert KEY not in str(error), "the key is in no message"
            assert isinstance(error.retry_action, RetryAction)

    def test_error_carries_its_status(self) -> None:
        for status in STATUSES[1:]:
            assert self.error(status, REFUSAL_BODY).status == status

    def test_passing_error_is_retried_when_the_service_says(self) -> None:
        headers = {"Retry-After": "7", "retry-after": "7"}  # at run time, header names are case-insensitive
        for status in (429, 503):
            assert self.error(status, REFUSAL_BODY).retry_action.kind == "retry", f"{status} may pass"
            assert self.error(status, REFUSAL_BODY, headers).retry_action == RetryAction.retry(7.0), (
                f"{status} obeys Retry-After"
            )

    def test_refusal_is_not_retried(self) -> None:
        for status in (400, 401):
            assert self.error(status, REFUSAL_BODY).retry_action.kind != "retry", f"{status} will not pass"

    def test_garbage_in_a_stream_is_survived(self) -> None:
        for kind in ("message", "error", None):
            for data in GARBAGE_BODIES:
                self.survive_stream([RawEvent(kind, data)])

    def test_values_of_wrong_types_in_a_stream_are_survived(self) -> None:
        tested_events: set[RawEvent] = set()
        for events in self.streams.values():
            for i, event in enumerate(events):
                if event in tested_events:
                    continue
                tested_events.add(event)
                for value in generate_corruptions(json.loads(event.data)):
                    corrupt_event = RawEvent(event.event, json.dumps(value))
                    self.survive_stream([*events[:i], corrupt_event, *events[i + 1 :]])

    def test_values_of_wrong_types_in_a_whole_answer_are_survived(self) -> None:
        for response in ({}, {"x": 1}, *self.wholes.values()):
            for value in generate_corruptions(response):
                if isinstance(value, dict):
                    self.survive_response(value)

    def test_garbage_in_a_models_list_is_survived(self) -> None:
        for body in generate_corruptions(MODELS_BODY):
            with allow_only_ask_errors(body):
                models = self.call("provider_parse_models", body=body)
                assert all(isinstance(model, ModelInfo) and model.id for model in models)

    def survive_stream(self, events: Iterable[RawEvent]) -> None:
        reader = self.call("provider_stream_reader")
        for event in events:
            with allow_only_ask_errors(event):
                reader.feed(event)
        with allow_only_ask_errors(events):
            response = reader.response()
            self.survive_response(response)

    def survive_response(self, response: Mapping[str, Any]) -> None:
        """Check that both parsing hooks handle a malformed response."""
        with allow_only_ask_errors(response):
            self.call("provider_parse_tool_calls", response=response)
        with allow_only_ask_errors(response):
            self.read(response)
