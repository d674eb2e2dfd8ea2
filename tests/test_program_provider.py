"""The example of a provider that runs a program, installed and used as documented."""

from __future__ import annotations

import textwrap
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.doc_pages import find_code_blocks, read_section
from tests.program import PROGRAMS, Ask, Home, is_running, run
from tests.third_party_plugins import install, install_example, install_provider

ROOT = Path(__file__).parents[1]
PROVIDERS = (ROOT / "docs/providers.md").read_text()
EXAMPLE = ROOT / "examples/ask-provider-program-example"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
(MODULE,) = PROJECT["tool"]["setuptools"]["py-modules"]
ENTRY_POINTS = PROJECT["project"]["entry-points"]["ask.providers"]
SOURCE = (EXAMPLE / f"{MODULE}.py").read_text()
START_CHILD = "sleep 300 & echo $! > child; echo 'Well ...'; wait"
"""A script that starts a child process and waits for it."""


@pytest.fixture
def mynah(ask: Ask, home: Home) -> Ask:
    """`ask` with the example installed, and a folder for the program on PATH."""
    packages = install(home.path / "packages", EXAMPLE.name, ENTRY_POINTS, {MODULE: SOURCE})
    (home.path / "bin").mkdir()
    path = f"{home.path / 'bin'}:{ask.env['PATH']}"
    return replace(ask, env={**ask.env, "PYTHONPATH": str(packages), "PATH": path}, installed=True)


def write_program(home: Home, script: str) -> Path:
    program = home.path / "bin/mynah"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def has_ended(home: Home) -> bool:
    """Return whether the child process of `START_CHILD` has ended."""
    child = int((home.work / "child").read_text())
    return wait_until(lambda: not is_running(child))


def test_the_program_gets_the_conversation_and_its_output_is_the_answer(mynah: Ask, home: Home) -> None:
    write_program(home, "tail -n 1 | tr a-z A-Z; echo; echo 'That is all.'")
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.stderr, result.code) == ("HELLO\nThat is all.\n", "", 0)
    write_program(home, "grep -c .")
    assert int(mynah("--no-tools", "-c", "-p", "mynah", "again").text) >= 3


def test_the_command_can_be_set_and_options_become_arguments(mynah: Ask) -> None:
    result = mynah(
        "--no-tools", "-p", "mynah", "-o", "n=2", "-o", "word=x", "hello", env={"MYNAH_COMMAND": "printf '%s '"}
    )
    assert (result.text.split(), result.code) == (["--n=2", "--word=x"], 0)


def test_the_answer_is_streamed_line_by_line(mynah: Ask, home: Home) -> None:
    write_program(home, "echo 'First.'; while ! test -e go; do sleep 0.1; done; echo 'Second.'")
    with mynah.start("-p", "mynah", "hello") as running:
        running.wait_for("First.")
        (home.work / "go").touch()
        result = running.finish()
    assert (result.text, result.code) == ("First.\nSecond.\n", 0)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("stream_format", ["sse", "ndjson"])
def test_the_events_of_a_program_are_a_stream_also_with_no_stream(ask: Ask, home: Home, stream_format: str) -> None:
    source = SOURCE.replace("needs_key=False", f'needs_key=False, stream_format="{stream_format}"')
    packages = install_provider(home.path / "packages", "mynah", source)
    env = {"PYTHONPATH": str(packages), "MYNAH_COMMAND": "printf 'First.\nSecond.\n'"}
    result = ask("--no-tools", "--no-stream", "-p", "mynah", "hello", env=env)
    assert (result.text, result.code) == ("First.\nSecond.\n", 0)


def test_a_missing_program_is_one_line_without_retries(mynah: Ask) -> None:
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.code) == ("", 3)
    assert "mynah is not installed" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_program_that_cannot_be_run_is_one_line(mynah: Ask, home: Home) -> None:
    write_program(home, "").chmod(0o644)
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.code) == ("", 3)
    assert "Permission denied" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_failure_is_reported_after_the_output_before_it(mynah: Ask, home: Home) -> None:
    write_program(home, "echo 'So far so good.'; echo 'disk full' >&2; exit 7")
    result = mynah("--no-tools", "-p", "mynah", "hello")
    assert (result.text, result.code) == ("So far so good.\n", 6)
    assert "status 7: disk full" in result.stderr


def test_a_program_that_is_silent_for_too_long_is_killed_with_its_children(mynah: Ask, home: Home) -> None:
    write_program(home, START_CHILD)
    started = time.monotonic()
    result = mynah("--timeout", "1", "-p", "mynah", "hello")
    assert time.monotonic() - started < 20
    assert (result.text, result.code) == ("Well ...\n", 10)
    assert "--timeout" in result.stderr
    assert has_ended(home)


@pytest.mark.slow
def test_ctrl_c_kills_the_program_and_its_children(mynah: Ask, home: Home) -> None:
    write_program(home, START_CHILD)
    with mynah.start("-p", "mynah", "hello") as running:
        running.wait_for("Well ...")
        running.signal()
        result = running.finish()
    assert (result.text, result.code) == ("Well ...\n", 130)
    assert has_ended(home)


def test_the_guide_shows_a_part_of_the_example() -> None:
    (source,) = find_code_blocks(read_section(PROVIDERS, "## A provider that is not HTTP"), "python")
    assert textwrap.indent(source, "    ") in SOURCE


@pytest.mark.slow
def test_the_example_can_be_installed_and_passes_its_own_tests(ask: Ask, home: Home) -> None:
    site = install_example(home.path, EXAMPLE.name)
    assert "\nmynah\tMynah\t" in ask("providers", env={"PYTHONPATH": str(site)}).text
    options = ["-q", "-n0", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(home.work)]
    command = [str(PROGRAMS / "pytest"), *options, f"--basetemp={home.path}/pytest", str(EXAMPLE / "tests")]
    result = run(command, env={**home.env, "PYTHONPATH": str(site)}, cwd=home.work, timeout=60)
    assert result.code == 0, result.text
    assert " passed" in result.text
