"""The scenarios use a model of no known vendor, so that requests contain nothing vendor-specific."""

from __future__ import annotations

import pytest

from tests import wire
from tests.program import Ask


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, "ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}, ask.cwd)
