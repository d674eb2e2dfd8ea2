"""How each provider sends a response schema, with and without tools, checked with the SDKs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ChatRequest, HttpRequest, Message, ProviderError, RetryAction, ToolSpec
from ask.plugin_api.strict_schema import to_strict_schema
from ask.schemas.short_form import parse_short_form
from providers.anthropic_schema import to_anthropic_schema
from providers.gemini import provider as gemini
from providers.moonshot import provider as moonshot
from providers.ollama import provider as ollama
from providers.openai import provider as openai
from providers.openrouter import provider as openrouter
from tests.host_requests import prepare_request
from tests.model_server import ModelServer
from tests.provider_wires import SERVICES, Wire
from tests.recorded_exchanges import send_request
from tests.schemas.test_schema_short_form import ONE, lists, objects
from tests.wire import whole_reply

SCHEMA = parse_short_form("name, age int|null, tags [string]")
TEXT = {"type": "string"}
OPTIONAL = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}
TALK = (Message("system", "Answer in JSON that fits ..."), Message("user", "Who?"))
TOOLS = (ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}),)
JSON_ALONE = {"type": "json_object"}
RESPONSES = {"openai", "xai"}
BESIDE_TOOLS = {"openrouter", "openai", "xai", "anthropic", "gemini"}
Json = dict[str, Any]


def body_of(service: Wire, **fields: Any) -> Json:
    """Build a request body, checked with the SDK."""
    request = prepare_request(service.provider, fields.pop("model", service.model), TALK, **fields)
    http = service.provider.provider_build_request(request, "k")
    assert isinstance(http, HttpRequest)
    body = dict(http.body or {})
    service.validate(body)
    return body


def find_schema(name: str, body: Json) -> Any:
    """Return the schema in a body, or what replaces it; None if there is neither."""
    if name == "anthropic":
        return body.get("output_config", {}).get("format", {}).get("schema")
    if name == "gemini":
        config = body.get("generationConfig", {})
        assert ("responseJsonSchema" in config) == (config.get("responseMimeType") == "application/json")
        return config.get("responseJsonSchema")
    if name == "ollama":
        return body.get("format")
    if name in RESPONSES:
        return body.get("text", {}).get("format", {}).get("schema")
    form = body.get("response_format")
    return form["json_schema"]["schema"] if form and "json_schema" in form else form


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", SERVICES)
def test_schema_without_tools_in_each_api(name: str, stream: bool) -> None:
    body = body_of(SERVICES[name], schema=SCHEMA, stream=stream)
    found_schema = find_schema(name, body)
    if name == "anthropic":
        assert found_schema == to_anthropic_schema(SCHEMA)
    else:
        assert found_schema == (JSON_ALONE if name == "deepseek" else SCHEMA)
    assert find_schema(name, body_of(SERVICES[name])) is None


@pytest.mark.parametrize("name", SERVICES)
def test_schema_with_tools_only_if_tools_are_still_called(name: str) -> None:
    service = SERVICES[name]
    may_call = body_of(service, schema=SCHEMA, tools=TOOLS)
    assert service.offered(may_call) == ["look"]
    assert (find_schema(name, may_call) is not None) == (name in BESIDE_TOOLS)
    may_not = body_of(service, schema=SCHEMA, tools=TOOLS, tool_choice="none")
    assert find_schema(name, may_not) is not None


# Chat Completions


def build_json_schema(schema: Json) -> Json:
    body = openai.chat.build_body(ChatRequest("gpt-6-sol", TALK, schema=schema))
    response_format = body["response_format"]
    assert (response_format["type"], response_format["json_schema"]["name"]) == ("json_schema", "answer")
    return dict(response_format["json_schema"])


def test_schema_is_strict_if_possible() -> None:
    assert build_json_schema(SCHEMA)["strict"] is True
    loose = {"type": "object", "properties": {"a": TEXT}}
    assert build_json_schema(loose) == {"name": "answer", "schema": loose, "strict": False}
    assert build_json_schema(loose | {"required": ["a"]})["schema"]["additionalProperties"] is False


def test_non_object_schema_is_only_in_the_prompt() -> None:
    for schema in (parse_short_form("[string]"), {"type": "integer"}, {"anyOf": [TEXT]}):
        assert "response_format" not in openai.chat.build_body(ChatRequest("gpt-6-sol", TALK, schema=schema))


def test_user_s_response_format_wins() -> None:
    options = {"response_format": {"type": "text"}}
    assert openai.chat.build_body(ChatRequest("gpt-6-sol", TALK, schema=SCHEMA, options=options))[
        "response_format"
    ] == {"type": "text"}


@pytest.mark.parametrize(
    ("model", "beside"),
    [
        ("~anthropic/claude-sonnet-latest", True),
        ("openai/gpt-6-sol", True),
        ("x-ai/grok-latest", True),
        ("google/gemini-3-pro", True),
        ("~google/gemini-flash-latest", True),
        ("google/gemini-2.5-flash", False),
        ("google/gemma-4", False),
        ("qwen/qwen3", False),
        ("openrouter/auto", False),
    ],
)
def test_openrouter_sends_schema_with_tools_to_some_vendors(model: str, beside: bool) -> None:
    request = prepare_request(openrouter, model, TALK, TOOLS, schema=SCHEMA)
    assert ("response_format" in openrouter.build_body(request)) == beside
    assert "response_format" in openrouter.build_body(request._replace(tool_choice="none"))


# Anthropic


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (parse_short_form("a int, b? int"), parse_short_form("a int, b? int")),
        ({"type": "object", "properties": {"a": TEXT}}, OPTIONAL),
        (parse_short_form("a?"), OPTIONAL),
        ({"type": "integer", "minimum": 1, "description": "d"}, {"type": "integer", "description": "d"}),
        ({"type": ["integer", "null"]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"type": "string", "enum": ["a", "b"]}, {"enum": ["a", "b"]}),
        ({"const": 1}, {"enum": [1]}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        ({"type": "string", "format": "regex", "maxLength": 3}, TEXT),
        (
            {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 3},
            {"type": "array", "items": TEXT, "minItems": 1},
        ),
        ({"type": "array", "items": TEXT, "minItems": 2}, {"type": "array", "items": TEXT}),
        ({"$ref": "#/$defs/A", "$defs": {"A": TEXT}}, {"$ref": "#/$defs/A", "$defs": {"A": TEXT}}),
    ],
)
def test_anthropic_gets_the_supported_subset(schema: Json, expected: Json) -> None:
    assert to_anthropic_schema(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "array"},
        {"allOf": [TEXT]},
        {"properties": {"a": TEXT}},
        {"enum": [[1]]},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True},
        {"type": "object", "properties": {"a": TEXT}, "patternProperties": {"b": TEXT}},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array", "items": TEXT, "prefixItems": [TEXT]},
        {"anyOf": [TEXT, {"type": "object"}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {}}},
    ],
)
def test_anthropic_gets_no_schema_with_another_meaning(schema: Json) -> None:
    assert to_anthropic_schema(schema) is None
    assert find_schema("anthropic", body_of(SERVICES["anthropic"], schema=schema)) is None


@given(st.one_of(objects(ONE), lists(ONE)))
def test_any_short_form_matches_the_types_of_every_sdk(short: str) -> None:
    schema = parse_short_form(short)
    for name in ("openai", "anthropic", "ollama", "gemini"):
        body_of(SERVICES[name], schema=schema)
    assert to_strict_schema(schema) in (None, schema)


# Gemini


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "models/gemini-2.0-flash", "gemma-3"])
def test_a_gemini_before_3_has_either_tools_or_a_schema(model: str) -> None:
    free, bound = (
        body_of(SERVICES["gemini"], model=model, schema=SCHEMA, tools=TOOLS, tool_choice=choice)
        for choice in ("auto", "none")
    )
    assert ("tools" in free, find_schema("gemini", free)) == (True, None)
    assert ("tools" in bound, find_schema("gemini", bound)) == (False, SCHEMA)
    assert "toolConfig" not in bound
    assert "tools" in body_of(SERVICES["gemini"], model=model, tools=TOOLS, tool_choice="none")


# Refusals

REFUSALS = [
    (openai.chat, 400, "Invalid schema for response_format 'answer': In context=(), 'not' is not permitted."),
    (openai.chat, 400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    (openai.chat, 422, "response_format.type `json_schema` is unavailable now"),
    (openai.chat, 400, "This response_format type is unavailable now"),
    (openai.chat, 400, "The model does not support formatted output but some have been specified in the request."),
    (openai.chat, 400, "'response_format` json_object cannot be combined with tool/function calling"),
    (openai, 400, "Invalid schema for response_format 'answer': In context=(), 'not' is not permitted."),
    (openai, 400, "Invalid parameter: 'text.format' is not supported with this model."),
    (moonshot, 400, "Invalid request: it is not a valid moonshot flavored json schema, details: type is not defined"),
    (openrouter, 404, "No endpoints found that support structured outputs."),
    (SERVICES["anthropic"].provider, 400, "output_config: Extra inputs are not permitted"),
    (SERVICES["anthropic"].provider, 400, "The compiled grammar is too large, which would cause performance issues."),
    (gemini, 400, "Function calling with a response mime type: 'application/json' is unsupported"),
    (gemini, 400, "The specified schema produces a constraint that has too many states for serving."),
    (ollama, 500, "invalid JSON schema in format"),
    (ollama, 500, "failed to load model vocabulary required for format"),
    (ollama, 400, "Failed to initialize samplers: failed to parse grammar"),
]


@pytest.mark.parametrize(("provider", "status", "message"), REFUSALS, ids=lambda part: str(part)[:30])
def test_refused_schema_is_recognized(server: ModelServer, provider: Any, status: int, message: str) -> None:
    reply = whole_reply({"error": {"message": message}}, status)
    server.reply(replace(reply, responses_api=provider is openai))
    exchange = send_request(provider, server, ChatRequest("model-1", TALK, schema=SCHEMA), tries=3)
    assert isinstance(exchange.result.error, ProviderError)
    assert exchange.result.error.retry_action is RetryAction.WITHOUT_SCHEMA
    assert len(server.requests) == 1


def test_other_refusals_are_not_blamed_on_the_schema(server: ModelServer) -> None:
    for schema, message in ((SCHEMA, "temperature is too high"), (None, "Invalid schema for response_format")):
        server.reply(whole_reply({"error": {"message": message}}, 400))
        exchange = send_request(openai.chat, server, ChatRequest("gpt-6-sol", TALK, schema=schema))
        assert isinstance(exchange.result.error, ProviderError)
        assert exchange.result.error.retry_action is RetryAction.NONE
