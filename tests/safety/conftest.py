"""Fixtures of the safety tests: a sandbox and its configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.sandbox_folders import build_sandbox_config
from ask.tools.base import RunToolContext, ToolResult
from ask.tools.definitions import BASH
from tests.safety.fake_host import FakeHost, create_fake_host
from tests.safety.installation import EACH_USER
from tests.safety.scanned_folders import Folders

Bash = Callable[..., ToolResult]


@pytest.fixture
def sandbox_config(tmp_path: Path) -> SandboxConfig:
    for name in ("work", "home", "config", "data"):
        (tmp_path / name).mkdir()
    return build_sandbox_config(
        tmp_path / "work",
        config_dir=tmp_path / "config",
        cache_dir=tmp_path / "cache",
        data_dir=tmp_path / "data",
        overflow_directory=tmp_path / "data/results",
        environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "SECRET": "1"},
    )


@pytest.fixture
def sandbox(sandbox_config: SandboxConfig) -> Iterator[Sandbox]:
    with Sandbox(sandbox_config) as opened:
        yield opened


@pytest.fixture
def output() -> list[str]:
    """The live output of commands."""
    return []


@pytest.fixture
def context(sandbox_config: SandboxConfig, output: list[str]) -> RunToolContext:
    return RunToolContext(
        sandbox_config.working_directory, {"SECRET": "2"}, 20, sandbox_config.overflow_directory, output.append
    )


@pytest.fixture
def bash(sandbox: Sandbox, context: RunToolContext) -> Bash:
    tool = sandbox.wrap_tool(BASH)
    return lambda command, **more: tool.run({"command": command, **more}, context)


@pytest.fixture(params=EACH_USER)
def host(request: pytest.FixtureRequest) -> Iterator[FakeHost]:
    """A fake host for each kind of user."""
    with create_fake_host(request.param) as one:
        yield one


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
