from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools.base import RunToolContext, Tool, ToolError
from ask.tools.definitions import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
from ask.tools.file_access import MAX_FILE_BYTES, FileTarget, open_folders
from ask.tools.files import decode_for_editing
from tests.tools.conftest import NOBODY, Run, Unprivileged

# Writing


def test_writing_says_whether_the_file_is_new_and_how_large(run: Run, work: Path) -> None:
    assert run(WRITE_FILE, filepath="a/b/f", content="é") == "created a/b/f: 2 bytes"
    assert run(WRITE_FILE, filepath="a/b/f", content="") == "overwrote a/b/f: 0 bytes"
    assert os.listdir(work / "a/b") == ["f"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(run: Run, work: Path) -> None:
    old = os.umask(0o027)
    try:
        run(WRITE_FILE, filepath="f", content="")
    finally:
        os.umask(old)
    assert stat.S_IMODE((work / "f").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664, 0o4755])
def test_an_overwritten_file_keeps_its_mode_and_owner(run: Run, work: Path, mode: int) -> None:
    file = work / "f"
    file.write_text("a")
    if os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)
    file.chmod(mode)
    before = file.stat()
    run(WRITE_FILE, filepath="f", content="b")
    run(EDIT_FILE, filepath="f", old_text="b", new_text="c")
    after = file.stat()
    assert file.read_text() == "c"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


@pytest.mark.needs("root")
def test_writable_file_of_another_user_keeps_its_owner_and_loses_its_set_id_bit(
    unprivileged: Unprivileged, public_folder: Path
) -> None:
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o4777)
    assert unprivileged("write_file", {"filepath": "f", "content": "b"}) == "overwrote f: 1 byte"
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_uid) == (0o777, os.geteuid())


@pytest.mark.skipif(sys.platform != "linux", reason="Python reads these attributes on Linux only")
def test_an_overwritten_file_keeps_its_extended_attributes(run: Run, work: Path) -> None:
    file = work / "f"
    file.write_text("a")
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    run(WRITE_FILE, filepath="f", content="b")
    assert (file.read_text(), os.getxattr(file, "user.note")) == ("b", b"mine")


def test_symbolic_link_is_followed_and_kept(run: Run, work: Path) -> None:
    (work / "folder").mkdir()
    (work / "link").symlink_to("folder/real")
    assert run(WRITE_FILE, filepath="link", content="a").startswith("created")
    assert run(WRITE_FILE, filepath="link", content="b").startswith("overwrote")
    assert (work / "link").readlink() == Path("folder/real")
    assert (work / "folder/real").read_text() == "b"


def test_at_most_100_missing_folders_are_created(run: Run, refusal: Run, work: Path) -> None:
    assert run(WRITE_FILE, filepath="a/" * 100 + "f", content="x").endswith("/f: 1 byte")
    message = refusal(WRITE_FILE, filepath="b/" * 1_900 + "f", content="x")
    assert "1,900" in message
    assert "100" in message
    assert refusal(WRITE_FILE, filepath="b" * 4_000, content="x").endswith(": File name too long")
    assert os.listdir(work) == ["a"]


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR], ids=lambda tool: tool.spec.name)
@pytest.mark.parametrize("name", ["a/" * 2_000, "a" * 4_000, "a" * 100_000, "a/" * 100_000, "~" + "a" * 4_000])
def test_an_error_about_a_very_long_path_is_one_line(refusal: Run, tool: Tool, name: str) -> None:
    texts = {"content": "x", "old_text": "a", "new_text": "b", "filepath": name + "f", "dirpath": name}
    message = refusal(tool, **{argument: texts[argument] for argument in tool.spec.parameters["required"]})
    assert len(message.splitlines()) == 1
    assert len(message) < 4_200


def test_hard_links_are_kept(run: Run, work: Path) -> None:
    (work / "f").write_text("old and longer")
    (work / "f").chmod(0o750)
    os.link(work / "f", work / "other")
    run(WRITE_FILE, filepath="f", content="new")
    run(EDIT_FILE, filepath="other", old_text="new", new_text="new and edited")
    assert (work / "f").read_text() == (work / "other").read_text() == "new and edited"
    assert (work / "f").samefile(work / "other")
    assert stat.S_IMODE((work / "f").stat().st_mode) == 0o750


def test_without_keep_hard_links_the_other_link_keeps_the_old_content(context: RunToolContext, work: Path) -> None:
    (work / "f").write_text("old")
    os.link(work / "f", work / "other")
    WRITE_FILE.run({"filepath": "f", "content": "new"}, context._replace(keep_hard_links=False))
    assert ((work / "f").read_text(), (work / "other").read_text()) == ("new", "old")


@pytest.mark.parametrize("linked", [False, True], ids=["one name", "two names"])
@pytest.mark.needs("root", "mount")
def test_a_disk_that_fills_up_leaves_the_old_content(
    unprivileged: Unprivileged, public_folder: Path, linked: bool
) -> None:
    disk = public_folder / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "none", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        (disk / "f").write_text("old")
        (disk / "f").chmod(0o666)
        if linked:
            os.link(disk / "f", disk / "other")
        assert "No space left" in unprivileged("write_file", {"filepath": "disk/f", "content": "x" * 100_000})
        assert {path.read_text() for path in disk.iterdir()} == {"old"}
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_file_is_replaced_atomically(run: Run, work: Path) -> None:
    (work / "f").write_text("old")
    with (work / "f").open() as reader:
        run(WRITE_FILE, filepath="f", content="new")
        assert reader.read() == "old"


def test_a_name_that_ends_in_a_slash_is_not_written(refusal: Run, work: Path) -> None:
    assert "directory" in refusal(WRITE_FILE, filepath="folder/", content="")
    assert not os.listdir(work)


def test_content_over_ten_megabytes_is_refused(refusal: Run, work: Path) -> None:
    assert "10,000,002 bytes" in refusal(WRITE_FILE, filepath="f", content="é" * (MAX_FILE_BYTES // 2 + 1))
    assert not os.listdir(work)


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(unprivileged: Unprivileged, public_folder: Path) -> None:
    import resource

    public_folder.chmod(0o777)
    (public_folder / "f").write_text("old")
    (public_folder / "f").chmod(0o666)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limit[1]))
    try:
        message = unprivileged("write_file", {"filepath": "f", "content": "x" * 5_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert message == "ToolError: f: File too large"
    assert (public_folder / "f").read_text() == "old"
    assert os.listdir(public_folder) == ["f"]


def test_lone_surrogates_are_replaced_and_reported(run: Run, work: Path) -> None:
    message = run(WRITE_FILE, filepath="f", content="a\ud83d\udcffb")
    assert message.startswith("created f: 8 bytes (")
    assert message.endswith("U+FFFD: 2)")
    assert (work / "f").read_text() == "a\ufffd\ufffdb"
    run(EDIT_FILE, filepath="f", old_text="b", new_text="\udcff")
    assert (work / "f").read_text() == "a\ufffd\ufffd\ufffd"


# Editing


def test_the_only_occurrence_is_replaced(run: Run, work: Path) -> None:
    (work / "f").write_text("one\ntwo\nthree\n")
    assert run(EDIT_FILE, filepath="f", old_text="two\nthree", new_text="2") == "edited f at line 2"
    assert (work / "f").read_text() == "one\n2\n"


@pytest.mark.parametrize(
    ("text", "old", "what"),
    [
        ("abc\n", "", "old_text is empty"),
        ("abc\n", "new", "are identical"),
        ("abc\n", "xyz", "not found"),
        ("def run(self):\n    pass\n", "def run(slef):", "the nearest line is 'def run(self):'"),
        (
            "x\nif a:\n\treturn b\n",
            "if a:\n    return b",
            "different white space start at line 2: 'if a:\\n\\treturn b'",
        ),
        # https://github.com/NorthlandPositronics/Cogtrix/pull/2321: what differs is not shown, so the model repeats it
        ("x\n\tif a:  \n", "    if a:\n", "at line 2: '\\tif a:  '"),
        ("a\nb a\nc\na", "a", "occurs 3 times (lines 1, 2, 4)"),
        ("aaa", "aa", "occurs 2 times (lines 1, 1)"),
        ("a\n" * 50, "a", "occurs 50 times (lines 1, 2, 3, 4, 5, ...)"),
        ("a\n" * 500, "a", "more than 100 times"),
        ("a\r\nb", "a\r\r\nb", "not found"),
    ],
)
def test_text_that_does_not_occur_exactly_once_is_refused(
    refusal: Run, work: Path, text: str, old: str, what: str
) -> None:
    (work / "f").write_bytes(text.encode())
    message = refusal(EDIT_FILE, filepath="f", old_text=old, new_text="new")
    assert message.startswith("f is unchanged: ")
    assert what in message
    assert (work / "f").read_bytes() == text.encode()


@pytest.mark.parametrize(
    ("text", "edit", "edited"),
    [
        ("a\r\nb\r\nc\r\n", ("a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", ("b", "x\ny"), "a\r\nx\r\ny\r\n"),
        ("a\r\nb\r\n", ("\nb", "\nc"), "a\r\nc\r\n"),
        ("a\nb\n", ("b", "x\ny"), "a\nx\ny\n"),
        ("a\nb\nc\r\nd\r\ne\r\n", ("a\nb", "x\ny"), "x\ny\nc\r\nd\r\ne\r\n"),
        ("a\nb\nc\r\nd\n", ("c\nd", "x\ny"), "a\nb\nx\r\ny\n"),
        ("a\r\nb\r\n", ("a\r\n", "a\n"), "a\nb\r\n"),
    ],
)
def test_line_endings_survive(run: Run, work: Path, text: str, edit: tuple[str, str], edited: str) -> None:
    (work / "f").write_bytes(text.encode())
    run(EDIT_FILE, filepath="f", old_text=edit[0], new_text=edit[1])
    assert (work / "f").read_bytes() == edited.encode()


def test_a_byte_order_mark_survives(run: Run, work: Path) -> None:
    (work / "f").write_bytes(b"\xef\xbb\xbfone\n")
    run(EDIT_FILE, filepath="f", old_text="one", new_text="two")
    assert (work / "f").read_bytes() == b"\xef\xbb\xbftwo\n"


@given(before=st.binary(), after=st.binary(), new=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_every_other_byte_survives_an_edit(before: bytes, after: bytes, new: str) -> None:
    old = "<the old text>"
    if old.encode() in before + after or new == old:
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        content = before + old.encode() + after
        (folder / "f").write_bytes(content)
        context = RunToolContext(folder, {}, 1, folder, lambda text: None)
        try:
            EDIT_FILE.run({"filepath": "f", "old_text": old, "new_text": new}, context)
        except ToolError as error:
            assert "which lacks" in str(error)
            assert (folder / "f").read_bytes() == content
            return
        edited = (folder / "f").read_bytes()
        assert edited.startswith(before)
        assert edited.endswith(after)
        middle = edited[len(before) : len(edited) - len(after)].decode(decode_for_editing(content, old).encoding)
        assert middle.replace("\r\n", "\n") == new.replace("\r\n", "\n")


def test_the_kernel_follows_no_link_to_a_folder(tmp_path: Path) -> None:
    """A folder is replaced after it was checked, and before it is opened."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/sub").symlink_to(tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        open_folders(tmp_path / "work", ["sub"])


def test_the_kernel_follows_no_link_to_a_file(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="symbolic links"):
            FileTarget(tmp_path / "link", "link", folder).read_content("link")
    finally:
        os.close(folder)
