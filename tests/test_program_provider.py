"""The guide's provider that runs a program, installed and used as documented."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doc_pages import find_code_blocks
from tests.program import Ask, Home
from tests.third_party_plugins import install_provider

GUIDE = (Path(__file__).parents[1] / "docs/providers.md").read_text()
SECTION = GUIDE.partition("\n## A program in place of a service\n")[2]
(SOURCE,) = find_code_blocks(SECTION, "python")


@pytest.fixture
def mynah(ask: Ask, home: Home) -> Ask:
    """`ask` with the provider of the guide, and a folder for the program on PATH."""
    packages = install_provider(home.path / "packages", "mynah", SOURCE)
    (home.path / "bin").mkdir()
    path = f"{home.path / 'bin'}:{ask.env['PATH']}"
    return replace(ask, env={**ask.env, "PYTHONPATH": str(packages), "PATH": path}, installed=True)


def write_program(home: Home, script: str) -> None:
    program = home.path / "bin/mynah"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_the_program_gets_the_prompt_and_its_output_is_the_answer(mynah: Ask, home: Home) -> None:
    write_program(home, "tail -n 1 | tr a-z A-Z; echo; echo 'That is all.'")
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.stderr, result.code) == ("HELLO\nThat is all.\n", "", 0)
    assert mynah("--no-tools", "-c", "-p", "mynah", "again").code == 0


def test_a_missing_program_is_named_without_retries(mynah: Ask) -> None:
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.code) == ("", 3)
    assert "mynah is not installed" in result.stderr
    assert result.stderr.count("\n") == 1


def test_output_before_a_failure_is_kept(mynah: Ask, home: Home) -> None:
    write_program(home, "echo 'So far so good.'; exit 7")
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.code) == ("So far so good.\n", 6)
    assert "status 7" in result.stderr


def test_a_program_that_is_silent_for_too_long_is_stopped(mynah: Ask, home: Home) -> None:
    write_program(home, "echo 'Well ...'; exec sleep 60")
    started = time.monotonic()
    result = mynah("--timeout", "1", "-p", "mynah", "hello")
    assert time.monotonic() - started < 20
    assert (result.text, result.code) == ("Well ...\n", 10)
    assert "--timeout" in result.stderr
