"""The made-up history that benchmarks measure with is one that the program can use."""

from __future__ import annotations

import json

from benchmarks.stores import MESSAGES, fill
from tests.program import Ask, Home


def test_the_store_holds_whole_conversations(ask: Ask, home: Home) -> None:
    fill(home.data / "history.db", 30)
    assert len(ask("history").text.splitlines()) == 30
    shown = json.loads(ask("history", "show", "30", "--json").stdout)
    assert sum(len(run["messages"]) for run in shown["runs"]) == MESSAGES
    assert len(ask("history", "search", "grep", "-n", "0").text.splitlines()) == 30
    assert "tool\tbash\t150\t15\t75\n" in ask("history", "stats").text
