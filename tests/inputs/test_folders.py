"""`-f FOLDER`: what of it is asked about is what git would take, and what cannot be is named."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ask.inputs.folders import read_parent_rules, walk_files
from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.model_server import ModelServer
from tests.needed import need
from tests.program import Ask, run
from tests.sample_files import png, wav

TREE = (
    "a.py",
    "b.log",
    ".env",
    "build/c.py",
    "src/a.py",
    "src/b.log",
    "src/deep/keep.log",
    "src/deep/d.txt",
    "a b/ü.txt",
)
PATTERNS = (
    "*.log",
    "!keep.log",
    "build/",
    "/a.py",
    "src/*.py",
    "deep",
    "**/d.txt",
    ".env",
    "a\\ b/",
    "# a.py",
    "!b.log",
    "",
)
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def answers(server: ModelServer) -> None:
    server.reply(wire.says("yes"))


def grow(folder: Path, *names: str) -> None:
    """Files, each with its name in it."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}\n")


def names(text: str, folder: str) -> list[str]:
    """The files of a folder that a question holds, in order."""
    marks = [line for line in text.splitlines() if line.startswith(f'<file name="{folder}/')]
    return [mark.split('"')[1].removeprefix(f"{folder}/") for mark in marks]


def by_git(repository: Path, folder: Path) -> set[str]:
    """What git would take of a folder."""
    command = ["git", "-c", "core.quotepath=off", "ls-files", "-coz", "--exclude-standard"]
    listed = run(command, env=GIT, cwd=folder)
    assert listed.code == 0, listed.stderr
    return {name for name in listed.stdout.decode().split("\0") if name}


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(["", "src", "src/deep"]), st.lists(st.sampled_from(PATTERNS))), max_size=3))
def test_what_is_left_out_is_what_git_ignores(
    tmp_path_factory: pytest.TempPathFactory, rules: list[tuple[str, list[str]]]
) -> None:
    need("git")
    repository = tmp_path_factory.mktemp("repository")
    grow(repository, *TREE)
    for place, lines in rules:
        (repository / place / ".gitignore").write_text("\n".join(lines))
    assert run(["git", "init", "-q", "."], env=GIT, cwd=repository).code == 0
    for folder in (repository, repository / "src"):
        found = [path for path, fault in walk_files(folder, read_parent_rules(folder)) if not fault]
        assert {str(path.relative_to(folder)) for path in found} == by_git(repository, folder)


def test_a_folder_is_its_text_files_in_order(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd / "src", "b.py", "a.py", "sub/c.py", ".hidden", ".git/config", "z.log", "sub/y.log")
    (ask.cwd / "src/.gitignore").write_text("*.log\n")
    assert ask("-f", "src/", "why?").code == 0
    text = wire.asked(server.requests[0].json)
    assert names(text, "src") == [".gitignore", ".hidden", "a.py", "b.py", "sub/c.py"]
    assert '<file name="src/a.py">\ntext of a.py\n</file>' in text


def test_an_ignored_folder_that_is_named_is_read_all_the_same(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd, ".git/HEAD", "build/a.txt", "build/b.log")
    (ask.cwd / ".gitignore").write_text("build/\n*.log\n")
    assert ask("-f", "build", "why?").code == 0
    assert "a.txt" in names(wire.asked(server.requests[0].json), "build")


def test_rules_beside_the_folder_count_too(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd, "src/a.py", "src/b.log", "src/c.tmp", ".git/HEAD")
    (ask.cwd / ".gitignore").write_text("*.log\n")
    (ask.cwd / ".git/info").mkdir()
    (ask.cwd / ".git/info/exclude").write_text("*.tmp\n")
    assert ask("-f", "src", "why?").code == 0
    assert names(wire.asked(server.requests[0].json), "src") == ["a.py"]


def test_what_is_no_text_is_named_and_left_out(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd / "src", "a.py")
    for name, data in {"logo.png": png(), "b.wav": wav(), "c.bin": b"\x7fELF\0\1"}.items():
        (ask.cwd / "src" / name).write_bytes(data)
    (ask.cwd / "src/link.py").symlink_to("a.py")
    (ask.cwd / "src/loop").symlink_to(".")
    os.mkfifo(ask.cwd / "src/pipe")
    result = ask("-v", "-f", "src", "why?")
    assert result.code == 0
    content = server.requests[0].json["messages"][-1]["content"]
    assert all(part["type"] == "text" for part in content)
    text = wire.asked(server.requests[0].json)
    assert names(text, "src") == ["a.py"]
    for left_out in ("src/b.wav: WAV", "src/c.bin: binary", "src/logo.png: PNG"):
        assert text.count(left_out) == 1
        assert result.stderr.count(left_out) == 1
    assert "src/" not in ask("-f", "src", "why?").stderr


def test_a_folder_with_too_much_names_what_is_large(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd / "src", "a.py")
    (ask.cwd / "src/large.csv").write_text("1,2\n" * 2_000_000)
    (ask.cwd / "src/other.csv").write_text("1,2\n" * 1_000_000)
    result = ask("-f", "src", "why?")
    assert (result.code, server.requests) == (9, [])
    assert "10,000,000" in result.stderr
    assert re.search(r"src/large\.csv \(8,000,000\).*src/other\.csv \(4,000,000\)", result.stderr)
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_folder_of_too_many_files_is_not_walked_to_its_end(ask: Ask, server: ModelServer) -> None:
    for number in range(101):
        folder = ask.cwd / "many" / str(number)
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / str(name)).touch()
    result = ask("-f", "many", "why?")
    assert (result.code, server.requests) == (9, [])
    assert "many" in result.stderr
    assert "10,000" in result.stderr


def test_a_folder_without_text_is_refused(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "pictures").mkdir()
    (ask.cwd / "pictures/a.png").write_bytes(png())
    result = ask("-f", "pictures", "why?")
    assert (result.code, server.requests) == (9, [])
    assert result.stderr.count("\n") == 1
    assert "pictures/a.png: PNG" in result.stderr


def test_a_folder_in_a_chat_tells_what_goes_and_what_does_not(ask: Ask, server: ModelServer) -> None:
    grow(ask.cwd / "src", "a.py", "b.py")
    (ask.cwd / "src/logo.png").write_bytes(png())
    with Chat(ask) as chat:
        shown = chat.say("/file src")
        assert re.search(r"src/a\.py\b.*\b1 line\b", shown)
        assert "src/logo.png: PNG" in shown
        grow(ask.cwd / "src", "c.py", "d.py")
        assert re.search(r"\b4 .*\bsrc\b", chat.say("/file src"))
        chat.leave()


@pytest.mark.slow
def test_a_folder_of_a_thousand_nested_folders_is_read_and_deeper_ones_are_left_out(
    ask: Ask, server: ModelServer
) -> None:
    folder = ask.cwd
    for _ in range(1_200):
        folder /= "d"
    run(["bash", "-c", 'mkdir -p "$0" && echo deepest > "$0/a.txt"', str(folder.relative_to(ask.cwd))], cwd=ask.cwd)
    assert ask("-f", "d", "hi", timeout=120).code == 0
    run(["rm", "-rf", "d"], cwd=ask.cwd)  # too deep for what pytest removes folders with
    assert "deepest" in wire.asked(server.requests[-1].json)
