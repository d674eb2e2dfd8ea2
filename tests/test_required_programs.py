"""Tests that need a program that is missing: they are skipped and the programs are named, and they fail under CI."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.program import Result, run

ROOT = Path(__file__).parents[1]
NEEDY = ("tests/test_manual.py", "tests/project/test_skills.py")
"""Files with tests that need groff, man, mandoc, or bwrap."""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a bwrap that may not create user namespaces, and no other program."""
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho No permissions >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    return tmp_path


def run_needy_tests(programs: Path, *options: str, **env: str) -> Result:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "-m", "needs and not slow", *NEEDY]
    return run(command, env={"PATH": str(programs), **env}, cwd=ROOT, timeout=120)


@pytest.mark.slow
def test_without_its_programs_a_test_is_skipped_and_one_line_names_them(programs: Path) -> None:
    result = run_needy_tests(programs, "-n", "2")
    assert result.code == 0, result.text
    [line] = [line for line in result.text.splitlines() if "mandoc" in line]
    assert re.search(r"\b4 tests .*\bbwrap, groff, man, mandoc$", line)


@pytest.mark.slow
def test_under_ci_a_test_without_its_programs_fails(programs: Path) -> None:
    result = run_needy_tests(programs, "-n", "0", CI="true")
    assert result.code == pytest.ExitCode.TESTS_FAILED
    counts = result.text.splitlines()[-1]
    assert re.search(r"\b4 errors\b", counts)
    assert not re.search(r"\b(skipped|passed)\b", counts)
    for problem in ("bwrap does not work here: No permissions", "groff is not installed", "mandoc is not installed"):
        assert problem in result.text
