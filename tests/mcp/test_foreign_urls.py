"""The addresses to which a remote server may send a sign-in."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ask.config.mcp_servers import ServerConfig
from ask.mcp.foreign_urls import find_url_problem
from ask.mcp.revocation import revoke_tokens
from ask.mcp.sign_in_store import SignIns
from tests.model_server import ModelServer, Reply

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

ADDRESSES = {
    "mcp.test": ["93.184.215.14"],
    "login.test": ["93.184.215.15"],
    "both.test": ["93.184.215.16", "10.0.0.1"],
    "mcp.corp": ["10.1.2.3"],
    "login.corp": ["10.1.2.4"],
    "localhost": ["127.0.0.1", "::1"],
    "evil.test": ["127.0.0.1"],
}


def resolve(host: str, _: int) -> list[str]:
    if host not in ADDRESSES:
        raise OSError("unknown host")
    return ADDRESSES[host]


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("https://mcp.test/mcp", "https://login.test/token"),
        ("https://mcp.corp/mcp", "https://login.corp/token"),
        ("https://mcp.corp/mcp", "https://login.test/token"),
        ("http://localhost:8000/mcp", "http://127.0.0.1:9000/token"),
        ("http://127.0.0.1:8000/mcp", "http://localhost:9000/token"),
        ("http://127.0.0.1:8000/mcp", "https://login.test/token"),
        ("https://mcp.test/mcp", "https://unknown.test/token"),
    ],
)
def test_a_sign_in_reaches(server: str, url: str) -> None:
    assert not find_url_problem(url, server, resolve)


@pytest.mark.parametrize(
    ("server", "url"),
    [
        *(
            ("https://mcp.test/mcp", url)
            for url in (
                "http://localhost:6379/",
                "https://localhost/",
                "http://127.0.0.1:8080/token",
                "https://127.1/token",
                "https://2130706433/token",
                "https://[::1]/token",
                "https://[::ffff:127.0.0.1]/token",
                "https://0.0.0.0/token",
                "https://evil.test/token",
                "https://both.test/token",
                "https://login.corp/token",
                "https://192.168.1.1/token",
                "http://169.254.169.254/latest/meta-data",
                "http://login.test/token",
                "http://unknown.test/token",
                "file:///etc/passwd",
                "https://user:password@login.test/",
            )
        ),
        ("https://mcp.corp/mcp", "http://localhost/"),
        ("https://mcp.corp/mcp", "http://169.254.169.254/"),
        ("https://mcp.corp/mcp", "http://login.corp/token"),
        ("http://127.0.0.1:8000/mcp", "http://login.test/token"),
    ],
)
def test_a_sign_in_does_not_reach(server: str, url: str) -> None:
    assert find_url_problem(url, server, resolve)


PUBLIC = "https://93.184.215.14/mcp"
INTERNAL = ["http://192.168.1.1/reboot", "https://10.0.0.1/", "http://127.0.0.1:8080/", "http://93.184.215.15/"]


@pytest.mark.parametrize("page", [*INTERNAL, "https://93.184.215.15/authorize", "https://10.0.0.2/authorize"])
def test_the_browser_is_not_sent_to_an_internal_address(tmp_path: Path, page: str) -> None:
    from mcp.client.auth import OAuthFlowError  # slow to import, and not needed to collect the tests

    from ask.mcp.sign_in import InteractiveAuth

    server = ServerConfig("web", tmp_path, url=PUBLIC, oauth={"issuer": "https://10.0.0.2"})
    opened: list[str] = []

    async def receive_code() -> AuthorizationCodeResult:
        raise AssertionError("no page redirects here")

    auth = InteractiveAuth(
        server,
        SignIns(tmp_path, lambda name: "").open(server),
        client_secret="",
        redirect_uri="http://127.0.0.1:8400/callback",
        open_page=opened.append,
        receive_code=receive_code,
    )
    assert auth.context.redirect_handler
    with pytest.raises(OAuthFlowError) if page in INTERNAL else nullcontext():
        asyncio.run(auth.context.redirect_handler(page))  # type: ignore[arg-type]
    assert opened == ([] if page in INTERNAL else [page])


@pytest.mark.parametrize("token_endpoint", ["https://93.184.215.15/token", "http://127.0.0.1/token"])
def test_tokens_are_not_revoked_at_an_internal_address(token_endpoint: str) -> None:
    with ModelServer() as internal:
        internal.reply(Reply(), Reply())
        record = {
            "configuration": {"url": PUBLIC},
            "authorization_server": {
                "token_endpoint": token_endpoint,
                "revocation_endpoint": f"http://127.0.0.1:{internal.base_url.rpartition(':')[2].partition('/')[0]}/",
            },
            "tokens": {"access_token": "access", "refresh_token": "refresh"},
        }
        problem = revoke_tokens(record, {})
    is_known = token_endpoint.startswith("http:")
    assert (problem == "", len(internal.requests)) == ((True, 2) if is_known else (False, 0))
