"""Base URLs as users write them, and the URLs that requests are sent to."""

from __future__ import annotations

import socketserver
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.base_url import add_default_path, is_same_service, split_base_url
from tests import wire
from tests.model_server import ModelServer, Reply
from tests.program import Ask, Home

CHAT, MESSAGES, OLLAMA = "/chat/completions", "/v1/messages", "/api/chat"
GEMINI = "/v1beta/models/m:streamGenerateContent?alt=sse"
UPLOAD = "/upload/v1beta/files"


@pytest.mark.parametrize(
    ("base_url", "path", "url"),
    [
        ("http://h/v1", CHAT, "http://h/v1/chat/completions"),
        ("http://h/v1/", CHAT, "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", CHAT, "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions/", "/models", "http://h/v1/models"),
        ("http://h/v1/responses", CHAT, "http://h/v1/chat/completions"),
        ("http://h/v1/models", CHAT, "http://h/v1/chat/completions"),  # what people open to see if a server works
        ("http://h/v1/completions", CHAT, "http://h/v1/chat/completions"),
        ("http://h/models", CHAT, "http://h/models/chat/completions"),  # Azure's model inference API
        ("http://h/api/v1", CHAT, "http://h/api/v1/chat/completions"),
        ("http://h", MESSAGES, "http://h/v1/messages"),
        ("http://h/v1", MESSAGES, "http://h/v1/messages"),
        ("http://h/v1/messages", MESSAGES, "http://h/v1/messages"),
        ("http://h/api", MESSAGES, "http://h/api/v1/messages"),  # OpenRouter's Messages API
        ("http://h/anthropic", MESSAGES, "http://h/anthropic/v1/messages"),
        ("http://h/v1beta", GEMINI, f"http://h{GEMINI}"),
        ("http://h/v1beta/openai/", GEMINI, f"http://h{GEMINI}"),
        ("http://h/v1beta/models/x:generateContent", GEMINI, f"http://h{GEMINI}"),
        ("http://h/v1beta", UPLOAD, f"http://h{UPLOAD}"),
        ("http://h/api", OLLAMA, "http://h/api/chat"),
        ("http://h/v1", OLLAMA, "http://h/api/chat"),
        ("http://h/api/chat", OLLAMA, "http://h/api/chat"),
        ("http://h/ollama", OLLAMA, "http://h/ollama/api/chat"),
        ("http://h/openai?api-version=1", CHAT, "http://h/openai/chat/completions?api-version=1"),
        ("http://h/v1beta?key=k", GEMINI, f"http://h{GEMINI}&key=k"),
        ("http://user:pass@h:1/v1", CHAT, "http://user:pass@h:1/v1/chat/completions"),
        ("http+unix://%2Frun%2Fllama.sock/v1", CHAT, "http://localhost/v1/chat/completions"),
    ],
)
def test_a_request_goes_to_the_url_that_the_user_means(base_url: str, path: str, url: str) -> None:
    parts = split_base_url(base_url)
    assert parts is not None
    assert parts.join(path) == url


@given(
    st.sampled_from(["", "/v1", "/api", "/api/v1", "/v1beta", "/openai/v1", "/proxy/v1"]),
    st.sampled_from(["", "/", "?a=b", "/?a=b"]),
    st.sampled_from([CHAT, MESSAGES, OLLAMA, GEMINI, "/models"]),
)
def test_no_version_is_repeated_and_no_query_is_lost(base_path: str, end: str, path: str) -> None:
    parts = split_base_url(f"https://h{base_path}{end}")
    assert parts is not None
    url = parts.join(path)
    assert url.endswith("a=b") == end.endswith("a=b")
    assert "//" not in url.removeprefix("https://")
    segments = url.partition("?")[0].split("/")[3:]
    assert len([segment for segment in segments if segment.startswith("v1")]) <= 1


@pytest.mark.parametrize("base_url", ["", "h/v1", "ftp://h", "http://", "http://h:99999", "http://[bad"])
def test_anything_else_is_no_base_url(base_url: str) -> None:
    assert split_base_url(base_url) is None


@pytest.mark.parametrize(
    ("base_url", "default", "completed"),
    [
        ("http://192.168.1.5:1234", "http://localhost:1234/v1", "http://192.168.1.5:1234/v1"),
        ("https://api.openai.com/", "https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("http://localhost:4000", "https://api.openai.com/v1", "http://localhost:4000"),
        ("http://localhost:1234/api", "http://localhost:1234/v1", "http://localhost:1234/api"),
        ("http://box:11434", "http://localhost:11434", "http://box:11434"),
    ],
)
def test_the_path_of_the_default_url_is_added_where_it_is_certain(base_url: str, default: str, completed: str) -> None:
    assert add_default_path(base_url, default) == completed


def test_messages_show_neither_credentials_nor_values_of_a_query() -> None:
    parts = split_base_url("https://user:pass@h/v1?code=secret&x")
    assert parts is not None
    assert parts.format_shown_url("/models") == "https://h/v1/models?code=…&x=…"


@pytest.mark.parametrize(
    "unknown",
    [
        Reply((b'{"detail": "Not Found"}',), 404),
        # https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/618
        Reply((b'{"error":"Unexpected endpoint or method. (POST /chat/completions)"}',)),
        # https://github.com/ChatGPTNextWeb/NextChat/issues/4761
        Reply((b"<!doctype html><html><title>One API</title></html>",), content_type="text/html; charset=utf-8"),
    ],
)
def test_a_missing_version_is_found_out_once(ask: Ask, home: Home, server: ModelServer, unknown: Reply) -> None:
    """vLLM, SGLang, LM Studio, One API and others have their API only at /v1."""
    origin = server.base_url.removesuffix("/api/v1")
    call = wire.calls(("bash", {"command": "true"}))
    server.reply(unknown, call, wire.says("Hello."))
    result = ask("-p", "openai", "-m", "m", "--base-url", f"{origin}?x=1", "hi", env={"ASK_API": "chat"})
    assert result.code == 0, result.stderr
    paths = [request.path for request in server.requests]
    assert paths[1].startswith("/v1/")
    assert all(path.startswith("/v1/") and path.endswith("?x=1") for path in paths[1:])


def test_a_page_at_both_addresses_is_reported(ask: Ask, server: ModelServer) -> None:
    """As by a network that requires a sign-in."""
    origin = server.base_url.removesuffix("/api/v1")
    server.reply(Reply((b"<!doctype html><html><title>Wi-Fi</title></html>",), content_type="text/html"))
    result = ask("--base-url", origin, "hi")
    assert (result.code, len(server.requests)) == (6, 2)
    assert "a web page came instead of an answer: Wi-Fi" in result.stderr
    assert f"{origin}/chat/completions" in result.stderr


def test_an_unknown_model_is_reported_by_the_url_that_has_the_api(ask: Ask, server: ModelServer) -> None:
    origin = server.base_url.removesuffix("/api/v1")
    unknown_model = Reply((b'{"error": {"message": "The model m does not exist."}}',), 404)
    server.reply(Reply((b"Not Found",), 404, "text/plain"), unknown_model)
    result = ask("--base-url", origin, "hi")
    assert result.code == 6
    assert "The model m does not exist (openrouter, 404): " in result.stderr
    assert f"{origin}/v1/chat/completions" in result.stderr


def test_a_server_on_a_unix_socket_answers(ask: Ask, tmp_path: Path) -> None:
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b"".join(step for step in wire.says("Hello.").steps if isinstance(step, bytes))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
            pass

        def address_string(self) -> str:
            return ""

    socket_path = tmp_path / "server.sock"
    base_url = f"http+unix://{str(socket_path).replace('/', '%2F')}/v1"
    missing = ask("--base-url", base_url, "hi")
    assert missing.code == 5
    assert str(socket_path) in missing.stderr
    with socketserver.UnixStreamServer(str(socket_path), Handler) as unix_server:
        thread = threading.Thread(target=unix_server.serve_forever)
        thread.start()
        result = ask("--base-url", base_url, "hi", env={"HTTP_PROXY": "http://127.0.0.1:9"})
        unix_server.shutdown()
        thread.join()
    assert (result.code, result.text) == (0, "Hello.\n"), result.stderr
    assert paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("https://api.openai.com/v1", True),
        ("https://API.OpenAI.com/v1/", True),
        ("http://api.openai.com:8080/other", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://notapi.openai.com/v1", False),
        ("https://api.openai.com.example.org/v1", False),
        ("https://me.openai.azure.com/openai/v1", False),
        ("http://localhost:4000/v1", False),
        ("http+unix://%2Frun%2Fserver.sock/v1", False),
        ("not a url", False),
    ],
)
def test_regional_hosts_belong_to_the_service(url: str, is_same: bool) -> None:
    assert is_same_service(url, "https://api.openai.com/v1") is is_same
    assert is_same_service("", "")
