"""Cached tool lists are valid as long as the server is unchanged, and ignored if they are broken."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ask.config.mcp_servers import ServerConfig
from ask.mcp.tool_list_cache import FORMAT_VERSION, MAX_AGE_SECONDS, ToolListCache, compute_fingerprint
from ask.mcp.tool_listing import ServerTools, ToolListing, select_tools
from tests.mcp.values import json_values

CONFIG = Path("config.toml")
ONE = ServerConfig("one", CONFIG, command="x")
LISTED = [
    ToolListing("a", "Does a.", {"type": "object", "properties": {}}, reads_only=True),
    ToolListing("ä/b", "", {}),
]
MARK = "m"


@pytest.fixture
def kept(tmp_path: Path) -> ToolListCache:
    return ToolListCache(tmp_path / "mcp")


def test_a_saved_list_is_read_back_unchanged(kept: ToolListCache, tmp_path: Path) -> None:
    offer = select_tools(ONE._replace(tools=("a", "ä/b", "absent")), LISTED)
    kept.write(offer._replace(version="one 1.0"), MARK)
    assert kept.read(offer.server, MARK) == offer
    assert offer.notes
    file = tmp_path / "mcp" / "one.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert json.loads(file.read_text())["version"] == "one 1.0"
    assert [path.name for path in file.parent.iterdir()] == ["one.json"]


def test_an_empty_list_is_saved_too(kept: ToolListCache) -> None:
    kept.write(ServerTools(ONE), MARK)
    assert kept.read(ONE, MARK) == ServerTools(ONE, [], [])


def test_an_outdated_or_damaged_list_is_ignored(kept: ToolListCache, tmp_path: Path) -> None:
    kept.write(ServerTools(ONE), MARK)
    file = tmp_path / "mcp" / "one.json"
    table = json.loads(file.read_text())
    assert kept.read(ONE, "another") is None
    assert kept.read(ONE._replace(name="two"), MARK) is None
    for change in (
        {"time": time.time() - MAX_AGE_SECONDS - 1},
        {"time": time.time() + 1_000},
        {"format": FORMAT_VERSION + 1},
        {"time": 10**400},
        {"tools": [{"name": 5, "description": "A tool.", "schema": {}}]},
    ):
        file.write_text(json.dumps({**table, **change}))
        assert kept.read(ONE, MARK) is None
    file.write_text(json.dumps({**table, "time": time.time() - MAX_AGE_SECONDS + 1_000}))
    assert kept.read(ONE, MARK)


def test_a_list_expires_when_its_server_says_so(kept: ToolListCache, tmp_path: Path) -> None:
    file = tmp_path / "mcp" / "one.json"
    for lifetime, age, is_fresh in (
        (60, 50, True),
        (60, 70, False),
        (10 * MAX_AGE_SECONDS, MAX_AGE_SECONDS + 1, False),
    ):
        kept.write(ServerTools(ONE, lifetime=lifetime), MARK)
        file.write_text(json.dumps({**json.loads(file.read_text()), "time": time.time() - age}))
        assert (kept.read(ONE, MARK) is not None) == is_fresh


def test_a_deleted_list_is_gone(kept: ToolListCache) -> None:
    kept.delete("one")
    kept.write(ServerTools(ONE), MARK)
    kept.delete("one")
    assert kept.read(ONE, MARK) is None


def test_an_unwritable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    kept = ToolListCache(tmp_path / "file")
    kept.write(ServerTools(ONE), MARK)
    assert kept.read(ONE, MARK) is None
    kept.delete("one")
    folder = ToolListCache(tmp_path)
    (tmp_path / "one.json" / "x").mkdir(parents=True)
    folder.write(ServerTools(ONE), MARK)
    folder.delete("one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "one.json"]


@given(st.binary(max_size=100) | json_values().map(lambda value: json.dumps(value).encode()))
def test_any_invalid_file_is_ignored(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("kept")
    (folder / "one.json").write_bytes(data)
    assert ToolListCache(folder).read(ONE, MARK) is None


@given(json_values(), json_values(), json_values())
def test_any_content_with_the_right_fingerprint_is_read_or_ignored(
    tmp_path_factory: pytest.TempPathFactory, tools: Any, notes: Any, written: Any
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    entry = {"name": "a", "description": notes, "schema": tools, "reads_only": True}
    for table in (
        {"tools": tools, "notes": notes, "time": time.time()},
        {"tools": [entry], "notes": [], "time": time.time()},
        {"tools": [], "notes": [], "time": written},
    ):
        (folder / "one.json").write_text(json.dumps({"format": FORMAT_VERSION, "fingerprint": MARK, **table}))
        offer = ToolListCache(folder).read(ONE, MARK)
        assert offer is None or all(isinstance(tool, ToolListing) for tool in offer.tools)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 1, "tools": 5}', "[" * 100_000, '{"format": ' + "9" * 10_000 + "}", '{"time": NaN}']
)
def test_a_file_without_a_list_is_ignored(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(text)
    assert ToolListCache(tmp_path).read(ONE, MARK) is None


# Fingerprints


def marked(folder: Path, environment: Mapping[str, str] | None = None, **parts: Any) -> str:
    server = ONE._replace(**{"command": "python", "args": ("server.py", "--config=own.toml"), **parts})
    return compute_fingerprint(server, environment or {"PATH": f"{folder}/bin", "A": "1"}, folder)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with a program and files that its arguments name."""
    for name in ("bin/python", "other/python", "server.py", "own.toml", "data/in.txt", "below/server.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o700)
    return tmp_path


def test_the_fingerprint_is_stable(files: Path) -> None:
    assert marked(files, args=("data",)) == marked(files, args=("data",))
    before = marked(files, args=("data",))
    (files / "data" / "more").write_text("what is in a folder is no part of the server")
    assert marked(files, args=("data",)) == before
    assert marked(files, env={"X": "$A"}) == marked(files, env={"X": "1"}), "what counts is the value"
    assert marked(files, origin=Path("mcp.json")) == marked(files)


@pytest.mark.parametrize("name", ["bin/python", "server.py", "own.toml"])
def test_a_changed_file_changes_the_fingerprint(name: str, files: Path) -> None:
    before = marked(files)
    os.utime(files / name, (1_000, 1_000))
    older = marked(files)
    (files / name).write_text("longer")
    os.utime(files / name, (1_000, 1_000))
    assert len({before, older, marked(files)}) == 3
    (files / name).unlink()
    assert marked(files) not in (before, older)


def test_another_program_changes_the_fingerprint(files: Path) -> None:
    plain = marked(files)
    first = {"PATH": f"{files}/other:{files}/bin", "A": "1"}
    assert marked(files, first) != plain
    assert marked(files, first) == marked(files, {**first, "MORE": "x"}), "the rest of the environment is too much"
    assert marked(files, env={"PATH": f"{files}/other"}) != marked(files, env={"PATH": f"{files}/bin"})
    (files / "bin/python").rename(files / "bin/python3")
    (files / "bin/python").symlink_to("python3")
    assert marked(files) != plain


@pytest.mark.parametrize(
    "parts",
    [
        {"command": "other"},
        {"args": ("server.py",)},
        {"env": {"X": "1"}},
        {"cwd": "below"},
        {"tools": ("a",)},
        {"command": "", "url": "http://x/", "type": "http"},
    ],
)
def test_other_settings_change_the_fingerprint(parts: dict[str, Any], files: Path) -> None:
    assert marked(files, **parts) != marked(files)


def test_the_fingerprint_depends_on_variables_without_revealing_them(files: Path) -> None:
    def mark(secret: str) -> str:
        return marked(files, {"TOKEN": secret}, command="", args=(), url="http://x", headers={"A": "Bearer $TOKEN"})

    assert mark("one") != mark("two")
    assert mark("one") == mark("one")
    assert len(mark("one")) == 64
    assert not marked(files, {"OTHER": "x"}, env={"A": "$TOKEN"})


def test_the_working_directory_counts_for_relative_paths(files: Path) -> None:
    def mark(where: Path, *args: str, cwd: str = "", command: str = "python") -> str:
        server = ServerConfig("one", CONFIG, command=command, args=args, cwd=cwd)
        return compute_fingerprint(server, {"PATH": f"{files}/bin"}, where)

    below = files / "below"
    assert mark(files, "-m", "it") == mark(below, "-m", "it")
    assert mark(files, "server.py") != mark(below, "server.py")
    assert mark(files, str(files / "server.py")) == mark(below, str(files / "server.py"))
    assert mark(files, cwd="data") != mark(below, cwd="data")
    assert mark(files, "server.py", cwd=str(below)) == mark(below, "server.py", cwd=str(below))
    assert mark(files, "${workspaceFolder}") != mark(below, "${workspaceFolder}")
    assert mark(files, command="./server.py") != mark(below, command="./server.py")


WORDS = st.text(max_size=20).map(lambda word: word.replace("$", ""))


@given(WORDS, st.lists(WORDS, max_size=3), WORDS)
def test_any_arguments_have_a_fingerprint(command: str, args: list[str], cwd: str) -> None:
    server = ServerConfig("one", CONFIG, command=command, args=tuple(args), cwd=cwd)
    assert compute_fingerprint(server, {}, Path("/")) == compute_fingerprint(server, {}, Path("/"))
