"""Reports about addresses: what answers there is no model's service, or it is not where the setting says."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer, Reply, Request
from tests.program import Ask, Home


def page(title: str, status: int = 200) -> Reply:
    text = f"<!DOCTYPE html><html><head><title>{title}</title></head><body>Sign in</body></html>"
    return Reply((text.encode(),), status, "text/html")


@pytest.mark.parametrize(
    ("title", "status"),
    [
        ("Just a moment...", 403),  # Cloudflare: https://github.com/anthropics/claude-code/issues/30437
        ("Welcome to our WiFi", 200),
        ("Error response", 501),  # Python's http.server on the port
        ("Blocked by Example Security", 403),
    ],
)
def test_a_web_page_in_place_of_an_answer_is_called_so(ask: Ask, server: ModelServer, title: str, status: int) -> None:
    server.reply(page(title, status))
    result = ask("go")
    assert (result.code, len(server.requests)) == (6, 1)
    assert title.rstrip(".") in result.stderr
    assert f"{server.base_url}/chat/completions" in result.stderr
    assert "key" not in result.stderr


def test_json_of_another_program_is_not_an_empty_answer(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.whole_reply({"status": "ok", "version": "10.1"}))
    result = ask("go")
    assert (result.code, server.base_url in result.stderr, "version" in result.stderr) == (6, True, True)
    server.reply(wire.whole_reply(wire.answer("")))
    assert ask("go").code == 10


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_server_is_followed(ask: Ask, server: ModelServer, status: int) -> None:
    # https://github.com/songquanpeng/one-api/issues/533
    def reply(request: Request) -> Reply:
        if request.path.endswith("/"):
            return wire.says("Hello")
        return Reply((b"",), status, headers={"Location": f"{request.path}/"})

    server.reply(reply)
    assert ask("go").text == "Hello\n"
    first, second = server.requests
    assert (first.method, first.body) == (second.method, second.body)


@pytest.mark.parametrize("target", ["https://login.example/sso", "http://127.0.0.1:1/v1", "//other.example/v1"])
def test_no_other_redirect_is_followed(ask: Ask, server: ModelServer, target: str) -> None:
    server.reply(Reply((b"",), 307, headers={"Location": target}))
    result = ask("go")
    assert (result.code, len(server.requests)) == (6, 1)
    assert target in result.stderr
    assert server.base_url in result.stderr


def test_an_endless_redirect_ends(ask: Ask, server: ModelServer) -> None:
    server.reply(Reply((b"",), 308, headers={"Location": "/again"}))
    assert (ask("go").code, len(server.requests)) == (6, 2)


@pytest.mark.parametrize("form", ['"{}"', "'{}'", "<{}>", "\ufeff{}", " {}\r\n"])
def test_quotes_and_blanks_around_a_base_url_are_removed(ask: Ask, server: ModelServer, form: str) -> None:
    # https://github.com/bosnet/sebak/pull/148
    server.reply(wire.says("Hello"))
    assert ask("go", env={"OPENROUTER_BASE_URL": form.format(server.base_url)}).text == "Hello\n"


def test_a_base_url_without_a_scheme_is_completed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Hello"))
    assert ask("--base-url", server.base_url.removeprefix("http://"), "go").text == "Hello\n"


@pytest.mark.parametrize("url", ["htps://api.example/v1", "http://", "C:\\models", "http://[::1"])
def test_an_invalid_base_url_is_reported_with_its_place(ask: Ask, home: Home, url: str) -> None:
    assert "--base-url" in ask("--base-url", url, "go").stderr
    assert "OPENROUTER_BASE_URL" in ask("go", env={"OPENROUTER_BASE_URL": url}).stderr
    home.configure(f"[providers.openrouter]\nbase_url = '{url}'\n")
    result = ask("go", env={"OPENROUTER_BASE_URL": ""})
    assert (result.code, "[providers.openrouter]" in result.stderr) == (4, True)


def test_a_host_that_exists_only_in_containers_is_explained(ask: Ask) -> None:
    result = ask("--base-url", "http://host.docker.internal:1/v1", "go")
    assert (result.code, "localhost" in result.stderr) == (5, True)


def test_the_size_limit_of_a_proxy_is_called_so(ask: Ask, server: ModelServer) -> None:
    server.reply(page("413 Request Entity Too Large", 413))
    assert "proxy" in ask("go").stderr
