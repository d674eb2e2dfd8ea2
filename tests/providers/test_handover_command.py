"""A conversation started with one provider is continued with another: `ask -p A ...`, then `ask -c -p B ...`.

Each API is first once and second once; tests/providers/test_handover.py has all pairs.
"""

from __future__ import annotations

import json

import pytest

from ask import ToolCall
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.provider_wires import SERVICES, Reasoning, Wire
from tests.saved_history import read_saved_runs

THOUGHT = Reasoning("Pondering in private.", "cHJpdmF0ZQ==")
CALLS = (
    ToolCall("call_1", "bash", '{"command": "echo \\"ĝi\\""}'),
    ToolCall("call_2", "read_file", '{"filepath": "a.txt"}'),
)
NAMES = ["openrouter", "anthropic", "openai", "gemini", "ollama"]
ROTATION = list(zip(NAMES, NAMES[1:] + NAMES[:1], strict=True))


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    """The program, with a key for each provider, and their base URLs set like their own SDKs do."""
    root = server.base_url.removesuffix("/api/v1")
    env = dict(home.env)
    for name, service in SERVICES.items():
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = root + service.address
    return Ask(env, home.work)


def provider_options(service: Wire) -> list[str]:
    return ["-p", service.name, "-m", service.model]


@pytest.mark.parametrize(("first", "second"), ROTATION)
def test_another_provider_continues_a_saved_conversation(
    ask: Ask, server: ModelServer, home: Home, first: str, second: str
) -> None:
    one, other = SERVICES[first], SERVICES[second]
    (home.work / "a.txt").write_text("contents of a\n")
    server.reply(one.says(THOUGHT, "Let me see.", *CALLS), one.says(THOUGHT, "It is short."), other.says("Not much."))
    assert ask(*provider_options(one), "-s", "Be kind.", "What is in a.txt?").text.endswith("It is short.\n")
    result = ask("-c", *provider_options(other), "And what follows?")
    assert (result.text, result.stderr, result.code) == ("Not much.\n", "", 0)
    request = server.requests[-1]
    assert request.path.startswith(other.path)
    system, question, called, ran, read, answer, following = other.read_conversation(request.json)
    assert "Be kind." in system.content
    assert (question.content, following.content) == ("What is in a.txt?", "And what follows?")
    assert (called.content.strip(), answer.content.strip()) == ("Let me see.", "It is short.")
    assert [(call.name, json.loads(call.arguments)) for call in called.tool_calls] == [
        (call.name, json.loads(call.arguments)) for call in CALLS
    ]
    assert "ĝi" in ran.content
    assert "contents of a" in read.content
    assert not any(part in request.body.decode() for part in THOUGHT)
    assert [(run.provider, run.model, run.system) for run in read_saved_runs(home)] == [
        (first, one.model, "Be kind."),
        (second, other.model, "Be kind."),
    ]
