from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.tools import Tool, ToolContext, ToolError, builtin_tools
from ask.tools.file_access import FILE_LIMIT
from ask.tools.files import EDIT_FILE, LIST_DIR, READ_FILE, WRITE_FILE
from ask.tools.output import RESULT_LIMIT
from tests.tools.conftest import NOBODY

Unprivileged = Callable[[str, dict[str, object]], str]


@pytest.fixture
def work(context: ToolContext) -> Path:
    return context.directory


@pytest.fixture
def run(context: ToolContext) -> Callable[..., str]:
    def call(tool: Tool, **arguments: object) -> str:
        return tool.run(arguments, context).text

    return call


@pytest.fixture
def refusal(run: Run) -> Callable[..., str]:
    def call(tool: Tool, **arguments: object) -> str:
        with pytest.raises(ToolError) as caught:
            run(tool, **arguments)
        return str(caught.value)

    return call


Run = Callable[..., str]


def make_special(work: Path) -> None:
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(work)
        listener.bind("socket")
        os.chdir(here)
    (work / "device").symlink_to("/dev/zero")
    (work / "folder").mkdir()


def test_the_specifications_of_all_tools_stay_small() -> None:
    assert len(json.dumps([tool.spec.as_function() for tool in builtin_tools()])) < 2_300


# Reading


@pytest.mark.parametrize("text", ["one\ntwo\n", "no newline", "a\r\nb\r\n", "\u2028 \x0c \x1b[1m\n", "\n"])
def test_a_file_is_read_as_it_is(run: Run, work: Path, text: str) -> None:
    (work / "f").write_bytes(text.encode())
    assert run(READ_FILE, filepath="f") == text


def test_bytes_that_are_not_utf_8_are_shown_as_such(run: Run, work: Path) -> None:
    (work / "f").write_bytes(b"caf\xe9\n")
    assert run(READ_FILE, filepath="f") == "caf\\xe9\n"


def test_a_byte_order_mark_is_not_shown(run: Run, work: Path) -> None:
    (work / "f").write_bytes(b"\xef\xbb\xbftext")
    assert run(READ_FILE, filepath="f") == "text"


def test_an_empty_file_says_so(run: Run, work: Path) -> None:
    (work / "f").touch()
    assert run(READ_FILE, filepath="f") == "[the file is empty]"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"offset": 2}, "b\nc\nd\n[lines 2 to 4 of 4]"),
        ({"limit": 2}, "a\nb\n[lines 1 to 2 of 4; go on with offset 3]"),
        ({"offset": 2, "limit": 1}, "b\n[lines 2 to 2 of 4; go on with offset 3]"),
        ({"offset": 4, "limit": 9}, "d\n[lines 4 to 4 of 4]"),
        ({"offset": 1, "limit": 4}, "a\nb\nc\nd"),
    ],
)
def test_a_part_says_which_lines_it_is(run: Run, work: Path, part: dict[str, int], text: str) -> None:
    (work / "f").write_text("a\nb\nc\nd")
    assert run(READ_FILE, filepath="f", **part) == text


@pytest.mark.parametrize(
    ("part", "what"),
    [({"offset": 3}, "has 2 lines"), ({"offset": 0}, "from 1"), ({"offset": -1}, "from 1"), ({"limit": 0}, "from 1")],
)
def test_lines_that_there_are_not_are_refused(refusal: Run, work: Path, part: dict[str, int], what: str) -> None:
    (work / "f").write_text("a\nb\n")
    assert what in refusal(READ_FILE, filepath="f", **part)


def test_a_long_file_can_be_read_to_its_end_by_following_the_offsets(run: Run, work: Path) -> None:
    whole = "".join(f"line {number}\n" for number in range(9_000))
    (work / "f").write_text(whole)
    text, offset = "", 1
    while offset:
        part = run(READ_FILE, filepath="f", offset=offset)
        assert len(part) <= RESULT_LIMIT
        body, _, note = part.rpartition("[")
        text += body
        found = re.search(r"offset (\d+)", note)
        offset = int(found[1]) if found else 0
    assert text == whole


def test_a_line_too_long_for_a_result_is_cut_and_says_so(run: Run, work: Path) -> None:
    (work / "f").write_text("x" * 50_000 + "\nshort\n")
    text = run(READ_FILE, filepath="f")
    assert len(text) <= RESULT_LIMIT
    assert text.endswith("\n[line 1 of 2 is cut: 29,800 of its 50,001 characters]")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("p.png", b"\x89PNG\r\n\0\0", "is binary (image/png, 8 bytes)"),
        ("x", b"\x7fELF\0", "of unknown kind, 5 bytes"),
        ("u.txt", "hé".encode("utf-16"), "is UTF-16 text (6 bytes); with bash, iconv"),
    ],
)
def test_a_binary_file_says_its_kind_and_size(refusal: Run, work: Path, name: str, data: bytes, what: str) -> None:
    (work / name).write_bytes(data)
    said = refusal(READ_FILE, filepath=name)
    assert what in said
    assert "with bash" in said


def test_a_file_of_ten_megabytes_is_read_and_a_larger_one_refused(run: Run, refusal: Run, work: Path) -> None:
    (work / "f").write_bytes(b"0123456789abcde\n" * (FILE_LIMIT // 16))
    assert "of 655,360" in run(READ_FILE, filepath="f")
    with (work / "f").open("ab") as file:
        file.write(b"x")
    assert "10,485,761 bytes" in refusal(READ_FILE, filepath="f")
    assert "grep, head, tail or sed" in refusal(EDIT_FILE, filepath="f", old_text="a", new_text="b")


def test_a_file_that_has_no_size_is_read(run: Run) -> None:
    assert run(READ_FILE, filepath="/proc/self/status").startswith("Name:")


# Paths and what they lead to


def test_a_missing_file_names_what_the_directory_holds_close_names_first(refusal: Run, work: Path) -> None:
    for name in ("alpha", "config.json", "zeta", "new\nline"):
        (work / name).touch()
    said = refusal(READ_FILE, filepath="confg.json")
    assert said == r"confg.json: no such file; the directory holds config.json, alpha, new\nline, zeta"


def test_a_missing_file_s_list_of_names_is_short(refusal: Run, work: Path) -> None:
    for number in range(50):
        (work / f"{number:02}").touch()
    said = refusal(READ_FILE, filepath="nothing-like-it")
    assert said.endswith("17, 18, 19, ...")


def test_a_missing_file_in_an_empty_or_missing_directory_says_so(refusal: Run) -> None:
    assert refusal(READ_FILE, filepath="f").endswith("the directory is empty")
    assert refusal(READ_FILE, filepath="a/b/f").endswith("its directory does not exist either")


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE])
@pytest.mark.parametrize(
    ("name", "what"), [("fifo", "a pipe"), ("socket", "a socket"), ("device", "a device"), ("folder", "a directory")]
)
def test_what_is_no_regular_file_is_never_opened(refusal: Run, work: Path, tool: Tool, name: str, what: str) -> None:
    make_special(work)
    said = refusal(tool, filepath=name, content="x", old_text="a", new_text="b")
    assert said.startswith(f"{name} is {what}")
    assert sorted(os.listdir(work)) == ["device", "fifo", "folder", "socket"]


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR])
@pytest.mark.parametrize(
    ("name", "what"),
    [("", "empty"), ("a\0b", "NUL"), ("\ud83d", "half"), ("~no-such-user/x", "no such user"), ("x" * 300, "too long")],
)
def test_a_path_that_cannot_be_one_is_told(refusal: Run, tool: Tool, name: str, what: str) -> None:
    said = refusal(tool, filepath=name, dirpath=name, content="x", old_text="a", new_text="b")
    assert what in said


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR])
def test_a_file_in_the_middle_of_a_path_is_told(refusal: Run, work: Path, tool: Tool) -> None:
    (work / "f").touch()
    said = refusal(tool, filepath="f/x", dirpath="f/x", content="x", old_text="a", new_text="b")
    assert said == "f/x: a part of this path is a file, not a directory"


def test_errors_name_the_path_as_the_model_did(refusal: Run, work: Path) -> None:
    (work / "loop").symlink_to("loop")
    for name in ("gone", "../work/gone", "loop", "loop/x"):
        said = refusal(READ_FILE, filepath=name)
        assert said.startswith(name)
        assert str(work) not in said


def test_a_link_to_nothing_is_told(refusal: Run, work: Path) -> None:
    (work / "link").symlink_to("gone")
    assert refusal(READ_FILE, filepath="link") == "link is a link to gone, which does not exist"


def test_a_tilde_is_the_home_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run(WRITE_FILE, filepath="~/deep/f", content="x")
    assert run(READ_FILE, filepath="~/deep/f") == "x"
    assert (tmp_path / "deep/f").exists()


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_a_file_that_may_not_be_touched_is_told(unprivileged: Unprivileged, public_folder: Path, tool: str) -> None:
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o600 if os.geteuid() == 0 else 0)
    said = unprivileged(tool, {"filepath": "f", "content": "x", "old_text": "a", "new_text": "b"})
    assert said == "ToolError: f: no permission"
    file.chmod(0o600)
    assert file.read_text() == "a"
    assert os.listdir(public_folder) == ["f"]


def test_a_read_only_file_is_not_replaced(unprivileged: Unprivileged, public_folder: Path) -> None:
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o444)
    assert unprivileged("edit_file", {"filepath": "f", "old_text": "a", "new_text": "b"}).endswith("no permission")
    assert file.read_text() == "a"


def test_a_folder_that_may_not_be_entered_or_written_is_told(unprivileged: Unprivileged, public_folder: Path) -> None:
    closed = public_folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "f").touch()
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    public_folder.chmod(0o555)
    assert unprivileged("read_file", {"filepath": "closed/f"}) == "ToolError: closed/f: no permission"
    assert unprivileged("list_dir", {"dirpath": "closed"}) == "ToolError: closed: no permission"
    said = unprivileged("write_file", {"filepath": "new", "content": ""})
    assert said == "ToolError: new: no permission"
    public_folder.chmod(0o755)
    closed.chmod(0o700)
    assert os.listdir(public_folder) == ["closed"]


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


def test_another_s_file_that_may_be_written_loses_its_set_id_bit(
    unprivileged: Unprivileged, public_folder: Path
) -> None:
    if os.geteuid() != 0:
        return  # only root can make a file that belongs to somebody else
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o4777)
    assert unprivileged("write_file", {"filepath": "f", "content": "b"}) == "overwrote f: 1 bytes"
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_uid) == (0o777, NOBODY)


def test_a_link_is_written_through_and_stays(run: Run, work: Path) -> None:
    (work / "folder").mkdir()
    (work / "link").symlink_to("folder/real")
    assert run(WRITE_FILE, filepath="link", content="a").startswith("created")
    assert run(WRITE_FILE, filepath="link", content="b").startswith("overwrote")
    assert (work / "link").readlink() == Path("folder/real")
    assert (work / "folder/real").read_text() == "b"


def test_a_file_is_replaced_at_once(run: Run, work: Path) -> None:
    (work / "f").write_text("old")
    with (work / "f").open() as reader:
        run(WRITE_FILE, filepath="f", content="new")
        assert reader.read() == "old"


def test_a_name_that_ends_in_a_slash_is_not_written(refusal: Run, work: Path) -> None:
    assert "directory" in refusal(WRITE_FILE, filepath="folder/", content="")
    assert not os.listdir(work)


def test_content_over_ten_megabytes_is_refused(refusal: Run, work: Path) -> None:
    assert "10,485,762 bytes" in refusal(WRITE_FILE, filepath="f", content="é" * (FILE_LIMIT // 2 + 1))
    assert not os.listdir(work)


def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(unprivileged: Unprivileged, public_folder: Path) -> None:
    import resource

    public_folder.chmod(0o777)
    (public_folder / "f").write_text("old")
    (public_folder / "f").chmod(0o666)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limit[1]))
    try:
        said = unprivileged("write_file", {"filepath": "f", "content": "x" * 5_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert said == "ToolError: f: File too large"
    assert (public_folder / "f").read_text() == "old"
    assert os.listdir(public_folder) == ["f"]


def test_halves_of_characters_are_replaced_and_told(run: Run, work: Path) -> None:
    said = run(WRITE_FILE, filepath="f", content="a\ud83d\udcffb")
    assert said == "created f: 8 bytes (halves of characters, replaced by U+FFFD: 2)"
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
        ("abc\n", "new", "are the same"),
        ("abc\n", "xyz", "not found"),
        ("def run(self):\n    pass\n", "def run(slef):", "the nearest line is 'def run(self):'"),
        (
            "x\nif a:\n\treturn b\n",
            "if a:\n    return b",
            "other white space are, from line 2 on: 'if a:\\n\\treturn b'",
        ),
        ("a\nb a\nc\na", "a", "there 3 times (lines 1, 2, 4)"),
        ("aaa", "aa", "there 2 times (lines 1, 1)"),
        ("a\n" * 50, "a", "there 50 times (lines 1, 2, 3, 4, 5, ...)"),
        ("a\n" * 500, "a", "more than 100 times"),
        ("a\r\nb", "a\r\r\nb", "not found"),
    ],
)
def test_what_is_not_there_exactly_once_is_told(refusal: Run, work: Path, text: str, old: str, what: str) -> None:
    (work / "f").write_bytes(text.encode())
    said = refusal(EDIT_FILE, filepath="f", old_text=old, new_text="new")
    assert said.startswith("f is unchanged: ")
    assert what in said
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
def test_line_ends_survive(run: Run, work: Path, text: str, edit: tuple[str, str], edited: str) -> None:
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
        (folder / "f").write_bytes(before + old.encode() + after)
        context = ToolContext(folder, {}, 1, folder, lambda text: None)
        EDIT_FILE.run({"filepath": "f", "old_text": old, "new_text": new}, context)
        edited = (folder / "f").read_bytes()
        assert edited.startswith(before)
        assert edited.endswith(after)
        middle = edited[len(before) : len(edited) - len(after)].decode()
        assert middle.replace("\r\n", "\n") == new.replace("\r\n", "\n")


# Listing


def test_a_directory_is_listed_by_name_with_types_and_sizes(run: Run, work: Path) -> None:
    make_special(work)
    (work / "b.txt").write_text("12345")
    (work / ".hidden").touch()
    (work / "gone").symlink_to("no/where")
    assert run(LIST_DIR, dirpath=".").splitlines() == [
        "file 0 .hidden",
        "file 5 b.txt",
        "link device -> /dev/zero",
        "other fifo",
        "dir folder",
        "link gone -> no/where",
        "other socket",
    ]


def test_odd_names_stay_on_their_lines(run: Run, work: Path) -> None:
    (work / "new\nfile 9 line").touch()
    (work / "esc\x1b[2K\u202e").touch()
    Path(os.fsdecode(os.fsencode(work) + b"/latin\xe9")).touch()
    (work / "link").symlink_to("to\nthere")
    assert run(LIST_DIR, dirpath=".").splitlines() == [
        r"file 0 esc\x1b[2K\u202e",
        r"file 0 latin\xe9",
        r"link link -> to\nthere",
        r"file 0 new\nfile 9 line",
    ]


def test_an_empty_directory_says_so(run: Run) -> None:
    assert run(LIST_DIR, dirpath=".") == ". is empty"


def test_a_large_directory_is_cut_and_says_so(run: Run, work: Path) -> None:
    for number in range(1_005):
        (work / f"{number:04}").touch()
    lines = run(LIST_DIR, dirpath=".").splitlines()
    assert lines[999:] == ["file 0 0999", "[5 more entries are not shown]"]


def test_what_is_no_directory_is_told(refusal: Run, work: Path) -> None:
    (work / "f").touch()
    assert refusal(LIST_DIR, dirpath="f") == "f is no directory"
    assert refusal(LIST_DIR, dirpath="g") == "g: no such directory; the directory holds f"
