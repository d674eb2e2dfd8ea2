"""Conversations: continued, listed, exported, and never lost."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import OPENROUTER, Call
from tests.model_server import HOLD, Reply
from tests.program import CTRL_C, Ask, Home

KILL = 9


def test_the_newest_conversation_is_continued(ask: Ask, model: Model) -> None:
    model.say("Hello Ada.")
    model.say("Ada.")
    ask("I am Ada", env={"ASK_SESSION": "test"})
    assert ask("-c", "who am I?", env={"ASK_SESSION": "test"}).text == "Ada.\n"
    assert model.last().user == ["I am Ada", "who am I?"]
    assert model.last().assistant == ["Hello Ada."]


def test_no_save_saves_nothing(ask: Ask, model: Model) -> None:
    model.say("ok")
    assert ask("--no-save", "forget this").code == 0
    assert json.loads(ask("history", "list", "--json").stdout) == []


def test_history_lists_shows_searches_and_deletes(ask: Ask, model: Model) -> None:
    model.say("Blue because of Rayleigh.")
    conversation = ask("why is the sky blue?").conversation
    [listed] = json.loads(ask("history", "list", "--json").stdout)
    assert listed["id"] == conversation
    shown = ask("history", "show", conversation)
    assert "why is the sky blue?" in shown.text
    assert "Blue because of Rayleigh." in shown.text
    found = json.loads(ask("history", "search", "rayleigh", "--json").stdout)
    assert conversation in json.dumps(found)
    assert ask("history", "delete", "-y", conversation).code == 0
    assert json.loads(ask("history", "list", "--json").stdout) == []


def test_an_export_can_be_imported(ask: Ask, model: Model) -> None:
    (ask.cwd / "a.txt").write_text("contents of a")
    model.say("", Call("read_file", {"filepath": "a.txt"}))
    model.say("Read.")
    conversation = ask("read it").conversation
    exported = ask("history", "export", "--format", "json", conversation).stdout
    assert ask("history", "delete", "-y", conversation).code == 0
    assert ask("history", "import", stdin=exported).code == 0
    assert ask("history", "export", "--format", "json", conversation).stdout == exported
    model.say("Yes.")
    assert ask("--resume", conversation, "again?").code == 0
    assert "contents of a" in model.last().results[0]


def test_a_failed_run_keeps_the_question(ask: Ask, model: Model) -> None:
    model.server.reply(Reply((b'{"error": {"message": "no"}}',), status=400))
    conversation = ask("an important question").conversation or "1"
    shown = ask("history", "show", conversation)
    assert "an important question" in shown.text


def test_ctrl_c_keeps_what_was_said(ask: Ask, model: Model) -> None:
    steps = OPENROUTER.reply("So far so good").steps
    model.server.reply(Reply([*steps[:2], HOLD], content_type="text/event-stream"))
    with ask.start_on_terminal("tell me") as running:
        running.wait_for("So far")
        running.type_in(CTRL_C)
        assert running.finish().code == 130
    assert "So far" in ask("history", "show", "1").text


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
def test_a_kill_at_any_moment_loses_nothing_that_was_shown(ask: Ask, model: Model, home: Home, seed: int) -> None:
    for number in range(4):
        model.say(f"Round {number}.", Call("bash", {"command": f"echo {number}"}))
    model.say("The end.")
    with ask.start("go") as running:
        model.server.wait_for_requests(1)
        time.sleep(random.Random(seed).uniform(0, 0.4))
        running.signal(KILL)
        shown = running.finish().text
    shown_whole = [line for line in shown.splitlines() if line.startswith(("Round", "The end")) and line.endswith(".")]
    with sqlite3.connect(home.data / "history.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    saved = ask("history", "show", "1").text
    assert "go" in saved
    for line in shown_whole[:-1]:
        assert line in saved
    model.say("We go on.")
    result = ask("--resume", "1", "what now?")
    assert result.code == 0
    sent = model.last()
    assert len(sent.calls) == len(sent.results)


@pytest.mark.slow
def test_parallel_runs_are_all_saved(ask: Ask, model: Model) -> None:
    model.say("ok")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda number: ask(f"question {number}", timeout=120), range(12)))
    assert {result.code for result in results} == {0}
    listed = json.loads(ask("history", "list", "--json").stdout)
    assert {one["id"] for one in listed} == {result.conversation for result in results}
    assert len(listed) == 12


@pytest.mark.slow
def test_a_conversation_too_long_for_the_model_loses_its_oldest_part(ask: Ask, model: Model, home: Home) -> None:
    home.configure("context_limit = 12000\n")
    model.say("short answer")
    conversation = ask("question 0 " + "word " * 3000).conversation
    for number in range(1, 4):
        assert ask("--resume", conversation, f"question {number} " + "word " * 3000).code == 0
    sent = model.last()
    assert sent.system
    assert sent.user[-1].startswith("question 3 ")
    assert not any(text.startswith("question 0 ") for text in sent.user)
    assert "question 0 " in ask("history", "show", conversation).text
