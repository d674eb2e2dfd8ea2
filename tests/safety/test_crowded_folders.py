"""Folders with so many protected or secret files that they are read-only or hidden as a whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask.errors import SafetyError
from ask.safety.crowded_folders import MAX_MOUNTS, MAX_POSSIBLE_MOUNTS, limit_mounts
from ask.safety.folder_scan import inspect_filesystem
from ask.safety.sandbox import Sandbox
from ask.safety.sandbox_config import HostFilesystem, SandboxConfig
from ask.safety.sandbox_folders import build_sandbox_config
from ask.tools.base import RunToolContext, ToolError
from ask.tools.definitions import BASH
from tests.safety.traces import processes

TOKEN = "canary-2c81"
RunScript = Callable[[str], str]


class Monorepo:
    """A folder with many packages, and a sandbox configuration for it."""

    def __init__(self, base: Path) -> None:
        self.base, self.work = base, base / "work"
        for name in ("work", "home", "config", "data"):
            (base / name).mkdir()

    def write(self, template: str, count: int) -> None:
        for number in range(count):
            path = self.work / template.format(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TOKEN)

    def configure(self, *allowed: str) -> SandboxConfig:
        return build_sandbox_config(
            self.work,
            [self.work / name for name in allowed],
            config_dir=self.base / "config",
            cache_dir=self.base / "cache",
            data_dir=self.base / "data",
            overflow_directory=self.base / "data/results",
            environment={"PATH": os.environ["PATH"], "HOME": str(self.base / "home")},
        )

    @contextmanager
    def open_sandbox(self, *allowed: str) -> Iterator[tuple[Sandbox, RunScript]]:
        config = self.configure(*allowed)
        context = RunToolContext(config.working_directory, {}, 20, config.overflow_directory, lambda _: None)
        with Sandbox(config) as sandbox:
            tool = sandbox.wrap_tool(BASH)
            yield sandbox, lambda script: tool.run({"command": script}, context).text


@pytest.fixture
def monorepo(tmp_path: Path) -> Monorepo:
    return Monorepo(tmp_path)


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_folder_of_many_packages_is_read_only_and_the_rest_is_not(monorepo: Monorepo) -> None:
    monorepo.write("packages/{}/.gitattributes", 1_500)
    monorepo.write("packages/{}/.env", 20)
    monorepo.write("tools/{}/.gitattributes", 20)
    monorepo.write("packages/a/code", 1)
    with monorepo.open_sandbox() as (sandbox, run):
        assert (
            f"read-only in this run, because of too many protected files in total: {monorepo.work}/packages (1,520);"
            in str(sandbox.warnings)
        )
        run("echo x > packages/3/.gitattributes; echo x > packages/new; mv packages moved; rm -rf packages/a")
        run("mv packages/3 packages/moved; mv tools/3 moved; echo x > tools/3/.gitattributes; echo x > tools/3/new")
        assert TOKEN not in run("cat packages/3/.env")
        assert TOKEN in run("cat packages/a/code")
    assert not (monorepo.work / "packages/new").exists()
    assert (monorepo.work / "packages/a/code").read_text() == TOKEN
    for path in ("packages/3/.gitattributes", "packages/3/.env", "tools/3/.gitattributes"):
        assert (monorepo.work / path).read_text() == TOKEN
    assert (monorepo.work / "tools/3/new").read_text() == "x\n"


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_crowded_folders_stay_read_only_after_a_restart(monorepo: Monorepo) -> None:
    monorepo.write("packages/{}/.gitattributes", 600)
    with monorepo.open_sandbox() as (_, run):
        for number in range(600):
            (monorepo.work / f"packages/{number}/.gitattributes").unlink()
        for process in processes(monorepo.work):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(ToolError):
            run("true")
        run("echo x > packages/new")
    assert not (monorepo.work / "packages/new").exists()
    with monorepo.open_sandbox() as (_, run):
        run("echo x > packages/new")
    assert (monorepo.work / "packages/new").exists()


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_writable_folder_in_a_crowded_one_stays_writable(monorepo: Monorepo) -> None:
    monorepo.write("packages/{}/.gitattributes", 600)
    with monorepo.open_sandbox("packages/7") as (sandbox, run):
        run("echo x > packages/7/new; for i in packages/*; do echo x > $i/.gitattributes; done")
        assert f"{monorepo.work}/packages (" not in str(sandbox.warnings)
    assert (monorepo.work / "packages/7/new").exists()
    assert {path.read_text() for path in monorepo.work.glob("packages/*/.gitattributes")} == {TOKEN}


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_the_folder_of_packages_with_secrets_is_hidden(monorepo: Monorepo) -> None:
    monorepo.write("packages/{}/.env", 1_500)
    monorepo.write("tools/{}/.env", 20)
    with monorepo.open_sandbox() as (sandbox, run):
        assert (
            f"hidden in this run, because of too many files for secrets in total: {monorepo.work}/packages (1,500)"
            in str(sandbox.warnings)
        )
        assert run("ls packages; cat */*/.env; mv packages moved").count(TOKEN) == 0
        run("echo x > tools/new; echo x > packages/new")
    assert (monorepo.work / "tools/new").exists()
    assert not (monorepo.work / "packages/new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [".gitattributes", "prod.env"])
def test_too_many_folders_at_the_top_are_refused_by_name(monorepo: Monorepo, name: str) -> None:
    monorepo.write(".git/HEAD", 1)
    monorepo.write(f"{{}}/{name}", MAX_POSSIBLE_MOUNTS + 1)
    with pytest.raises(SafetyError) as caught:
        inspect_filesystem(monorepo.configure(), lambda _: None, HostFilesystem())
    assert f"in {monorepo.work} that" in caught.value.message


@pytest.mark.slow
def test_path_checks_make_no_folder_read_only(monorepo: Monorepo) -> None:
    monorepo.write("packages/{}/.gitattributes", 1_500)
    filesystem, warnings = inspect_filesystem(monorepo.configure(), None, HostFilesystem())
    assert (filesystem.crowded_folders, warnings) == ((), [])


WORK = Path("/w")
FILES = st.tuples(
    st.lists(st.sampled_from(["a", "b", "c", "o"]), max_size=4).map("/".join),
    st.sampled_from([1, 40, 700]),
    st.sampled_from(["{}/.gitattributes", "{}/x/.git", "{}.gitattributes"]),
    st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(groups=st.lists(FILES, max_size=3), allowed=st.sampled_from(["", "a/b", "o", "c/o/1"]))
def test_every_path_stays_protected_or_hidden_and_writable_folders_writable(
    groups: list[tuple[str, int, str, bool]], allowed: str
) -> None:
    writable = sorted({WORK, WORK / allowed})
    protected, hidden = list[Path](), list[Path]()
    for folder, count, template, is_hidden in groups:
        (hidden if is_hidden else protected).extend(WORK / folder / template.format(i) for i in range(count))
    before = HostFilesystem(protected_paths=tuple(protected), hidden_files=tuple(hidden))
    try:
        filesystem, warnings = limit_mounts(before, writable)
    except SafetyError:
        assert len(protected) + len(hidden) > MAX_MOUNTS
        return
    read_only = {*filesystem.protected_paths, *filesystem.crowded_folders}
    covered = {*filesystem.hidden_files, *filesystem.hidden_folders}
    assert all(not covered.isdisjoint({secret, *secret.parents}) for secret in hidden)
    assert all(not (covered | read_only).isdisjoint({path, *path.parents}) for path in protected)
    for covering in (*filesystem.crowded_folders, *filesystem.hidden_folders):
        assert not any(each.is_relative_to(covering) for each in writable)
    for path in (*read_only, *covered, *writable):
        if (read_only | covered).isdisjoint(path.parents):  # nothing can be moved in these
            above = {folder for folder in path.parents if folder.is_relative_to(WORK)}
            assert above <= {*writable, *filesystem.pinned_folders}
    assert bool(warnings) == bool(filesystem.crowded_folders or filesystem.hidden_folders)
    if not filesystem.crowded_folders:
        assert set(protected) <= read_only | {path for path in protected if not covered.isdisjoint(path.parents)}
