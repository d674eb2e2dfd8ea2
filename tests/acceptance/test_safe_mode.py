"""Safe mode: what stays out of reach, and what works."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import Call
from tests.program import TEST_KEY, Ask, Home

pytestmark = pytest.mark.needs("bwrap")


def results_of(ask: Ask, model: Model, commands: Sequence[str], *options: str) -> list[str]:
    """Run the commands in one safe run; their results."""
    model.say("", *(Call("bash", {"command": command}, f"call_{place}") for place, command in enumerate(commands)))
    model.say("Done.")
    result = ask("--safe", *options, "go", timeout=120)
    assert (result.code, result.text) == (0, "Done.\n")
    return model.last().results


def test_the_folder_can_be_read_and_written(ask: Ask, model: Model, home: Home) -> None:
    (home.work / "in.txt").write_text("hello")
    [result] = results_of(ask, model, ["cat in.txt; echo made > out.txt"])
    assert "hello" in result
    assert (home.work / "out.txt").read_text() == "made\n"


def test_nothing_else_can_be_written_or_read(ask: Ask, model: Model, home: Home) -> None:
    secret = home.path / "home" / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_text("PRIVATE")
    outside = home.path / "outside"
    outside.mkdir()
    (outside / "file").write_text("OUTSIDE")
    commands = [
        f"cat {secret} ~/.ssh/id",
        f"cat {outside}/file; echo x > {outside}/file; echo x > {outside}/new",
        f"ln -s {outside} link; echo x > link/new; cat link/file",
        f"cat {home.config}/* {home.data}/*",
    ]
    found = "".join(results_of(ask, model, commands))
    assert "PRIVATE" not in found
    assert "OUTSIDE" not in found
    assert (outside / "file").read_text() == "OUTSIDE"
    assert not (outside / "new").exists()


def test_the_network_and_the_environment_are_out_of_reach(ask: Ask, model: Model) -> None:
    port = model.server.base_url.rpartition(":")[2].partition("/")[0]
    before = len(model.server.requests)
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED"
    found = "".join(results_of(ask, model, [connect, "env", "cat /proc/*/environ"]))
    assert "CONNECTED" not in found
    assert TEST_KEY not in found
    assert len(model.server.requests) == before + 2


def test_dotenv_files_are_hidden_and_repositories_protected(ask: Ask, model: Model, home: Home) -> None:
    (home.work / ".env").write_text("SECRET=hidden-value")
    os.makedirs(home.work / ".git" / "hooks")
    found = results_of(ask, model, ["cat .env", "echo evil > .git/hooks/pre-commit"])
    assert "hidden-value" not in "".join(found)
    assert not (home.work / ".git" / "hooks" / "pre-commit").exists()
    assert (home.work / ".env").read_text() == "SECRET=hidden-value"


def test_a_further_folder_can_be_allowed(ask: Ask, model: Model, home: Home) -> None:
    other = home.path / "other"
    other.mkdir()
    results_of(ask, model, [f"echo made > {other}/file"], "--allow-dir", str(other))
    assert (other / "file").read_text() == "made\n"


def test_nothing_is_left_behind(ask: Ask, model: Model, home: Home) -> None:
    results_of(ask, model, ["true"])
    assert list(home.work.iterdir()) == []


def test_without_bubblewrap_it_does_not_start(ask: Ask, model: Model, home: Home) -> None:
    """A home directory cannot be confined, wherever the test runs."""
    inside = Ask(ask.env, home.path / "home", installed=True)
    result = inside("--safe", "go")
    assert (result.code, result.stdout, model.bodies) == (8, b"", [])


@pytest.mark.parametrize("value", ["1"])
def test_the_environment_can_turn_it_on(ask: Ask, model: Model, home: Home, value: str) -> None:
    model.say("", Call("bash", {"command": f"echo x > {home.path}/outside"}))
    model.say("Done.")
    assert ask("go", env={"ASK_SAFE": value}).code == 0
    assert not (home.path / "outside").exists()
