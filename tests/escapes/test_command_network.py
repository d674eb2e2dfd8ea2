"""Attempts to reach more than the hosts of `--allow-command-host`, and how they are reported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.escapes.safe_runs import bash, run
from tests.escapes.test_escapes import SAFE, try_escapes
from tests.program import TEST_KEY, Ask
from tests.safety.fake_host import FakeHost
from tests.safety.installation import ROOT, USERS

pytestmark = pytest.mark.needs("bwrap")
ALLOW = ("--safe", "--allow-command-host", "allowed.test")
TARGETS = {
    "127.0.0.1:@tcp@": 403,
    "localhost:@tcp@": 403,
    "[::ffff:127.0.0.1]:@tcp@": 403,
    "169.254.169.254:80": 403,
    "2130706433:@tcp@": 400,
    "allowed.test:@tcp@": 403,
    "allowed.test@127.0.0.1:@tcp@": 400,
    "127.0.0.1:@tcp@#allowed.test": 400,
    "sub.allowed.test:443": 403,
    "allowed.test:443": 502,
}
"""Targets of CONNECT requests, and the status of the answer; the last one is allowed, but there is no such host."""
CONNECT = """
import socket
for target in {targets}:
    with socket.create_connection(("127.0.0.1", 3128), 30) as s:
        s.sendall(f"CONNECT {{target}} HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n".encode())
        print(s.recv(65536).decode().split()[1])
"""


def read_connections(host: FakeHost) -> list[dict[str, Any]]:
    """Read the connections of commands from the log."""
    lines = map(json.loads, (host.base / "data/ask/audit.jsonl").read_text().splitlines())
    return [line for line in lines if "connection" in line]


@pytest.mark.slow
def test_network_attempts_fail_with_an_allowed_host() -> None:
    _, succeeded = try_escapes(USERS[0], ["network", "environment"], *SAFE, *ALLOW[1:])
    assert not succeeded


def test_the_proxy_reaches_nothing_that_is_not_allowed(host: FakeHost) -> None:
    (host.work / "connect.py").write_text(CONNECT.format(targets=[host.fill(target) for target in TARGETS]))
    host.change_owner()
    done = run(host, bash("@python@ connect.py"), *ALLOW)
    assert done.result.code == 0, done.result.stderr
    lines = done.outputs[0].splitlines()
    assert [int(line) for line in lines if line.isdecimal()] == list(TARGETS.values())
    assert "CONNECT" not in host.listener.read_received()
    refused = (
        "no connection from a command to 169.254.169.254:80 (not allowed: add --allow-command-host 169.254.169.254:80)"
    )
    assert f"ask: {refused}" in done.result.stderr
    assert f"[network: {refused}]" in lines
    connections = read_connections(host)
    assert [line["decision"] for line in connections] == ["deny"] * (len(TARGETS) - 1) + ["allow"]
    assert connections[-1]["error"].startswith("cannot connect to allowed.test")
    assert done.requests == 2


@pytest.mark.slow
def test_a_key_in_the_name_of_a_host_is_not_logged(host: FakeHost) -> None:
    (host.work / "connect.py").write_text(CONNECT.format(targets=[f"{TEST_KEY}.test:443"]))
    host.change_owner()
    done = run(host, bash("@python@ connect.py"), *ALLOW)
    (connection,) = read_connections(host)
    assert connection["decision"] == "deny"
    assert TEST_KEY not in f"{connection} {done.outputs} {done.result.stderr}"


@pytest.mark.slow
def test_a_connection_that_stays_open_does_not_delay_the_end(host: FakeHost) -> None:
    code = 'import socket, time; s = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(90)]; time.sleep(60)'
    done = run(host, [("bash", {"command": f"@python@ -c '{code}' & sleep 0.5", "timeout": 5})], *ALLOW)
    assert (done.result.code, done.result.seconds < 20) == (0, True), done.result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--allow-command-host", "a.test"], "--allow-command-host needs --safe: add --safe"),
        (["--safe-files", "--allow-command-host", "a.test"], "no effect with --safe-files, which runs no commands"),
        (["--safe", "--allow-command-host", "*"], "--allow-command-host: '*' is not a host"),
        (["--safe", "--allow-command-host", "*.a.test"], "'*.a.test' is not a host"),
        (
            ["--safe", "--allow-command-host", "10.0.0.1"],
            "10.0.0.1 is not public, and commands reach only public hosts",
        ),
    ],
)
def test_an_option_without_effect_or_with_too_much_is_an_error(ask: Ask, options: list[str], error: str) -> None:
    result = ask(*options, "hello")
    assert result.code == 2
    assert error in result.stderr


@pytest.mark.slow
@pytest.mark.needs("unshare", "ip", "openssl", "curl")
@pytest.mark.skipif("root" not in USERS, reason="needs to create networks")
def test_the_log_names_each_connection() -> None:
    """In a network of its own, where a public address leads to a server of this test."""
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.escapes.public_network"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    outputs, connections = report["outputs"], report["connections"]
    assert "from the server" in outputs[0]
    assert "response 403" in outputs[1]
    assert "response 403" in outputs[2]
    first, second, third = sorted(connections, key=lambda each: str(each["decision"]))  # the first may end last
    assert (first["connection"], first["address"]) == ("allowed.test:443", report["address"])
    assert (first["decision"], first["rule"], first["error"]) == ("allow", "--allow-command-host", "")
    assert min(first["sent"], first["received"]) > 100
    assert second["rule"] == "not connected: private.test is at 10.9.8.7, and safe mode reaches only public hosts"
    assert third["rule"] == "not allowed: add --allow-command-host other.test"
