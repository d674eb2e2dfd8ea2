# ruff: noqa: S101 - the contract is checked by assertions
"""Contract tests for errors and for malformed responses: bodies that are not JSON, and values of the wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ask import AskError, ProviderError, RawEvent, RetryAction
from ask.parsing import parse_json
from ask.testing.base import ContractBase
from ask.testing.conversation import KEY
from ask.testing.structure_tests import MODELS_BODY

STATUSES = (200, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)
REFUSAL_BODY = '{"error": {"message": "No.", "type": "error"}}'


WRONG_VALUES: tuple[Any, ...] = (None, 7, float("inf"), "x", [{}], {"x": []})
GARBAGE_BODIES = (
    *("", "no JSON", "{", "null", "true", "-1", "1e999", '"x"', "[]", "[null]", "{}", '{"error": null}'),
    *("[" * 600 + "]" * 600, "[" * 10_000),
)
UNEXPECTED_VALUES: tuple[Any, ...] = (None, [], {}, "x", {"id": None}, {"data": [None]}, {"results": [{}]})
TEMPORARY_STATUSES, REJECTED_STATUSES = (429, 503), (400, 401)
ERROR_BODY = {
    "error": {"message": "No.\nReally.", "code": 400, "metadata": {"raw": '{"error": ["x\\ny"]}'}},
    "detail": "x",
}
HTML_ERROR_PAGE = "<!doctype html>\n<html><head><title>502\nBad Gateway</title></head><body>nginx</body></html>"


def generate_corruptions(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value, each with one part of a wrong type."""
    yield from WRONG_VALUES
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for corrupt_part in generate_corruptions(value[key]):
            copy = value.copy()
            copy[key] = corrupt_part
            yield copy


class FailureTests(ContractBase):
    """The contract for `provider_parse_error`, and for parsing malformed data in every other hook."""

    def error(self, status: int, body: str, headers: Mapping[str, str] | None = None) -> ProviderError:
        error: ProviderError = self.call("provider_parse_error", status=status, headers=headers or {}, body=body)
        return error

    def test_error_message_is_one_line_without_the_key(self) -> None:
        self.build()  # gives the key to the provider, which must not repeat it in an error
        bodies = [
            *GARBAGE_BODIES,
            HTML_ERROR_PAGE,
            "Bad gateway\r\nTry later",
            *map(json.dumps, generate_corruptions(ERROR_BODY)),
        ]
        for status, body in [*((status, HTML_ERROR_PAGE) for status in STATUSES), *((400, body) for body in bodies)]:
            error = self.error(status, body)
            source = f"for the status {status} and the body {body[:100]!r}"
            assert error.message.strip(), (
                f"provider_parse_error returned an empty message {source}. Describe the error in every case."
            )
            assert len(str(error).splitlines()) == 1, (
                f"provider_parse_error returned {str(error)[:200]!r} {source}. Put the message on one line."
            )
            assert KEY not in f"{error} {error.hint}", (
                f"provider_parse_error returned an error that contains the API key {source}. Do not store the key in "
                "the provider, and keep it out of messages and hints."
            )

    def test_error_contains_the_message_of_the_service(self) -> None:
        body = self.responses.get("error")
        if body is None:
            return
        message = self.error(503, json.dumps(body)).message
        assert "overloaded" in message.lower(), (
            f"provider_parse_error returned the message {message!r} for {body}. Include the service's own message, "
            "which contains 'overloaded' in the sample 'error'."
        )

    def test_error_keeps_its_status(self) -> None:
        for status in STATUSES[1:]:
            error = self.error(status, REFUSAL_BODY)
            assert error.status == status, (
                f"provider_parse_error returned the status {error.status} for an answer with the status {status}. Pass "
                "status on to ProviderError."
            )

    def test_temporary_errors_are_retried(self) -> None:
        headers = {"Retry-After": "7", "retry-after": "7"}  # at run time, header names are case-insensitive
        for status in TEMPORARY_STATUSES:
            action = self.error(status, REFUSAL_BODY).retry_action
            assert action.kind == "retry", (
                f"provider_parse_error does not retry the status {status}: {action}. Set retry_action to "
                "ask.parsing.choose_retry_action(status, headers)."
            )
            action = self.error(status, REFUSAL_BODY, headers).retry_action
            assert action == RetryAction.retry(7.0), (
                f"provider_parse_error ignores the header Retry-After: 7 for the status {status}: {action}. Set "
                "retry_action to ask.parsing.choose_retry_action(status, headers)."
            )

    def test_rejected_requests_are_not_retried(self) -> None:
        for status in REJECTED_STATUSES:
            action = self.error(status, REFUSAL_BODY).retry_action
            assert action.kind != "retry", (
                f"provider_parse_error asks for a retry of the status {status}, which would be rejected again. Set "
                "retry_action to RetryAction.NONE."
            )

    def test_malformed_events_are_handled(self) -> None:
        for kind in ("message", "error", None):
            for data in GARBAGE_BODIES:
                self.read_damaged_stream([RawEvent(kind, data)])

    def test_values_of_wrong_types_in_a_stream_are_handled(self) -> None:
        tested_events: set[RawEvent] = set()
        for events in self.streams.values():
            for i, event in enumerate(events):
                if event in tested_events or parse_json(event.data) is None:
                    continue
                tested_events.add(event)
                for value in generate_corruptions(json.loads(event.data)):
                    corrupt_event = RawEvent(event.event, json.dumps(value))
                    self.read_damaged_stream([*events[:i], corrupt_event, *events[i + 1 :]])

    def test_values_of_wrong_types_in_a_response_are_handled(self) -> None:
        for response in ({}, {"x": 1}, *self.responses.values()):
            for value in generate_corruptions(response):
                if isinstance(value, dict):
                    self.read_damaged_response(value)

    def test_values_of_wrong_types_in_a_models_list_are_handled(self) -> None:
        for body in generate_corruptions(MODELS_BODY if self.models is None else self.models):
            with suppress(AskError):
                models = self.call("provider_parse_models", body=body)
                assert all(model.id for model in models), (
                    f"provider_parse_models returned an empty id for {body}. Leave out entries without a name."
                )

    def test_unexpected_batch_responses_raise_nothing(self) -> None:
        api = self.get_batch_api()
        if api is None:
            return
        for value in UNEXPECTED_VALUES:
            api.parse_batch(value)
            api.parse_list(value)
            api.parse_results(value)

    def read_damaged_stream(self, events: Sequence[RawEvent]) -> None:
        reader = self.open_reader()
        with suppress(AskError):
            self.feed(events, reader)
        with suppress(AskError):
            self.read_damaged_response(self.get_response(reader))

    def read_damaged_response(self, response: Mapping[str, Any]) -> None:
        """Check that all parsing hooks handle a malformed response."""
        with suppress(AskError):
            self.parse_tool_calls(response)
        with suppress(AskError):
            self.call("provider_parse_response", response=response)
        with suppress(AskError):
            self.call("provider_parse_logprobs", response=response)
