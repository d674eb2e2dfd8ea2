"""Name resolution, and this machine's own addresses."""

from __future__ import annotations

import socket

from ask.tools.network_policy import is_public_remote_address, resolve_host


def test_own_public_address_is_refused() -> None:
    assert not is_public_remote_address("127.0.0.1")
    assert is_public_remote_address("8.8.8.8")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 9))
        except OSError:  # no network
            return
        assert not is_public_remote_address(probe.getsockname()[0])


def test_localhost_resolves_to_loopback() -> None:
    assert set(resolve_host("localhost", 80)) <= {"127.0.0.1", "::1"}
