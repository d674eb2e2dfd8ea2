"""The generated history that benchmarks use can be read by the program."""

from __future__ import annotations

import json

from benchmarks.history_generator import MESSAGES, fill_history
from tests.program import Ask, Home


def test_generated_conversations_are_complete(ask: Ask, home: Home) -> None:
    fill_history(home.data / "history.db", 30)
    assert len(ask("history").text.splitlines()) == 30
    shown = json.loads(ask("history", "show", "30", "--json").stdout)
    assert sum(len(run["messages"]) for run in shown["runs"]) == MESSAGES
    assert len(ask("history", "search", "grep", "-n", "0").text.splitlines()) == 30
    assert "tool\tbash\t150\t15\t75\n" in ask("history", "stats").text
