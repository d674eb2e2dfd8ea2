"""A worker that was taken over: whatever it says, ask keeps its head."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.safety.bubblewrap import find_bubblewrap
from ask.safety.folder_scan import EMPTY_FILESYSTEM
from ask.safety.sandbox import parse_tool_result
from ask.safety.sandbox_config import SandboxConfig
from ask.safety.sandbox_process import SandboxProcess
from ask.tools.base import ToolError
from ask.worker_channel import DONE, MAX_FRAME_SIZE, WorkerDiedError, WorkerTimeoutError, encode_frame
from tests.any_json import any_json

TAKEN_OVER = """#!/bin/bash
while [[ $1 != -- ]]; do arguments+=("$1"); shift; done
exec {bubblewrap} "${{arguments[@]}}" -- /bin/bash -c {says}
"""
"""Stands in bubblewrap's place: opens the sandbox, and runs another worker in it."""
LINKS = [path for path in Path("/").iterdir() if path.is_symlink()]
VIEW = EMPTY_FILESYSTEM._replace(
    system_folders=(Path("/usr"),), root_links=tuple((os.readlink(path), path) for path in LINKS)
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bwrap"
    path.touch(0o755)
    return path


def answers(program: Path, confinement: SandboxConfig, says: str, seconds: float = 10) -> Iterator[tuple[bytes, bytes]]:
    program.write_text(TAKEN_OVER.format(bubblewrap=find_bubblewrap(), says=shlex.quote(says)))
    confinement.overflow_directory.mkdir()
    inmate = SandboxProcess(str(program), confinement, VIEW)
    try:
        yield from inmate.exchange_frames(b"C", b"x" * 500_000, seconds)
    finally:
        inmate.kill()


def test_one_that_ends_is_lost(program: Path, confinement: SandboxConfig) -> None:
    with pytest.raises(WorkerDiedError):
        list(answers(program, confinement, "exit 0"))


def test_one_that_neither_reads_nor_answers_is_late(program: Path, confinement: SandboxConfig) -> None:
    with pytest.raises(WorkerTimeoutError):
        list(answers(program, confinement, "exec sleep 600", 0.2))


def test_one_that_trickles_is_late_too(program: Path, confinement: SandboxConfig) -> None:
    with pytest.raises(WorkerTimeoutError):
        for _ in answers(program, confinement, "while :; do printf 'O\\0\\0\\0\\1x'; sleep 0.01; done", 0.3):
            pass


def test_one_that_announces_too_much_is_lost(program: Path, confinement: SandboxConfig) -> None:
    with pytest.raises(WorkerDiedError):
        list(answers(program, confinement, "printf 'O\\377\\377\\377\\377'; exec sleep 600"))


def test_what_it_says_comes_as_it_is(program: Path, confinement: SandboxConfig) -> None:
    assert next(answers(program, confinement, "printf 'D\\0\\0\\0\\2{}'; exec sleep 600")) == (DONE, b"{}")
    assert len(encode_frame(DONE, b"")) + 2 < MAX_FRAME_SIZE


PARTS = st.fixed_dictionaries({}, optional={name: any_json() for name in ("text", "failed", "exit_status", "error")})
TOLD = (PARTS | any_json()).map(lambda value: json.dumps(value).encode())


@given(told=st.binary() | TOLD)
def test_any_result_is_one_an_error_or_nonsense(told: bytes) -> None:
    try:
        result = parse_tool_result(told)
    except (ToolError, WorkerDiedError):
        return
    assert type(result.text) is str
    assert type(result.failed) is bool
    assert result.exit_status is None or 0 <= result.exit_status <= 255


def test_a_result_nested_too_deeply_is_nonsense() -> None:
    with pytest.raises(WorkerDiedError):
        parse_tool_result(b"[" * 1_000_000)
