"""The scenarios ask a model of no vendor's, so that nothing in a request is there for one vendor alone."""

from __future__ import annotations

import pytest

from tests import wire
from tests.program import Ask


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}, ask.cwd)
