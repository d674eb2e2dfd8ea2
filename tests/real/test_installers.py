"""Installs ask with pip, pipx and uv, and follows its hints for installing extras."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.mcp.setting import RAW, configure
from tests.program import Home, Result, run
from tests.real.software import PROGRAMS, ROOT


class Installation:
    """An installation of ask by one installer, in its own folders."""

    def __init__(self, home: Home, tool: str) -> None:
        self.home = home
        self.launcher = home.path / ("venv/bin/ask" if tool == "pip" else "launchers/ask")
        source = home.path / "source it"
        files = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
        for name in filter(None, files):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
        if tool == "pip":
            self.run(sys.executable, "-m", "venv", str(home.path / "venv"))
            self.run(str(home.path / "venv/bin/pip"), "install", "--quiet", str(source))
        elif tool == "pipx":
            self.run("pipx", "install", str(source))
        else:
            self.run("uv", "tool", "install", str(source))

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment of the tests with separate folders for the installers."""
        launchers = str(self.home.path / "launchers")
        return {
            **os.environ,
            "PIPX_HOME": str(self.home.path / "pipx"),
            "PIPX_BIN_DIR": launchers,
            "UV_TOOL_DIR": str(self.home.path / "uv"),
            "UV_TOOL_BIN_DIR": launchers,
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        }

    def run(self, *command: str) -> None:
        result = run(command, env=self.env, cwd=self.home.work, timeout=400)
        assert result.code == 0, result.stderr

    def ask(self, *args: str) -> Result:
        """Run ask by its installed launcher."""
        env = {**self.home.env, "PATH": os.defpath}
        return run([str(self.launcher), *args], env=env, cwd=self.home.work, timeout=60)

    def findings(self) -> dict[str, dict[str, str]]:
        """Return the findings of the doctor by check."""
        rows = json.loads(self.ask("doctor", "--offline", "--json").text)
        return {row["check"]: row for row in rows}


@pytest.mark.parametrize("tool", ["pip", "pipx", "uv"])
def test_installation_hints_work(tool: str, home: Home) -> None:
    installed = Installation(home, tool)
    configure(home, {"raw": {"command": sys.executable, "args": [RAW], "timeout": 60}})
    before = installed.findings()
    assert before["PATH"]["fix"] == f"add {installed.launcher.parent} to it"
    missing = installed.ask("mcp", "test")
    assert missing.code == 3
    installed.run(*shlex.split(missing.stderr.partition(" installed: ")[2]))
    tried = installed.ask("mcp", "test")
    assert tried.code == 0, tried.text
    hint = installed.findings()["web search"]["fix"].partition("ddgs: ")[2].partition(", or ")[0]
    installed.run(*shlex.split(hint))
    after = installed.findings()
    assert after["web search"]["fix"] == ""
    assert after["packages"]["state"] == "ok"
    assert installed.ask("mcp", "test").code == 0, "the second hint does not undo the first"
