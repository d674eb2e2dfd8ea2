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


def test_replies_come_in_order_and_the_last_is_repeated(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply((b"one",)), Reply((b"two",), status=529))
    answers = [client.get(server.base_url) for _ in range(3)]
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "one"), (529, "two"), (529, "two")]


def test_replies_added_later_follow_a_repeated_one(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply((b"one",)))
    client.get(server.base_url)
    client.get(server.base_url)
    server.reply(Reply((b"two",)))
    assert client.get(server.base_url).text == "two"


def test_a_script_is_called_for_each_reply(server: ModelServer, client: requests.Session) -> None:
    server.reply(lambda request: Reply((str(len(request.json["messages"])).encode(),)))
    assert client.post(server.base_url, json={"messages": [1, 2]}).text == "2"
    assert client.post(server.base_url, json={"messages": []}).text == "0"


def test_an_exception_in_a_script_fails_the_test() -> None:
    def script(request: Request) -> Reply:
        raise LookupError("wrong")

    with pytest.raises(LookupError, match="wrong"), ModelServer() as server:
        server.reply(script)
        with pytest.raises(requests.ConnectionError):
            requests.get(server.base_url, timeout=5)


def test_requests_without_a_scripted_reply_are_answered_with_an_error(
    server: ModelServer, client: requests.Session
) -> None:
    answer = client.get(server.base_url)
    assert (answer.status_code, answer.text) == (500, "no reply is scripted")


def test_requests_are_recorded_completely(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply())
    client.post(f"{server.base_url}/chat/completions", json={"a": "ü"}, headers={"X-Title": "ask"})
    client.get(f"{server.base_url}/models")
    first, second = server.requests
    assert (first.method, first.path, first.json) == ("POST", "/api/v1/chat/completions", {"a": "ü"})
    assert first.headers["x-title"] == "ask"
    assert (second.method, second.path, second.body) == ("GET", "/api/v1/models", b"")
    assert first.time < second.time


def test_requests_record_their_connection(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply())
    client.get(server.base_url)
    client.get(server.base_url)
    client.close()
    client.get(server.base_url)
    assert [request.connection for request in server.requests] == [1, 1, 2]


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_steps_arrive_one_by_one(server: ModelServer, client: requests.Session, framing: str) -> None:
    seen = threading.Event()
    server.reply(Reply((b"one", seen, b"two"), framing=framing))  # type: ignore[arg-type]
    with client.get(server.base_url, stream=True, timeout=5) as answer:
        assert answer.raw.read1() == b"one"
        seen.set()
        assert answer.raw.read() == b"two"


def test_pauses_delay_the_next_step(server: ModelServer, client: requests.Session) -> None:
    server.reply(Reply((0.05, b"one", 0.05, b"two")))
    start = time.monotonic()
    assert client.get(server.base_url).text == "onetwo"
    assert time.monotonic() - start >= 0.1


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
    assert time.monotonic() - start < 1
    for answer in answers:
        answer.close()
