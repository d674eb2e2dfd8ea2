"""`-f FOLDER`: the files that git would not ignore are sent, and skipped files are named."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from ask.inputs.folders import LinearPattern, walk_files
from tests import wire
from tests.cli.chat.chat_session import Chat
from tests.model_server import ModelServer
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


def create_files(folder: Path, *sent_files: str) -> None:
    """Create files that contain their names."""
    for name in sent_files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}\n")


def sent_files(text: str, folder: str) -> list[str]:
    """Return the files of a folder that a question contains, in order."""
    marks = [line for line in text.splitlines() if line.startswith(f'<file name="{folder}/')]
    return [mark.split('"')[1].removeprefix(f"{folder}/") for mark in marks]


def list_git_files(repository: Path, folder: Path, env: Mapping[str, str]) -> set[str]:
    """Return the files that git would not ignore."""
    command = ["git", "-c", "core.quotepath=off", "ls-files", "-coz", "--exclude-standard"]
    listed = run(command, env=env, cwd=folder)
    assert listed.code == 0, listed.stderr
    return {name for name in listed.stdout.decode().split("\0") if name}


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["", "src", "src/deep"]), st.lists(st.sampled_from(PATTERNS))), max_size=3),
    st.sets(st.sampled_from(TREE), max_size=3),
    st.lists(st.sampled_from(PATTERNS), max_size=3),
    st.lists(st.sampled_from(PATTERNS), max_size=3),
)
@pytest.mark.needs("git")
def test_the_files_of_a_folder_are_those_that_git_lists(
    tmp_path_factory: pytest.TempPathFactory,
    rules: list[tuple[str, list[str]]],
    tracked: set[str],
    excluded: list[str],
    excluded_everywhere: list[str],
) -> None:
    home = tmp_path_factory.mktemp("home")
    repository = home / "repository"
    (home / "everywhere").write_text("\n".join(excluded_everywhere))
    (home / "gitconfig").write_text(f"[core]\nexcludesFile = {home}/everywhere\n")
    env = {**GIT, "GIT_CONFIG_GLOBAL": str(home / "gitconfig"), "HOME": str(home)}
    create_files(repository, *TREE)
    for place, lines in rules:
        (repository / place / ".gitignore").write_text("\n".join(lines))
    assert run(["git", "init", "-q", "."], env=env, cwd=repository).code == 0
    (repository / ".git/info/exclude").write_text("\n".join(excluded))
    if tracked:
        assert run(["git", "add", "-f", "--", *tracked], env=env, cwd=repository).code == 0
    for folder in (repository, repository / "src"):
        found = [entry.path for entry in walk_files(folder, env) if not entry.skip_reason]
        assert {str(path.relative_to(folder)) for path in found} == list_git_files(repository, folder, env)


@pytest.mark.needs("git")
def test_the_rules_of_a_nested_repository_apply_in_it(tmp_path: Path) -> None:
    create_files(tmp_path, "a.py", "inner/b.log", "inner/c.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "inner/.gitignore").write_text("*.tmp\n")
    for folder in (tmp_path, tmp_path / "inner"):
        assert run(["git", "init", "-q", "."], env=GIT, cwd=folder).code == 0
    found = {str(entry.path.relative_to(tmp_path)) for entry in walk_files(tmp_path, GIT)}
    assert found == {".gitignore", "a.py", "inner/.gitignore", "inner/b.log"}


@pytest.mark.needs("git")
def test_the_excluded_files_of_a_repository_are_excluded_in_its_worktrees(tmp_path: Path) -> None:
    main, worktree, identity = tmp_path / "main", tmp_path / "worktree", ("-c", "user.name=x", "-c", "user.email=x@x")
    main.mkdir()
    for command in (["init"], [*identity, "commit", "--allow-empty", "-m", "1"], ["worktree", "add", str(worktree)]):
        assert run(["git", *command], env=GIT, cwd=main).code == 0
    (main / ".git/info/exclude").write_text("secret.txt\n")
    create_files(worktree, "secret.txt", "a.txt")
    assert {entry.path.name for entry in walk_files(worktree, GIT)} == {"a.txt"} == list_git_files(main, worktree, GIT)


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "rules",
    [
        b"\xef\xbb\xbfsecret.txt\n",
        b"\xef\xbb\xbfsecret.txt\r\n",
        b"#\x0cb.txt\nsecret.txt",
        b"#\xe2\x80\xa8b.txt\nsecret.txt",
    ],
)
def test_the_lines_of_a_gitignore_are_those_that_git_sees(tmp_path: Path, rules: bytes) -> None:
    create_files(tmp_path, "secret.txt", "b.txt")
    assert run(["git", "init", "-q", "."], env=GIT, cwd=tmp_path).code == 0
    (tmp_path / ".gitignore").write_bytes(rules)
    found = {entry.path.name for entry in walk_files(tmp_path, GIT)}
    assert found == {".gitignore", "b.txt"} == list_git_files(tmp_path, tmp_path, GIT)


@pytest.mark.needs("git")
def test_a_program_in_the_configuration_of_a_repository_is_not_run(tmp_path: Path) -> None:
    create_files(tmp_path, "a.py")
    assert run(["git", "init", "-q", "."], env=GIT, cwd=tmp_path).code == 0
    assert run(["git", "add", "a.py"], env=GIT, cwd=tmp_path).code == 0
    hook = tmp_path / ".git/hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    assert run(["git", "config", "core.fsmonitor", str(hook)], env=GIT, cwd=tmp_path).code == 0
    assert [entry.path.name for entry in walk_files(tmp_path, GIT)] == ["a.py"]
    assert not (tmp_path / "ran").exists()
    run(["git", "status"], env=GIT, cwd=tmp_path)
    assert (tmp_path / "ran").exists(), "git would run it"


def test_secrets_and_packages_are_left_out_without_a_repository(ask: Ask, server: ModelServer) -> None:
    private = ("src/.env", "src/.env.local", "src/prod.env", "src/node_modules/x/index.js", "src/keys/server")
    create_files(ask.cwd, "src/a.py", "src/.env.example", *private)
    (ask.cwd / "src/keys/server").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n")
    result = ask("-f", "src", "why?")
    assert result.code == 0
    text = wire.asked(server.requests[0].json)
    assert sent_files(text, "src") == [".env.example", "a.py"]
    assert not any(secret in text for secret in ("text of src/.env\n", "index.js", "b3Blbn"))
    [notice] = [line for line in result.stderr.splitlines() if "leaving out" in line]
    assert "src/.env" in notice
    assert "2 more" in notice
    assert run(["git", "init", "-q", "."], env=GIT, cwd=ask.cwd).code == 0
    server.reply(wire.says("yes"))
    result = ask("-f", "src", "why?")
    assert ".env" in sent_files(wire.asked(server.requests[1].json), "src")
    assert "leaving out" not in result.stderr


def test_the_text_files_of_a_folder_are_sent_in_order(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd / "src", "b.py", "a.py", "sub/c.py", ".hidden", ".git/config", "z.log", "sub/y.log")
    (ask.cwd / "src/.gitignore").write_text("*.log\n")
    assert ask("-f", "src/", "why?").code == 0
    text = wire.asked(server.requests[0].json)
    assert sent_files(text, "src") == [".gitignore", ".hidden", "a.py", "b.py", "sub/c.py"]
    assert '<file name="src/a.py">\ntext of a.py\n</file>' in text


def test_an_ignored_folder_is_read_if_it_is_named(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd, ".git/HEAD", "build/a.txt", "build/b.log")
    (ask.cwd / ".gitignore").write_text("build/\n*.log\n")
    assert ask("-f", "build", "why?").code == 0
    assert "a.txt" in sent_files(wire.asked(server.requests[0].json), "build")


def test_rules_of_parent_folders_apply(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd, "src/a.py", "src/b.log", "src/c.tmp", ".git/HEAD")
    (ask.cwd / ".gitignore").write_text("*.log\n")
    (ask.cwd / ".git/info").mkdir()
    (ask.cwd / ".git/info/exclude").write_text("*.tmp\n")
    assert ask("-f", "src", "why?").code == 0
    assert sent_files(wire.asked(server.requests[0].json), "src") == ["a.py"]


def test_a_gitignore_that_is_not_a_file_is_skipped(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd / "src", "a.py", "sub/b.py")
    os.mkfifo(ask.cwd / "src/.gitignore")
    (ask.cwd / "src/sub/.gitignore").symlink_to("/dev/zero")
    assert ask("-f", "src", "why?").code == 0
    assert sent_files(wire.asked(server.requests[0].json), "src") == ["a.py", "sub/b.py"]


@pytest.mark.parametrize("pattern", ["*a" * 12 + "*b", "*[ab]?" * 9 + "*b", "a/**/" * 8 + "b", "*a*/" * 6 + "b"])
def test_the_wildcards_of_a_gitignore_are_matched_in_a_short_time(tmp_path: Path, pattern: str) -> None:
    names = ["a" * 100] * 12 if pattern.startswith("*a*/") else ["a"] * 150 if "**" in pattern else ["a" * 250]
    folder = tmp_path.joinpath(*names[:-1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[-1]).write_text("x")
    (tmp_path / ".gitignore").write_text(pattern)
    start = time.thread_time()
    assert [entry.path for entry in walk_files(tmp_path)][-1] == folder / names[-1]
    assert time.thread_time() - start < 2


@given(
    st.lists(st.sampled_from(["*", "?", "/", "**/", "a", "b", "[ab]", "[!b]", r"\*", "."]), min_size=1, max_size=9),
    st.lists(st.text("ab.*", min_size=1, max_size=5), min_size=1, max_size=5),
)
def test_patterns_match_as_in_pathspec(tokens: list[str], names: list[str]) -> None:
    pattern, path = "".join(tokens).replace("[!b]", "[!b/]"), "/".join(names)
    try:
        expected = GitIgnoreSpec.from_lines([pattern]).match_file(path)
    except ValueError:  # not a valid pattern
        expected = False
    assert GitIgnoreSpec.from_lines([pattern], LinearPattern).match_file(path) == expected


@pytest.mark.parametrize("line", ["!", "a\\", "[z-a]"])
def test_a_line_of_a_gitignore_that_is_no_pattern_is_ignored(ask: Ask, server: ModelServer, line: str) -> None:
    create_files(ask.cwd / "src", "a.py", "b.log")
    (ask.cwd / "src/.gitignore").write_text(f"{line}\n*.log\n.gitignore\n")
    assert ask("-f", "src", "why?").code == 0
    assert sent_files(wire.asked(server.requests[0].json), "src") == ["a.py"]


def test_files_that_are_not_text_are_skipped_and_named(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd / "src", "a.py")
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
    assert sent_files(text, "src") == ["a.py"]
    for left_out in ("src/b.wav: WAV", "src/c.bin: binary", "src/logo.png: PNG"):
        assert text.count(left_out) == 1
        assert result.stderr.count(left_out) == 1
    assert "src/" not in ask("-f", "src", "why?").stderr


def test_a_folder_with_too_much_text_is_an_error_that_names_large_files(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd / "src", "a.py")
    (ask.cwd / "src/large.csv").write_text("1,2\n" * 2_000_000)
    (ask.cwd / "src/other.csv").write_text("1,2\n" * 1_000_000)
    result = ask("-f", "src", "why?")
    assert (result.code, server.requests) == (9, [])
    assert "10,000,000" in result.stderr
    assert re.search(r"src/large\.csv \(8,000,000\).*src/other\.csv \(4,000,000\)", result.stderr)
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_walking_stops_after_too_many_files(ask: Ask, server: ModelServer) -> None:
    for number in range(101):
        folder = ask.cwd / "many" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        for name in range(100):
            (folder / str(name)).touch()
    result = ask("-f", "many", "why?")
    assert (result.code, server.requests) == (9, [])
    assert "many" in result.stderr
    assert "10,000" in result.stderr


@pytest.mark.parametrize("name", ["/", "/usr/.."])
def test_the_folders_of_the_kernel_are_not_read(name: str) -> None:
    root = Path(name)
    top = [entry.path for entry in takewhile(lambda entry: entry.path.parent == root, walk_files(root))]
    assert all(root / kernel in top for kernel in ("dev", "proc", "sys") if Path("/", kernel).exists())


def test_a_folder_without_text_is_an_error(ask: Ask, server: ModelServer) -> None:
    (ask.cwd / "pictures").mkdir()
    (ask.cwd / "pictures/a.png").write_bytes(png())
    result = ask("-f", "pictures", "why?")
    assert (result.code, server.requests) == (9, [])
    assert result.stderr.count("\n") == 1
    assert "pictures/a.png: PNG" in result.stderr


def test_a_folder_in_a_chat_reports_sent_and_skipped_files(ask: Ask, server: ModelServer) -> None:
    create_files(ask.cwd / "src", "a.py", "b.py")
    (ask.cwd / "src/logo.png").write_bytes(png())
    with Chat(ask) as chat:
        shown = chat.send("/file src")
        assert re.search(r"src/a\.py\b.*\b1 line\b", shown)
        assert "src/logo.png: PNG" in shown
        create_files(ask.cwd / "src", "c.py", "d.py")
        assert re.search(r"\b4 .*\bsrc\b", chat.send("/file src"))
        chat.quit()


@pytest.mark.slow
def test_a_thousand_nested_folders_are_read_and_deeper_ones_skipped(ask: Ask, server: ModelServer) -> None:
    folder = ask.cwd
    for _ in range(1_200):
        folder /= "d"
    run(["bash", "-c", 'mkdir -p "$0" && echo deepest > "$0/a.txt"', str(folder.relative_to(ask.cwd))], cwd=ask.cwd)
    assert ask("-f", "d", "hi", timeout=120).code == 0
    run(["rm", "-rf", "d"], cwd=ask.cwd)  # too deep for what pytest removes folders with
    assert "deepest" in wire.asked(server.requests[-1].json)
