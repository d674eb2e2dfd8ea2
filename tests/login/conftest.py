"""Fixtures: the authorization server, and `ask` for which it is OpenAI."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.authorization_server import AuthorizationServer
from tests.program import Ask, Home

BROWSER = f"{sys.executable} {Path(__file__).with_name('browser.py')} %s"


@pytest.fixture
def openai() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        yield server


@pytest.fixture
def ask(home: Home, openai: AuthorizationServer) -> Ask:
    """`ask` without any key."""
    env = {"CHATGPT_ISSUER": openai.issuer, "CHATGPT_BASE_URL": f"{openai.issuer}/v1", "BROWSER": BROWSER}
    return Ask({**home.env, **env}, home.work)
