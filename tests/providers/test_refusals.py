"""The reason that a content filter gives is shown to the user, streamed or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from ask import ChatRequest, FinishReason, Message, ModelResponse
from ask.client.answers import MAX_REASON_CHARACTERS
from providers.anthropic import format_refusal_reason
from providers.anthropic import provider as anthropic
from providers.gemini import provider as gemini
from providers.gemini_finish import format_filter_reason
from tests import recorded_exchanges
from tests.json_strategies import any_json
from tests.model_server import ModelServer, Reply
from tests.program import Ask
from tests.providers import anthropic_wire, gemini_wire

ASKED = ChatRequest("some-model", [Message("user", "hi")])
WORDS = "This request seems to be about malware."
DETAILS = {"type": "refusal", "category": "cyber", "explanation": WORDS}
HARM = {"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}
HARMLESS = {"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}


def json_reply(body: Any) -> Reply:
    return Reply((json.dumps(body).encode(),))


def read_reason(provider: Any, server: ModelServer, reply: Reply, stream: bool) -> str:
    """Return the reason that the user reads."""
    server.reply(reply)
    turn = recorded_exchanges.send_request(provider, server, ASKED._replace(stream=stream)).result
    assert turn.answer.finish_reason is FinishReason.CONTENT_FILTER
    assert turn.error
    assert turn.error.exit_code == 10
    return str(turn.error)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("details", "reason"),
    [
        (DETAILS, f"(cyber: {WORDS})"),
        ({**DETAILS, "explanation": None}, "(cyber)"),
        ({**DETAILS, "category": None}, f"({WORDS})"),
        (None, ""),
    ],
)
def test_anthropic(server: ModelServer, details: Any, reason: str, stream: bool) -> None:
    if stream:
        end = anthropic_wire.ends("refusal")
        end[0]["delta"]["stop_details"] = details
        reply = anthropic_wire.streams(anthropic_wire.begins(), anthropic_wire.text(0, "Well,"), end)
    else:
        reply = json_reply(anthropic_wire.message_of(reason="refusal") | {"stop_details": details})
    line = read_reason(anthropic, server, reply, stream)
    assert line.endswith(reason)
    assert ("(" in line) == bool(reason)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "prompt blocked: PROHIBITED_CONTENT"),
        (
            {
                "promptFeedback": {
                    "blockReason": "SAFETY",
                    "blockReasonMessage": "No.",
                    "safetyRatings": [HARM, HARMLESS],
                }
            },
            "prompt blocked: SAFETY: No.: HARM_CATEGORY_DANGEROUS_CONTENT",
        ),
        ({"candidates": [{"finishReason": "SPII"}]}, "SPII: the answer may contain sensitive personal information"),
        (
            {
                "candidates": [
                    {"finishReason": "SAFETY", "finishMessage": "Too hot.", "safetyRatings": [HARMLESS, HARM]}
                ]
            },
            "SAFETY: Too hot.: HARM_CATEGORY_DANGEROUS_CONTENT",
        ),
    ],
)
def test_gemini(server: ModelServer, body: Any, reason: str, stream: bool) -> None:
    reply = gemini_wire.streamed(body) if stream else json_reply(body)
    assert read_reason(gemini, server, reply, stream).endswith(f" ({reason})")


def test_reason_is_one_line_of_limited_length(server: ModelServer) -> None:
    details = {**DETAILS, "explanation": "one\n\ntwo " + "word " * 1_000}
    reply = json_reply(anthropic_wire.message_of(reason="refusal") | {"stop_details": details})
    line = read_reason(anthropic, server, reply, False)
    _, separator, reason = line.partition("(cyber: one two word ")
    assert separator
    assert "\n" not in line
    assert len(separator + reason) <= MAX_REASON_CHARACTERS + 2


def test_error_line_includes_the_reason(ask: Ask, server: ModelServer) -> None:
    server.reply(json_reply(anthropic_wire.message_of(reason="refusal") | {"stop_details": DETAILS}))
    env = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": server.base_url}
    result = ask("-p", "anthropic", "--no-stream", "hi", env=env)
    assert result.code == 10
    [line] = [line for line in result.stderr.splitlines() if line.startswith("ask: ")]
    assert line.endswith(f" (cyber: {WORDS})")


def test_other_responses_have_no_reason() -> None:
    assert ModelResponse().finish_message == ""
    assert anthropic.provider_parse_response(anthropic_wire.message_of(reason="end_turn")).finish_message == ""
    assert gemini.provider_parse_response(gemini_wire.whole(gemini_wire.text("Hi."))).finish_message == ""


@given(any_json())
def test_any_value_is_text_or_empty(value: Any) -> None:
    for body in (
        {"stop_reason": "refusal", "stop_details": value},
        {"stop_reason": "refusal", "stop_details": DETAILS | {"category": value}},
    ):
        assert isinstance(format_refusal_reason(body), str)
    for feedback in (value, {"blockReason": value or "SAFETY", "safetyRatings": value, "blockReasonMessage": value}):
        body = {"promptFeedback": feedback, "candidates": [{"safetyRatings": value, "finishMessage": value}]}
        assert isinstance(format_filter_reason(body, "SAFETY"), str)
