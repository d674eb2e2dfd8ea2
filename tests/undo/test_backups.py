"""Backups of files that are about to be overwritten, with real files and folders swapped meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.undo.runs import Runs


@pytest.mark.parametrize("old_content", ["old", None])
def test_a_folder_swapped_for_a_link_before_the_backup_leads_nowhere(tmp_path: Path, old_content: str | None) -> None:
    runs = Runs(tmp_path)
    outside = runs.folder / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner/file").write_text("SECRET")
    folder = runs.work / "sub"
    if old_content:
        (folder / "inner").mkdir(parents=True)
        (folder / "inner/file").write_text(old_content)

    def swap_and_back_up(path: Path, new_content: bytes, folder_fd: int | None) -> None:
        if folder.exists():
            folder.rename(runs.work / "moved")
        folder.symlink_to(outside)
        runs.keeper.before_write(path, new_content, folder_fd)
        folder.unlink()
        if old_content:
            (runs.work / "moved").rename(folder)

    runs.context = runs.context._replace(before_write=swap_and_back_up)
    runs.write("sub/inner/file", "new")
    runs.end()
    [change] = runs.changes
    copies = [path.read_text() for path in runs.records[0].folder.iterdir() if path.name.isdecimal()]
    assert copies == ([old_content] if old_content else [])
    assert (change.original is None) == (old_content is None)
    runs.undo()
    assert (folder / "inner/file").exists() == bool(old_content)
