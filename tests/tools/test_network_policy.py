"""Name resolution, and this machine's own addresses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ask.tools.network_policy import is_public_remote_address, resolve_host

OWN_ADDRESS = "93.184.215.14"
CHECK_OWN_ADDRESS = f"""
import fcntl, socket, struct, sys
sys.path.append({str(Path(__file__).parents[2])!r})
from ask.tools.network_policy import is_public_remote_address

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    fcntl.ioctl(one, 0x8916, struct.pack("16sHH4s8x", b"lo", 2, 0, socket.inet_aton("{OWN_ADDRESS}")))  # SIOCSIFADDR
    fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
print(is_public_remote_address("{OWN_ADDRESS}"), is_public_remote_address("93.184.215.15"))
"""
"""Gives this address to the loopback interface of a new network."""


@pytest.mark.needs("unshare")
def test_a_public_address_of_this_machine_is_not_reached() -> None:
    command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", CHECK_OWN_ADDRESS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_a_loopback_address_is_not_reached() -> None:
    assert not is_public_remote_address("127.0.0.1")


def test_localhost_resolves_to_loopback() -> None:
    assert set(resolve_host("localhost", 80)) <= {"127.0.0.1", "::1"}
