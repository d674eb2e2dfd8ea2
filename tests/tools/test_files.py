from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest

from ask.tools.base import Tool
from ask.tools.definitions import BUILTIN_TOOLS, EDIT_FILE, LIST_DIR, READ_FILE, SEARCH_WEB, WRITE_FILE
from ask.tools.file_access import MAX_FILE_BYTES
from ask.tools.output_limits import MAX_RESULT_CHARACTERS
from tests.tools.conftest import Run, Unprivileged


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
    specs = [*(tool.spec for tool in BUILTIN_TOOLS), SEARCH_WEB]
    assert len(json.dumps([spec.to_function() for spec in specs])) < 370 * len(specs)


# Reading


@pytest.mark.parametrize("text", ["one\ntwo\n", "no newline", "a\r\nb\r\n", "\u2028 \x0c \x1b[1m\n", "\n"])
def test_file_is_read_unchanged(run: Run, work: Path, text: str) -> None:
    (work / "f").write_bytes(text.encode())
    assert run(READ_FILE, filepath="f") == text


def test_invalid_utf_8_is_shown_as_escapes(run: Run, work: Path) -> None:
    (work / "f").write_bytes("é\n".encode() * 100 + b"\xff\n")
    assert run(READ_FILE, filepath="f").endswith("é\n\\xff\n")


ENCODINGS = ["cp1252", "utf-16", "utf-16-be", "utf-32", "utf-8-sig"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_keeps_its_encoding(run: Run, work: Path, encoding: str) -> None:
    file = work / "f"
    file.write_bytes("Größe: 1\r\nMaß: 2\r\n".encode(encoding))
    assert run(READ_FILE, filepath="f").startswith("Größe: 1\r\nMaß: 2\r\n")
    run(EDIT_FILE, filepath="f", old_text="Maß: 2\n", new_text="Fuß: 3\n")
    assert file.read_bytes() == "Größe: 1\r\nFuß: 3\r\n".encode(encoding)
    run(WRITE_FILE, filepath="f", content="Größe: 5\n")
    assert file.read_bytes() == "Größe: 5\r\n".encode(encoding)


@pytest.mark.parametrize("call", [(EDIT_FILE, {"old_text": "1", "new_text": "→"}), (WRITE_FILE, {"content": "→"})])
def test_a_character_that_the_encoding_lacks_is_refused(
    refusal: Run, work: Path, call: tuple[Tool, dict[str, str]]
) -> None:
    data = "Größe: 1\n".encode("cp1252")
    (work / "f").write_bytes(data)
    message = refusal(call[0], filepath="f", **call[1])
    assert "windows-1252, which lacks '→'" in message
    assert (work / "f").read_bytes() == data


def test_a_composed_name_means_the_existing_file_with_a_decomposed_one(run: Run, work: Path) -> None:
    file = work / "Gro\u0308\u00dfe.txt"
    file.write_text("content\n")
    name = "Gr\u00f6\u00dfe.txt"
    assert run(READ_FILE, filepath=name) == "content\n"
    run(EDIT_FILE, filepath=name, old_text="content", new_text="new")
    run(WRITE_FILE, filepath=name, content="newer\n")
    assert file.read_text() == "newer\n"
    assert list(work.iterdir()) == [file]


def test_a_byte_order_mark_is_not_shown(run: Run, work: Path) -> None:
    (work / "f").write_bytes(b"\xef\xbb\xbftext")
    assert run(READ_FILE, filepath="f") == "text"


def test_an_empty_file_is_reported_as_empty(run: Run, work: Path) -> None:
    (work / "f").touch()
    assert run(READ_FILE, filepath="f") == "[the file is empty]"


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ({"offset": 2}, "b\nc\nd\n[lines 2 to 4 of 4]"),
        ({"limit": 2}, "a\nb\n[lines 1 to 2 of 4; continue with offset 3]"),
        ({"offset": 2, "limit": 1}, "b\n[lines 2 to 2 of 4; continue with offset 3]"),
        ({"offset": 4, "limit": 9}, "d\n[lines 4 to 4 of 4]"),
        ({"offset": 1, "limit": 4}, "a\nb\nc\nd"),
    ],
)
def test_partial_result_names_its_lines(run: Run, work: Path, part: dict[str, int], text: str) -> None:
    (work / "f").write_text("a\nb\nc\nd")
    assert run(READ_FILE, filepath="f", **part) == text


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ({"offset": 3}, "only 2 lines,"),
        ({"offset": 0}, "starting at 1"),
        ({"offset": -1}, "starting at 1"),
        ({"limit": 0}, "starting at 1"),
    ],
)
def test_line_numbers_out_of_range_are_refused(refusal: Run, work: Path, part: dict[str, int], what: str) -> None:
    (work / "f").write_text("a\nb\n")
    assert what in refusal(READ_FILE, filepath="f", **part)


def test_a_file_with_one_line_is_said_to_have_one_line(refusal: Run, work: Path) -> None:
    (work / "f").write_text("a\n")
    assert "only 1 line," in refusal(READ_FILE, filepath="f", offset=2)


def test_a_long_file_can_be_read_to_its_end_by_following_the_offsets(run: Run, work: Path) -> None:
    whole = "".join(f"line {number}\n" for number in range(9_000))
    (work / "f").write_text(whole)
    text, offset = "", 1
    while offset:
        part = run(READ_FILE, filepath="f", offset=offset)
        assert len(part) <= MAX_RESULT_CHARACTERS
        body, _, note = part.rpartition("[")
        text += body
        found = re.search(r"offset (\d+)", note)
        offset = int(found[1]) if found else 0
    assert text == whole


def test_line_too_long_for_a_result_is_truncated_with_a_note(run: Run, work: Path) -> None:
    (work / "f").write_text("x" * 50_000 + "\nshort\n")
    text = run(READ_FILE, filepath="f")
    assert len(text) <= MAX_RESULT_CHARACTERS
    assert text.endswith("\n[line 1 of 2 is truncated: 29,800 of 50,001 characters]")


@pytest.mark.parametrize(
    ("name", "data", "what"),
    [
        ("p.png", b"\x89PNG\r\n\0\0", "is binary (image/png, 8 bytes)"),
        ("x", b"\x7fELF\0", "unknown type, 5 bytes"),
    ],
)
def test_binary_file_is_described_by_type_and_size(refusal: Run, work: Path, name: str, data: bytes, what: str) -> None:
    (work / name).write_bytes(data)
    message = refusal(READ_FILE, filepath=name)
    assert what in message
    assert "in bash" in message


@pytest.mark.slow
def test_a_file_of_ten_megabytes_is_read_and_a_larger_one_refused(run: Run, refusal: Run, work: Path) -> None:
    (work / "f").write_bytes(b"0123456789abcde\n" * (MAX_FILE_BYTES // 16))
    assert "of 625,000" in run(READ_FILE, filepath="f")
    with (work / "f").open("ab") as file:
        file.write(b"x")
    assert "10,000,001 bytes" in refusal(READ_FILE, filepath="f")
    assert "grep, head, tail or sed" in refusal(EDIT_FILE, filepath="f", old_text="a", new_text="b")


def test_a_large_pdf_can_be_attached_by_the_user(refusal: Run, work: Path) -> None:
    (work / "f").write_bytes(b"%PDF-1.7".ljust(MAX_FILE_BYTES + 1))
    message = refusal(READ_FILE, filepath="f")
    assert "-f FILE" in message
    assert "in bash" not in message


def test_a_proc_file_without_a_size_is_read(run: Run) -> None:
    assert run(READ_FILE, filepath="/proc/self/status").startswith("Name:")


# Paths


def test_missing_file_lists_the_directory_similar_names_first(refusal: Run, work: Path) -> None:
    for name in ("alpha", "config.json", "zeta", "new\nline"):
        (work / name).touch()
    message = refusal(READ_FILE, filepath="confg.json")
    assert message.startswith("confg.json: ")
    assert message.endswith(r"config.json, alpha, new\nline, zeta")


def test_list_of_names_for_a_missing_file_is_short(refusal: Run, work: Path) -> None:
    for number in range(50):
        (work / f"{number:02}").touch()
    message = refusal(READ_FILE, filepath="nothing-like-it")
    assert message.endswith("17, 18, 19, ...")


def test_missing_file_reports_an_empty_or_missing_directory(refusal: Run) -> None:
    assert refusal(READ_FILE, filepath="f").endswith("empty")
    assert refusal(READ_FILE, filepath="a/b/f").endswith("does not exist either")


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE])
@pytest.mark.parametrize(
    ("name", "what"), [("fifo", "a pipe"), ("socket", "a socket"), ("device", "a device"), ("folder", "a directory")]
)
def test_special_files_are_never_opened(refusal: Run, work: Path, tool: Tool, name: str, what: str) -> None:
    make_special(work)
    message = refusal(tool, filepath=name, content="x", old_text="a", new_text="b")
    assert message.startswith(f"{name} is {what}")
    assert sorted(os.listdir(work)) == ["device", "fifo", "folder", "socket"]


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR])
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("\ud83d", "surrogate"),
        ("~no-such-user/x", "no such user"),
        ("x" * 300, "too long"),
    ],
)
def test_an_invalid_path_is_refused(refusal: Run, tool: Tool, name: str, what: str) -> None:
    message = refusal(tool, filepath=name, dirpath=name, content="x", old_text="a", new_text="b")
    assert what in message


@pytest.mark.parametrize("tool", [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR])
def test_a_file_in_the_middle_of_a_path_is_reported(refusal: Run, work: Path, tool: Tool) -> None:
    (work / "f").touch()
    message = refusal(tool, filepath="f/x", dirpath="f/x", content="x", old_text="a", new_text="b")
    assert message.startswith("f/x: ")


def test_errors_name_the_path_as_the_model_did(refusal: Run, work: Path) -> None:
    (work / "loop").symlink_to("loop")
    for name in ("gone", f"../{work.name}/gone", "loop", "loop/x"):
        message = refusal(READ_FILE, filepath=name)
        assert message.startswith(name)
        assert str(work) not in message


def test_a_dangling_link_is_reported(refusal: Run, work: Path) -> None:
    (work / "link").symlink_to("gone")
    assert refusal(READ_FILE, filepath="link").startswith("link is a link to gone")


def test_a_tilde_is_the_home_directory(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run(WRITE_FILE, filepath="~/deep/f", content="x")
    assert run(READ_FILE, filepath="~/deep/f") == "x"
    assert (tmp_path / "deep/f").exists()


@pytest.mark.parametrize("name", ["~$report.txt", "./~$report.txt", "./~", "~$drafts/a"])
def test_a_file_whose_name_begins_with_a_tilde_is_found(run: Run, work: Path, name: str) -> None:
    (work / "~$drafts").mkdir()
    assert run(WRITE_FILE, filepath=name, content="one\n")
    run(EDIT_FILE, filepath=name, old_text="one", new_text="two")
    assert run(READ_FILE, filepath=name) == (work / name).read_text() == "two\n"


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file"])
def test_unreadable_file_is_reported(unprivileged: Unprivileged, public_folder: Path, tool: str) -> None:
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o600 if os.geteuid() == 0 else 0)
    message = unprivileged(tool, {"filepath": "f", "content": "x", "old_text": "a", "new_text": "b"})
    assert message == "ToolError: f: permission denied"
    file.chmod(0o600)
    assert file.read_text() == "a"
    assert os.listdir(public_folder) == ["f"]


def test_a_read_only_file_is_not_replaced(unprivileged: Unprivileged, public_folder: Path) -> None:
    public_folder.chmod(0o777)
    file = public_folder / "f"
    file.write_text("a")
    file.chmod(0o444)
    assert unprivileged("edit_file", {"filepath": "f", "old_text": "a", "new_text": "b"}).endswith("permission denied")
    assert file.read_text() == "a"


def test_unreadable_folder_is_reported(unprivileged: Unprivileged, public_folder: Path) -> None:
    closed = public_folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "f").touch()
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    public_folder.chmod(0o555)
    assert unprivileged("read_file", {"filepath": "closed/f"}) == "ToolError: closed/f: permission denied"
    assert unprivileged("list_dir", {"dirpath": "closed"}) == "ToolError: closed: permission denied"
    message = unprivileged("write_file", {"filepath": "new", "content": ""})
    assert message == "ToolError: new: permission denied"
    public_folder.chmod(0o755)
    closed.chmod(0o700)
    assert os.listdir(public_folder) == ["closed"]


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


def test_names_with_control_characters_stay_on_their_lines(run: Run, work: Path) -> None:
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


def test_an_empty_directory_is_reported_as_empty(run: Run) -> None:
    assert run(LIST_DIR, dirpath=".") == ". is empty"


@pytest.mark.slow
def test_large_directory_is_truncated_with_a_note(run: Run, work: Path) -> None:
    for number in range(1_005):
        (work / f"{number:04}").touch()
    lines = run(LIST_DIR, dirpath=".").splitlines()
    assert lines[999:] == ["file 0 0999", "[5 more entries are not shown]"]


def test_listing_a_file_or_a_missing_folder_is_refused(refusal: Run, work: Path) -> None:
    (work / "f").touch()
    assert refusal(LIST_DIR, dirpath="f").startswith("f is ")
    message = refusal(LIST_DIR, dirpath="g")
    assert message.startswith("g: ")
    assert message.endswith(" f")


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\r\n"),
        (b"\xef\xbb\xbfa\n", "c\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffc\n", b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\r\n", "c\nd", b"\xef\xbb\xbfc\r\nd"),
        (b"a\nb\r\nc\n", "c\nd\n", b"c\nd\n"),
        (b"a\n", "c\r\nd\r\n", b"c\r\nd\r\n"),
        (b"\x89PNG\r\n\0\0", "c\n", b"c\n"),
        (b"\xff\r\n", "c\n", b"c\r\n"),
        (b"", "c\n", b"c\n"),
        (None, "c\n", b"c\n"),
    ],
)
def test_an_overwritten_file_keeps_its_line_ends_and_byte_order_mark(
    run: Run, work: Path, old: bytes | None, content: str, new: bytes
) -> None:
    if old is not None:
        (work / "f").write_bytes(old)
    run(WRITE_FILE, filepath="f", content=content)
    assert (work / "f").read_bytes() == new
