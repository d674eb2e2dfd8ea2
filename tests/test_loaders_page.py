"""docs/loaders.md, followed literally: its files are written, its package installed, its loaders and command called."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from ask.inputs.loaders import BUILTIN_LOADERS
from tests import wire
from tests.doc_pages import find_code_blocks, find_code_spans, read_table
from tests.model_server import ModelServer
from tests.program import Ask, Home, run
from tests.test_docs import PYTEST

PAGE = (Path(__file__).parents[1] / "docs" / "loaders.md").read_text()
LOADERS, COMMAND, TESTS = find_code_blocks(PAGE, "python")
(PROJECT,) = (tomllib.loads(text)["project"] for text in find_code_blocks(PAGE, "toml"))
GROUPS = PROJECT["entry-points"]


@pytest.fixture
def ask(ask: Ask, home: Home, server: ModelServer) -> Ask:
    server.reply(wire.says("yes"))
    folder = home.path / "packages"
    info = folder / "ask_issues-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in GROUPS.items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for name, source in {"ask_issues": LOADERS, "ask_issue_command": COMMAND, "test_issues": TESTS}.items():
        (folder / f"{name}.py").write_text(source)
    return replace(ask, env={**ask.env, "PYTHONPATH": str(folder)}, installed=True)


@pytest.mark.slow
def test_the_documented_loaders_and_command_work(ask: Ask, server: ModelServer) -> None:
    assert ask("-f", "issue:1", "why?").code == 0
    assert "The door is stuck." in wire.asked(server.requests[-1].json)
    assert ask("-t", "explanation:patient", "tea").code == 0
    assert wire.asked(server.requests[-1].json) == "Explain tea to a child."
    assert ask("-f", "issue:9", "why?").stderr == "ask: there is no issue '9': issues are numbers\n"
    assert ask("issues").text == "1 door\n2 lamp\n"
    shown = ask("doctor", "--offline").text
    assert all(f"{PROJECT['name']}\tloader: {prefix}:" in shown for prefix in GROUPS["ask.loaders"])
    assert f"{PROJECT['name']}\tcommand: ask issues" in shown


@pytest.mark.slow
def test_the_documented_tests_pass(ask: Ask, home: Home) -> None:
    folder = home.path / "packages"
    tested = run([*PYTEST, "test_issues.py"], env=ask.env, cwd=folder, timeout=120)
    assert tested.code == 0, tested.text


def test_every_built_in_loader_is_documented() -> None:
    documented = {span.partition(":")[0] for row in read_table(PAGE, "source") for span in find_code_spans(row)}
    assert documented | {"gh"} == set(BUILTIN_LOADERS)
    assert "`gh:` is short for `github:`" in PAGE
