"""Scenarios: prompts answered without a tool call."""

from __future__ import annotations

import json
from datetime import date

import pytest

from ask import __version__
from ask.tools.definitions import BUILTIN_TOOLS, SEARCH_WEB
from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask
from tests.scenarios.sent_requests import check_sent_requests, list_offered_tools, list_roles
from tests.tool_names import DEFAULT_TOOLS

NO_TOOLS = 'No endpoints found that support tool use. Try disabling "read_file".'


def test_a_prompt_is_sent_after_the_default_system_prompt(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Because of Rayleigh scattering."))
    before = date.today()
    result = ask("why", "is", "the", "sky", "blue?")
    assert (result.text, result.stderr, result.code) == ("Because of Rayleigh scattering.\n", "", 0)
    [body] = check_sent_requests(server)
    assert list_roles(body) == ["system", "user"]
    assert body["messages"][1]["content"] == "why is the sky blue?"
    system = body["messages"][0]["content"]
    assert system.startswith(f"You are ask {__version__}")
    assert before.isoformat() in system or date.today().isoformat() in system
    assert str(ask.cwd) in system
    assert all(f"- {name}: " in system for name in DEFAULT_TOOLS)


def test_the_users_system_prompt_follows_the_default_one(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Ahoy."))
    assert ask("-s", "Talk like a pirate.", "hello").text == "Ahoy.\n"
    [body] = check_sent_requests(server)
    assert list_roles(body) == ["system", "user"]
    system = body["messages"][0]["content"]
    assert system.startswith(f"You are ask {__version__}")
    assert system.endswith("\n\nTalk like a pirate.")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("script", "prompt"),
    [
        ('cat log | ask "what broke?"', "what broke?\n\n<stdin>\nerror: no space left\n</stdin>"),
        ("ask < log", "error: no space left"),
        ('ask "what broke?" < /dev/null', "what broke?"),
        ('ask "what broke?" --no-stdin < log', "what broke?"),
        ("ask -f log < /dev/null", '<file name="log">\nerror: no space left\n</file>'),
    ],
)
def test_piped_text_is_part_of_the_prompt(ask: Ask, server: ModelServer, script: str, prompt: str) -> None:
    (ask.cwd / "log").write_text("error: no space left\n")
    server.reply(wire.says("The disk is full."))
    result = ask.shell(script)
    assert (result.text, result.stderr, result.code) == ("The disk is full.\n", "", 0)
    [body] = check_sent_requests(server)
    assert body["messages"][1]["content"] == prompt


def test_text_piped_into_a_named_prompt_is_marked_as_data(ask: Ask, server: ModelServer) -> None:
    ask.shell("git init -q && echo 'PORT = 80' > a.py && git add a.py && echo 'PORT = \"{{to}}\"' > a.py")
    server.reply(wire.says("**high** a.py:1"))
    result = ask.shell("git diff | ask -t review")
    assert (result.text, result.stderr, result.code) == ("**high** a.py:1\n", "", 0)
    [body] = check_sent_requests(server)
    assert list_roles(body) == ["system", "user"]
    system, asked = (message["content"] for message in body["messages"])
    assert system.startswith(f"You are ask {__version__}")
    assert "\n\nYou review code " in system
    assert asked.startswith("Review this for bugs: ")
    assert "\n\n<stdin>\ndiff --git a/a.py b/a.py\n" in asked
    assert asked.endswith('\n-PORT = 80\n+PORT = "{{to}}"\n</stdin>')
    assert list_offered_tools(body) == ["read_file", "list_dir", "bash"]


def test_every_tool_is_offered_with_tool_choice_auto(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("hello").code == 0
    [body] = check_sent_requests(server)
    expected = [spec.to_function()["function"] for spec in (*(tool.spec for tool in BUILTIN_TOOLS), SEARCH_WEB)]
    offered = [tool["function"] for tool in body["tools"]]
    assert all(function.pop("description") for function in (*offered, *expected))  # some depend on the model
    assert offered == expected
    assert list_offered_tools(body) == DEFAULT_TOOLS
    assert body["tool_choice"] == "auto"


def test_no_tools_sends_no_tools_and_the_system_prompt_mentions_none(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello."))
    assert ask("--no-tools", "hello").code == 0
    [body] = check_sent_requests(server)
    assert not body.keys() & {"tools", "tool_choice"}
    assert not any(name in body["messages"][0]["content"] for name in DEFAULT_TOOLS)


def test_a_model_without_tool_support_gets_one_request_without_tools(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(404, NO_TOOLS), wire.says("Hello."))
    result = ask("hello")
    assert (result.text, result.code) == ("Hello.\n", 0)
    assert "No endpoints found that support tool use" in result.stderr
    assert "--no-tools" in result.stderr
    first, second = sent_without_prompt(server)
    assert list_offered_tools(first) == DEFAULT_TOOLS
    assert not second.keys() & {"tools", "tool_choice"}


def test_the_system_prompt_of_a_request_without_tools_mentions_none(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(404, NO_TOOLS), wire.says("Hello."))
    assert ask("hello").code == 0
    system = server.requests[1].json["messages"][0]["content"]
    assert not any(name in system for name in DEFAULT_TOOLS)


def test_no_second_request_is_sent_if_the_first_had_no_tools(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.fails(404, NO_TOOLS))
    result = ask("hello")
    assert (result.stdout, result.code) == (b"", 6)
    assert len(server.requests) == 2


def sent_without_prompt(server: ModelServer) -> list[dict[str, object]]:
    """Return the bodies of requests whose system prompts may differ."""
    bodies = [request.json for request in server.requests]
    assert all(wire.read_by_openai(body) == body for body in bodies)
    assert len({json.dumps(body["messages"][1:]) for body in bodies}) == 1
    return bodies
