"""The cases are from public reports about similar programs; the link beside each names the report."""

from __future__ import annotations

import pytest

from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home
from tests.provider_wires import SERVICES


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    """With a key and the server's address for each provider; a retry does not wait."""
    home.configure("[network]\nbackoff = 0.001\n")
    env = {**home.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": "test/model"}
    for name, service in SERVICES.items():
        env[f"{name.upper()}_API_KEY"] = TEST_KEY
        env[f"{name.upper()}_BASE_URL"] = server.base_url.removesuffix("/api/v1") + service.address
    return Ask(env, home.work)
