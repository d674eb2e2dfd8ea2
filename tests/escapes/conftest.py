"""Fixtures of the escape tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.escapes.safe_runs import create_ask_host
from tests.safety.fake_host import FakeHost
from tests.safety.installation import EACH_USER


@pytest.fixture(params=EACH_USER)
def host(request: pytest.FixtureRequest) -> Iterator[FakeHost]:
    with create_ask_host(request.param) as one:
        yield one
