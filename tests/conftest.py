"""Fixtures for all tests: a home, a scripted model server and the program."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cli_runner import leave_terminal
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, make_home
from tests.recordings import FOLDER as RECORDINGS
from tests.required_programs import format_missing_programs, skip_if_programs_are_missing

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores SIGINT, which the programs started by the tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # nohup ignores SIGHUP, which the programs started by the tests would inherit

leave_terminal()

settings.register_profile("quick", deadline=None, database=None, max_examples=25)
settings.register_profile("thorough", deadline=None, database=None, max_examples=2_000)
settings.load_profile("quick")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    env = {**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}
    return Ask(env, home.work)


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_if_programs_are_missing(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that this machine could not run."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    missed = [value for one in reports for name, value in one.user_properties if name == "not tried here"]
    if missed:
        terminalreporter.section("not tried here")
        terminalreporter.write("".join(f"{one}\n" for one in sorted(missed)))
    if not RECORDINGS.is_dir():
        terminalreporter.write_line(f"tests of recorded answers were skipped: there is no folder {RECORDINGS}")
    missing_programs = format_missing_programs(terminalreporter.getreports("skipped"))
    if missing_programs:
        terminalreporter.write_line(missing_programs)
