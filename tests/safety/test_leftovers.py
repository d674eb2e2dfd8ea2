"""Place holders: made where something protected is absent, gone afterwards, and never what somebody else made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ask.safety.leftovers import PlaceHolders

NAMES = {".git": True, ".vscode": True, ".idea": True, ".envrc": False}
"""Placeholders, and whether each is a folder."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def opened(state: Path, *folders: Path) -> PlaceHolders:
    spill = state.parent / "results/a1"
    spill.parent.mkdir(exist_ok=True)
    holders = PlaceHolders(state, spill)
    hold(holders, *folders)
    return holders


def hold(holders: PlaceHolders, *folders: Path) -> None:
    holders.hold({folder / name: is_folder for folder in folders for name, is_folder in NAMES.items()})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_absent_is_made_and_taken_away(state: Path, work: Path) -> None:
    holders = opened(state, work)
    assert names(work) == set(NAMES)
    assert (work / ".envrc").is_file()
    assert (work / ".git").is_dir()
    holders.release()
    assert names(work) == set()
    assert names(state) == {"gate"}


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
    assert names(state) == {"gate"}


def test_a_name_that_is_not_text_works_too(state: Path, tmp_path: Path) -> None:
    import os

    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/od\xff\nd"))
    odd.mkdir()
    opened(state, odd).release()
    assert names(odd) == set()
