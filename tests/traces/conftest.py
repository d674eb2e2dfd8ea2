"""The fixture of the tests of traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model_server import ModelServer
from tests.program import Home
from tests.traces.bench import TraceBench
from tests.traces.collector import Collector


@pytest.fixture
def bench(home: Home, server: ModelServer) -> Iterator[TraceBench]:
    with Collector() as collector:
        yield TraceBench(home, server, collector)
