"""What is said of safe mode when it is first used, and where PYTHONPATH keeps it from being had."""

from __future__ import annotations

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import Ask, Home


def test_the_first_run_of_each_kind_says_what_holds_in_it(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("Done.")] * 4)
    shown = [ask.on_terminal(*flags, "go").text for flags in (["--safe"], ["--safe"], [], [])]
    assert ["(This is said once.)" in text for text in shown] == [True, False, True, False]
    assert ["as you could" in text for text in shown] == [False, False, True, False]
    assert "--safe lets them change files in this folder and each --allow-dir alone" in shown[0]


@pytest.mark.parametrize(("names", "which"), [("src", "/src"), (".", ""), (":", ""), ("/nowhere:src", "/src")])
def test_where_pythonpath_leads_into_the_folder_it_is_named(ask: Ask, home: Home, names: str, which: str) -> None:
    (home.work / "src").mkdir()
    result = ask("--safe", "go", env={"PYTHONPATH": names})
    where = f"{home.work}{which}, which PYTHONPATH names: unset PYTHONPATH"
    assert (result.code, result.stderr) == (
        8,
        f"ask: --safe cannot work in {home.work}: Python takes ask's modules from {where}\n",
    )


def test_a_pythonpath_that_leads_elsewhere_is_no_obstacle(ask: Ask, home: Home, server: ModelServer) -> None:
    server.reply(wire.says("Done."))
    result = ask("--safe", "go", env={"PYTHONPATH": str(home.path / "config")})
    assert (result.code, result.text) == (0, "Done.\n")
