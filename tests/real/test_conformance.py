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
"""All scenarios but those of OAuth and of extensions, which ask does not have."""


def check(scenario: str, folder: Path) -> list[tuple[str, str]]:
    """Run a scenario; the name and status of each of its checks that passed or failed."""
    command = [str(SUITE), "client", "--command", CLIENT, "--scenario", scenario, "--timeout", "90000"]
    env = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
    result = run([*command, "--output-dir", str(folder)], env=env, cwd=ROOT, timeout=120)
    [checks] = folder.rglob("checks.json")
    found = [(one["id"], one["status"]) for one in json.loads(checks.read_text())]
    assert found, result.text
    return [(name, status) for name, status in found if status not in {"INFO", "SKIPPED"}]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_passes(scenario: str, tmp_path: Path) -> None:
    assert {status for _, status in check(scenario, tmp_path)} == {"SUCCESS"}


def test_defaults_that_nobody_has_seen_are_not_accepted(tmp_path: Path) -> None:
    """This scenario wants a client to accept what the server proposes, which only a user may do."""
    checks = check("elicitation-sep1034-client-defaults", tmp_path)
    assert ("client-elicitation-sep1034-general", "FAILURE") in checks
