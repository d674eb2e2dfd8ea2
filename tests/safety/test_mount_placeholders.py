"""Placeholders are created for missing protected names and removed afterward; other files are never removed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ask.safety.mount_placeholders import MountPlaceholders
from tests.safety.installation import ROOT

NAMES = {".git": True, ".vscode": True, ".idea": True, ".envrc": False}
"""Placeholders, and whether each is a folder."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def opened(state: Path, *folders: Path) -> MountPlaceholders:
    spill = state.parent / "results/a1"
    spill.parent.mkdir(exist_ok=True)
    placeholders = MountPlaceholders(state, spill)
    create_placeholders(placeholders, *folders)
    return placeholders


def create_placeholders(placeholders: MountPlaceholders, *folders: Path) -> None:
    placeholders.create({folder / name: is_folder for folder in folders for name, is_folder in NAMES.items()})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_missing_names_are_created_and_removed(state: Path, work: Path) -> None:
    placeholders = opened(state, work)
    assert names(work) == set(NAMES)
    assert (work / ".envrc").is_file()
    assert (work / ".git").is_dir()
    placeholders.release()
    assert names(work) == set()
    assert names(state) == set()


def test_existing_files_are_kept(state: Path, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".envrc").touch()
    opened(state, work).release()
    assert names(work) == {".git", ".envrc"}


def test_placeholders_that_were_used_are_kept(state: Path, work: Path) -> None:
    placeholders = opened(state, work)
    (work / ".vscode/settings.json").touch()
    (work / ".envrc").write_text("x")
    placeholders.release()
    assert names(work) == {".vscode", ".envrc"}


def test_the_last_run_in_a_folder_cleans_up(state: Path, work: Path) -> None:
    first, second = opened(state, work), opened(state, work)
    first.release()
    assert names(work) == set(NAMES)
    second.release()
    assert names(work) == set()


def test_folders_are_independent(state: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    both, one = opened(state, work, tmp_path / "other"), opened(state, work)
    both.release()
    assert names(tmp_path / "other") == set()
    assert names(work) == set(NAMES)
    one.release()


def test_creating_again_restores_removed_placeholders(state: Path, work: Path) -> None:
    placeholders = opened(state, work)
    (work / ".git").rmdir()
    create_placeholders(placeholders, work)
    assert (work / ".git").is_dir()
    placeholders.release()
    assert names(work) == set()


def test_the_next_run_cleans_up_after_a_killed_run(state: Path, work: Path, tmp_path: Path) -> None:
    import os

    child = os.fork()
    if not child:
        opened(state, work)
        os._exit(0)  # as if killed: nothing is released
    os.waitpid(child, 0)
    assert names(work) == set(NAMES)
    (tmp_path / "other").mkdir()
    opened(state, tmp_path / "other").release()
    assert names(work) == set()


def test_nothing_is_removed_through_a_link(state: Path, work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside/.idea"
    outside.mkdir(parents=True)
    placeholders = opened(state, work)
    work.rename(tmp_path / "moved")
    work.symlink_to("outside")
    placeholders.release()
    assert outside.exists()


def test_a_deleted_folder_is_forgotten(state: Path, work: Path) -> None:
    placeholders = opened(state, work)
    for name in NAMES:
        (work / name).unlink() if name == ".envrc" else (work / name).rmdir()
    work.rmdir()
    placeholders.release()
    assert names(state) == set()


def test_a_folder_name_that_is_not_utf8_works(state: Path, tmp_path: Path) -> None:
    import os

    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/od\xff\nd"))
    odd.mkdir()
    opened(state, odd).release()
    assert names(odd) == set()


def test_all_runs_in_a_folder_know_the_placeholders(state: Path, work: Path) -> None:
    (work / ".vscode").mkdir()
    first, second = opened(state, work), opened(state, work)
    assert first.paths == second.paths == {work / name for name in NAMES if name != ".vscode"}
    first.release()
    second.release()


def test_nothing_is_created_through_a_link(state: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("work")
    placeholders = opened(state, tmp_path / "link")
    assert names(work) == set()
    assert placeholders.paths == set()
    placeholders.release()


KILLED = """
import os, signal, sys
sys.path.append({root!r})
from pathlib import Path
from ask.safety.mount_placeholders import MountPlaceholders
placeholders = MountPlaceholders(Path({state!r}), Path({spill!r}))
placeholders.create({{Path({work!r}) / name: is_folder for name, is_folder in {names!r}.items()}})
placeholders.start_cleaner()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("with_another", [False, True], ids=["alone", "beside another run"])
def test_the_cleaner_of_a_killed_run_removes_unused_placeholders(
    state: Path, work: Path, tmp_path: Path, with_another: bool
) -> None:
    (tmp_path / "results").mkdir()
    places = {"state": str(state), "work": str(work), "spill": str(tmp_path / "results/a2")}
    code = KILLED.format(root=str(ROOT), names=NAMES, **places)
    other = opened(state, work) if with_another else None
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL
    if other:
        time.sleep(1)
        assert names(work) == set(NAMES)
        other.release()
    deadline = time.monotonic() + 20
    while names(work) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert names(work) == set()
