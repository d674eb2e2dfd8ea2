"""A compromised worker can send anything without harm."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.process.worker_channel import DONE, MAX_FRAME_BYTES, WorkerDiedError, WorkerTimeoutError, encode_frame
from ask.safety.bubblewrap import SandboxProcess, find_bubblewrap
from ask.safety.sandbox import parse_tool_result
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.tools.base import ToolError
from tests.json_strategies import any_json

pytestmark = pytest.mark.needs("bwrap")

TAKEN_OVER = """#!/bin/bash
while [[ $1 != -- ]]; do arguments+=("$1"); shift; done
exec {bubblewrap} "${{arguments[@]}}" -- /bin/bash -c {says}
"""
"""A replacement for bubblewrap that opens the sandbox and runs another worker in it."""
LINKS = [path for path in Path("/").iterdir() if path.is_symlink()]
VIEW = HostFilesystem(system_folders=(Path("/usr"),), root_links=tuple((os.readlink(path), path) for path in LINKS))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bwrap"
    path.touch(0o755)
    return path


def answers(
    program: Path, sandbox_config: SandboxConfig, says: str, seconds: float = 10
) -> Iterator[tuple[bytes, bytes]]:
    program.write_text(TAKEN_OVER.format(bubblewrap=find_bubblewrap(), says=shlex.quote(says)))
    sandbox_config.overflow_directory.mkdir()
    inmate = SandboxProcess(str(program), sandbox_config, VIEW)
    try:
        inmate.check_mounts()
        yield from inmate.exchange_frames(b"C", b"x" * 500_000, seconds)
    finally:
        inmate.kill()


def test_a_worker_that_exits_is_reported_as_dead(program: Path, sandbox_config: SandboxConfig) -> None:
    with pytest.raises(WorkerDiedError):
        list(answers(program, sandbox_config, "exit 0"))


def test_a_worker_that_neither_reads_nor_answers_times_out(program: Path, sandbox_config: SandboxConfig) -> None:
    with pytest.raises(WorkerTimeoutError):
        list(answers(program, sandbox_config, "exec sleep 600", 0.2))


def test_a_worker_that_answers_slowly_times_out(program: Path, sandbox_config: SandboxConfig) -> None:
    with pytest.raises(WorkerTimeoutError):
        for _ in answers(program, sandbox_config, "while :; do printf 'O\\0\\0\\0\\1x'; sleep 0.01; done", 0.3):
            pass


def test_a_worker_that_announces_a_huge_frame_is_reported_as_dead(program: Path, sandbox_config: SandboxConfig) -> None:
    with pytest.raises(WorkerDiedError):
        list(answers(program, sandbox_config, "printf 'O\\377\\377\\377\\377'; exec sleep 600"))


def test_frames_are_received_unchanged(program: Path, sandbox_config: SandboxConfig) -> None:
    assert next(answers(program, sandbox_config, "printf 'D\\0\\0\\0\\2{}'; exec sleep 600")) == (DONE, b"{}")
    assert len(encode_frame(DONE, b"")) + 2 < MAX_FRAME_BYTES


PARTS = st.fixed_dictionaries({}, optional={name: any_json() for name in ("text", "failed", "exit_status", "error")})
TOLD = (PARTS | any_json()).map(lambda value: json.dumps(value).encode())


@given(payload=st.binary() | TOLD)
def test_any_payload_is_a_result_an_error_or_invalid(payload: bytes) -> None:
    try:
        result = parse_tool_result(payload)
    except (ToolError, WorkerDiedError):
        return
    assert type(result.text) is str
    assert type(result.failed) is bool
    assert result.exit_status is None or 0 <= result.exit_status <= 255


def test_a_deeply_nested_result_is_invalid() -> None:
    with pytest.raises(WorkerDiedError):
        parse_tool_result(b"[" * 1_000_000)
