"""How much of a body is read: of a redirect nothing, of an error a part, of an answer all."""

from __future__ import annotations

import pytest

from ask.client.transport import MAX_ERROR_BYTES, Transport
from ask.plugin_api.provider import HttpRequest
from tests.model_server import ModelServer, Repeat, Reply
from tests.program import Ask

CHAT = HttpRequest("/chat/completions", {"model": "test/model"})
ENOUGH = 30.0


@pytest.mark.parametrize("status", [301, 307])
def test_the_body_of_a_redirect_is_not_read(server: ModelServer, status: int) -> None:
    server.reply(Reply((Repeat(b"x" * 1_000_000, 0),), status=status, headers={"Location": "/elsewhere"}))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        assert (answer.status, answer.read_text()) == (status, "")
    server.wait_for_abandoned()


def test_of_an_error_that_does_not_end_as_much_is_read_as_can_be_told(server: ModelServer) -> None:
    server.reply(Reply((b"sorry ", Repeat(b"x" * 1_000_000, 0)), status=500))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        text = answer.read_text()
    assert text.startswith("sorry xxx")
    assert len(text) < 2 * MAX_ERROR_BYTES
    server.wait_for_abandoned()


def test_a_whole_answer_is_read_however_long_it_is(server: ModelServer) -> None:
    server.reply(Reply((b"x" * (3 * MAX_ERROR_BYTES),)))
    with Transport(server.base_url, ENOUGH).send(CHAT) as answer:
        assert len(answer.read_text()) == 3 * MAX_ERROR_BYTES


def test_a_redirect_is_told_and_its_body_never_is(ask: Ask, server: ModelServer) -> None:
    endless = Repeat(b"x" * 1_000_000, 0)
    server.reply(Reply((endless,), status=302, headers={"Location": "https://elsewhere.test/"}))
    result = ask("hi")
    assert result.code == 6
    assert "redirected to https://elsewhere.test/ (openrouter, 302)" in result.stderr
