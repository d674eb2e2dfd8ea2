"""OpenRouter: the provider contract, and its additions to Chat Completions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from ask import ChatRequest, Message, ProviderError, ProviderState, RetryAction, ToolCall
from ask.profiles import EFFORTS
from ask.testing.conversation import remove_cache_markers
from providers.openrouter import provider as openrouter
from tests import wire
from tests.decision_services import OPENROUTER_SAMPLE
from tests.host_requests import prepare_request
from tests.model_server import ModelServer, Reply
from tests.program import TEST_KEY, Ask, Home
from tests.recorded_exchanges import send_request
from tests.shared_reader_contract import SharedReaderContract

CACHED_IF_MARKED = ["anthropic/claude-sonnet-4.5", "~anthropic/claude-sonnet-latest", "qwen/qwen3-max"]
MALFORMED = "MALFORMED_FUNCTION_CALL"
LIST = ("list_dir", {"dirpath": "."})


class TestOpenRouter(SharedReaderContract):
    provider = openrouter
    decision_model = "openai/gpt-6-luna-decisions"
    decision_response = OPENROUTER_SAMPLE


# Requests


def test_requests_have_the_key_and_attribution(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("-p", "openrouter", "hi").code == 0
    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/chat/completions")
    assert request.headers["Authorization"] == f"Bearer {TEST_KEY}"
    assert "HTTP-Referer" not in request.headers, "the program has no page of its own"
    assert request.headers["X-Title"] == "ask"
    assert request.headers["X-OpenRouter-Categories"] == "cli-agent"


def test_tools_are_offered_with_automatic_choice(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    ask("-p", "openrouter", "hi")
    body = server.requests[0].json
    assert body["tool_choice"] == "auto"
    assert [tool["type"] for tool in body["tools"]] == ["function"] * len(body["tools"])
    assert {"bash", "read_file"} <= {tool["function"]["name"] for tool in body["tools"]}


def test_its_own_parameters_pass_through(ask: Ask, server: ModelServer) -> None:
    parameters = {
        "provider": {"order": ["anthropic", "google-vertex"], "allow_fallbacks": False},
        "models": ["anthropic/claude-a", "openai/gpt-b"],
        "transforms": ["middle-out"],
        "plugins": [{"id": "web", "max_results": 3}],
        "reasoning": {"effort": "high", "exclude": True},
        "route": "fallback",
    }
    options = [part for name, value in parameters.items() for part in ("-o", f"{name}={wire.arguments_text(value)}")]
    server.reply(wire.says("Hello."))
    assert ask("-p", "openrouter", *options, "hi").code == 0
    assert parameters.items() <= server.requests[0].json.items()


def test_option_overrides_the_default() -> None:
    options = {"model": "other/model", "tool_choice": "required"}
    body = openrouter.build_body(ChatRequest("a/model", [Message("user", "hi")], options=options))
    assert (body["model"], body["tool_choice"]) == ("other/model", "required")


def test_no_limit_is_set_on_the_answer() -> None:
    """OpenRouter would check the credits against the full limit."""
    body = openrouter.build_body(ChatRequest("a/model", [Message("user", "hi")]))
    assert not {"max_tokens", "max_completion_tokens"} & body.keys()


# Cache markers


def marked(body: Mapping[str, Any]) -> list[int]:
    """Return the messages with a cache marker; a marker on anything except text is an error."""
    found = []
    for place, message in enumerate(body["messages"]):
        assert "cache_control" not in message, "OpenRouter hangs on a marker beside the content of a tool message"
        content = message["content"]
        markers = [part for part in content if "cache_control" in part] if isinstance(content, list) else []
        assert all(part["text"] and part["cache_control"] == {"type": "ephemeral"} for part in markers)
        found += [place] * len(markers)
    return found


@pytest.mark.parametrize("model", CACHED_IF_MARKED)
def test_ten_rounds_extend_one_prefix_marked_at_its_ends(ask: Ask, server: ModelServer, model: str) -> None:
    for i in range(10):
        wanted = [("list_dir", {"dirpath": "./" * (i + 1)}), ("read_file", {"filepath": f"{i}.txt"})]
        server.reply(wire.calls(*wanted[: 1 + i % 2], content="Let me see." if i % 3 else None))
    server.reply(wire.says("Done."))
    assert ask("-p", "openrouter", "-m", model, "--max-rounds", "20", "look around").text.endswith("Done.\n")
    bodies = [request.json for request in server.requests]
    assert len(bodies) == 11
    assert marked(bodies[0]) == [0, 1]
    for before, body in pairwise(bodies):
        ends = [len(one["messages"]) - 1 for one in (before, body)]
        assert marked(body) == [0, *ends]
        sent, sent_before = (json.dumps(remove_cache_markers(one["messages"])) for one in (body, before))
        assert sent.startswith(sent_before.removesuffix("]"))
        assert json.dumps(body["tools"]) == json.dumps(before["tools"])


def test_empty_texts_are_never_marked() -> None:
    call = ToolCall("call_1", "bash", "{}")
    round_ = [Message("user", "go"), Message("assistant", "", (call,)), Message("tool", "", (), "call_1", "bash")]
    for messages, places in (
        (round_, [0]),
        ([Message("system"), *round_], [1]),
        ([Message("system", "Be kind."), Message("user")], [0]),
    ):
        body = openrouter.build_body(prepare_request(openrouter, CACHED_IF_MARKED[0], messages))
        assert marked(body) == places
        assert [] not in [message["content"] for message in body["messages"]]


@pytest.mark.parametrize("model", ["openai/gpt-5", "google/gemini-3-pro", "openrouter/auto", "claude"])
def test_other_models_get_no_markers(model: str) -> None:
    messages = [Message("system", "Be kind."), Message("user", "go")]
    assert openrouter.build_body(ChatRequest(model, messages))["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "go"},
    ]


def test_requests_of_a_conversation_go_to_one_provider() -> None:
    question = [Message("user", "go")]
    assert openrouter.build_body(ChatRequest("a/model", question, conversation_id="c1"))["session_id"] == "c1"
    assert "session_id" not in openrouter.build_body(ChatRequest("a/model", question))
    own = ChatRequest("a/model", question, conversation_id="c1", options={"session_id": "mine"})
    assert openrouter.build_body(own)["session_id"] == "mine"


@pytest.mark.parametrize(
    ("model", "pattern", "kept"),
    [
        ("~anthropic/claude-sonnet-latest", "[a-zA-Z0-9_-]+", "call_1"),
        ("mistralai/mistral-large", "[a-zA-Z0-9]{9}", "f28627ca3"),
    ],
)
def test_call_ids_of_other_models_are_replaced(model: str, pattern: str, kept: str) -> None:
    messages = [Message("user", "go")]
    for _ in range(2):  # Kimi counts from 0 again
        calls = [ToolCall(call_id, "bash", "{}") for call_id in ("functions.bash:0", "functions.bash:1", kept)]
        results = [Message("tool", call.id, (), call.id, "bash") for call in calls]
        messages += [Message("assistant", "", tuple(calls)), *results]
    _, *sent = openrouter.build_body(prepare_request(openrouter, model, messages))["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    assert ids == [message["tool_call_id"] for message in sent if "tool_call_id" in message]
    assert len(set(ids)) == len(ids) == 6
    assert all(re.fullmatch(pattern, call_id) for call_id in ids)
    assert ids[2] == kept
    others = openrouter.build_body(prepare_request(openrouter, "moonshotai/kimi-k3", messages))["messages"]
    assert others[1]["tool_calls"][0]["id"] == "functions.bash:0"


# Reasoning


def test_reasoning_in_fragments_is_sent_back_with_its_calls(ask: Ask, server: ModelServer) -> None:
    text: wire.Json = {"type": "reasoning.text", "index": 0, "format": "anthropic-claude-v1"}
    first: wire.Json = {"type": "reasoning.encrypted", "index": 1, "data": "AAA=", "id": "call_0", "format": "x"}
    second = first | {"data": "BBB=", "id": "call_1"}
    server.reply(
        wire.streams(
            wire.detail(**text, text="I have "),
            wire.detail(**text, text="to look."),
            wire.detail(**first),
            wire.call(0, id="call_0", name="list_dir", arguments='{"dirpath": "."}'),
            wire.detail(**second),
            wire.call(1, id="call_1", name="read_file", arguments='{"filepath": "x"}'),
            wire.finish("tool_calls"),
            wire.detail(**text, text=None, signature="sig=="),
            wire.usage(),
        ),
        wire.says("Done."),
    )
    assert ask("-p", "openrouter", "-m", wire.MODEL, "hi").text == "Done.\n"
    message, *results = server.requests[1].json["messages"][2:]
    assert message["reasoning_details"] == [text | {"text": "I have to look.", "signature": "sig=="}, first, second]
    assert [call["id"] for call in message["tool_calls"]] == ["call_0", "call_1"]
    assert [result["tool_call_id"] for result in results] == ["call_0", "call_1"]


def test_reasoning_of_a_complete_response_is_sent_back_unchanged(ask: Ask, server: ModelServer) -> None:
    details = [{"type": "reasoning.summary", "summary": "hm", "id": None, "anything": [1, {"else": None}]}]
    server.reply(wire.whole_reply(wire.answer(None, [LIST], reasoning_details=details)), wire.says("Done.", whole=True))
    assert ask("-p", "openrouter", "-m", wire.MODEL, "--no-stream", "hi").text == "Done.\n"
    assert server.requests[1].json["messages"][2]["reasoning_details"] == details


@pytest.mark.parametrize(
    ("wrote", "asked", "goes_back"),
    [
        ("anthropic/claude-4.6-sonnet", "~anthropic/claude-sonnet-latest", True),
        ("anthropic/claude-4.6-sonnet", "openai/gpt-5", False),
        ("openai/gpt-5", "openai/gpt-5:nitro", True),
        ("anthropic/claude-4.6-sonnet", "openrouter/auto", True),
        ("anthropic/claude-4.6-sonnet", "@preset/mine", True),
    ],
)
def test_reasoning_is_sent_to_its_own_family_and_to_routers(wrote: str, asked: str, goes_back: bool) -> None:
    details = [{"type": "reasoning.encrypted", "data": "AAA="}]
    for name in ("openrouter", "deepseek"):
        message = Message(
            "assistant", "Yes.", provider_state=ProviderState(name, wrote, {"reasoning_details": details})
        )
        body = openrouter.build_body(ChatRequest(asked, [Message("user", "hi"), message]))
        assert ("reasoning_details" in body["messages"][1]) is (goes_back and name == "openrouter")


@pytest.mark.parametrize("asked", ["~anthropic/claude-sonnet-latest", "openrouter/auto"])
@pytest.mark.parametrize("is_truncated", [False, True])
def test_reasoning_of_earlier_questions_is_sent_back(asked: str, is_truncated: bool) -> None:
    details = [{"type": "reasoning.encrypted", "data": "AAA="}]
    state = ProviderState("openrouter", "anthropic/claude-test", {"reasoning_details": details}, is_truncated)
    question, message = Message("user", "hi"), Message("assistant", "Yes.", provider_state=state)
    body = openrouter.build_body(ChatRequest(asked, [question, message, question]))
    assert body["messages"][1]["reasoning_details"] == details


@pytest.mark.parametrize("asked", ["anthropic/claude-test", "openrouter/auto"])
def test_thinking_that_was_cut_off_before_its_signature_is_not_sent_back(asked: str) -> None:
    signed = {"type": "reasoning.text", "format": "anthropic-claude-v1", "text": "hm", "signature": "sig=="}
    others = [{"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "AAA="}, {"text": "hm"}]
    details = [signed, signed | {"signature": None}, *others]
    message = Message(
        "assistant", "Ye", provider_state=ProviderState("openrouter", "anthropic/a", {"reasoning_details": details})
    )
    body = openrouter.build_body(ChatRequest(asked, [Message("user", "hi"), message]))
    assert body["messages"][1]["reasoning_details"] == [signed, *others]


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_parsed_file_is_sent_back_once(ask: Ask, server: ModelServer, home: Home, is_streamed: bool) -> None:
    parsed = {"type": "file", "file": {"hash": "a1", "name": "x.pdf", "content": [{"type": "text", "text": "Page 1"}]}}
    source = {"type": "url_citation", "url_citation": {"url": "https://example.org/", "title": "A page"}}
    if is_streamed:
        call = wire.call(0, id="call_0", name="list_dir", arguments='{"dirpath": "."}')
        annotations = wire.chunk({"annotations": [parsed, source]})
        server.reply(wire.streams(annotations, call, wire.finish("tool_calls"), wire.usage()))
        server.reply(wire.streams(wire.text("One."), annotations, wire.finish(), wire.usage()))
    else:
        server.reply(wire.whole_reply(wire.answer(None, [LIST], annotations=[parsed, source])))
        server.reply(wire.whole_reply(wire.answer("One.", annotations=[parsed, source])))
    server.reply(wire.says("Two.", whole=not is_streamed))
    (home.work / "x.pdf").write_bytes(b"%PDF-1.4\n")
    options = ["-p", "openrouter", *([] if is_streamed else ["--no-stream"])]
    assert ask(*options, "-m", "deepseek/v4", "-f", "x.pdf", "what is it?").text == "One.\n"
    assert ask(*options, "-m", "openai/gpt-6", "-c", "and now?").text == "Two.\n"
    sent = [
        [each.get("annotations") for each in request.json["messages"]] for request in server.requests if request.body
    ]
    assert sent == [[None] * 2, [None, None, [parsed], None], [None, None, [parsed], None, None, None]]


@pytest.mark.parametrize(
    ("model", "sent"),
    [("moonshotai/kimi-k3", [" ", " ", None]), ("deepseek/v4", [" ", " ", None]), ("openai/gpt-6", [None] * 3)],
)
def test_messages_without_reasoning_get_a_placeholder_if_the_vendor_requires_it(model: str, sent: list[Any]) -> None:
    details: list[Any] = [[], [{"type": "reasoning.text", "text": "hm"}]]
    states = [None, *(ProviderState("openrouter", model, {"reasoning_details": each}) for each in details)]
    messages = [Message("user", "go"), *(Message("assistant", "a", provider_state=state) for state in states)]
    _, *answers = openrouter.build_body(ChatRequest(model, messages))["messages"]
    assert [message.get("reasoning_content") for message in answers] == sent
    assert [message.get("reasoning_details") for message in answers] == [None, *details]


@pytest.mark.parametrize(
    ("model", "is_added"),
    [
        ("google/gemini-3.5-flash", True),
        ("~google/gemini-flash-latest", True),
        ("google/gemini-2.5-pro", False),
        ("google/gemma-4", False),
        ("openai/gpt-6", False),
    ],
)
def test_calls_of_other_models_get_a_placeholder_for_geminis_signature(model: str, is_added: bool) -> None:
    calls = (ToolCall("call_1", "bash", "{}"), ToolCall("call_2", "bash", "{}"))
    signed = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "data": "AAA=", "id": "call_1"}
    state = ProviderState("openrouter", model, {"reasoning_details": [signed]})
    messages = [Message("user", "go"), *(Message("assistant", "", calls, provider_state=one) for one in (None, state))]
    _, other, own = openrouter.build_body(ChatRequest(model, messages))["messages"]
    assert own["reasoning_details"] == [signed]
    placeholder = signed | {"data": "skip_thought_signature_validator", "index": 0}
    assert other.get("reasoning_details") == ([placeholder] if is_added else None)


@pytest.mark.usefixtures("quick_retries")
def test_reasoning_that_another_upstream_refuses_is_left_out(ask: Ask, server: ModelServer) -> None:
    detail = {"type": "reasoning.encrypted", "index": 0, "data": "c2VjcmV0"}
    raw = json.dumps({"error": {"message": "The encrypted content for item rs_1 could not be verified."}})
    refusal = wire.whole_reply(wire.error("Provider returned error", 400, metadata={"raw": raw}), 400)
    server.reply(
        wire.streams(
            wire.detail(**detail), wire.call(0, id="a", name="list_dir", arguments="{}"), wire.finish("tool_calls")
        ),
        refusal,
        wire.says("Done."),
    )
    result = ask("-p", "openrouter", "-m", wire.MODEL, "hi")
    assert (result.text, result.code) == ("Done.\n", 0)
    assert ["c2VjcmV0" in json.dumps(request.json) for request in server.requests] == [False, True, False]


# Answers


def test_usage_and_cost_are_reported(ask: Ask, server: ModelServer) -> None:
    usage = wire.usage(1000, 50, cost=0.0125, prompt_tokens_details={"cached_tokens": 900, "cache_write_tokens": 90})
    usage["usage"]["completion_tokens_details"] = {"reasoning_tokens": 30}
    server.reply(wire.streams(wire.text("Hello."), wire.finish(), usage))
    usage = json.loads(ask("-p", "openrouter", "--json", "hi").stdout)["usage"]
    expected = {
        "input_tokens": 1000,
        "output_tokens": 50,
        "cached_tokens": 900,
        "reasoning_tokens": 30,
        "cost": 0.0125,
    }
    assert usage.items() >= expected.items()


@pytest.mark.parametrize(("is_byok", "cost"), [(True, 0.75), (False, 0.5), (None, 0.5)])
def test_cost_includes_what_the_users_own_key_pays(is_byok: bool | None, cost: float) -> None:
    usage = {"cost": 0.5, "is_byok": is_byok, "cost_details": {"upstream_inference_cost": 0.25}}
    assert openrouter.provider_parse_response(wire.answer("a") | {"usage": usage}).usage.cost == cost


@pytest.mark.parametrize(
    ("usages", "batch_usage", "costs"),
    [
        ([None, None], {"cost": 0.5}, [0.25, 0.25]),  # as in the documentation's example
        ([{"total_tokens": 30}, {"total_tokens": 10}], {"cost": 0.4}, [0.3, 0.1]),
        ([{"total_tokens": 30, "cost": 0.2}, {"total_tokens": 10, "cost": 0.1}], {"cost": 0.4}, [0.2, 0.1]),
        ([None], {"cost": 0.4, "is_byok": True}, [None]),
        ([None], None, [None]),
    ],
)
def test_openrouter_shares_the_cost_of_a_batch(usages: list[Any], batch_usage: Any, costs: list[Any]) -> None:
    answers = [{"choices": []} | ({"usage": usage} if usage else {}) for usage in usages]
    results: list[wire.Json] = [{"custom_id": "r", "response": {"status_code": 200, "body": each}} for each in answers]
    results.append({"custom_id": "bad", "error": {"code": "400", "message": "bad"}, "response": None})
    batch_api = openrouter.provider_batch()
    assert batch_api is not None
    *parsed, failed = batch_api.parse_results({"results": results, "usage": batch_usage})
    assert [(one.response or {}).get("usage", {}).get("cost") for one in parsed] == pytest.approx(costs)
    assert "bad" in failed.error


@pytest.mark.parametrize(
    ("options", "is_named"),
    [
        (("-m", "a/model", "-o", 'models=["a/model", "test/model"]'), True),
        (("-m", "openrouter/auto"), True),
        (("-m", "@preset/mine"), True),
        (("-m", wire.MODEL, "-o", 'models=["test/model"]'), False),
        (("-m", "~test/model-latest"), False),
    ],
)
def test_the_model_that_openrouter_chose_is_named(
    ask: Ask, server: ModelServer, options: tuple[str, ...], is_named: bool
) -> None:
    server.reply(wire.says("Hello."))
    result = ask("-p", "openrouter", *options, "hi")
    assert (result.code, f"answered by {wire.MODEL}" in result.stderr) == (0, is_named)


def test_comments_and_blank_lines_are_ignored(ask: Ask, server: ModelServer) -> None:
    comment = b": OPENROUTER PROCESSING\n\n"
    server.reply(wire.streams(comment, wire.text("Hel"), comment, comment, wire.text("lo."), wire.finish(), comment))
    assert ask("-p", "openrouter", "hi").text == "Hello.\n"
    body = json.dumps(wire.answer("Hello.")).encode()
    server.reply(Reply((b"\n         \n\n", 0.01, b"\n         \n", body)))
    assert ask("-p", "openrouter", "--no-stream", "hi").text == "Hello.\n"


def test_a_refusal_is_shown_and_counts_as_filtered(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.chunk({"refusal": "I can't "}), wire.chunk({"refusal": "do that."}), wire.finish()))
    result = ask("-p", "openrouter", "hi")
    assert (result.text, result.code) == ("I can't do that.\n", 10)
    assert "refused" in result.stderr


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("reason", ["error", "stop", "tool_calls"])
def test_unreadable_call_is_retried_until_attempts_run_out(ask: Ask, server: ModelServer, reason: str) -> None:
    server.reply(wire.streams(wire.chunk({"content": ""}, finish=reason, native_finish_reason=MALFORMED), wire.usage()))
    result = ask("-p", "openrouter", "hi")
    assert (result.text, result.code, len(server.requests)) == ("", 6, 4)
    assert all(part in result.stderr.splitlines()[-1] for part in ("tool call", "(openrouter)"))
    server.reply(wire.says("Here."))
    assert ask("-p", "openrouter", "hi").text == "Here.\n"


def test_a_long_answer_of_gemini_4_goes_on_in_the_next_request(ask: Ask, server: ModelServer) -> None:
    token = {"type": "reasoning.encrypted", "data": "dG9rZW4=", "index": 0, "format": "google-gemini-v1"}
    pause = wire.chunk(finish="length", native_finish_reason="CONTINUATION")
    server.reply(
        wire.streams(wire.text("One, "), wire.chunk({"reasoning_details": [token]}), pause, wire.usage()),
        wire.streams(wire.text("two."), wire.finish(), wire.usage()),
    )
    result = ask("-p", "openrouter", "-m", wire.MODEL, "hi")
    assert (result.text.strip(), result.code) == ("One, two.", 0)
    last = server.requests[1].json["messages"][-1]
    assert (last["role"], last["content"], last["reasoning_details"]) == ("assistant", "One, ", [token])
    server.reply(wire.streams(wire.text("One, "), pause, wire.usage()))
    assert ask("-p", "openrouter", "-m", wire.MODEL, "hi").code == 10


@pytest.mark.parametrize("native_reason", ["length", "max_output_tokens", "MAX_TOKENS"])
def test_call_that_was_cut_off_at_the_token_limit_is_not_run(ask: Ask, server: ModelServer, native_reason: str) -> None:
    call = wire.call(0, id="a", name="list_dir", arguments='{"dirpath": "')
    end = wire.chunk(finish="tool_calls", native_finish_reason=native_reason)
    server.reply(wire.streams(call, end, wire.usage()))
    result = ask("-p", "openrouter", "hi")
    assert (result.code, len(server.requests)) == (10, 1)
    assert "token limit" in result.stderr


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("native_reason", ["network_error", "error"])
def test_failure_of_the_upstream_provider_is_retried(ask: Ask, server: ModelServer, native_reason: str) -> None:
    failed = wire.chunk({"content": ""}, finish="stop", native_finish_reason=native_reason)
    server.reply(wire.streams(failed, wire.usage()), wire.says("Here."))
    result = ask("-p", "openrouter", "hi")
    assert (result.text, result.code, len(server.requests)) == ("Here.\n", 0, 2)


# Errors


def failure(status: int, error: Any, headers: Mapping[str, str] | None = None) -> ProviderError:
    return openrouter.provider_parse_error(status, headers or {}, json.dumps({"error": error}))


def test_missing_credits_are_final_without_a_retry_delay(ask: Ask, server: ModelServer) -> None:
    message = "This request requires more credits, or fewer max_tokens. You requested up to 9, but can only afford 5."
    server.reply(wire.fails(402, message))
    result = ask("-p", "openrouter", "hi")
    assert (result.code, len(server.requests)) == (6, 1)
    assert message.rstrip(".") in result.stderr
    assert "https://openrouter.ai/settings/credits" in result.stderr
    server.reply(wire.fails(402, "in flight", {"Retry-After": "0"}), wire.says("Back."))
    assert ask("-p", "openrouter", "hi").text == "Back.\n"


def test_spent_limit_of_a_key_is_like_missing_credits() -> None:
    error = failure(403, {"message": "Key limit exceeded (total limit). Manage it using https://openrouter.ai/keys"})
    assert error.retry_action == RetryAction.NEXT_KEY
    assert failure(403, {"message": "Your input was flagged."}).retry_action == RetryAction.NONE


@pytest.mark.parametrize("message", ["Insufficient credits", '{"error": {"code": "context_length_exceeded"}}'])
def test_errors_of_earlier_attempts_do_not_count(message: str) -> None:
    earlier = [{"code": 402, "message": message, "error_type": "context_length_exceeded"}]
    fields = {"message": "Slow down", "code": 429, "metadata": {"previous_errors": earlier, "provider_name": None}}
    for error in (
        openrouter.provider_parse_error(429, {}, json.dumps({"error": fields})),
        openrouter.parse_embedded_error(fields),
    ):
        assert (error.message, error.retry_action.kind) == ("Slow down", "retry")


def test_hint_about_credits_is_shown() -> None:
    hint = "Raise the limit of this key.\n"
    error = failure(
        402, {"message": "Spent.", "metadata": {"limit_source": "openrouter_key_limit", "remedy_hint": hint}}
    )
    assert str(error) == "Spent (402): Raise the limit of this key."


def unavailable(code: str, retryable: bool, message: str = "No endpoints match.", **fields: Any) -> wire.Json:
    """Return an error about a model: https://openrouter.ai/docs/api_reference/errors-and-debugging."""
    return {"message": message, "availability": {"code": code, "retryable": retryable} | fields}


@pytest.mark.parametrize(
    ("status", "error", "action", "shown"),
    [
        (429, unavailable("capacity_exhausted", True, retry_after=40), RetryAction.retry(40.0), ""),
        (429, unavailable("capacity_exhausted", True, "Full. Retry after 7 seconds."), RetryAction.retry(7.0), ""),
        (503, unavailable("temporarily_unavailable", True), RetryAction.retry(), ""),
        (404, unavailable("no_endpoints", True), RetryAction.retry(), ""),
        (503, unavailable("no_endpoints", False), RetryAction.NONE, ""),
        (404, unavailable("model_deprecated", False, fallback_models=["a/b", "a/c"]), RetryAction.NONE, "a/b, a/c"),
        (
            404,
            unavailable("privacy_restricted", False, excluded_by=["data_policy:zdr"]),
            RetryAction.WITHOUT_SCHEMA,
            "privacy",
        ),
        (
            404,
            unavailable("x", False, excluded_by=["quantization", "require_parameters"]),
            RetryAction.WITHOUT_SCHEMA,
            "-o",
        ),
        (404, unavailable("x", False, excluded_by=["context_length"]), RetryAction.SHORTER, "send less"),
        (404, unavailable("x", False, excluded_by=["max_price"]), RetryAction.NONE, "-o"),
        (
            404,
            unavailable("x", False, constraint={"field": "max_price", "detail": "At $3."}),
            RetryAction.NONE,
            "At $3",
        ),
    ],
)
def test_errors_about_the_availability_of_a_model(
    status: int, error: wire.Json, action: RetryAction, shown: str
) -> None:
    for parsed in (failure(status, error), openrouter.parse_embedded_error(error | {"http_status": status})):
        assert (parsed.status, parsed.retry_action) == (status, action)
        assert shown in str(parsed)


@pytest.mark.parametrize(
    ("status", "metadata", "action"),
    [
        (402, {"limit_source": "openrouter_in_flight_budget"}, RetryAction.retry()),
        (402, {"limit_source": "openrouter_credits"}, RetryAction.NONE),
        (403, {"limit_source": "openrouter_workspace_budget", "resets_at": "2026-12-31"}, RetryAction.NEXT_KEY),
        (403, {"limit_source": "openrouter_key_limit"}, RetryAction.NEXT_KEY),
        (429, {"limit_source": "upstream_provider_shared_pool", "retry_after_seconds": 17}, RetryAction.retry(17.0)),
    ],
)
def test_the_source_of_a_limit_decides_what_is_done(status: int, metadata: wire.Json, action: RetryAction) -> None:
    for parsed in (
        failure(status, {"code": status, "message": "No.", "metadata": metadata | {"remedy_hint": "Do this."}}),
        openrouter.parse_embedded_error({"code": status, "message": "No.", "metadata": metadata}),
    ):
        assert parsed.retry_action == action
        assert str(metadata.get("resets_at", "")) in parsed.hint


UPSTREAM = {"provider_name": "Venice", "raw": "a/b is temporarily rate-limited upstream."}
OWN_LIMIT = {"headers": {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0"}, "provider_name": None}


@pytest.mark.parametrize(
    ("status", "error", "is_overload"),
    [
        (429, {"metadata": UPSTREAM}, True),
        (503, {"metadata": UPSTREAM}, True),
        (429, {"metadata": {"provider_error_code": "rate_limit"}}, True),
        (503, {"metadata": {"error_type": "provider_overloaded"}}, True),
        (429, {"metadata": {"error_type": "rate_limit_exceeded"}}, False),
        (429, {"metadata": OWN_LIMIT}, False),
        (503, {}, False),
        (400, {"metadata": UPSTREAM}, False),
        (502, {"metadata": UPSTREAM}, False),
        (429, {"metadata": {"limit_source": "upstream_provider_shared_pool"}}, True),
        (429, {"metadata": UPSTREAM | {"limit_source": "upstream_provider_byok_key"}}, False),
        (429, unavailable("capacity_exhausted", True), True),
        (503, unavailable("temporarily_unavailable", True), True),
        (429, unavailable("no_endpoints", True), False),
        (429, unavailable("capacity_exhausted", True) | {"metadata": {"limit_source": "openrouter_rpm"}}, False),
        (529, {"metadata": OWN_LIMIT}, True),
    ],
)
def test_an_overload_is_not_a_limit_of_the_user(status: int, error: wire.Json, is_overload: bool) -> None:
    named = {"message": "Slow."} | error
    for parsed in (failure(status, named), openrouter.parse_embedded_error(named | {"code": status})):
        assert parsed.is_overload == is_overload


@pytest.mark.parametrize(
    ("status", "metadata", "is_overload"),
    [(429, {}, True), (429, {"limit_source": "openrouter_rpm"}, False), (500, {}, False)],
)
def test_a_429_in_the_middle_of_an_answer_is_an_overload(
    server: ModelServer, status: int, metadata: wire.Json, is_overload: bool
) -> None:
    error = {"code": status, "message": "Slow.", "metadata": metadata}
    server.reply(wire.streams(wire.text("Hel"), wire.chunk(finish="error") | {"error": error}))
    result = send_request(openrouter, server, ChatRequest("model", [Message("user", "hi")])).result
    assert isinstance(result.error, ProviderError)
    assert (result.error.status, result.error.is_overload) == (status, is_overload)


@pytest.mark.parametrize("what", ["support tool use", "support the provided 'tool_choice' value"])
def test_model_without_tools_is_retried_without_them(ask: Ask, server: ModelServer, what: str) -> None:
    server.reply(wire.fails(404, f"No endpoints found that {what}. To learn more, visit"), wire.says("Plain."))
    result = ask("-p", "openrouter", "hi")
    assert (result.text, result.code) == ("Plain.\n", 0)
    assert [bool({"tools", "tool_choice"} & request.json.keys()) for request in server.requests] == [True, False]
    assert "--no-tools" in result.stderr


def test_other_missing_models_are_an_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(404, "No endpoints found for a/b."))
    result = ask("-p", "openrouter", "-m", "a/b", "hi")
    assert (result.code, len(server.requests)) == (6, 1)


@pytest.mark.parametrize(
    "message",
    [
        "No endpoints available matching your guardrail restrictions and data policy. Configure: https://a.b",
        "No endpoints found that can handle the requested parameters.",
    ],
)
def test_schema_for_which_no_endpoint_is_left_is_left_out(ask: Ask, server: ModelServer, message: str) -> None:
    server.reply(wire.fails(404, message), wire.says('{"age": 36}'), wire.fails(404, message))
    result = ask("-p", "openrouter", "--no-tools", "--schema", "age int", "how old?")
    assert (json.loads(result.text), result.code) == ({"age": 36}, 0)
    assert ["response_format" in request.json for request in server.requests] == [True, False]
    assert ask("-p", "openrouter", "hi").code == 6


def test_missing_endpoints_have_a_hint() -> None:
    assert "ask models" in failure(404, {"message": "No endpoints found for a/b."}).hint
    policy = {"message": "No endpoints found matching your data policy (Free model publication)."}
    assert "settings/privacy" in failure(404, policy).hint


def in_seconds(seconds: float) -> str:
    return str(int((time.time() + seconds) * 1000))


def test_rate_limit_has_a_reset_time() -> None:
    for headers, copied in (({}, {"X-RateLimit-Reset": in_seconds(30)}), ({"X-RateLimit-Reset": in_seconds(30)}, {})):
        after = failure(429, {"message": "Slow.", "metadata": {"headers": copied}}, headers).retry_action.delay
        assert after is not None
        assert 20 < after <= 30


@pytest.mark.parametrize(
    ("headers", "copied", "after"),
    [
        ({"Retry-After": "7"}, {"Retry-After": "17", "X-RateLimit-Reset": in_seconds(30)}, 7),
        ({}, {"Retry-After": 17}, 17),
        ({}, {"X-RateLimit-Reset": in_seconds(-30)}, None),
        ({"Date": "Tue, 07 Oct 2025 13:56:40 GMT"}, {"X-RateLimit-Reset": "1759845420000"}, 20),
        ({}, {"X-RateLimit-Reset": "soon"}, None),
        ({}, None, None),
    ],
)
def test_retry_delay_is_read_from_headers_then_metadata(
    headers: dict[str, str], copied: Any, after: float | None
) -> None:
    for status in (429, 503):
        assert failure(
            status, {"message": "Slow.", "metadata": {"headers": copied}}, headers
        ).retry_action == RetryAction.retry(after)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (("", "Bedrock", '{"message":"Too long."}'), "Bedrock: Too long."),
        (
            ("", "Anthropic", '{"type":"error","error":{"type":"x","message":"Max 4 blocks."}}'),
            "Anthropic: Max 4 blocks.",
        ),
        (("", "xAI", '{"code":"denied","error":"Violates guidelines."}'), "xAI: Violates guidelines."),
        (("", "Venice", "a/b is rate-limited\nupstream."), "Venice: a/b is rate-limited upstream."),
        (("", "G", '[{"error":{"code":400,"message":"Bad schema."}}]'), "G: Bad schema."),
        (("", "V", '{"error":{"message":"{\\"error\\":{\\"message\\":\\"Deep.\\"}}"}}'), "V: Deep."),
        (("", "D", 'Error 400: {"error":{"message":"Deep."}}'), "D: Error 400: Deep."),
        (("", "D", {"error": {"message": "Deep."}}), "D: Deep."),
        (("", "D", "<!DOCTYPE html><html><head><title>502 Bad\nGateway</title></head></html>"), "D: 502 Bad Gateway"),
        (("Failed: <html><body><h1>Too large</h1></body></html>", None, None), "Failed: Too large"),
        (("Input '<html><title>A page</title></html>' is long", None, None), "Input 'A page' is long"),
        (("Use <html> for pages", None, None), "Use <html> for pages"),
        (('Failed: {"error":{"message":"Deep."}}', "Azure", None), "Azure: Failed: Deep."),
        (("Provider returned error", "Azure", None), "Azure: Provider returned error"),
        (("Upstream error from Venice: no.", "Venice", None), "Upstream error from Venice: no."),
        (("Unexpected {", None, None), "Unexpected {"),
        (('The value {"a": 1} is wrong', None, None), 'The value {"a": 1} is wrong'),
    ],
)
def test_upstream_error_message_is_shown(error: tuple[str, Any, Any], message: str) -> None:
    upstream_message, name, raw = error
    body = {"message": upstream_message or "Provider returned error", "code": 400}
    provider_error = failure(400, body | {"metadata": {"provider_name": name, "raw": raw}})
    assert provider_error.message == message


def test_an_answer_in_the_place_of_the_provider_is_read(ask: Ask, server: ModelServer) -> None:
    empty = dict.fromkeys(("id", "choices", "model", "object", "usage"))
    server.reply(
        wire.whole_reply(empty | {"provider": wire.answer("I look.", [LIST]) | {"provider": "Google"}}),
        wire.whole_reply(empty | {"provider": wire.answer("Done.") | {"provider": "Google"}}),
    )
    result = ask("-p", "openrouter", "--no-stream", "--json", "what is here?")
    value = json.loads(result.text)
    assert (result.code, value["text"], value["rounds"]) == (0, "I look.\nDone.", 1)
    assert value["usage"]["input_tokens"] == 20


@pytest.mark.parametrize(
    ("error_type", "message", "action"),
    [
        ("context_length_exceeded", "Provider returned error: context length exceeded", RetryAction.SHORTER),
        ("invalid_image", "Provider returned error: invalid image", RetryAction.NONE),
        ("unmapped", "Provider returned error", RetryAction.NONE),
    ],
)
def test_the_type_of_an_upstream_error_without_a_text_is_shown(
    server: ModelServer, error_type: str, message: str, action: RetryAction
) -> None:
    error = {"code": 400, "message": "Provider returned error", "metadata": {"error_type": error_type}}
    server.reply(wire.streams(wire.chunk(finish="error") | {"error": error}))
    result = send_request(openrouter, server, ChatRequest("model", [Message("user", "hi")])).result
    assert isinstance(result.error, ProviderError)
    assert (result.error.message, result.error.status, result.error.retry_action) == (message, 400, action)


# Models


def test_models_are_listed_with_prices_per_million_tokens(ask: Ask, server: ModelServer) -> None:
    listed = [
        {
            "id": "a/one",
            "name": "A: One",
            "context_length": 200000,
            "pricing": {"prompt": "0.000003", "completion": "0.000015"},
            "supported_parameters": ["max_tokens", "tools"],
        },
        {"id": "b/free", "pricing": {"prompt": "0", "completion": "0"}, "supported_parameters": []},
        {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
    ]
    server.reply(wire.whole_reply({"data": listed}))
    one, free, auto = json.loads(ask("models", "-p", "openrouter", "--json").stdout)
    request = server.requests[0]
    assert (request.method, request.path) == ("GET", "/api/v1/models")
    assert request.headers["Authorization"] == f"Bearer {TEST_KEY}"
    assert (one["id"], one["title"], one["context"], one["tools"]) == ("a/one", "A: One", 200000, True)
    assert (one["input_price"], one["output_price"]) == (pytest.approx(3), pytest.approx(15))
    assert (free["tools"], free["input_price"]) == (False, 0)
    assert (auto["tools"], auto["input_price"], auto["output_price"]) == (None, None, None)


@pytest.mark.parametrize(
    ("reasoning", "efforts"),
    [
        (None, None),
        ({"mandatory": False, "supported_efforts": None}, EFFORTS),
        ({"mandatory": True}, EFFORTS[1:]),
        ({"mandatory": True, "supported_efforts": ["high", "low"]}, ("low", "high")),
        ({"mandatory": False, "supported_efforts": ["xhigh", "high"]}, ("none", "high", "xhigh")),
    ],
)
def test_listed_efforts_are_read(reasoning: Any, efforts: Any) -> None:
    entry = {"id": "vendor/model", "reasoning": reasoning, "top_provider": {"max_completion_tokens": 9}}
    (model,) = openrouter.provider_parse_models({"data": [entry]})
    assert (model.output_limit, model.efforts) == (9, efforts)
