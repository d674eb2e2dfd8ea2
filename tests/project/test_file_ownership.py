"""Which files are trusted: their owner, their permissions, and where symbolic links lead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ask.project.file_ownership import UnsafeFileError, read_owned_file
from tests.project.projects import write

ROOT = Path(__file__).parents[2]
NOBODY = 65534
AS_NOBODY = """
import os, sys
from pathlib import Path
from ask.project.file_ownership import UnsafeFileError, read_owned_file
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
try:
    sys.stdout.write(read_owned_file(Path(sys.argv[1]), Path(sys.argv[1]).parent, 100)[0].decode())
except UnsafeFileError as error:
    sys.stdout.write(f"refused: {{error}}")
"""


def read(file: Path, root: Path, limit: int = 100) -> tuple[bytes, int]:
    return read_owned_file(file, root, limit)


def test_a_file_is_read_up_to_the_limit_with_its_size(tmp_path: Path) -> None:
    file = write(tmp_path / "sub/f", "0123456789")
    assert read(file, tmp_path, 4) == (b"0123", 10)
    assert read(file, tmp_path) == (b"0123456789", 10)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "cp1252"])
def test_text_is_converted_to_utf_8(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "f"
    file.write_bytes("Größe prüfen.\r\n".encode(encoding))
    assert read(file, tmp_path) == ("Größe prüfen.\r\n".encode(), 18)


def test_a_file_that_is_read_in_part_is_not_converted(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xe9" * 20)
    assert read(file, tmp_path, 10) == (b"\xe9" * 10, 20)


def test_links_are_followed_inside_the_root_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root / "f", "inside")
    write(tmp_path / "secret", "outside")
    (root / "link").symlink_to("f")
    (root / "out").symlink_to("../secret")
    (root / "folder").symlink_to("..")
    assert read(root / "link", root)[0] == b"inside"
    for path in ("out", "folder/secret", "../secret", str(tmp_path / "secret"), "."):
        with pytest.raises(UnsafeFileError, match="outside"):
            read(root / path, root)


@pytest.mark.parametrize("name", [".env", ".ENV.local", "prod.env", ".env.d/keys"])
def test_files_with_secrets_are_refused_under_any_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "KEY=value")
    (tmp_path / "AGENTS.md").symlink_to(name)
    for path in (name, "AGENTS.md"):
        with pytest.raises(UnsafeFileError, match="secrets"):
            read(tmp_path / path, tmp_path)


def test_a_folder_confines_further_than_the_root(tmp_path: Path) -> None:
    write(tmp_path / "f", "beside")
    write(tmp_path / "folder/g", "in it")
    folder = tmp_path.resolve() / "folder"
    assert read_owned_file(folder / "g", tmp_path, 9, folder)[0] == b"in it"
    with pytest.raises(UnsafeFileError, match="outside"):
        read_owned_file(folder / "../f", tmp_path, 9, folder)


def test_a_root_that_is_a_link_is_resolved(tmp_path: Path) -> None:
    write(tmp_path / "real/f", "text")
    (tmp_path / "link").symlink_to("real")
    assert read(tmp_path / "link/f", tmp_path / "link")[0] == b"text"


@pytest.mark.parametrize("writable", ["f", ".", "sub"])
def test_what_everyone_can_write_is_refused(tmp_path: Path, writable: str) -> None:
    file = write(tmp_path / "sub" / "f", "text")
    target = file if writable == "f" else tmp_path / writable
    target.chmod(target.stat().st_mode | 0o002)
    with pytest.raises(UnsafeFileError, match="other users can write"):
        read(file, tmp_path)


@pytest.mark.needs("root")
def test_a_group_may_write_only_if_it_is_the_users_own(tmp_path: Path) -> None:
    file = write(tmp_path / "f", "text")
    file.chmod(0o664)
    assert read(file, tmp_path)[0] == b"text"
    os.chown(file, 0, NOBODY)
    with pytest.raises(UnsafeFileError, match="other users can write"):
        read(file, tmp_path)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(UnsafeFileError, match="not a regular file"):
            read(tmp_path / name, tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(UnsafeFileError, match="No such file"):
        read(tmp_path / "dangling", tmp_path)


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("folder_owner", "file_owner", "output"),
    [
        (NOBODY, NOBODY, "text"),
        (0, 0, "text"),
        (NOBODY, 0, "text"),
        (NOBODY, 1234, "refused: another user owns"),
        (1234, NOBODY, "refused: another user owns"),
    ],
)
def test_files_and_folders_of_another_user_are_refused(
    tmp_path_factory: pytest.TempPathFactory, folder_owner: int, file_owner: int, output: str
) -> None:
    folder = Path("/tmp") / tmp_path_factory.mktemp("owned").name
    folder.mkdir()
    try:
        file = write(folder / "f", "text")
        os.chown(file, file_owner, file_owner)
        os.chown(folder, folder_owner, folder_owner)
        command = [sys.executable, "-c", AS_NOBODY.format(nobody=NOBODY), str(file)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert result.stdout.startswith(output)
    finally:
        (folder / "f").unlink()
        folder.rmdir()
