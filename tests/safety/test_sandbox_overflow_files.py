"""Overflow files: the worker decides only their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from ask.safety.sandbox import OverflowFiles
from ask.secrets import NO_SECRETS
from ask.worker_channel import InvalidFrameError

NAME = b"stdout-0123456789abcdef.txt"


@pytest.mark.parametrize(
    "name", [b"", b"x", b"../" + NAME, b"/tmp/" + NAME, NAME + b"\n", NAME + b"\0", b"stdout-xyz.txt", NAME.upper()]
)
def test_an_invalid_name_is_refused(tmp_path: Path, name: bytes) -> None:
    with pytest.raises(InvalidFrameError):
        OverflowFiles(tmp_path, 100).open(name)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME.decode()
    path.symlink_to(tmp_path / "target")
    spills = OverflowFiles(tmp_path, 100)
    spills.open(NAME)
    spills.write(NAME + b"\nx")
    spills.close(NO_SECRETS)
    assert not (tmp_path / "target").exists()


def test_data_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    spills = OverflowFiles(tmp_path, 10)
    spills.open(NAME)
    spills.write(NAME + b"\n12345")
    spills.write(NAME + b"\n\n6789")
    for bad in (NAME + b"\nx", b"unknown\nx", NAME):
        if bad != NAME:
            with pytest.raises(InvalidFrameError):
                spills.write(bad)
    spills.close(NO_SECRETS)
    assert (tmp_path / NAME.decode()).read_bytes() == b"12345\n6789"


def test_duplicate_and_excess_files_are_refused(tmp_path: Path) -> None:
    spills = OverflowFiles(tmp_path, 10)
    spills.open(NAME)
    with pytest.raises(InvalidFrameError):
        spills.open(NAME)
    with pytest.raises(InvalidFrameError):
        for number in range(10):
            spills.open(b"stderr-%016x.txt" % number)
    spills.close(None)
    assert list(tmp_path.iterdir()) == []
