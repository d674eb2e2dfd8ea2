"""Fixtures for all tests: a home, a scripted model server and the program."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import signal
import socket
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import count, groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests.cli_runner import leave_terminal
from tests.mcp.setting import SDK, start_server
from tests.model_server import ModelServer
from tests.program import TEST_KEY, Ask, Home, make_home
from tests.recordings import FOLDER as RECORDINGS
from tests.required_programs import format_missing_programs, skip_if_programs_are_missing

ROOT = Path(__file__).parents[1]
MEMORY = Path("/dev/shm")
"""The folder of Linux whose files are in memory."""
MIN_MEMORY_BYTES = 500_000_000

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores SIGINT, which the programs started by the tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # nohup ignores SIGHUP, which the programs started by the tests would inherit

leave_terminal()
# Runs in this process keep their connections until garbage is collected, which may be more than the usual 1,024.
soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
new_limit = 8_192 if hard_limit == resource.RLIM_INFINITY else max(soft_limit, min(8_192, hard_limit))
resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))
folder_numbers = count()
gc.disable()  # collecting garbage takes a third of the time in which the tests are collected

# Each run has the same examples: a new one must not fail a change that has nothing to do with it.
common = settings(deadline=None, database=None)
settings.register_profile("quick", common, derandomize=True, max_examples=15)
settings.register_profile("thorough", common, derandomize=True, max_examples=50)  # `make test-slow`
settings.register_profile("fuzz", common, max_examples=1_000, print_blob=True)  # `make fuzz`
settings.load_profile("quick")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder. pytest's own also replaces a link to it, which takes longer than a small test."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(folder_numbers)}", numbered=False)


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path | None]:
    """A folder whose files are in memory, if possible. It also removes what processes write after their test."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MIN_MEMORY_BYTES:
        yield None
        return
    with TemporaryDirectory(prefix="ask-tests-", dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def home(request: pytest.FixtureRequest, tmp_path: Path, memory_folder: Path | None) -> Iterator[Home]:
    """A home whose data are in memory, if possible: waiting for SQLite's writes to disk takes half of the time.

    They are on the disk for tests of the sandbox, which hides /dev in any case.
    """
    if memory_folder is None or any("bwrap" in marker.args for marker in request.node.iter_markers("needs")):
        yield make_home(tmp_path)
        return
    with TemporaryDirectory(dir=memory_folder, ignore_cleanup_errors=True) as folder:
        yield make_home(tmp_path, Path(folder, "data"))


@pytest.fixture
def quick_retries(home: Home) -> None:
    """Short pauses between tries."""
    home.configure("[network]\nbackoff = 0.01\n")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port on which no process listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture(scope="session")
def sdk_port() -> Iterator[int]:
    """The port of an MCP server built with the official SDK, which takes seconds to start."""
    port, process = start_server(SDK)
    with process:
        yield port


@pytest.fixture
def ask(home: Home, server: ModelServer) -> Ask:
    env = {**home.env, "OPENROUTER_API_KEY": TEST_KEY, "OPENROUTER_BASE_URL": server.base_url}
    return Ask(env, home.work)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the tests: each worker begins with another part, and reads what the others have compiled by then."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted({*ROOT.glob("tests/**/test_*.py")} - {*ROOT.glob("tests/real/*")})
    start = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for module in modules[start:] + modules[:start]:
        with suppress(Exception, pytest.skip.Exception):  # which the collection reports
            import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))


@cache
def checks_with_sdks(path: Path) -> bool:
    """Report whether a file checks requests with the types of the vendors' SDKs, which take seconds to import."""
    return bool(re.search("provider_wires|anthropic_wire|gemini_wire|read_by_ollama", path.read_text()))


@pytest.hookimpl(tryfirst=True)  # before slow tests are deselected
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests whose preparation takes seconds first, so that few workers prepare them, and mark others slow.

    They are those that import the vendors' SDKs, and those of hypothesis, which reads the constants of all modules.
    """
    items.sort(key=lambda item: (not checks_with_sdks(item.path), not item.get_closest_marker("hypothesis")))
    for _, cases in groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        for item in list(cases)[1:]:
            if item.get_closest_marker("slow_after_first"):
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.freeze()  # pytest collects garbage once more, which takes seconds and belongs to no test


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_if_programs_are_missing(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """List the tests that this machine could not run, and in the last line those that failed."""
    yield
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
    failed = {one.nodeid for outcome in ("failed", "error") for one in terminalreporter.getreports(outcome)}
    if failed:
        terminalreporter.write_line("failed: " + " ".join(sorted(failed)))
