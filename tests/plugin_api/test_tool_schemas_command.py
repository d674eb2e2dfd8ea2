"""End-to-end tests of tools with the schemas that real servers have, for every provider's API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ask import ToolCall
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, Result
from tests.provider_wires import SERVICES
from tests.providers import anthropic_wire
from tests.third_party_plugins import install_tools
from tests.wire import whole_reply

Json = dict[str, Any]

PARAMETERS: dict[str, Json] = {
    "find": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "filter[name]": {"type": "string"},
            "año": True,
            "level": {"type": "integer", "anyOf": [{"minimum": 1}, {"maximum": -1}]},
            "size": {"enum": [1, 2]},
            "where": {"$ref": "#/definitions/place"},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["filter[name]"],
        "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    },
    "move": {
        "type": "object",
        "anyOf": [
            {"properties": {"page_id": {"type": "string"}}, "required": ["page_id"]},
            {"properties": {"block_id": {"type": "string"}}, "required": ["block_id"]},
        ],
    },
    "delete_many": {
        "type": "object",
        "properties": {"filter": {"type": "object", "additionalProperties": {}}},
        "required": ["filter"],
        "additionalProperties": {},
    },
    "text": {"$ref": "#/$defs/text", "$defs": {"text": {"type": "string"}}},
}


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    packages = install_tools(
        home.path / "packages",
        "mine",
        "import json\n"
        "from ask import Tool, ToolResult, ToolSpec\n"
        f"PARAMETERS = json.loads({json.dumps(json.dumps(PARAMETERS))})\n"
        "def register_tools():\n"
        "    def echo(arguments, context): return ToolResult(json.dumps(dict(arguments)))\n"
        "    return [Tool(ToolSpec(name, 'Does it.', schema), lambda *given: echo(*given), False)\n"
        "            for name, schema in PARAMETERS.items()]\n",
    )
    env = dict(home.env)
    for name, service in SERVICES.items():
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = server.base_url.removesuffix("/api/v1") + service.address
    return Ask(env, ask.cwd, packages=packages)


def call(ask: Ask, name: str, *options: str) -> Result:
    return ask("-p", name, "-m", SERVICES[name].model, *options, "go")


def read_tools(body: Json) -> dict[str, Json]:
    """Return the parameter schemas in a request by tool name."""
    groups = [group.get("functionDeclarations", [group]) for group in body["tools"]]
    tools = [tool.get("function", tool) for group in groups for tool in group]
    fields = ("parameters", "input_schema", "parametersJsonSchema")
    return {tool["name"]: next((tool[field] for field in fields if field in tool), {}) for tool in tools}


FAST_SERVICES = ("openrouter", "anthropic", "gemini")
"""One provider for each API with its own rules for schemas; tests for the others are marked slow."""


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "name", [name if name in FAST_SERVICES else pytest.param(name, marks=pytest.mark.slow) for name in SERVICES]
)
def test_provider_gets_valid_schemas_and_the_tool_its_original_names(ask: Ask, server: ModelServer, name: str) -> None:
    service = SERVICES[name]
    server.reply(service.says("Hello."))
    result = call(ask, name)
    assert (result.text, result.code) == ("Hello.\n", 0)
    assert result.stderr.count("skipping the tool text of ask-mine") == 1
    tools = read_tools(server.requests[0].json)
    assert "text" not in tools
    find, move = tools["find"], tools["move"]
    assert {"page_id", "block_id"} == move["properties"].keys()
    assert not {"anyOf", "oneOf", "allOf", "$schema"} & {*find, *move}
    renamed, year, *others = find["properties"]
    assert others == ["level", "size", "where", "pair"]
    assert (find["properties"][year], find["properties"]["size"]["type"]) == ({"title": "año"}, "integer")
    assert {part["type"] for part in find["properties"]["level"]["anyOf"]} == {"integer"}

    arguments: Json = {renamed: "x", year: None, "level": 2, "where": {"city": "Bonn"}}
    server.reply(service.says(ToolCall("call_1", "find", json.dumps(arguments))), service.says("Done."))
    assert call(ask, name).code == 0
    (result_message,) = service.results(server.requests[-1].json)
    assert json.loads(result_message.content) == {
        "filter[name]": "x",
        "año": None,
        "level": 2,
        "where": {"city": "Bonn"},
    }


def test_extra_arguments_of_an_open_object_are_passed_on(ask: Ask, server: ModelServer) -> None:
    service = SERVICES["openrouter"]
    arguments = {"filter": {"owner": None, "age": {"$gt": 3}}, "database": "db", "comment": None}
    server.reply(service.says(ToolCall("call_1", "delete_many", json.dumps(arguments))), service.says("Done."))
    assert call(ask, "openrouter").code == 0
    (result_message,) = service.results(server.requests[-1].json)
    assert json.loads(result_message.content) == arguments


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "openai",
            {
                "error": {
                    "message": "Invalid schema for function 'move': schema must have type 'object'.",
                    "type": "invalid_request_error",
                    "param": "tools[{place}].function.parameters",
                    "code": "invalid_function_parameters",
                }
            },
        ),
        (
            "anthropic",
            anthropic_wire.error("invalid_request_error", "tools.{place}.custom.input_schema: JSON schema is invalid."),
        ),
        (
            "gemini",
            {
                "error": {
                    "code": 400,
                    "message": "* GenerateContentRequest.tools[0].function_declarations[{place}].parameters: wrong\n",
                    "status": "INVALID_ARGUMENT",
                }
            },
        ),
        ("xai", {"error": "Invalid function `move`: its schema is wrong", "code": "invalid"}),
    ],
)
@pytest.mark.parametrize("options", [(), pytest.param(("--schema", "name"), marks=pytest.mark.slow)])
def test_error_about_a_tool_says_how_to_disable_it(
    ask: Ask, server: ModelServer, name: str, body: Json, options: tuple[str, ...]
) -> None:
    server.reply(SERVICES[name].says("Hello."))
    assert call(ask, name).code == 0
    tool_index = list(read_tools(server.requests[0].json)).index("move")
    server.reply(whole_reply(json.loads(json.dumps(body).replace("{place}", str(tool_index))), 400))
    result = call(ask, name, *options)
    assert result.code == 6
    assert "rejected the tool move" in result.stderr
    assert "--disable-tool move" in result.stderr
    assert len(server.requests) == 2, "nothing is sent again that would be refused again"
