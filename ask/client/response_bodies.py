"""The bodies of HTTP responses: complete answers, errors, and what is neither."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ask.config.key_advice import format_key_advice
from ask.errors import AskError, IncompleteStreamError, ProviderError, RetryAction
from ask.messages import ModelResponse, RawEvent, Usage
from ask.parsing import DONE_DATA, parse_json
from ask.plugin_api.loaded_provider import LoadedProvider, PluginResponse
from ask.text import format_one_line

if TYPE_CHECKING:
    from typing import TypeAlias

    from ask.client.transport import HttpResponse

    Response: TypeAlias = "HttpResponse | PluginResponse"

WRONG_URL_STATUSES = (404, 405)
"""HTTP statuses that may mean a wrong base URL."""
RETRY_HINT = "ask again"
MAX_EXCERPT_CHARACTERS = 200
"""The limit for the excerpt of an unexpected response in an error message."""
ANSWER_FIELDS = {"choices", "output", "content", "candidates", "promptFeedback", "message", "id", "object", "model"}
"""The fields of which an empty answer of some API has at least one; other JSON is from another program."""


class ApiFormat(NamedTuple):
    """An API's title, a part of the URL of its requests, its name in config.toml, and what its answers begin with."""

    title: str
    path: str
    name: str
    pattern: str


API_FORMATS = (
    ApiFormat("Responses", "/responses", "responses", r'"object"\s*:\s*"response"|"type"\s*:\s*"response\.'),
    ApiFormat("Messages", "/messages", "messages", r'(?s)\A(?=.*"type"\s*:\s*"message").*"stop_reason"'),
    ApiFormat("Chat Completions", "/chat/completions", "chat", r'"choices"\s*:\s*\['),
    ApiFormat("Gemini", "enerateContent", "gemini", r'"candidates"\s*:\s*\['),
    ApiFormat("Ollama", "/api/chat", "", r'"message"\s*:.*"done"\s*:\s*(?:true|false)'),
)
"""The APIs that a server may have in place of the one that the user has set.

https://github.com/zeenie-ai/OpenCompany/issues/114
"""


class BodyReader:
    """Reads the bodies of a provider's responses.

    Args:
        provider: the provider.
        key: the key that was sent, which errors may be about; "" for none.
        key_origin: where the key is set.
    """

    def __init__(self, provider: LoadedProvider, key: str, key_origin: str) -> None:
        self._provider = provider
        self._key = key
        self._key_origin = key_origin

    def parse_answer(self, http_response: Response) -> Mapping[str, Any]:
        """Parse the body of a complete answer.

        Raises:
            AskError: it contains an error or something else, or was cut off.
        """
        text = http_response.read_text().strip()
        if text and not text.startswith(("{", "[")):
            raise self.make_unexpected_body_error(http_response, text)
        try:
            response = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            lines = (line.strip() for line in text.split("\n"))
            events = [parse_json(line) for line in lines if line not in ("", DONE_DATA)]
            # Lines of JSON in place of server-sent events
            response = self._read_event_array(events) if len(events) > 1 and None not in events else None
            if not isinstance(response, dict):
                self.check_format(http_response, text)
                raise IncompleteStreamError("the answer was cut off", RETRY_HINT, retryable=True) from None
        if isinstance(response, list):
            response = self._read_event_array(response)
        if not isinstance(response, dict):
            raise self.parse_error(http_response, text)
        return response

    def check_format(self, http_response: Response, text: str) -> None:
        """Raise the error for a response without an answer if it begins like the answer of another API."""
        url = http_response.format_shown_url()
        requested = [api.pattern for api in API_FORMATS if api.path in url]
        found = next((api for api in API_FORMATS if re.search(api.pattern, text)), None)
        if not requested or found is None or any(re.search(pattern, text) for pattern in requested):
            return
        error = ProviderError(f"the server answered in the format of the {found.title} API")
        error.hint = f"check the base URL (sent to {url})"
        if found.name:
            error.hint += f', or describe the service in config.toml, with base_url and api = "{found.name}"'
        error.is_from_api = False
        raise self.classify(error)

    def check_empty_answer(self, http_response: Response, answer: ModelResponse, response: Mapping[str, Any]) -> None:
        """Raise the error for a response without an answer that is not from this API."""
        text = json.dumps(response)
        self.check_format(http_response, text)
        if response and answer.usage == Usage() and not ANSWER_FIELDS & response.keys():
            raise self.make_unexpected_body_error(http_response, text)

    def make_missing_end_error(self, http_response: Response, has_deltas: bool) -> AskError:
        """Return the error for a stream that ended without its end marker, or raise that of `check_format`."""
        if has_deltas:
            return IncompleteStreamError("the answer was cut off", RETRY_HINT, retryable=True)
        if unexpected_text := http_response.read_unexpected_text():
            return self.make_unexpected_body_error(http_response, unexpected_text)
        self.check_format(http_response, http_response.excerpt)
        words = format_one_line(http_response.read_words(), MAX_EXCERPT_CHARACTERS)
        message = f"no answer arrived, only {words!r}" if words else "no answer arrived"
        return IncompleteStreamError(message, RETRY_HINT, retryable=True)

    def _read_event_array(self, events: list[Any]) -> Any:
        """Convert a JSON array of stream events to a response.

        Gemini sends such an array if a proxy drops `alt=sse` from the URL.
        """
        reader = self._provider.hooks.provider_stream_reader()
        self._provider.feed(reader, [RawEvent(None, json.dumps(event)) for event in events], [])
        return self._provider.get_response(reader) if reader.complete else events

    def parse_error(self, http_response: Response, body: str) -> ProviderError:
        """Parse the error in a response; a redirect counts as one."""
        if 300 <= http_response.status < 400:
            location = http_response.headers.get("Location", "another place")
            hint = f"update the base URL (sent to {http_response.format_shown_url()})"
            error = ProviderError(f"redirected to {location}", http_response.status, hint=hint)
            error.is_from_api = False
            return self.classify(error)
        parse_error = self._provider.hooks.provider_parse_error
        error = parse_error(status=http_response.status, headers=http_response.headers, body=body)
        self.classify(error)
        if body.lstrip().startswith("<") and error.retry_action == RetryAction.NONE:
            # A login page, a filter of the network, or another program on the port
            error.is_from_api = False
            error.message = f"a web page came instead of an answer: {error.message}"
            error.hint = f"check the base URL, the network and the proxy (sent to {http_response.format_shown_url()})"
        elif http_response.status in WRONG_URL_STATUSES and error.retry_action == RetryAction.NONE:
            error.hint = f"{error.hint} (sent to {http_response.format_shown_url()})"
            error.is_from_api = parse_json(body) is not None  # not Traefik's "404 page not found" without a server
        return error

    def make_unexpected_body_error(self, http_response: Response, text: str) -> ProviderError:
        """Return the error for a response that is not from the API, such as a proxy's page."""
        if text.startswith("<"):
            return self.parse_error(http_response, text)
        error = ProviderError(f"unexpected response: {format_one_line(text, MAX_EXCERPT_CHARACTERS)}")
        error.hint = f"check the base URL (sent to {http_response.format_shown_url()})"
        error.is_from_api = False
        return self.classify(error)

    def classify(self, error: ProviderError) -> ProviderError:
        """Add to an error what its text says about its cause, and advice."""
        from ask.client.error_classification import KEY_REJECTED_PATTERN, classify_error

        error.provider = self._provider.info.name
        is_about_key = error.status == 401 or KEY_REJECTED_PATTERN.search(error.message)
        if is_about_key and self._key and (not error.hint or error.hint.startswith("check the key")):
            error.hint = format_key_advice(error.provider, self._key, self._key_origin)
        return classify_error(error)
