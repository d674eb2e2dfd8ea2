"""The client scenarios of the official MCP conformance suite."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.program import run
from tests.real.software import NODE, PROGRAMS, ROOT

SUITE = NODE / "node_modules" / ".bin" / "conformance"
CLIENT = shlex.join([sys.executable, "-m", "tests.real.conformance_client"])
SCENARIOS = (
    "initialize",
    "tools_call",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)
"""All scenarios except OAuth and extensions, which ask does not support."""


def check(scenario: str, folder: Path) -> list[tuple[str, str]]:
    """Run a scenario; return name and status of each check that passed or failed."""
    command = [str(SUITE), "client", "--command", CLIENT, "--scenario", scenario, "--timeout", "90000"]
    env = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    result = run([*command, "--output-dir", str(folder)], env=env, cwd=ROOT, timeout=120)
    [checks] = folder.rglob("checks.json")
    found = [(one["id"], one["status"]) for one in json.loads(checks.read_text())]
    assert found, result.text
    return [(name, status) for name, status in found if status not in {"INFO", "SKIPPED"}]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_conformance_scenarios_pass(scenario: str, tmp_path: Path) -> None:
    assert {status for _, status in check(scenario, tmp_path)} == {"SUCCESS"}


def test_elicitation_defaults_are_not_accepted_without_the_user(tmp_path: Path) -> None:
    """The scenario expects clients to accept the server's defaults, which ask leaves to the user."""
    checks = check("elicitation-sep1034-client-defaults", tmp_path)
    assert ("client-elicitation-sep1034-general", "FAILURE") in checks
