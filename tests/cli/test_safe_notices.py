"""Safe mode is explained at first use, and refused if PYTHONPATH points into the folder."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_first_safe_and_first_unrestricted_run_explain_safe_mode(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("Done.")] * 4)
    shown = [ask.on_terminal(*flags, "go").text for flags in (["--safe"], ["--safe"], [], [])]
    assert ["--confirm" in text for text in shown] == [True, False, True, False]
    assert ["--allow-dir" in text for text in shown] == [True, False, False, False]


@pytest.mark.slow_after_first
@pytest.mark.parametrize(("names", "which"), [(":", ""), ("/nowhere:src", "/src")])
def test_pythonpath_inside_the_folder_is_an_error(ask: Ask, home: Home, names: str, which: str) -> None:
    (home.work / "src").mkdir()
    result = ask("--safe", "go", env={"PYTHONPATH": names})
    [line] = result.stderr.splitlines()
    assert result.code == 8
    assert f"{home.work}{which}:" in line
    assert "unset PYTHONPATH" in line


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_pythonpath_outside_the_folder_is_accepted(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("Done."))
    result = ask("--safe", "go", env={"PYTHONPATH": str(home.path / "config")})
    assert (result.code, result.text) == (0, "Done.\n")


@pytest.mark.slow
@pytest.mark.needs("bwrap")
def test_a_notice_that_is_shown_once_is_not_used_up_by_quiet(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("Done.")] * 3)
    assert ask.shell("git init -q && git config alias.go '!python3 -m go'").code == 0
    shown = ["alias.go" in ask("--safe", *flags, "go").stderr for flags in (["-q"], [], [])]
    assert shown == [False, True, False]
