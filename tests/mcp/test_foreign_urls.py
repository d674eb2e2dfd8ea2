"""The addresses to which a remote server may send a sign-in."""

from __future__ import annotations

import pytest

from ask.mcp.foreign_urls import find_url_problem

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
