"""A user who sends traces, for the tests of traces."""

from __future__ import annotations

from collections.abc import Mapping

from ask.messages import EMPTY_MAPPING
from tests.model_server import ModelServer
from tests.program import ASK, Home, Result, run
from tests.traces.collector import Collector

KEY, COLLECTOR_KEY = "sk-or-traces-0123456789", "collector-key-0123456789"


class TraceBench:
    """A user who sends traces to a collector, and a scripted model."""

    def __init__(self, home: Home, server: ModelServer, collector: Collector) -> None:
        self.home, self.server, self.collector = home, server, collector
        self.env = {
            **home.env,
            "OPENROUTER_BASE_URL": server.base_url,
            "OPENROUTER_API_KEY": KEY,
            "ASK_PROVIDER": "openrouter",
            "ASK_MODEL": "m",
            "ASK_OTEL": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={COLLECTOR_KEY}",
        }

    def ask(self, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str] = EMPTY_MAPPING) -> Result:
        return run([ASK, *arguments], env={**self.env, **env}, cwd=self.home.work, stdin=stdin)
