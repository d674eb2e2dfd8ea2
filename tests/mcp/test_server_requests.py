"""Requests from a server: roots and questions to the user. test_stdio.py tests the stateless protocol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ask.config.mcp_servers import ServerConfig
from ask.mcp.connection import find_roots
from tests.mcp.setting import RAW, ask_with_calls, configure, program, received
from tests.model_server import ModelServer
from tests.program import Ask, Home


def test_roots_are_the_working_directory(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW, cwd=str(home.path))})
    (home.path / "received").unlink(missing_ok=True)
    _, [answer] = ask_with_calls(ask, server, [("raw__roots", {})])
    assert json.loads(answer)["result"] == {"roots": [{"uri": home.work.as_uri(), "name": home.work.name}]}


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("", True),
        ("http://127.0.0.1:3000/mcp", True),
        ("http://[::1]/mcp", True),
        ("https://localhost/mcp", True),
        ("https://example.com/mcp", False),
        ("https://192.168.0.2/mcp", False),
        ("https://localhost.example.com/mcp", False),
    ],
)
def test_only_local_servers_get_the_working_directory(url: str, is_here: bool) -> None:
    server = ServerConfig("one", Path("config.toml"), url=url)
    assert find_roots(server, Path("/home/me")) == ([Path("/home/me")] if is_here else [])


def test_questions_to_the_user_are_declined_and_passed_to_the_model(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    calls = [(f"raw__{name}", {"text": "x"}) for name in ("question", "page", "echo")]
    result, [question, page, echo] = ask_with_calls(ask, server, calls)
    assert result.code == 0
    answer, note = question.splitlines()
    assert json.loads(answer)["result"] == {"action": "decline"}
    assert "Delete all?" in note
    answer, note = page.splitlines()
    assert json.loads(answer)["result"] == {"action": "decline"}
    assert "Sign in https://example.com/in" in note
    assert echo == "x", "a question is passed on once"
    [capabilities] = [one["params"]["capabilities"] for one in received(home) if one.get("method") == "initialize"]
    assert capabilities["elicitation"] == {"form": {}, "url": {}}
    assert "roots" in capabilities
    assert "sampling" not in capabilities


def test_the_url_of_a_required_page_is_in_the_result(ask: Ask, home: Home, server: ModelServer) -> None:
    configure(home, {"raw": program(RAW)})
    _, [answer] = ask_with_calls(ask, server, [("raw__signed_out", {})])
    assert "https://example.com/in" in answer
