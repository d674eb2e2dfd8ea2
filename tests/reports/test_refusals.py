"""Reports about refusals that no user caused: the request is changed, or the message names what caused it."""

from __future__ import annotations

import itertools
import json
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from ask import ChatCompletions, RetryAction
from ask.plugin_api.provider import remove_quotations
from tests import responses_wire, wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home, Result
from tests.providers import gemini_wire
from tests.sample_files import png

SERVICE = ["-p", "custom", "-m", "test/model"]
OPENAI = ["-p", "openai", "-m", "o3"]
GEMINI = ["-p", "gemini", "-m", "gemma-3-27b-it"]
CALL = wire.calls(("bash", {"command": "echo ok"}))


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    config = f'[network]\nbackoff = 0.001\n[providers.custom]\nbase_url = "{server.base_url}"\nkey_env = "CUSTOM_KEY"\n'
    home.configure(config)
    return Ask({**ask.env, "CUSTOM_KEY": "key-of-the-service"}, ask.cwd)


def refuse(status: int, message: str, **fields: Any) -> Reply:
    return wire.whole_reply({"error": {"message": message, **fields}}, status)


def answer(request: Request) -> Reply:
    """Answer a request in its format."""
    body = request.json
    if request.path.endswith("/responses"):
        return responses_wire.says("Hello", stream=bool(body.get("stream")))
    if "generateContent" in request.path.replace("streamG", "g"):
        return gemini_wire.streamed(*gemini_wire.chunks({"text": "Hello"}))
    return wire.says("Hello", whole=not body.get("stream"))


def ask_strict(
    ask: Ask, server: ModelServer, is_refused: Callable[[Any], Any], refusal: Reply, *arguments: str
) -> Result:
    """Ask a service that refuses some requests and answers all others."""
    server.reply(lambda request: refusal if is_refused(request.json) else answer(request))
    return ask(*arguments, "go")


def has(name: str) -> Callable[[Any], bool]:
    return lambda body: name in body


def is_streamed(body: Any) -> bool:
    return bool(body.get("stream"))


def has_system_message(body: Any) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


VERIFY = "Your organization must be verified to {}. Please go to: https://platform.openai.com/settings"
REFUSED_PARTS = [
    # https://github.com/anomalyco/opencode/issues/4698
    (SERVICE, has("stream_options"), refuse(400, "Unrecognized request argument supplied: stream_options")),
    # https://github.com/charmbracelet/crush/issues/422
    (OPENAI, is_streamed, refuse(400, VERIFY.format("stream this model"), param="stream")),
    (SERVICE, is_streamed, refuse(400, "Streaming is not supported for this model")),
    (
        [*OPENAI, "-v"],
        lambda body: "summary" in body.get("reasoning", {}),
        refuse(400, VERIFY.format("generate reasoning summaries"), param="reasoning.summary"),
    ),
    (
        [*SERVICE, "--no-stream"],
        lambda body: not body.get("stream"),
        refuse(400, "This model only support stream mode"),
    ),
    (SERVICE, has("tool_choice"), refuse(400, "Unsupported parameter: 'tool_choice'", param="tool_choice")),
    # https://github.com/vllm-project/vllm/issues/9986
    (SERVICE, has("tools"), refuse(400, '"auto" tool choice requires --enable-auto-tool-choice to be set')),
    # https://github.com/defilantech/LLMKube/issues/126, https://github.com/microsoft/autogen/issues/1037
    (SERVICE, has("tools"), refuse(500, "tools param requires --jinja flag")),
    (SERVICE, has_system_message, refuse(500, "System role not supported")),
    (SERVICE, has_system_message, refuse(400, "Conversation roles must alternate user/assistant/user/assistant/...")),
    (GEMINI, has("systemInstruction"), refuse(400, "Developer instruction is not enabled for models/gemma-3-27b-it")),
    # https://github.com/open-webui/open-webui/issues/5683
    (
        SERVICE,
        has_system_message,
        refuse(400, "Unsupported value: 'messages[0].role' does not support 'system' with this model."),
    ),
    # Bedrock: https://github.com/Mintplex-Labs/anything-llm/pull/2489, https://github.com/continuedev/continue/issues/1938
    (SERVICE, has_system_message, refuse(400, "This model doesn't support system prompts.")),
    (
        SERVICE,
        has_system_message,
        refuse(400, "'messages.1.member.role': Member must satisfy enum value set: [user, assistant]"),
    ),
    # MiniMax: https://github.com/BigPizzaV3/CodexPlusPlus/issues/267
    (SERVICE, has_system_message, refuse(400, "invalid params, chat content has invalid message role: system (2013)")),
    (
        SERVICE,
        has_system_message,
        wire.whole_reply(
            {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "Input should be 'user' or 'assistant'"}]}, 422
        ),
    ),
    # https://github.com/earendil-works/pi/issues/3739, https://github.com/obot-platform/obot/issues/6740
    (SERVICE, is_streamed, refuse(400, "This model doesn't support tool use in streaming mode.")),
    (SERVICE, is_streamed, refuse(500, "This model doesn't support tool use in streaming mode.")),
    # https://github.com/danny-avila/LibreChat/issues/8877
    (SERVICE, is_streamed, refuse(400, "The model is unsupported for streaming.")),
    # https://github.com/musistudio/claude-code-router/issues/948
    (
        [*SERVICE, "--no-stream"],
        lambda body: not body.get("stream"),
        refuse(400, "enable thinking can not be support when `stream=False`."),
    ),
    # Cohere: https://github.com/langchain-ai/langchain-cohere/issues/161
    (SERVICE, has("tool_choice"), refuse(422, "unrecognized tool choice option 'auto'")),
    # https://github.com/langchain-ai/opengpts/issues/166, https://github.com/lobehub/lobehub/issues/1118
    (SERVICE, has("tools"), refuse(404, "Unrecognized request argument supplied: tools")),
    (SERVICE, has("tools"), refuse(400, "Unrecognized request arguments supplied: tool_choice, tools")),
    (SERVICE, has("tools"), refuse(422, "tools: Extra inputs are not permitted")),
    # Together, OpenRouter behind another address, Bedrock
    (SERVICE, has("tools"), refuse(400, "org/name is not supported for function calling", param="tools")),
    (SERVICE, has("tools"), refuse(404, "No endpoints found that support tool use.")),
    (SERVICE, has("tools"), refuse(400, "This model doesn't support tool use.")),
    # https://github.com/anomalyco/opencode/issues/37964
    (
        [*SERVICE, "-o", "max_tokens=100"],
        has("max_tokens"),
        refuse(400, "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
    ),
    (
        [*OPENAI[:2], "-m", "gpt-4o-audio-preview", "-o", "max_tokens=100"],
        has("max_completion_tokens"),
        refuse(400, "Unrecognized request argument supplied: max_completion_tokens"),
    ),
]


@pytest.mark.parametrize(("arguments", "is_refused", "refusal"), REFUSED_PARTS)
def test_a_part_that_the_service_refuses_is_left_out_or_replaced(
    ask: Ask, server: ModelServer, arguments: list[str], is_refused: Callable[[Any], Any], refusal: Reply
) -> None:
    result = ask_strict(ask, server, is_refused, refusal, *arguments)
    assert (result.code, result.text) == (0, "Hello\n"), result.stderr
    assert result.stderr.count("trying once more") == 1
    assert len(server.requests) == 2


def test_the_system_prompt_is_still_sent_if_its_role_is_refused(ask: Ask, server: ModelServer) -> None:
    result = ask_strict(ask, server, has_system_message, refuse(400, "System role not supported"), *SERVICE)
    assert result.code == 0, result.stderr
    first, second = (request.json["messages"] for request in server.requests)
    assert second == [{"role": "user", "content": f"{first[0]['content']}\n\n{first[1]['content']}"}]


def test_max_tokens_keeps_its_value_under_its_other_name(ask: Ask, server: ModelServer) -> None:
    refusal = refuse(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    assert ask_strict(ask, server, has("max_tokens"), refusal, *SERVICE, "-o", "max_tokens=100").code == 0
    assert server.requests[-1].json["max_completion_tokens"] == 100


def test_no_tools_are_sent_where_none_may_be_called_and_tool_choice_is_refused(ask: Ask, server: ModelServer) -> None:
    def reply(request: Request) -> Reply:
        choice = request.json.get("tool_choice")
        return CALL if choice == "auto" else refuse(400, "tool_choice 'none' is invalid") if choice else answer(request)

    server.reply(reply)
    result = ask(*SERVICE, "--max-rounds", "1", "go")
    assert (result.code, result.text) == (11, "Hello\n"), result.stderr
    assert "tools" not in server.requests[-1].json


@pytest.mark.parametrize(
    "message",
    [
        # A proxy that renames the parameter itself
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "Streaming is required for this model; non-streaming is not supported",
        "This service does not support stream mode, and only supports stream mode",
    ],
)
def test_a_refusal_that_stays_the_same_is_resolved_once_at_most(ask: Ask, server: ModelServer, message: str) -> None:
    server.reply(*[refuse(400, message)] * 9, answer)
    result = ask(*SERVICE, "-o", "max_tokens=100", "go")
    assert result.code != 0
    bodies = [request.body for request in server.requests]
    assert len(set(bodies)) == len(bodies) <= 2


@pytest.mark.parametrize(
    "message",
    [
        "Invalid value for 'content': expected a string, got null.",
        "messages.2.content: Input should be a valid string",
        "Type mismatch of '/messages/2/content', 'null' not in 'string'",
    ],
)
def test_null_in_a_message_of_calls_becomes_empty_text(ask: Ask, server: ModelServer, message: str) -> None:
    # https://github.com/docker/docker-agent/issues/63
    def reply(request: Request) -> Reply:
        contents = [message["content"] for message in request.json["messages"]]
        if None in contents:
            return refuse(400, message)
        return CALL if len(contents) < 3 else answer(request)

    server.reply(reply)
    assert ask(*SERVICE, "go").text == "Hello\n"
    assert server.requests[-1].json["messages"][2]["content"] == ""


@pytest.mark.parametrize(
    "message",
    [
        "Unexpected role 'user' after role 'tool'",
        "After the optional system message, conversation roles must alternate user and assistant roles",
    ],
)
def test_a_question_after_results_without_an_answer_is_accepted(ask: Ask, server: ModelServer, message: str) -> None:
    # https://github.com/aaif-goose/goose/issues/5998, https://github.com/mistralai/mistral-vibe/issues/578
    def reply(request: Request) -> Reply:
        roles = [message["role"] for message in request.json["messages"]]
        if ("tool", "user") in itertools.pairwise(roles):
            return refuse(400, message)
        return (
            CALL if roles[-1] == "user" and len(roles) == 2 else wire.says("") if len(roles) == 4 else answer(request)
        )

    server.reply(reply)
    assert ask(*SERVICE, "go").code == 10
    result = ask("-c", "and now?")
    assert (result.code, result.text) == (0, "Hello\n"), result.stderr
    roles = [message["role"] for message in server.requests[-1].json["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_an_answer_of_nothing_but_spaces_is_not_sent_again(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(" \n"), wire.says("Hello"))
    assert ask(*SERVICE, "go").code == 10
    assert ask("-c", "and now?").code == 0
    assert [message["role"] for message in server.requests[-1].json["messages"]] == ["system", "user"]


def test_a_change_applies_to_all_later_requests_of_a_run(ask: Ask, server: ModelServer) -> None:
    def reply(request: Request) -> Reply:
        body = request.json
        if "stream_options" in body:
            return refuse(400, "stream_options: Extra inputs are not permitted")
        return CALL if len(body["messages"]) < 3 else answer(request)

    server.reply(reply)
    assert ask(*SERVICE, "go").code == 0
    assert ["stream_options" in request.json for request in server.requests] == [True, False, False]


def test_map_changes_the_requests_of_all_rows_with_one_notice(ask: Ask, server: ModelServer) -> None:
    refusal = refuse(400, "System role not supported")
    server.reply(lambda request: refusal if has_system_message(request.json) else answer(request))
    result = ask("map", *SERVICE, "-j", "1", "Again:", stdin=b"1\n2\n3\n")
    assert (result.code, len(server.requests)) == (0, 4), result.stderr
    assert result.stderr.count("with the system prompt in the first message") == 1


def test_threads_of_map_share_a_change(ask: Ask, server: ModelServer) -> None:
    def refuse_twice(request: Request) -> Reply:
        if not has_system_message(request.json):
            return answer(request)
        server.wait_for_requests(2)
        return refuse(400, "System role not supported")

    server.reply(refuse_twice)
    result = ask("map", *SERVICE, "-j", "2", "Again:", stdin=b"1\n2\n3\n4\n")
    assert (result.code, len(server.requests)) == (0, 6), result.stderr
    assert result.stderr.count("with the system prompt in the first message") == 1


def test_a_service_that_wants_opposite_things_is_not_asked_forever(ask: Ask, server: ModelServer) -> None:
    server.reply(
        lambda request: refuse(
            400, "Streaming is not supported" if request.json.get("stream") else "This model only supports stream mode"
        )
    )
    result = ask(*SERVICE, "go")
    assert result.code == 6, result.stderr
    assert len(server.requests) <= 3


@pytest.mark.parametrize("option", ["stream_options={}", "tool_choice=auto", "store=true"])
def test_an_option_of_the_user_is_not_left_out(ask: Ask, server: ModelServer, option: str) -> None:
    name = option.partition("=")[0]
    result = ask_strict(ask, server, has(name), refuse(400, f"Unknown parameter: {name}"), *SERVICE, "-o", option)
    assert (result.code, name in result.stderr, len(server.requests)) == (7, True, 1)


def test_a_refusal_of_everything_ends_the_run(ask: Ask, server: ModelServer) -> None:
    for message in ("stream_options and tool_choice", "Streaming is not supported; system role not supported"):
        result = ask_strict(ask, server, lambda body: True, refuse(400, message), *SERVICE)
        assert (result.code, len(server.requests) <= 8) == (6, True)


# What the account, the key, the model or a file is refused for


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"code": "insufficient_quota", "message": "You exceeded your current quota"}),  # openai/codex#6340
        (429, {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}),  # Z.ai
        (429, {"code": "1113", "message": "您的账户已欠费，请充值后重试。"}),  # noqa: RUF001 - its words
        (429, {"type": "insufficient_quota", "message": "No credits"}),
        # https://github.com/TiaraBasori/OpenCode2API/issues/5
        (401, {"type": "CreditsError", "message": "Insufficient balance. Manage your billing here: https://x.test"}),
        # https://github.com/infiniflow/ragflow/issues/1552
        (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}),
        (403, {"message": "Sorry, your account balance is insufficient"}),  # SiliconFlow
        # Alibaba: https://github.com/666ghj/BettaFish/issues/609
        (403, {"code": "AllocationQuota.FreeTierOnly", "message": "The free tier of the model has been exhausted."}),
        # LiteLLM: https://github.com/BerriAI/litellm/issues/14144, https://github.com/BerriAI/litellm/pull/37000
        (400, {"code": "400", "message": "Budget has been exceeded! Current cost: 14.2, Max budget: 10"}),
        (429, {"code": "429", "type": "budget_exceeded", "message": "Ask the platform team"}),
        # https://github.com/BerriAI/litellm/issues/14144, https://github.com/continuedev/continue/issues/11579
        (429, {"code": "429", "message": "No deployments available - crossed budget: Exceeded budget for deployment"}),
        (400, {"code": "400", "message": "ExceededBudget: User=4865 over budget. Spend=10.63354472, Budget=10.0"}),
    ],
)
def test_an_error_about_credit_is_not_sent_again(ask: Ask, server: ModelServer, status: int, error: Any) -> None:
    # https://github.com/openai/codex/pull/6340, https://github.com/vybestack/llxprt-code/issues/3140
    server.reply(wire.whole_reply({"error": error}, status))
    result = ask(*SERVICE, "go")
    assert (result.code, len(server.requests), "add credit" in result.stderr) == (6, 1, True)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        # https://github.com/hugalafutro/model-hotel/pull/955, https://github.com/dirge-code/dirge/issues/818
        (
            429,
            {"code": "1308", "message": "Usage limit reached for 5 hour. Your limit will reset at 2026-12-02 05:38:28"},
        ),
        (429, {"code": "1308", "message": "已达到 5 小时的使用上限。您的限额将在 2026-12-02 07:41:44 重置。"}),
        # https://github.com/LionSR/TeXRA/pull/9865
        (429, {"code": "1310", "message": "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-12-03"}),
        # https://github.com/openclaw/openclaw/pull/142656
        (403, {"type": "access_terminated_error", "message": "You've reached your weekly (7-day) usage limit."}),
        # https://github.com/anomalyco/opencode/issues/42977
        (429, {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."}),
        # https://github.com/diegosouzapw/OmniRoute/issues/6980
        (429, {"code": 4006, "message": "you have used up your daily free allocation of 10,000 neurons"}),
        # https://github.com/quangdang46/jcode/issues/166
        (429, {"type": "usage_limit_reached", "message": "The usage limit has been reached"}),
    ],
)
def test_a_limit_that_is_used_up_for_hours_is_not_waited_for(
    ask: Ask, server: ModelServer, status: int, error: Any
) -> None:
    server.reply(wire.whole_reply({"error": error}, status))
    result = ask(*SERVICE, "go")
    assert (result.code, len(server.requests), "another key" in result.stderr) == (6, 1, True)
    (ask.cwd / "rows.txt").write_text("a\nb\nc\n")
    result = ask("map", "-j1", *SERVICE, "{{line}}", "rows.txt", "-O", "rows.jsonl")
    assert (result.code, len(server.requests)) == (6, 2), result.stderr


def test_the_wait_until_a_used_up_limit_is_reset_is_named(ask: Ask, server: ModelServer) -> None:
    # https://github.com/anomalyco/opencode/issues/47613
    error = {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."}
    server.reply(Reply((json.dumps({"error": error}).encode(),), 429, headers={"Retry-After": "42694"}))
    result = ask(*SERVICE, "go")
    assert (result.code, len(server.requests), "11.9 h" in result.stderr) == (6, 1, True), result.stderr


def test_a_quota_of_zero_is_not_waited_for(ask: Ask, server: ModelServer) -> None:
    # https://github.com/Gitlawb/openclaude/pull/249
    message = "You exceeded your current quota. * Quota exceeded for metric: requests, limit: 0, model: x"
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}
    server.reply(wire.whole_reply({"error": {"code": 429, "message": message, "details": [retry]}}, 429))
    result = ask(*GEMINI, "go")
    assert (result.code, len(server.requests), "free tier" in result.stderr) == (6, 1, True)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        # Groq: https://github.com/pydantic/pydantic-ai/issues/2759
        (400, {"message": "Failed to call a function. See 'failed_generation'.", "code": "tool_use_failed"}),
        (200, {"message": "The model did not call a tool.", "code": "tool_use_failed", "status_code": 400}),
        # gpt-oss: https://github.com/vllm-project/vllm/issues/23567, https://github.com/tenstorrent/vllm/issues/386
        (400, {"message": 'unexpected tokens remaining in message header: Some("to=functions.x")'}),
        (200, {"message": "Unexpected token 12606 while expecting start token 200006", "code": 400}),
    ],
)
def test_an_answer_that_its_server_cannot_parse_is_requested_again(
    ask: Ask, server: ModelServer, status: int, error: Any
) -> None:
    server.reply(wire.whole_reply({"error": error}, status), answer)
    result = ask(*SERVICE, "go")
    assert (result.code, result.text, len(server.requests)) == (0, "Hello\n", 2), result.stderr
    server.reply(*[wire.whole_reply({"error": error}, status)] * 4)
    assert "try again later" in ask(*SERVICE, "go").stderr.splitlines()[-1]
    assert len(server.requests) == 4, "each answer costs tokens"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "Failed to generate JSON. See 'failed_generation'.", "code": "json_validate_failed"}),  # Groq
        (
            400,
            {"code": "json_validate_failed", "failed_generation": "Insufficient balance. Please recharge."},
        ),
        # https://github.com/ggml-org/llama.cpp/pull/17572, https://github.com/ggml-org/llama.cpp/issues/23463
        (500, {"message": 'JSON schema conversion failed:\nUnrecognized schema: {"not":{}}', "type": "server_error"}),
        (501, {"message": "json_schema is not implemented"}),
        # https://github.com/presenton/presenton/issues/184
        (400, {"message": "Json mode response is not supported when enable_thinking is true"}),
        (400, {"message": "Cannot use guided decoding"}),
        # https://github.com/OpenRouterTeam/openrouter-examples/issues/71
        (422, {"message": "unknown field: parameter 'strict' is not a valid field."}),
    ],
)
def test_a_schema_that_cannot_be_enforced_is_sent_in_the_prompt(
    ask: Ask, server: ModelServer, status: int, error: Any
) -> None:
    def reply(request: Request) -> Reply:
        refusal = wire.whole_reply({"error": error}, status)
        return refusal if "response_format" in request.json else wire.says('{"age": 3}')

    server.reply(reply)
    result = ask(*SERVICE, "--no-tools", "--schema", "age int", "go")
    assert (result.code, result.text, len(server.requests)) == (0, '{"age":3}\n', 2), result.stderr


@pytest.mark.parametrize("message", ["it failed on a response_format", "JSON schema validator timed out"])
def test_a_failure_that_mentions_schemas_is_sent_again(ask: Ask, server: ModelServer, message: str) -> None:
    server.reply(refuse(500, message), answer)
    result = ask(*SERVICE, "go")
    assert (result.code, result.text, len(server.requests)) == (0, "Hello\n", 2), result.stderr


def test_a_schema_that_a_service_always_fails_with_is_sent_in_the_prompt(ask: Ask, server: ModelServer) -> None:
    refusal = refuse(500, "response_format is not implemented")
    server.reply(lambda request: refusal if "response_format" in request.json else wire.says('{"age": 3}'))
    result = ask(*SERVICE, "--no-tools", "--schema", "age int", "go")
    assert (result.code, result.text) == (0, '{"age":3}\n'), result.stderr


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        # FastAPI quotes the prompt.
        (
            wire.whole_reply({"detail": [{"msg": "Field required", "input": "please recharge the insulin pump"}]}, 422),
            "change the prompt",
        ),
        (refuse(400, "messages.3.role: Input should be 'user', 'assistant', 'system' or 'tool'"), "change the prompt"),
        (refuse(400, "Invalid schema: 'oneOf' is not supported for function calling"), "change the prompt"),
    ],
)
def test_what_an_error_only_mentions_is_not_its_cause(
    ask: Ask, server: ModelServer, refusal: Reply, words: str
) -> None:
    server.reply(refusal, answer)
    result = ask(*SERVICE, "go")
    assert (result.code, len(server.requests), words in result.stderr) == (6, 1, True), result.stderr


@pytest.mark.parametrize("error", [True, 1, 500])
def test_an_error_without_words_ends_an_answer(ask: Ask, server: ModelServer, error: Any) -> None:
    server.reply(wire.streams(wire.text("Hel"), {"error": error}))
    assert ask(*SERVICE, "go").code == 6


@pytest.mark.parametrize(
    ("body", "words"),
    [
        # NestJS and Spring, in front of many services
        ({"statusCode": 400, "error": "Bad Request", "message": "model is required"}, "Bad Request: model is required"),
        ({"error": "invalid_token", "error_description": "the token has expired"}, "the token has expired"),
        ({"error": True, "message": "the model is not deployed"}, "ask: the model is not deployed"),
        ({"error": True, "detail": "the model is not deployed"}, "ask: the model is not deployed"),
        ({"error": True}, '{"error": true}'),
        # https://github.com/adrianlyjak/obsidian-aloud-tts/pull/114
        ({"choices": None, "base_resp": {"status_code": 2013, "status_msg": "unknown model"}}, "ask: unknown model"),
    ],
)
def test_an_error_in_another_form_is_shown(ask: Ask, server: ModelServer, body: Any, words: str) -> None:
    replies = [wire.whole_reply(body), wire.streams(body, done=False)]
    for reply in [*replies, *([] if "choices" in body else [wire.whole_reply(body, 400)])]:
        server.reply(reply)
        result = ask(*SERVICE, "go")
        assert (result.code, words in result.stderr) == (6, True), result.stderr


def test_a_rate_limit_with_a_code_of_its_own_is_met_with_a_retry(ask: Ask, server: ModelServer) -> None:
    refusal = {"choices": None, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}  # MiniMax
    server.reply(wire.whole_reply(refusal), answer)
    result = ask(*SERVICE, "go")
    assert (result.code, result.text) == (0, "Hello\n"), result.stderr


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 1m2.5s. Visit https://x.test", 62.5),  # Groq, OpenAI
        # Azure, without Retry-After: https://github.com/openai/openai-python/issues/937
        ("You have exceeded the call rate limit. Please retry after 3 seconds. Please go here", 3),
        ("Rate limit of 15 per 60s exceeded. Please wait 41 seconds before retrying.", 41),  # GitHub Models
        ("You exceeded your current quota. Please retry in 36.5s.", 36.5),  # Gemini
        ("No deployments available. Try again in 2 minutes. Passed model=x", 120),  # LiteLLM
        ("Please wait 500 milliseconds.", 0.5),
        ("Please wait 10 more seconds.", None),
        ("slow down", None),
    ],
)
def test_a_wait_that_only_the_message_states_is_respected(message: str, seconds: float | None) -> None:
    parse_error = ChatCompletions(name="x", base_url="http://localhost/v1").provider_parse_error
    body = json.dumps({"error": {"message": message}})
    assert parse_error(429, {}, body).retry_action == RetryAction.retry(seconds)
    assert parse_error(429, {"Retry-After": "7"}, body).retry_action == RetryAction.retry(7)
    assert parse_error(400, {}, body).retry_action == RetryAction.NONE
    assert parse_error(503, {}, body).retry_action == RetryAction.retry()  # such advice is for people


@pytest.mark.parametrize("message", ["Loading model", "Model org/name is currently loading"])
def test_a_server_that_loads_a_model_is_waited_for(message: str) -> None:
    # https://github.com/mostlygeek/llama-swap/issues/146
    parse_error = ChatCompletions(name="local", base_url="http://localhost/v1").provider_parse_error
    loading, overloaded = (
        parse_error(503, {}, json.dumps({"error": {"message": text}})).retry_action for text in (message, "overloaded")
    )
    assert (loading.kind, overloaded.kind, overloaded.delay) == ("retry", "retry", None)
    assert loading.delay is not None and loading.delay >= 5


@pytest.mark.parametrize("message", ["API key expired. Please renew the API key.", "API Key not found."])
def test_an_expired_key_is_named(ask: Ask, server: ModelServer, message: str) -> None:
    # https://github.com/simonw/llm/issues/1213
    server.reply(refuse(400, message))
    result = ask(*SERVICE, "go")
    assert (result.code, "CUSTOM_KEY" in result.stderr) == (6, True), result.stderr


@pytest.mark.parametrize(
    ("provider", "key", "owner"),
    [
        ("openai", "sk-or-v1-0123456789abcdef", "openrouter"),
        ("anthropic", "sk-proj-0123456789abcdef", "openai"),
        ("openrouter", "sk-ant-api03-0123456789", "anthropic"),
        ("gemini", "xai-0123456789abcdefghij", "xai"),
    ],
)
def test_a_key_of_another_service_is_recognized(
    ask: Ask, server: ModelServer, provider: str, key: str, owner: str
) -> None:
    # https://github.com/topoteretes/cognee/issues/1311, https://github.com/FerroxLabs/wayland/issues/9
    server.reply(refuse(401, "invalid key"))
    variable = f"{provider.upper()}_API_KEY"
    result = ask("-p", provider, "-m", "x", "go", env={variable: key})
    assert (result.code, variable in result.stderr, f"-p {owner}" in result.stderr) == (6, True, True)
    own = ask("-p", provider, "-m", "x", "go")
    assert (variable in own.stderr, f"-p {owner}" in own.stderr) == (True, False)


MODELS = {"data": [{"id": name} for name in ("gpt-5", "gpt-5-mini", "claude-sonnet-4-5", "meta/llama-4")]}


@pytest.mark.parametrize(
    ("written", "listed"),
    [
        ("openai/gpt-5", "gpt-5"),
        ("GPT-5", "gpt-5"),
        ("gpt-5 ", "gpt-5"),
        ("claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("llama-4", "meta/llama-4"),
        ("custom:gpt-5", "gpt-5"),
    ],
)
def test_an_unknown_model_that_is_listed_in_another_form_is_used(
    ask: Ask, server: ModelServer, written: str, listed: str
) -> None:
    # https://github.com/open-jarvis/OpenJarvis/pull/672
    def reply(request: Request) -> Reply:
        if request.method == "GET":
            return wire.whole_reply(MODELS)
        unknown = refuse(404, f"The model `{request.json['model']}` does not exist", code="model_not_found")
        return answer(request) if request.json["model"] == listed else unknown

    server.reply(reply)
    result = ask("-p", "custom", "-m", written, "go")
    assert (result.code, result.text) == (0, "Hello\n"), result.stderr
    assert listed in result.stderr


def test_map_corrects_a_model_once(ask: Ask, server: ModelServer) -> None:
    unknown = refuse(404, "The model does not exist", code="model_not_found")
    models = wire.whole_reply({"data": [{"id": "gpt-5"}]})

    def reply(request: Request) -> Reply:
        if request.path.endswith("/models"):
            return models
        return answer(request) if request.json["model"] == "gpt-5" else unknown

    server.reply(reply)
    result = ask("map", *SERVICE[:2], "-m", "openai/gpt-5", "-j", "1", "Again:", stdin=b"1\n2\n3\n")
    assert result.code == 0, result.stderr
    assert sum(request.method == "POST" for request in server.requests) == 4
    assert result.stderr.count("continuing with gpt-5") == 1


def test_an_alias_is_suggested_for_a_misspelled_one(ask: Ask, server: ModelServer, home: Home) -> None:
    with (home.config / "config.toml").open("a") as file:
        file.write('[aliases]\nfast = "custom:gpt-5"\n')
    unknown = refuse(404, "The model `fsat` does not exist", code="model_not_found")
    server.reply(lambda request: wire.whole_reply(MODELS) if request.method == "GET" else unknown)
    result = ask("-p", "custom", "-m", "fsat", "go")
    assert (result.code, "did you mean fast?" in result.stderr) == (6, True), result.stderr


@pytest.mark.parametrize("written", ["gpt-5-mni", "gpt-6", "nothing-like-it", "gpt-5"])
def test_other_unknown_models_are_errors_with_suggestions(ask: Ask, server: ModelServer, written: str) -> None:
    server.reply(
        lambda request: (
            wire.whole_reply(MODELS)
            if request.method == "GET"
            else refuse(404, f"The model `{request.json['model']}` has been deprecated", code="model_not_found")
        )
    )
    result = ask("-p", "custom", "-m", written, "go")
    assert (result.code, sum(request.method == "POST" for request in server.requests)) == (6, 1)
    assert ("did you mean gpt-5" in result.stderr) == written.startswith("gpt")
    assert f"did you mean {written} " not in result.stderr


@pytest.mark.parametrize(
    ("status", "message"),
    [
        # https://github.com/ellipticmarketing/modelrelay/pull/68, https://github.com/caidaoli/ccLoad/issues/107
        (410, "The model 'a/b' has reached its end of life on 2026-05-12T00:00:00Z and is no longer available."),
        # https://github.com/NousResearch/hermes-agent/issues/113272
        (400, "The supported API model names are deepseek-v4-pro or deepseek-v4-flash, but you passed deepseek-v3."),
        # https://github.com/thedotmack/claude-mem/issues/2656
        (400, "The provided model identifier is invalid."),
        (400, "模型不存在，请检查模型代码。"),  # noqa: RUF001 - Z.ai's words
    ],
)
def test_a_model_that_is_gone_stops_map_with_suggestions(
    ask: Ask, server: ModelServer, status: int, message: str
) -> None:
    server.reply(lambda request: wire.whole_reply(MODELS) if request.method == "GET" else refuse(status, message))
    result = ask("map", *SERVICE[:2], "-m", "gpt-5-mni", "-j", "1", "Again:", stdin=b"1\n2\n3\n")
    assert (result.code, sum(request.method == "POST" for request in server.requests)) == (6, 1), result.stderr
    assert "did you mean gpt-5-mini" in result.stderr


@pytest.mark.parametrize(
    ("status", "message", "advice"),
    [
        (404, "This model is only supported in v1/responses and not in v1/chat/completions.", 'api = "responses"'),
        (404, "This is not a chat model and thus not supported", "can chat"),
        (403, "Country, region, or territory not supported", "country"),
        (400, "User location is not supported for the API use.", "country"),
        (400, "default chat template is no longer allowed", "trained for chat"),
        (200, "Unexpected endpoint or method. (POST /api/chat/completions)", "check the base URL"),
    ],
)
def test_the_advice_fits_the_refusal(ask: Ask, server: ModelServer, status: int, message: str, advice: str) -> None:
    server.reply(refuse(status, message))
    result = ask(*SERVICE, "go")
    assert (result.code, advice in result.stderr) == (6, True), result.stderr


@pytest.mark.parametrize(
    "message",
    [
        # https://github.com/lobehub/lobehub/pull/14711
        "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum",
        "messages.0.content.0.image.source.base64: image dimensions exceed max allowed size: 8000",
        # https://github.com/google-gemini/gemini-cli/issues/13808
        "The document has no pages.",
    ],
)
def test_a_refused_file_is_named(ask: Ask, server: ModelServer, message: str) -> None:
    (ask.cwd / "photo.png").write_bytes(png())
    server.reply(refuse(400, message))
    result = ask(*SERVICE, "-f", "photo.png", "go")
    assert (result.code, "photo.png" in result.stderr) == (6, True), result.stderr


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "messages[1].content must be a string"),  # Groq
        (422, "messages.1.content: Input should be a valid string"),
        # Cloudflare: https://github.com/opencodeschool/opencode.school/issues/174
        (400, "AiError: Bad input: Error: Type mismatch of '/messages/1/content', 'array' not in 'string'"),
        (404, "Only 'text' content type is supported."),  # mlx-lm
        (404, "No endpoints found that support image input"),  # OpenRouter
    ],
)
def test_a_file_for_a_model_that_reads_only_text_is_named(
    ask: Ask, server: ModelServer, status: int, message: str
) -> None:
    (ask.cwd / "photo.png").write_bytes(png())
    server.reply(refuse(status, message))
    result = ask(*SERVICE, "-f", "photo.png", "go")
    assert (result.code, "change photo.png" in result.stderr) == (6, True), result.stderr
    for unknown in ("The model `vision` does not exist", "models/gemini-9-image is not found for API version v1beta"):
        server.reply(refuse(404, unknown))
        assert "change photo.png" not in ask(*SERVICE, "-f", "photo.png", "go").stderr


# https://github.com/anthropics/claude-code/issues/28684, https://github.com/NousResearch/hermes-agent/pull/97059: a
# damaged image in the conversation, and every request fails or loses all images
def test_a_damaged_image_of_a_tool_costs_no_other_image(ask: Ask, server: ModelServer) -> None:
    good, bad = png(), png()[:-20]
    (ask.cwd / "good.png").write_bytes(good)
    (ask.cwd / "bad.png").write_bytes(bad)
    images = [b64encode(data).decode() for data in (good, bad)]
    calls = iter(["good.png", "bad.png"])

    def reply(request: Request) -> Reply:
        if images[1] in request.body.decode():
            return refuse(400, "messages.2.content.0.image.source.base64: Could not process image")
        name = next(calls, None)
        return wire.calls(("read_file", {"filepath": name})) if name else wire.says("Hello")

    server.reply(reply)
    result = ask(*SERVICE, "go")
    assert (result.code, result.text, len(server.requests)) == (0, "Hello\n", 4), result.stderr
    assert images[0] in server.requests[-1].body.decode()
    assert ask(*SERVICE, "-c", "more").code == 0
    bodies = [request.body.decode() for request in server.requests[4:]]
    assert not any(images[1] in body for body in bodies)
    assert images[0] in bodies[-1]


def test_lmstudio_without_a_model_says_how_to_load_one(ask: Ask, server: ModelServer) -> None:
    server.reply(refuse(400, "No models loaded. Please load a model in the developer page.", param="model"))
    assert "lms load" in ask("-p", "lmstudio", "-m", "x", "go").stderr


def test_a_model_that_does_not_fit_into_memory_is_not_tried_again(ask: Ask, server: ModelServer) -> None:
    server.reply(refuse(500, "llama runner process has terminated: cudaMalloc failed: out of memory"))
    result = ask("-p", "ollama", "-m", "x", "go")
    assert (len(server.requests), "smaller model" in result.stderr) == (1, True)


QUOTED_WORDS = (
    "insufficient quota, maximum context length, HarmonyError, response_format, 'stream_options' is unsupported"
)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        # vLLM: https://github.com/openguardrails/AgentTrustBench/issues/10,
        # https://github.com/vllm-project/vllm/issues/10015
        (
            400,
            {
                "object": "error",
                "message": str(
                    [
                        {
                            "type": "missing",
                            "loc": ("body", "model"),
                            "msg": "Field required",
                            "input": {"messages": [{"role": "user", "content": QUOTED_WORDS}], "stream_options": {}},
                        },
                        {"type": "string_type", "loc": ("body", "n"), "msg": "It isn't one", "input": QUOTED_WORDS},
                    ]
                ),
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
        ),
        (422, {"detail": [{"loc": ["body"], "msg": "Field required", "input": QUOTED_WORDS}]}),
        (
            422,
            {
                "detail": [
                    {
                        "type": "missing",
                        "loc": ["body", "model"],
                        "msg": "Field required",
                        "input": {"messages": [{"role": "user", "content": QUOTED_WORDS}], "input": [{}]},
                    },
                    {"type": "missing", "loc": ["body", "n"], "msg": "It isn't one", "input": [QUOTED_WORDS]},
                ]
            },
        ),
        (
            403,
            {
                "error": {
                    "code": 403,
                    "message": "Field required",
                    "metadata": {"reasons": ["violence"], "flagged_input": QUOTED_WORDS},
                }
            },
        ),
    ],
)
def test_what_an_error_quotes_of_the_request_says_nothing_about_the_error(
    status: int, body: Any, ask: Ask, server: ModelServer
) -> None:
    server.reply(wire.whole_reply(body, status))
    result = ask(*SERVICE, "--schema", "name", QUOTED_WORDS)
    assert result.code == 6
    assert len(server.requests) == 1
    assert "Field required" in result.stderr
    assert "insufficient" not in result.stderr
    assert status != 400 or "It isn" in result.stderr


MANY_ERRORS = [{"type": "t", "loc": ("body", n), "msg": "Bad", "input": QUOTED_WORDS} for n in range(3_000)]


# https://github.com/vllm-project/vllm/issues/49239: 12,047 invalid values, each of which is an error with the request
@pytest.mark.parametrize("body", [{"message": str(MANY_ERRORS)}, {"detail": MANY_ERRORS}], ids=["vLLM", "FastAPI"])
def test_an_error_about_each_of_many_values_is_shortened(body: Any, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply(body, 422))
    result = ask(*SERVICE, "hi")
    assert result.code == 6
    assert "Bad" in result.stderr
    assert len(result.stderr) < 3_000


# LiteLLM: https://github.com/BerriAI/litellm/issues/30948
def test_a_shortened_message_has_the_reason_after_a_traceback(ask: Ask, server: ModelServer) -> None:
    frames = "".join(f'  File "/usr/lib/main.py", line {number}, in call\n' for number in range(200))
    reason = "ValueError: This model's maximum context length is 8192 tokens"
    message = f"litellm.APIConnectionError: Traceback (most recent call last):\n{frames}{reason}"
    server.reply(refuse(400, message))
    result = ask(*SERVICE, "hi")
    assert result.code == 6
    assert "litellm.APIConnectionError" in result.stderr
    assert reason in result.stderr
    assert "larger context window" in result.stderr
    assert len(result.stderr) < 3_000


@pytest.mark.parametrize(
    "text", [", 'input': ", '"msg": "", "input": ', '"msg":"","input":{', '"msg":"","input":[[{"x":']
)
def test_quotations_are_removed_fast(text: str) -> None:
    body = json.dumps({"message": ", 'input': " * 20_000 + "}" * 20_000})[:-2] + text * 20_000
    start = time.monotonic()
    remove_quotations(body)
    assert time.monotonic() - start < 2
