"""What each provider makes of the schema that an answer must fit, beside tools and without, judged by the SDKs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask import ChatRequest, HttpRequest, Message, ProviderError, Remedy, ToolSpec
from ask.plugin_api.strict_schema import to_strict_schema
from ask.schemas.short_form import parse_short_form
from providers.anthropic_schema import to_anthropic_schema
from providers.gemini import provider as gemini
from providers.moonshot import provider as moonshot
from providers.ollama import provider as ollama
from providers.openai import provider as openai
from providers.openrouter import provider as openrouter
from tests.exchanges import put
from tests.model_server import ModelServer
from tests.test_schema_short_form import ONE, lists, objects
from tests.wire import whole_reply
from tests.wires import SERVICES, Wire

SCHEMA = parse_short_form("name, age int|null, tags [string]")
TEXT = {"type": "string"}
OPTIONAL = {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}
TALK = (Message("system", "Answer in JSON that fits ..."), Message("user", "Who?"))
TOOLS = (ToolSpec("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}),)
JSON_ALONE = {"type": "json_object"}
BESIDE_TOOLS = {"openrouter", "openai", "xai", "anthropic", "gemini"}
Json = dict[str, Any]


def body_of(service: Wire, **fields: Any) -> Json:
    """A request's body, judged."""
    http = service.provider.provider_build_request(ChatRequest(fields.pop("model", service.model), TALK, **fields), "k")
    assert isinstance(http, HttpRequest)
    body = dict(http.body or {})
    service.judge(body)
    return body


def sent(name: str, body: Json) -> Any:
    """The schema that a body holds, or else what stands in its place; None without any."""
    if name == "anthropic":
        return body.get("output_config", {}).get("format", {}).get("schema")
    if name == "gemini":
        config = body.get("generationConfig", {})
        assert ("responseJsonSchema" in config) == (config.get("responseMimeType") == "application/json")
        return config.get("responseJsonSchema")
    if name == "ollama":
        return body.get("format")
    form = body.get("response_format")
    return form["json_schema"]["schema"] if form and "json_schema" in form else form


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", SERVICES)
def test_without_tools_each_is_told_in_its_own_way(name: str, stream: bool) -> None:
    body = body_of(SERVICES[name], schema=SCHEMA, stream=stream)
    told = sent(name, body)
    if name == "anthropic":
        assert told == to_anthropic_schema(SCHEMA)
    else:
        assert told == (JSON_ALONE if name == "deepseek" else SCHEMA)
    assert sent(name, body_of(SERVICES[name])) is None


@pytest.mark.parametrize("name", SERVICES)
def test_beside_tools_only_where_they_are_still_called(name: str) -> None:
    service = SERVICES[name]
    may_call = body_of(service, schema=SCHEMA, tools=TOOLS)
    assert service.offered(may_call) == ["look"]
    assert (sent(name, may_call) is not None) == (name in BESIDE_TOOLS)
    may_not = body_of(service, schema=SCHEMA, tools=TOOLS, tool_choice="none")
    assert sent(name, may_not) is not None


# Chat Completions


def described(schema: Json) -> Json:
    body = openai.body(ChatRequest("gpt-6-sol", TALK, schema=schema))
    told = body["response_format"]
    assert (told["type"], told["json_schema"]["name"]) == ("json_schema", "answer")
    return dict(told["json_schema"])


def test_a_schema_is_strict_where_it_can_be() -> None:
    assert described(SCHEMA)["strict"] is True
    loose = {"type": "object", "properties": {"a": TEXT}}
    assert described(loose) == {"name": "answer", "schema": loose, "strict": False}
    assert described(loose | {"required": ["a"]})["schema"]["additionalProperties"] is False


def test_what_is_no_object_goes_in_words_alone() -> None:
    for schema in (parse_short_form("[string]"), {"type": "integer"}, {"anyOf": [TEXT]}):
        assert "response_format" not in openai.body(ChatRequest("gpt-6-sol", TALK, schema=schema))


def test_the_users_own_format_counts() -> None:
    options = {"response_format": {"type": "text"}}
    assert openai.body(ChatRequest("gpt-6-sol", TALK, schema=SCHEMA, options=options))["response_format"] == {
        "type": "text"
    }


@pytest.mark.parametrize(
    ("model", "beside"),
    [
        ("~anthropic/claude-sonnet-latest", True),
        ("openai/gpt-6-sol", True),
        ("x-ai/grok-latest", True),
        ("google/gemini-2.5-flash", False),
        ("qwen/qwen3", False),
        ("openrouter/auto", False),
    ],
)
def test_openrouter_sends_it_beside_tools_to_vendors_that_take_it(model: str, beside: bool) -> None:
    body = openrouter.body(ChatRequest(model, TALK, TOOLS, schema=SCHEMA))
    assert ("response_format" in body) == beside
    assert "response_format" in openrouter.body(ChatRequest(model, TALK, TOOLS, tool_choice="none", schema=SCHEMA))


# Anthropic


@pytest.mark.parametrize(
    ("schema", "sent"),
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
def test_anthropic_gets_what_it_can_hold_an_answer_to(schema: Json, sent: Json) -> None:
    assert to_anthropic_schema(schema) == sent


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
def test_anthropic_gets_no_schema_that_would_say_something_else(schema: Json) -> None:
    assert to_anthropic_schema(schema) is None
    assert sent("anthropic", body_of(SERVICES["anthropic"], schema=schema)) is None


@given(st.one_of(objects(ONE), lists(ONE)))
def test_any_short_form_fits_the_types_of_every_sdk(short: str) -> None:
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
    assert ("tools" in free, sent("gemini", free)) == (True, None)
    assert ("tools" in bound, sent("gemini", bound)) == (False, SCHEMA)
    assert "toolConfig" not in bound
    assert "tools" in body_of(SERVICES["gemini"], model=model, tools=TOOLS, tool_choice="none")


# Refusals

REFUSALS = [
    (openai, 400, "Invalid schema for response_format 'answer': In context=(), 'not' is not permitted."),
    (openai, 400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    (openai, 422, "response_format.type `json_schema` is unavailable now"),
    (openai, 400, "This response_format type is unavailable now"),
    (openai, 400, "The model does not support formatted output but some have been specified in the request."),
    (openai, 400, "'response_format` json_object cannot be combined with tool/function calling"),
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
def test_a_refusal_of_the_schema_is_known_as_one(server: ModelServer, provider: Any, status: int, message: str) -> None:
    server.reply(whole_reply({"error": {"message": message}}, status))
    came = put(provider, server, ChatRequest("model-1", TALK, schema=SCHEMA), tries=3)
    assert isinstance(came.turn.error, ProviderError)
    assert came.turn.error.remedy is Remedy.WITHOUT_SCHEMA
    assert len(server.requests) == 1


def test_another_refusal_and_one_without_a_schema_are_not(server: ModelServer) -> None:
    for schema, message in ((SCHEMA, "temperature is too high"), (None, "Invalid schema for response_format")):
        server.reply(whole_reply({"error": {"message": message}}, 400))
        came = put(openai, server, ChatRequest("gpt-6-sol", TALK, schema=schema))
        assert isinstance(came.turn.error, ProviderError)
        assert came.turn.error.remedy is Remedy.NONE
