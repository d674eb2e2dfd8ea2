"""`ask safe` tries what safe mode rests on, and says what holds; it leaves nothing behind."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from tests.escapes.confined import environment, machine
from tests.escapes.test_failing_closed import ANOTHER, HIDDEN, on_machine
from tests.model_server import ModelServer
from tests.program import Ask, Home, run
from tests.safety.installation import as_user, installation

WAYS = (
    "reading ask's configuration and data",
    "changing what is protected",
    "changing the kernel's settings",
    "connecting to a server",
    "sockets that lead past the network",
    "privileges",
    "seeing processes outside",
    "writing outside",
    "reaching a server",
)
"""What the self-test tries, by the names that users see."""


def test_it_names_all_that_was_tried_and_what_is_open(home: Home) -> None:
    result = Ask(home.env, home.work)("safe")
    assert (result.code, result.stderr) == (0, "")
    rows = {row[1]: row for row in (line.split("\t") for line in result.text.splitlines())}
    assert {row[0] for row in rows.values()} == {"ok"}
    assert set(WAYS) <= set(rows)
    assert rows["bubblewrap"][2].split()[1] >= "0.8.0"
    assert rows["can be written"][2] == str(home.work)
    assert "rm -rf" in rows["refused before it starts"][2]
    assert rows["on for every run"][2] == "no, with --safe alone"


def test_it_leaves_nothing_but_the_folders_of_its_notes(home: Home) -> None:
    Ask(home.env, home.work)("safe")
    assert list(home.work.iterdir()) == []
    assert [path.name for path in home.path.rglob("*") if path.is_file() and path.parent.name == "safe"] == ["lock"]


def test_as_json_it_has_the_same(home: Home) -> None:
    rows = json.loads(Ask(home.env, home.work)("safe", "--json").text)
    assert {tuple(row) for row in rows} == {("state", "check", "found", "fix")}
    assert set(WAYS) <= {row["check"] for row in rows}


def test_it_says_what_is_configured(home: Home) -> None:
    home.config.mkdir()
    (home.path / "more").mkdir()
    (home.config / "config.toml").write_text(
        f'[safe]\nenabled = true\nallow_dirs = ["{home.path}/more"]\n'
        'allow_hosts = ["A.test"]\ntripwires = ["dd", "x+"]\n'
    )
    text = Ask(home.env, home.work)("safe").text
    assert f"can be written\t{home.path}/more, {home.work}\t" in text
    assert "can be fetched from\ta.test; other hosts after asking\t" in text
    assert "refused before it starts\tdd, x+\t" in text
    assert "on for every run\tyes\t" in text


def test_where_it_cannot_be_had_it_says_why_and_what_to_do(home: Home) -> None:
    ask = replace(Ask(home.env, home.work), cwd=home.path / "home")
    result = ask("safe")
    assert result.code == 8
    assert "problem\tsandbox\t--safe protects nothing in" in result.text
    assert "\tstart in the folder of the work itself\n" in result.text
    [line] = result.stderr.splitlines()
    assert line.startswith("ask: safe mode cannot be had in ")


@pytest.mark.slow
def test_a_machine_without_bubblewrap_or_with_one_that_does_not_hold_is_found_out() -> None:
    user = "root" if os.geteuid() == 0 else "ordinary"
    with machine(user) as here, ModelServer() as server:
        told = {}
        for change in (HIDDEN, ANOTHER):
            command = [*as_user(user), *on_machine(here, change), installation(user).ask, "safe"]
            result = run(command, env=environment(here, server), cwd=here.work)
            assert result.code == 8
            told[change] = result.text
    assert "which is not installed\tinstall bubblewrap" in told[HIDDEN]
    assert "the sandbox does not hold here" in told[ANOTHER]
