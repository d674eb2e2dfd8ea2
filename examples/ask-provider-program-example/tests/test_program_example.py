"""The provider meets the contract, and runs its program as documented."""

import json
from typing import Any

import pytest
from ask_provider_program_example import provider as mynah

from ask import ChatRequest, Message, ProviderError, RawEvent, TextDelta
from ask.testing import ProviderContract


def stream(*events: dict[str, Any]) -> list[RawEvent]:
    return [RawEvent(None, json.dumps(event)) for event in events]


OK = {"status": 0, "errors": ""}
FAILED = {"status": 1, "errors": "Loading.\nThe machine is overloaded\n"}


class TestMynah(ProviderContract):
    provider = mynah
    unsupported = {"attachments", "filter", "length", "reasoning", "schema", "tools", "usage"}
    samples = {
        "text": stream({"text": "Hello, "}, {"text": "wörld!"}, OK),
        "error": stream({"text": "Hello, w"}, FAILED),
        "cut": stream({"text": "Hello, w"}),
    }


def run(*words: str, **options: object) -> tuple[list[str], str]:
    """Send a conversation with these words; return the pieces of the answer, and all of it."""
    request = ChatRequest("mynah-1", [Message("user", word) for word in words], options=options)
    reader = mynah.provider_stream_reader()
    events = mynah.provider_send(mynah.provider_build_request(request, ""), 10)
    pieces = [delta.text for event in events for delta in reader.feed(event) if isinstance(delta, TextDelta)]
    assert reader.complete
    return pieces, mynah.provider_parse_response(reader.response()).text


def test_the_program_gets_the_conversation_and_its_lines_are_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYNAH_COMMAND", "tr a-z A-Z")
    assert run("hello", "wörld") == (["HELLO\n", "\n", "WöRLD"], "HELLO\n\nWöRLD")


def test_options_become_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYNAH_COMMAND", "printf %s")
    assert run("hello", temperature=0.5)[1] == "--temperature=0.5"


def test_a_failure_is_reported_with_the_last_line_of_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYNAH_COMMAND", "sh -c 'echo So far.; echo no >&2; echo disk full >&2; exit 7'")
    with pytest.raises(ProviderError, match="status 7: disk full") as caught:
        run("hello")
    assert caught.value.partial_response
    assert caught.value.partial_response.text == "So far.\n"
