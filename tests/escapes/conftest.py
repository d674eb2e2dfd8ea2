"""What the tests of ways out share: a machine of each kind of user."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.escapes.confined import machine
from tests.safety.ground import Ground
from tests.safety.installation import EACH_USER


@pytest.fixture(params=EACH_USER)
def here(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with machine(request.param) as one:
        yield one
