"""What the tests of the sandbox share: a confinement to a folder of its own, and a sandbox that is open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ask.safety.path_policy import build_sandbox_config
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.tools.base import ToolContext, ToolResult
from ask.tools.shell import BASH
from tests.safety.ground import Ground, ground
from tests.safety.installation import EACH_USER

Bash = Callable[..., ToolResult]


@pytest.fixture
def confinement(tmp_path: Path) -> SandboxConfig:
    for name in ("work", "home", "config", "data"):
        (tmp_path / name).mkdir()
    return build_sandbox_config(
        tmp_path / "work",
        config_dir=tmp_path / "config",
        data_dir=tmp_path / "data",
        overflow_directory=tmp_path / "data/results",
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "SECRET": "1"},
    )


@pytest.fixture
def sandbox(confinement: SandboxConfig) -> Iterator[Sandbox]:
    with Sandbox(confinement) as opened:
        yield opened


@pytest.fixture
def said() -> list[str]:
    """What commands showed while they ran."""
    return []


@pytest.fixture
def context(confinement: SandboxConfig, said: list[str]) -> ToolContext:
    return ToolContext(confinement.working_directory, {"SECRET": "2"}, 20, confinement.overflow_directory, said.append)


@pytest.fixture
def bash(sandbox: Sandbox, context: ToolContext) -> Bash:
    tool = sandbox.wrap_tool(BASH)
    return lambda command, **more: tool.run({"command": command, **more}, context)


@pytest.fixture(params=EACH_USER)
def here(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """The ground of each kind of user."""
    with ground(request.param) as one:
        yield one
