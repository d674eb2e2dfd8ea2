"""How much of a body is read: nothing of a redirect, the start of an error, and all of an answer."""

from __future__ import annotations

import pytest

from ask.client.transport import MAX_ERROR_BYTES, Transport
from ask.plugin_api.types import HttpRequest
from tests.model_server import ModelServer, Repeat, Reply
from tests.program import Ask

CHAT = HttpRequest("/chat/completions", {"model": "test/model"})
ENOUGH = 30.0


@pytest.mark.parametrize("status", [301, 307])
def test_redirect_body_is_not_read(server: ModelServer, status: int) -> None:
    server.reply(Reply((Repeat(b"x" * 1_000_000, 0),), status=status, headers={"Location": "/elsewhere"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert (response.status, response.read_text()) == (status, "")
    server.wait_for_abandoned()


def test_endless_error_body_is_read_up_to_the_limit(server: ModelServer) -> None:
    server.reply(Reply((b"sorry ", Repeat(b"x" * 1_000_000, 0)), status=500))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        text = response.read_text()
    assert text.startswith("sorry xxx")
    assert len(text) < 2 * MAX_ERROR_BYTES
    server.wait_for_abandoned()


def test_long_successful_body_is_read_completely(server: ModelServer) -> None:
    server.reply(Reply((b"x" * (3 * MAX_ERROR_BYTES),)))
    with Transport(server.base_url, ENOUGH).send(CHAT) as response:
        assert len(response.read_text()) == 3 * MAX_ERROR_BYTES


def test_redirect_is_reported_without_its_body(ask: Ask, server: ModelServer) -> None:
    endless = Repeat(b"x" * 1_000_000, 0)
    server.reply(Reply((endless,), status=302, headers={"Location": "https://elsewhere.test/"}))
    result = ask("hi")
    assert result.code == 6
    assert "redirected to https://elsewhere.test/ (openrouter, 302)" in result.stderr
