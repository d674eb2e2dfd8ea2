"""A user with a key for every provider, whose requests all go to one scripted local server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.acceptance.services import OPENROUTER, SERVICES, Call, Json, Service, Transcript
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home


@dataclass(frozen=True)
class Model:
    """The scripted model behind every provider."""

    server: ModelServer

    def say(self, text: str = "", *calls: Call, service: Service = OPENROUTER, whole: bool = False) -> None:
        """Script the next answer."""
        self.server.reply(service.reply(text, calls, whole=whole))

    @property
    def bodies(self) -> list[Json]:
        """The bodies of all chat requests."""
        return [request.json for request in self.server.requests if request.method == "POST"]

    def transcripts(self, service: Service = OPENROUTER) -> list[Transcript]:
        """What each chat request said."""
        return [service.read(body) for body in self.bodies]

    def last(self, service: Service = OPENROUTER) -> Transcript:
        """What the last chat request said."""
        return service.read(self.server.requests[-1].json)


@pytest.fixture
def model(server: ModelServer) -> Model:
    return Model(server)


@pytest.fixture
def env(home: Home, server: ModelServer) -> Mapping[str, str]:
    home.configure("[network]\nbackoff = 0.001\n")
    root = server.base_url.removesuffix("/api/v1")
    env = {**home.env, "ASK_PROVIDER": OPENROUTER.name, "ASK_MODEL": OPENROUTER.model}
    for service in SERVICES.values():
        env[f"{service.name.upper()}_API_KEY"] = TEST_KEY
        env[f"{service.name.upper()}_BASE_URL"] = root + service.address
    return env


@pytest.fixture
def ask(home: Home, env: Mapping[str, str], request: pytest.FixtureRequest) -> Ask:
    """Slow tests start the installed command; in the others, its start would take most of the time."""
    return Ask(env, home.work, installed=request.node.get_closest_marker("slow") is not None)
