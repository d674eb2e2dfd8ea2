"""Placeholders: created where a protected name is missing, gone afterwards, and never what somebody else created."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ask.safety.placeholders import MountPlaceholders
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
    holders = MountPlaceholders(state, spill)
    hold(holders, *folders)
    return holders


def hold(holders: MountPlaceholders, *folders: Path) -> None:
    holders.create({folder / name: is_folder for folder in folders for name, is_folder in NAMES.items()})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_absent_is_made_and_taken_away(state: Path, work: Path) -> None:
    holders = opened(state, work)
    assert names(work) == set(NAMES)
    assert (work / ".envrc").is_file()
    assert (work / ".git").is_dir()
    holders.release()
    assert names(work) == set()
    assert names(state) == {"lock"}


def test_what_was_there_stays(state: Path, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".envrc").touch()
    opened(state, work).release()
    assert names(work) == {".git", ".envrc"}


def test_what_somebody_used_stays(state: Path, work: Path) -> None:
    holders = opened(state, work)
    (work / ".vscode/settings.json").touch()
    (work / ".envrc").write_text("x")
    holders.release()
    assert names(work) == {".vscode", ".envrc"}


def test_the_last_run_in_a_folder_cleans_up(state: Path, work: Path) -> None:
    first, second = opened(state, work), opened(state, work)
    first.release()
    assert names(work) == set(NAMES)
    second.release()
    assert names(work) == set()


def test_each_folder_is_its_own(state: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    both, one = opened(state, work, tmp_path / "other"), opened(state, work)
    both.release()
    assert names(tmp_path / "other") == set()
    assert names(work) == set(NAMES)
    one.release()


def test_making_again_brings_back_what_the_user_took_away(state: Path, work: Path) -> None:
    holders = opened(state, work)
    (work / ".git").rmdir()
    hold(holders, work)
    assert (work / ".git").is_dir()
    holders.release()
    assert names(work) == set()


def test_the_next_run_anywhere_cleans_up_after_one_that_was_killed(state: Path, work: Path, tmp_path: Path) -> None:
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


def test_nothing_is_taken_away_where_a_link_leads(state: Path, work: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside/.idea"
    outside.mkdir(parents=True)
    holders = opened(state, work)
    work.rename(tmp_path / "moved")
    work.symlink_to("outside")
    holders.release()
    assert outside.exists()


def test_a_folder_that_is_gone_is_forgotten(state: Path, work: Path) -> None:
    holders = opened(state, work)
    for name in NAMES:
        (work / name).unlink() if name == ".envrc" else (work / name).rmdir()
    work.rmdir()
    holders.release()
    assert names(state) == {"lock"}


def test_a_name_that_is_not_text_works_too(state: Path, tmp_path: Path) -> None:
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


def test_nothing_is_created_where_a_link_leads(state: Path, work: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("work")
    holders = opened(state, tmp_path / "link")
    assert names(work) == set()
    assert holders.paths == set()
    holders.release()


KILLED = """
import os, signal, sys
sys.path.append({root!r})
from pathlib import Path
from ask.safety.placeholders import MountPlaceholders
placeholders = MountPlaceholders(Path({state!r}), Path({spill!r}))
placeholders.create({{Path({work!r}) / name: is_folder for name, is_folder in {names!r}.items()}})
placeholders.start_cleaner()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("with_another", [False, True], ids=["alone", "beside another run"])
def test_after_a_killed_run_its_cleaner_removes_what_no_other_run_needs(
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
