"""What the tests of the sandbox share: a confinement to a folder of its own, and a sandbox that is open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ask.safety.confinement import Confinement
from ask.safety.path_policy import confine
from ask.safety.sandbox import Sandbox
from ask.tools.base import ToolContext, ToolResult
from ask.tools.shell import BASH
from tests.safety.ground import Ground, ground
from tests.safety.installation import EACH_USER

Bash = Callable[..., ToolResult]


@pytest.fixture
def confinement(tmp_path: Path) -> Confinement:
    for name in ("work", "home", "config", "data"):
        (tmp_path / name).mkdir()
    return confine(
        tmp_path / "work",
        config=tmp_path / "config",
        data=tmp_path / "data",
        spill=tmp_path / "data/results",
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "SECRET": "1"},
    )


@pytest.fixture
def sandbox(confinement: Confinement) -> Iterator[Sandbox]:
    with Sandbox(confinement) as opened:
        yield opened


@pytest.fixture
def said() -> list[str]:
    """What commands showed while they ran."""
    return []


@pytest.fixture
def context(confinement: Confinement, said: list[str]) -> ToolContext:
    return ToolContext(confinement.directory, {"SECRET": "2"}, 20, confinement.spill, said.append)


@pytest.fixture
def bash(sandbox: Sandbox, context: ToolContext) -> Bash:
    tool = sandbox.confine(BASH)
    return lambda command, **more: tool.run({"command": command, **more}, context)


@pytest.fixture(params=EACH_USER)
def here(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """The ground of each kind of user."""
    with ground(request.param) as one:
        yield one
