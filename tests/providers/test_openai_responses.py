"""OpenAI on the Responses API: the provider contract, its models, its errors, and tool rounds through the program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import ChatRequest, Message, ProviderError, RetryAction, ToolSpec
from ask.errors import ParameterError
from providers.openai import provider as openai
from tests import responses_wire, wire
from tests.decision_services import OPENAI_SAMPLE
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply, Request
from tests.program import TEST_KEY, Ask, Home
from tests.recorded_exchanges import ExchangeResult, send_request
from tests.responses_wire import call, message, reasoning, response
from tests.shared_reader_contract import SharedReaderContract

QUESTION = [Message("user", "hi")]
TOOLS = [ToolSpec("bash", "Run a command", {"type": "object"})]
NO_CREDIT = {"message": "You exceeded your current quota.", "param": None, "code": "insufficient_quota"}


class TestOpenAI(SharedReaderContract):
    provider = openai
    decision_model = "gpt-6-luna"
    decision_response = OPENAI_SAMPLE


@pytest.fixture
def ask(ask: Ask, server: ModelServer) -> Ask:
    env = {"OPENAI_API_KEY": TEST_KEY, "OPENAI_BASE_URL": server.base_url, "ASK_PROVIDER": "openai"}
    return Ask({**ask.env, **env}, ask.cwd)


def send(server: ModelServer, *replies: Reply, **fields: Any) -> ExchangeResult:
    server.reply(*replies)
    return send_request(openai, server, ChatRequest("gpt-test", QUESTION, **fields), tries=4)


# Models


def test_tools_keep_the_models_own_reasoning_effort() -> None:
    body = openai.build_body(prepare_request(openai, "gpt-6-sol", QUESTION, TOOLS))
    assert "reasoning" not in body
    effort = openai.build_body(
        prepare_request(openai, "gpt-6-sol", QUESTION, TOOLS, options={"reasoning_effort": "high"})
    )
    assert effort["reasoning"] == {"effort": "high"}


def test_audio_models_use_chat_completions(server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    exchange = send_request(openai, server, ChatRequest("gpt-audio", QUESTION))
    assert (exchange.streamed_text, server.requests[0].path) == ("Hello.", "/api/v1/chat/completions")
    server.reply(wire.says("Hello.", whole=True))
    exchange = send_request(openai, server, ChatRequest("gpt-audio", QUESTION, stream=False))
    assert exchange.streamed_text == "Hello."


# Errors


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("temperature", {"message": "Unsupported parameter: 'temperature'.", "param": "temperature"}),
        ("max_tokens", {"message": "Integer below minimum value.", "param": "max_output_tokens"}),
        ("reasoning_effort", {"message": "Unsupported value: 'minimal'.", "param": "reasoning.effort"}),
    ],
)
def test_refused_parameter_has_the_user_s_name(server: ModelServer, option: str, error: dict[str, Any]) -> None:
    exchange = send(server, responses_wire.whole_reply({"error": error}, 400), options={option: 0.5})
    assert isinstance(exchange.result.error, ParameterError)
    assert exchange.result.error.hint.endswith(f" {option}")


@pytest.mark.parametrize("status", [429, 200])
def test_empty_account_is_not_retried(server: ModelServer, status: int) -> None:
    exchange = send(server, responses_wire.whole_reply({"error": NO_CREDIT}, status))
    assert isinstance(exchange.result.error, ProviderError)
    assert "billing" in exchange.result.error.hint
    assert len(server.requests) == 1


def test_rate_limit_is_waited_for(server: ModelServer) -> None:
    limited = {"message": "Rate limit reached.", "type": "tokens", "code": "rate_limit_exceeded"}
    exchange = send(server, responses_wire.whole_reply({"error": limited}, 429), responses_wire.says("Hello."))
    assert (exchange.streamed_text, len(server.requests)) == ("Hello.", 2)


def test_rate_limit_in_a_stream_names_the_wait_in_its_message(server: ModelServer) -> None:
    message = "Rate limit reached on tokens per min (TPM): Limit 200000, Used 158833. Please try again in 1.2s."
    failed = response(status="failed", error={"code": "rate_limit_exceeded", "message": message})
    exchange = send(server, responses_wire.replies(failed), responses_wire.says("Hello."))
    first, second = (request.time for request in server.requests)
    assert (exchange.streamed_text, second - first > 1) == ("Hello.", True)
    daily = {"error": {"message": "Please try again in 7m12s. Visit https://platform.openai.com", "code": "x"}}
    assert openai.provider_parse_error(429, {}, json.dumps(daily)).retry_action == RetryAction.retry(432)


def test_refusal_is_shown_and_not_a_complete_answer(server: ModelServer) -> None:
    exchange = send(server, responses_wire.replies(response(message(refusal="I'm sorry, no."))))
    assert (exchange.streamed_text, exchange.outcome) == ("I'm sorry, no.", "filter")


# Through the program


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "complete"])
def test_a_tool_round_sends_reasoning_calls_and_results(ask: Ask, server: ModelServer, whole: bool) -> None:
    items = [
        reasoning("Hm.", encrypted="c2VjcmV0"),
        call("bash", {"command": "echo one"}, "call_1"),
        call("bash", {"command": "echo two"}, "call_2"),
    ]
    server.reply(
        responses_wire.replies(response(*items), stream=not whole), responses_wire.says("Done.", stream=not whole)
    )
    result = ask(*(["--no-stream"] if whole else []), "do it")
    assert (result.text, result.stderr.count("\n"), result.code) == ("Done.\n", 2, 0)
    first, second = (request.json for request in server.requests)
    for body in (first, second):
        responses_wire.check_request(body)
        assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert second["input"][: len(first["input"])] == first["input"]
    *made, one, two = second["input"][len(first["input"]) :]
    assert made == items
    assert [(one["call_id"], one["output"].split()[-1]), (two["call_id"], two["output"].split()[-1])] == [
        ("call_1", "one"),
        ("call_2", "two"),
    ]
    assert "prompt_cache_key" not in first, "the base URL is not OpenAI's"


@pytest.mark.parametrize("stream", [True, False])
def test_a_blocked_action_is_explained_and_leaves_out_the_prompt(ask: Ask, server: ModelServer, stream: bool) -> None:
    explanation = "The database schema and an API key would leave your company."
    error = {
        "code": "misalignment_policy_violation",
        "message": "This request was blocked by our safety systems.",
        "misalignment": {"detailed_explanation": explanation, "error_type": "potentially_unintended_data_transfer"},
    }
    blocked = responses_wire.replies(response(status="failed", error=error), stream=stream)
    server.reply(blocked, responses_wire.says("Hello."))
    result = ask(*([] if stream else ["--no-stream"]), "upload it")
    assert (result.code, len(server.requests)) == (6, 1)
    assert f"safety systems (openai): {explanation.rstrip('.')}; change the prompt" in result.stderr
    assert ask("-c", "hi").text == "Hello.\n"
    assert "upload it" not in json.dumps(server.requests[-1].json["input"])


@pytest.mark.parametrize("missing", [{}, {"summary": None}])
def test_reasoning_is_sent_back_with_a_summary(ask: Ask, server: ModelServer, missing: dict[str, Any]) -> None:
    """The API refuses reasoning without the field, which gateways leave out."""
    item = {"type": "reasoning", "id": "rs_1", "encrypted_content": "c2VjcmV0", **missing}
    made = call("bash", {"command": "echo one"}, "call_1")
    server.reply(responses_wire.replies(response(item, made), stream=False), responses_wire.says("Done."))
    assert ask("--no-stream", "do it").code == 0
    assert item | {"summary": []} in server.requests[-1].json["input"]


def test_null_fields_are_not_sent_back(ask: Ask, server: ModelServer) -> None:
    """The API refuses null for a status and the like, which gateways send for what is missing."""
    made = call("bash", {"command": "echo one"}, "call_1")
    items = [
        reasoning(content=None, status=None, role=None),
        message("I run it.", id="msg_2", phase="commentary"),
        made,
    ]
    part = {"type": "output_text", "text": "I run it.", "annotations": None, "logprobs": None}
    nulls = [
        items[0],
        items[1] | {"content": [part]},
        made | dict.fromkeys(("async", "caller", "id", "namespace", "role", "status")),
    ]
    server.reply(responses_wire.replies(response(*nulls), stream=False), responses_wire.says("Done."))
    assert ask("--no-stream", "do it").code == 0
    body = server.requests[-1].json
    responses_wire.check_request(body)
    assert [item.keys() for item in body["input"][2:-1]] == [
        {"type", "id", "summary", "encrypted_content"},
        items[1].keys(),
        {"type", "call_id", "name", "arguments"},
    ]


def test_fields_that_only_items_of_responses_have_are_not_sent_back(ask: Ask, server: ModelServer) -> None:
    search: dict[str, Any] = {
        "id": "ts_1",
        "call_id": None,
        "execution": "server",
        "status": "completed",
        "created_by": "model",
        "role": None,
    }
    items = [
        search | {"type": "tool_search_call", "arguments": {}},
        search | {"type": "tool_search_output", "tools": []},
        message("Hello."),
    ]
    server.reply(responses_wire.replies(response(*items), stream=False), responses_wire.says("Done."))
    ask("--no-stream", "hi")
    ask("-c", "again")
    sent = server.requests[-1].json["input"]
    assert [item["type"] for item in sent if "type" in item] == ["tool_search_call", "tool_search_output", "message"]
    assert not any(
        {"created_by", "role"} & item.keys() for item in sent if item.get("type") != "message" and "type" in item
    )


@pytest.mark.parametrize("stream", [False, True])
def test_calls_that_the_service_answered_itself_are_sent_back_with_their_output(
    ask: Ask, server: ModelServer, *, stream: bool
) -> None:
    """Of tools in `-o tools=[...]`: a shell in OpenAI's container, and an MCP server, whose calls have no status."""
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "status": "completed", "environment": None}
    printed = {"stdout": "12\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}, "created_by": "model"}
    items = [
        reasoning(),
        shell | {"action": {"commands": ["wc -l a", "ls"], "timeout_ms": None, "max_output_length": None}},
        {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "status": "completed", "output": [printed]},
        # https://github.com/microsoft/agent-framework/issues/4576
        {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": "{}", "status": None},
        {"type": "code_interpreter_call", "id": "ci_1", "container_id": "c", "status": "completed"}
        | {"code": None, "outputs": None},
        message("12 lines."),
    ]
    server.reply(responses_wire.replies(response(*items), stream=stream), responses_wire.says("Done."))
    answer = json.loads(ask("--json", *(() if stream else ("--no-stream",)), "hi").text)
    assert [(call["name"], json.loads(call["arguments"])) for call in answer["server_calls"]] == [
        ("code_execution", {"code": "wc -l a\nls"}),
        ("f", {}),
        ("code_execution", {}),
    ]
    assert answer["server_calls"][0]["result"] == "12\n"
    ask("-c", "again")
    body = server.requests[-1].json
    responses_wire.check_request(body)
    sent = [item.get("type") for item in body["input"]]
    assert [each for each in sent if each] == [item["type"] for item in items]


@pytest.mark.parametrize("provider", ["openai", "xai", "proxy"])
def test_a_proxy_that_refuses_unknown_fields_answers_at_once(
    ask: Ask, home: Home, server: ModelServer, provider: str
) -> None:
    """As LiteLLM does for Claude models: https://github.com/BerriAI/litellm/issues/14365."""
    known = {"model", "input", "store", "tools", "tool_choice", "include", "stream"}

    def script(request: Request) -> Reply:
        unknown = request.json.keys() - known
        refusal = {"message": f"BadRequestError: {', '.join(unknown)}: Extra inputs are not permitted", "code": "400"}
        return wire.fails(400, json.dumps({"error": refusal})) if unknown else responses_wire.says("Hello.")

    server.reply(script)
    home.configure(f'[providers.proxy]\nbase_url = "{server.base_url}"\napi = "responses"\n')
    env = {**ask.env, "XAI_BASE_URL": server.base_url, "XAI_API_KEY": TEST_KEY}
    result = Ask(env, ask.cwd)("-p", provider, "-m", "claude-opus-5", "hi")
    assert (result.text, result.stderr) == ("Hello.\n", "")
    assert len(server.requests) == 1


def test_continued_conversation_keeps_its_cache_key_and_reasoning(ask: Ask, server: ModelServer) -> None:
    """The base URL is OpenAI's, without encryption and through a proxy, which is the server."""
    proxy = server.base_url.removesuffix("/api/v1")
    env = {**ask.env, "OPENAI_BASE_URL": "http://api.openai.com/v1", "http_proxy": proxy, "HTTP_PROXY": proxy}
    ask = Ask(env, ask.cwd)
    server.reply(responses_wire.replies(response(reasoning(encrypted="c2VjcmV0"), message("One."))))
    server.reply(responses_wire.says("Two."), responses_wire.says("Three."))
    assert ask("first").code == 0
    assert ask("-c", "second").text == "Two.\n"
    assert ask("new").code == 0
    first, second, other = (request.json for request in server.requests)
    assert "" != first["prompt_cache_key"] == second["prompt_cache_key"] != other["prompt_cache_key"]
    assert [item.get("encrypted_content") for item in second["input"]].count("c2VjcmV0") == 1


def test_summaries_are_requested_and_shown_with_verbose(ask: Ask, server: ModelServer) -> None:
    server.reply(responses_wire.replies(response(reasoning("**Looking**"), message("Hello."))))
    assert "reasoning" not in server_body(ask, server)
    result = ask("-v", "hi")
    assert server.requests[-1].json["reasoning"] == {"summary": "auto"}
    assert "**Looking**" in result.stderr
    assert result.text == "Hello.\n"


def server_body(ask: Ask, server: ModelServer) -> Any:
    assert ask("hi").code == 0
    return server.requests[-1].json


def test_reasoning_that_cannot_be_decrypted_is_left_out(ask: Ask, server: ModelServer) -> None:
    refused = responses_wire.fails(
        400, "The encrypted content could not be verified.", code="invalid_encrypted_content"
    )
    first = responses_wire.replies(response(reasoning(encrypted="c2VjcmV0"), message("One.")))
    server.reply(first, refused, responses_wire.says("Two."), refused)
    assert ask("first").code == 0
    result = ask("-c", "second")
    assert (result.text, result.code) == ("Two.\n", 0)
    assert "without earlier reasoning" in result.stderr
    _, with_it, without_it = (json.dumps(request.json) for request in server.requests)
    assert ("c2VjcmV0" in with_it, "c2VjcmV0" in without_it) == (True, False)
    assert ask("another").code == 6


def test_schema_and_files_are_sent(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "a.pdf").write_bytes(b"%PDF-1.4\n1 0 obj\n%%EOF\n")
    server.reply(responses_wire.says('{"name": "Ada", "age": 36}'))
    result = ask("--schema", "name, age int", "-f", "a.pdf", "who?")
    assert (json.loads(result.text), result.code) == ({"name": "Ada", "age": 36}, 0)
    body = server.requests[0].json
    responses_wire.check_request(body)
    assert body["text"]["format"]["schema"]["required"] == ["name", "age"]
    assert "input_file" in [part["type"] for part in body["input"][-1]["content"]]
