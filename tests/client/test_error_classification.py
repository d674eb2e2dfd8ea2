"""Classification of provider errors by their messages, including false positives."""

from __future__ import annotations

import json

import pytest

from ask.client.error_classification import (
    can_other_model_help,
    classify_error,
    convert_to_parameter_error,
    is_message_refused,
    is_option_named,
)
from ask.errors import AskError, ConfigError, NetworkError, ParameterError, ProviderError, RetryAction
from providers.openai import provider as openai
from providers.openrouter import provider as openrouter
from tests.model_server import ModelServer, Reply
from tests.program import Ask


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0.2 with this model."),
        ("temperature", "`temperature` is deprecated for this model."),
        ("temperature", "Invalid value at 'generation_config.temperature' (TYPE_FLOAT), \"hot\""),
        ("temperature", "temperature: range: 0..1"),
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("temperature", "Temperature must be at most 2"),
        ("temperature", "The value is wrong.\ntemperature must be at most 2"),
        ("stop", "Argument not supported on this model: stop"),
        ("stop", "Unsupported parameter: stop."),
        ("stop", "stop does not go with this model"),
        ("seed", "seed: Extra inputs are not permitted"),
        ("top_p", "Only one of temperature and top_p goes"),
        ("max_tokens", "Invalid max_tokens value, the valid range is [1, 8192]"),
        ("think", 'invalid think value: "huge"'),
        ("a(b", "parameter a(b"),
    ],
)
def test_parameter_is_recognized_in_messages_of_services(option: str, message: str) -> None:
    assert is_option_named(option, message)
    error = convert_to_parameter_error(ProviderError(message, 400), {"other": 1, option: 2})
    assert isinstance(error, ParameterError)
    assert error.hint.endswith(f" {option}")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("stop", "the server had to stop before the answer was whole"),
        ("stop", "messages may not end with a stop sequence"),
        ("temperature", "the temperature of the machine room is too high"),
        ("user", "messages must alternate between user and assistant"),
        ("user", "the first message of the user may not be empty"),
        ("seed", "no seed funding: pay first"),
        ("think", "we think that this prompt breaks our policy"),
        ("model", "this model has no tools"),
        ("stop", "do not use nonstop words"),
        ("top_p", "stop_points are no top_points"),
    ],
)
def test_ordinary_words_are_not_taken_for_parameters(option: str, message: str) -> None:
    error = ProviderError(message, 400)
    assert convert_to_parameter_error(error, {option: 1}) is error


def test_parameter_field_takes_precedence_over_the_message() -> None:
    error = ProviderError("that is too much", 422)
    error.parameter = "seed"
    assert isinstance(convert_to_parameter_error(error, {"seed": 1}), ParameterError)
    assert convert_to_parameter_error(error, {"stop": 1}) is error


@pytest.mark.parametrize("status", [None, 401, 429, 500])
def test_other_statuses_are_not_parameter_errors(status: int | None) -> None:
    error = ProviderError("'seed' is not supported", status)
    assert convert_to_parameter_error(error, {"seed": 1}) is error


@pytest.mark.parametrize(
    "message",
    [
        "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - context window exceeded",
        "ContextWindowExceededError: the request is refused",
        "Context window exceeded",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
        "The total length of all messages is too long.",
        "too many tokens: size limit exceeded by 25836 tokens. Try using shorter or fewer inputs.",
        # https://github.com/MiniMax-AI/MiniMax-M2/issues/119, https://github.com/mangowhoiscloud/geode/pull/668
        "invalid params, context window exceeds limit (2013)",
        "Prompt exceeds max length",
        "max_tokens must be at least 1, got -7584.",  # https://github.com/vllm-project/vllm/pull/36789
        "prompt tokens too long: 6000 > 5120",
        "Total tokens of image and text exceed max message tokens.",
        "The number of input tokens 9000 exceeds the model's maximum allowed sequence length 8192",
        "Prompt length 9000 is greater than max_seq_len 8192",
    ],
)
def test_exceeded_context_window_is_recognized(message: str) -> None:
    assert classify_error(ProviderError(message, 400)).retry_action is RetryAction.SHORTER


def test_exceeded_context_window_is_recognized_by_the_code_of_the_error() -> None:
    error = {"message": "Something went wrong.", "code": "context_length_exceeded"}
    canonical = {"message": "Zu lang.", "code": 400, "metadata": {"error_type": "context_length_exceeded"}}
    for provider, body in ((openai, error), (openrouter, canonical)):
        for refused in (
            provider.provider_parse_error(400, {}, json.dumps({"error": body})),
            provider.parse_embedded_error(body),
        ):
            assert classify_error(refused).retry_action is RetryAction.SHORTER
            assert refused.hint.startswith("send less")


@pytest.mark.parametrize("status", [None, 403])
@pytest.mark.parametrize(
    "message",
    [
        "This request was blocked by our safety systems.",  # https://github.com/openai/codex/issues/44355
        "Your request was rejected by the safety system.",
        "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        # xAI names the key, which is not the reason.
        "Content violates usage guidelines. Team: 1, API key ID: 2, Model: 3, Failed check: SAFETY_CHECK_TYPE_BIO",
        "The request was rejected because it was considered high risk",  # https://platform.kimi.com/docs/api/errors
        # OpenRouter: https://openrouter.ai/docs/api_reference/errors-and-debugging#moderation-errors
        'a/b requires moderation on Azure. Your input was flagged for "violence". No credits were charged.',
        "Request blocked: prompt injection patterns detected",
        "Request blocked by content filter: [EMAIL]",
    ],
)
def test_refused_content_is_recognized(message: str, status: int | None) -> None:
    error = classify_error(ProviderError(message, status))
    assert is_message_refused(error)
    assert error.hint == "change the prompt, or use another model"


@pytest.mark.parametrize(
    "message",
    [
        # https://github.com/openai-php/client/issues/565
        "Your organization must be verified to use the model `gpt-image-1`.",
        "Project `proj_1` does not have access to model `gpt-audio`",
        "Your account was flagged for a billing problem",
    ],
)
def test_model_that_is_not_allowed_is_not_refused_content(message: str) -> None:
    error = classify_error(ProviderError(message, 403))
    assert not is_message_refused(error)
    assert error.hint == "use another key or model"


@pytest.mark.parametrize(
    "message", ["`tool calling` is not supported with this model", "tools is not supported in this model."]
)
def test_missing_tool_support_is_recognized(message: str) -> None:
    assert classify_error(ProviderError(message, 400)).retry_action is RetryAction.WITHOUT_TOOLS


@pytest.mark.parametrize(
    "message",
    [
        "The encrypted content gAAA...DQ== could not be verified.",
        "The encrypted content for item rs_0aa9 could not be verified. Reason: it belongs to another organization.",
        "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified encrypted_content.",
        "Google AI Studio: Corrupted thought signature.",
        "Invalid thought signature.",
        "Unable to submit request because Thought signature is not valid..",
        "Item with id 'rs_03ed' not found. Items are not persisted when `store` is set to false.",
        "Azure: Duplicate item found with id fc_2. Remove duplicate items from your input and try again.",
        "Item 'rs_68c4' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.647.content.0.thinking.signature: Field required",
        "messages.1.content.0.thinking: each thinking block must contain thinking",
        "Reasoning input is not enabled for this model",
        "2 errors: Extra inputs are not permitted, field: 'messages[2].tool_calls[0].extra_content'",
        "Extra inputs are not permitted, field: 'messages[2].reasoning_details'",
        "Reasoning input items can only be provided to a reasoning or computer use model. Remove reasoning items.",
        "the following must be satisfied[('messages.4' : property 'reasoning_content' is unsupported)]",
        "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is unsupported",
        "messages.2.assistant.reasoning_content: Extra inputs are not permitted",
        "messages.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
    ],
)
def test_rejected_reasoning_is_left_out(message: str) -> None:
    assert classify_error(ProviderError(message, 400)).retry_action is RetryAction.WITHOUT_REASONING


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "reasoning_effort: Extra inputs are not permitted",
        "property 'timestamp' is unsupported in messages.2",
        "Extra inputs are not permitted, field: 'messages[2].is_error'",
        "messages: at least one message is required",
    ],
)
def test_other_refusals_do_not_concern_earlier_reasoning(message: str) -> None:
    assert classify_error(ProviderError(message, 400)).retry_action is RetryAction.NONE


@pytest.mark.parametrize("input_type", ["image", "audio"])
def test_unsupported_input_is_not_retried(input_type: str) -> None:
    message = f"{input_type} input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    error = classify_error(ProviderError(message, 500, RetryAction.retry()))
    assert error.retry_action is RetryAction.NONE
    assert "model" in error.hint
    other = classify_error(ProviderError("the model crashed", 500, RetryAction.retry()))
    assert other.retry_action == RetryAction.retry()


def test_image_for_a_local_server_without_vision_is_sent_once(ask: Ask, server: ModelServer) -> None:
    body = {"error": {"code": 500, "message": "image input is not supported - hint: ...", "type": "server_error"}}
    server.reply(Reply((json.dumps(body).encode(),), status=500))
    result = ask("-p", "lmstudio", "-m", "m", "hi", env={"LMSTUDIO_BASE_URL": server.base_url})
    assert (result.code, len(server.requests)) == (6, 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NetworkError("cannot connect"), True),
        (ProviderError("the model stopped with an error"), True),
        (ProviderError("overloaded", 529), True),
        (ProviderError("slow down", 429, RetryAction.retry(600)), True),
        (ProviderError("add credits", 402), True),
        (ProviderError("Your credit balance is too low", 400, RetryAction.NEXT_KEY), True),
        (ProviderError("Your team has reached its spending limit", 403, RetryAction.NEXT_KEY), True),
        (ProviderError("Key limit exceeded (total limit)", 403, RetryAction.NEXT_KEY), True),
        (ProviderError("Workspace monthly budget of $500.00 exceeded", 403, RetryAction.NEXT_KEY), True),
        (ProviderError("prompt is too long", 400, RetryAction.SHORTER), True),
        (ProviderError("Incorrect API key provided", 400, RetryAction.NEXT_KEY), False),
        (ProviderError("no such model", 404), False),
        (ProviderError("invalid credit card number in messages.0", 400), False),
        (ParameterError("temperature is 9"), False),
        (ConfigError("no key"), False),
    ],
)
def test_another_model_can_help_unless_the_request_is_wrong(error: AskError, expected: bool) -> None:
    assert can_other_model_help(error) is expected
