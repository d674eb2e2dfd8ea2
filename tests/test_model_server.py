"""The scripted model server behaves as the other tests assume."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import requests

from tests.model_server import DROP, HOLD, RESET, ModelServer, Repeat, Reply, Request


@pytest.fixture
def client() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session


def test_an_exception_in_a_script_fails_the_test() -> None:
    def script(request: Request) -> Reply:
        raise LookupError("wrong")

    with pytest.raises(LookupError, match="wrong"), ModelServer() as server:
        server.reply(script)
        with pytest.raises(requests.ConnectionError):
            requests.get(server.base_url, timeout=5)


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("ending", [DROP, RESET])
def test_a_truncated_reply_is_an_error_for_the_client(
    server: ModelServer, client: requests.Session, framing: str, ending: object
) -> None:
    server.reply(Reply((b"one", 0.02, ending), framing=framing))  # type: ignore[arg-type]
    with client.get(server.base_url, stream=True) as answer, pytest.raises(requests.exceptions.ChunkedEncodingError):
        _ = answer.content


def test_a_connection_can_be_dropped_before_any_answer(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply((DROP,)))
    with pytest.raises(requests.ConnectionError):
        client.get(server.base_url)
    assert server.abandoned == []


@pytest.mark.parametrize("steps", [(b"one", HOLD), (Repeat(),)])
def test_an_endless_reply_ends_when_the_client_disconnects(
    server: ModelServer, client: requests.Session, steps: tuple[object, ...]
) -> None:
    server.reply(Reply(steps))  # type: ignore[arg-type]
    with client.get(server.base_url, stream=True) as answer:
        assert answer.raw.read1()
    client.close()
    server.wait_for_abandoned()
    assert server.abandoned == server.requests


def test_the_server_can_be_closed_during_a_reply() -> None:
    with ModelServer() as server, requests.Session() as session:
        server.reply(Reply((b"one", 60.0)), Reply((b"two", threading.Event())), Reply((b"x" * 10_000_000, HOLD)))
        answers = [session.get(server.base_url, stream=True) for _ in range(3)]
        server.wait_for_requests(3)
        start = time.monotonic()
    assert time.monotonic() - start < 30
    for answer in answers:
        answer.close()
