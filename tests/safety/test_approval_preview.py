"""Previews of the changes that a write would make."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ask.safety.approval_preview import MAX_DIFF_LINES, MAX_LINE_CHARACTERS, NO_PREVIEW, Preview, build_preview
from ask.safety.tool_policy import PendingToolCall
from ask.tools.base import RunToolContext

LIMIT = 10_000_000


class Bench:
    """Previews in a folder; `outside` is a sibling that may not be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.outside = folder / "outside"
        self.folder.mkdir()
        self.outside.mkdir()
        self.asked: list[Path] = []

    def may_read(self, path: Path) -> bool:
        self.asked.append(path)
        return path.is_relative_to(self.folder)

    def __call__(self, tool: str, **arguments: object) -> Preview:
        context = RunToolContext(self.folder, {}, 30, self.folder / "spill", print)
        return build_preview(PendingToolCall(tool, arguments, context), self.may_read)._replace(approved_file=None)

    def write(self, name: str, content: str) -> Preview:
        return self("write_file", filepath=name, content=content)

    def edit(self, name: str, old: str, new: str) -> Preview:
        return self("edit_file", filepath=name, old_text=old, new_text=new)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def lines_of(preview: Preview) -> tuple[str, ...]:
    return tuple(text for text, _ in preview.diff_rows)


def test_only_calls_that_write_files_have_a_preview(bench: Bench) -> None:
    (bench.folder / "x").write_text("a\n")
    assert bench("bash", command="rm x") == NO_PREVIEW
    assert bench("read_file", filepath="x") == NO_PREVIEW
    assert bench("write_file", filepath="x") == NO_PREVIEW
    assert bench("write_file", filepath="x", content=5) == NO_PREVIEW
    assert bench.asked == []


def test_overwriting_keeps_the_line_ends_and_the_byte_order_mark_in_the_diff(bench: Bench) -> None:
    (bench.folder / "x").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    shown = lines_of(bench.write("x", "a\nB\n"))
    assert [line[0] for line in shown] == ["@", " ", "-", "+"]


def test_overwriting_shows_the_diff(bench: Bench) -> None:
    (bench.folder / "x").write_text("a\nb\nc\n")
    preview = bench.write("x", "a\nB\nc\nd")
    assert (preview.heading, preview.shown_arguments) == (f"the changes to {bench.folder}/x:", frozenset({"content"}))
    assert lines_of(preview) == ("@@ -1,3 +1,4 @@", " a", "-b", "+B", " c", "+d", "\\ No newline at end of file")
    assert dict(preview.diff_rows)["-b"] != dict(preview.diff_rows)["+B"]


def test_an_edit_shows_the_lines_around_it(bench: Bench) -> None:
    (bench.folder / "x").write_text("".join(f"{number}\n" for number in range(100)))
    shown = bench.edit("x", "50\n51", "fifty")
    assert lines_of(shown) == (
        "@@ -48,8 +48,7 @@",
        *(" 47", " 48", " 49", "-50", "-51", "+fifty", " 52", " 53", " 54"),
    )
    assert shown.shown_arguments == {"old_text", "new_text"}


def test_binary_bytes_and_line_endings_are_visible(bench: Bench) -> None:
    (bench.folder / "x").write_bytes(b"a\xff\r\nb\r\n")
    assert lines_of(bench.write("x", "a\n")) == ("@@ -1,2 +1 @@", "-a\udcff", "-b", "+a")
    (bench.folder / "x").write_bytes(b"a\r\nb\nc\n")
    assert lines_of(bench.write("x", "a\nb\nc\n")) == ("@@ -1,3 +1,3 @@", "-a\\r", "+a", " b", " c")


def test_a_new_file_is_called_new(bench: Bench) -> None:
    preview = bench.write("deep/x", "a\n" * 1_000)
    assert (preview.heading, preview.shown_arguments) == (
        f"the new file {bench.folder}/deep/x:",
        frozenset({"content"}),
    )
    assert lines_of(preview) == ("+a",) * 1_000
    assert bench.write("deep/x", "") == Preview(f"{bench.folder}/deep/x does not exist yet")
    assert bench.edit("x", "a", "b") == Preview(f"{bench.folder}/x does not exist yet")


def test_a_link_is_shown_as_its_target(bench: Bench) -> None:
    (bench.folder / "x").write_text("a\n")
    (bench.folder / "link").symlink_to("x")
    assert bench.write("link", "b\n").heading == f"the changes to {bench.folder}/x:"
    (bench.folder / "new").symlink_to("y")
    assert bench.write("new", "b\n").heading == f"the new file {bench.folder}/y:"


def test_files_outside_are_not_read(bench: Bench) -> None:
    secret = bench.outside / "secret"
    secret.write_text("hidden")
    (bench.folder / "link").symlink_to(secret)
    (bench.folder / "way").symlink_to(bench.outside)
    told = Preview(f"no diff: {secret} is outside the readable folders")
    for name in ("../outside/secret", "link", "way/secret", str(secret)):
        assert bench.write(name, "x") == told
    assert bench.write("../outside/none", "x").heading.endswith("outside the readable folders")


def test_special_files_are_not_read(bench: Bench) -> None:
    os.mkfifo(bench.folder / "pipe")
    assert "a pipe (FIFO)" in bench.write("pipe", "x").heading
    assert "a directory" in bench.write(".", "x").heading
    context = RunToolContext(bench.folder, {}, 30, bench.folder, print)
    device = PendingToolCall("write_file", {"filepath": "/dev/zero", "content": "x"}, context)
    assert "a device" in build_preview(device, lambda path: True).heading


def test_files_that_cannot_be_compared_are_explained(bench: Bench) -> None:
    (bench.folder / "binary").write_bytes(b"a\0b")
    assert bench.write("binary", "x").heading == f"no diff: {bench.folder}/binary is binary, 3 bytes"
    with open(bench.folder / "large", "wb") as file:
        file.truncate(LIMIT + 1)
    assert "over the limit of 10,000,000" in bench.write("large", "x").heading
    (bench.folder / "x").write_text("aa")
    assert bench.edit("x", "b", "c").heading.startswith("no diff: old_text was not found")
    assert bench.edit("x", "a", "c").heading.startswith("no diff: old_text occurs 2 times")
    assert bench.write("x", "aa").heading == f"no change: {bench.folder}/x already has this content"
    (bench.folder / "loop").symlink_to("loop")
    for name in ("loop", "a\0b", "", "\ud800", "x/y", "~nobody-of-that-name/x", "n" * 300):
        shown = bench.write(name, "x")
        assert shown.heading.startswith("no diff: ")
        assert shown.diff_rows == ()


def test_large_changes_are_not_compared(bench: Bench) -> None:
    (bench.folder / "x").write_text("a\nb\n" * 10_000)
    assert bench.write("x", "b\nc\na\n" * 10_000).heading.startswith("no diff: too many")
    assert len(bench.write("x", "a\nb\n" * 9_999 + "a\n").diff_rows) == 5


def test_a_long_diff_is_truncated_with_a_note(bench: Bench) -> None:
    (bench.folder / "x").write_text("a\n")
    shown = bench.write("x", "b\n" * 1_000)
    assert len(shown.diff_rows) == MAX_DIFF_LINES + 1
    assert lines_of(shown)[-1] == f"... {1_002 - MAX_DIFF_LINES:,} more lines"
    assert shown.shown_arguments == set()
    shown = bench.write("x", "c" * 5_000 + "\n")
    assert lines_of(shown)[2] == "+" + "c" * (MAX_LINE_CHARACTERS - 1) + "[... 3,001 more characters ...]"
    assert shown.shown_arguments == set()


def test_the_diff_of_long_lines_shows_where_they_differ(bench: Bench) -> None:
    (bench.folder / "x").write_text("a" * 5_000 + "good()" + "b" * 500)
    shown = bench.edit("x", "good()", "evil()")
    [_, removed, _, added, _] = lines_of(shown)
    assert "good()" in removed
    assert "evil()" in added
    assert shown.shown_arguments == {"old_text", "new_text"}
