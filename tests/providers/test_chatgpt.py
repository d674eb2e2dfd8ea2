"""The ChatGPT plan: OpenAI's Responses API with the restrictions of its preview. Signing in: tests/login."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from ask import Message, RetryAction, ToolCall, ToolSpec
from ask.client.retries import choose_retry_delay
from ask.testing import ProviderContract
from providers.chatgpt import ERRORS, NAMESPACE, provider
from tests import responses_wire
from tests.authorization_server import MODELS, find_unsupported
from tests.host_requests import prepare_request

TOOL = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


class TestChatGPT(ProviderContract):
    provider = provider
    models: ClassVar[Any] = {"models": MODELS}
    test_values_of_wrong_types_in_a_stream_are_handled = pytest.mark.slow(
        ProviderContract.test_values_of_wrong_types_in_a_stream_are_handled
    )

    def test_request_depends_on_stream(self) -> None:
        """It does not: the service only streams."""
        bodies = [build_body(Message("user", "hi"), stream=stream) for stream in (True, False)]
        assert [body["stream"] for body in bodies] == [True, True]


def build_body(*messages: Message, **fields: Any) -> dict[str, Any]:
    request = prepare_request(provider, "gpt-6-sol", messages, [TOOL])._replace(**fields)
    return dict(provider.provider_build_request(request, "token").body or {})


@pytest.mark.parametrize("stream", [True, False])
def test_requests_hold_only_what_the_preview_supports(stream: bool) -> None:
    call = ToolCall("call_1", "bash", '{"command": "date"}')
    messages = (
        Message("system", "Be brief."),
        Message("user", "what time is it?"),
        Message("assistant", "", (call,)),  # of another service
        Message("tool", "noon", (), "call_1", "bash"),
    )
    body = build_body(*messages, stream=stream, conversation_id="c1", show_reasoning=True)
    assert find_unsupported(body) == ""
    responses_wire.check_request(body)
    developer, _, function_call, result = body["input"]
    assert developer["role"] == "developer"
    assert (function_call["namespace"], function_call["name"]) == (NAMESPACE, "bash")
    assert result["output"] == "noon"
    [namespace] = body["tools"]
    assert [tool["name"] for tool in namespace["tools"]] == ["bash"]


def test_models_that_are_not_for_display_are_left_out() -> None:
    models = provider.provider_parse_models({"models": [*MODELS, {"slug": 7, "visibility": "list"}, None]})
    assert [(model.id, model.title) for model in models] == [("gpt-6-sol", "GPT-6 Sol"), ("gpt-6-luna", "GPT-6 Luna")]
    assert provider.provider_parse_models({"data": []}) == []


@pytest.mark.parametrize("code", ERRORS)
def test_errors_of_the_plan_have_a_status_and_a_remedy(code: str) -> None:
    body = json.dumps({"error": {"code": code, "message": "The reason."}})
    for status in (200, 403):
        error = provider.provider_parse_error(status, {}, body)
        assert error.status == ERRORS[code][0]
        assert error.message.endswith("The reason.")
        is_temporary = error.status == 503
        assert (choose_retry_delay(error, 1, 0.5) is not None) == is_temporary
        assert error.hint or is_temporary or error.status == 400


def test_an_error_about_a_tool_names_it() -> None:
    error = {"message": "Invalid schema", "param": "tools[0].tools[3].parameters"}
    parsed = provider.provider_parse_error(400, {}, json.dumps({"error": error}))
    assert (parsed.parameter, parsed.retry_action) == ("tools[3].parameters", RetryAction.NONE)


def test_answers_cost_nothing() -> None:
    answer = provider.provider_parse_response(responses_wire.response(responses_wire.message("Hello.")))
    assert (answer.usage.cost, answer.usage.output_tokens) == (0, 7)
