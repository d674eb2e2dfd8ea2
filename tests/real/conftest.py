"""Fixtures that start the real servers and create a home that uses them."""

from __future__ import annotations

import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.program import Ask, Home, Running
from tests.real.software import LLAMA_SERVER, MODEL, PROGRAMS


@pytest.fixture(scope="session")
def llama() -> Iterator[str]:
    """The address of a llama.cpp server with a small model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--ctx-size", "8192", "--parallel", "1", "--alias", "smollm2", "--offline"]
    options += [
        "--threads",
        "1",
        "--poll",
        "0",
    ]  # threads that spin while waiting for each other are slow on a busy machine
    command = [str(LLAMA_SERVER), "--model", str(MODEL), "--host", "127.0.0.1", "--port", str(port), *options]
    with Running(command, env=dict(os.environ)) as running:
        place = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 120
        while not is_ready(place):
            assert running.process.poll() is None, running.stderr.decode()[-2_000:]
            assert time.monotonic() < end, "llama-server did not load its model"
            time.sleep(0.1)
        yield place


def is_ready(place: str) -> bool:
    try:
        with urllib.request.urlopen(f"{place}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def real(home: Home, llama: str) -> Ask:
    """`ask` with the llama.cpp server as provider and the MCP servers on PATH."""
    places = {
        "ASK_PROVIDER": "lmstudio",
        "LMSTUDIO_BASE_URL": f"{llama}/v1",
        "ANTHROPIC_BASE_URL": llama,
        "ANTHROPIC_API_KEY": "any",
        "OPENAI_BASE_URL": f"{llama}/v1",
        "OPENAI_API_KEY": "any",
        "PATH": f"{home.env['PATH']}:{PROGRAMS}",
    }
    return Ask({**home.env, **places}, home.work)
