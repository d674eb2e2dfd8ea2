"""On a terminal: the answer, signals, the chat, and how the terminal is left."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.conftest import Model
from tests.acceptance.services import OPENROUTER, Call
from tests.model_server import HOLD, Reply
from tests.program import CTRL_C, Ask

CTRL_D = "\x04"
EDITING = "\x1b[?2004h"
"""Bracketed paste is switched on: the line editor reads the keyboard."""


def test_an_answer_is_shown_while_it_comes(ask: Ask, model: Model) -> None:
    steps = OPENROUTER.reply("First paragraph.\n\nSecond paragraph is on its way").steps
    model.server.reply(Reply([*steps[:-3], HOLD], content_type="text/event-stream"))
    with ask.start_on_terminal("hi") as running:
        running.wait_for("First paragraph.")
        running.type_in(CTRL_C)
        assert running.finish().code == 130


def test_markdown_is_laid_out_and_plain_text_stays(ask: Ask, model: Model) -> None:
    model.say("# Title\n\nSome **bold** text.\n\n- one\n- two\n")
    shown = ask.on_terminal("hi").text
    assert "Title" in shown
    assert "**bold**" not in shown
    model.say("# Title\n\nSome **bold** text.\n")
    assert ask("hi").text == "# Title\n\nSome **bold** text.\n"


def test_escape_sequences_of_a_model_do_not_reach_the_terminal(ask: Ask, model: Model) -> None:
    model.say("before \x1b]0;owned\x07 \x1b[2J after")
    shown = ask.on_terminal("hi").stdout
    assert b"\x1b]0;owned" not in shown
    assert b"\x1b[2J" not in shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_with_its_exit_code(ask: Ask, model: Model, number: int, code: int) -> None:
    model.server.reply(Reply((b"", HOLD)))
    with ask.start("hi") as running:
        model.server.wait_for_requests(1)
        running.signal(number)
        result = running.finish()
    assert result.code == code
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_a_running_command_too(ask: Ask, model: Model) -> None:
    model.say("", Call("bash", {"command": "echo started; sleep 60"}))
    with ask.start_on_terminal("go") as running:
        running.wait_for("sleep 60")
        running.type_in(CTRL_C)
        assert running.finish().code == 130


def test_a_chat_carries_the_conversation_and_ends_with_ctrl_d(ask: Ask, model: Model) -> None:
    model.say("Hello Ada.")
    model.say("You are Ada.")
    with ask.start_on_terminal("chat") as running:
        place = running.wait_for(EDITING)
        running.type_in("I am Ada\r")
        place = running.wait_for("Hello Ada.", after=place)
        place = running.wait_for(EDITING, after=place)
        running.type_in("who am I?\r")
        place = running.wait_for("You are Ada.", after=place)
        running.wait_for(EDITING, after=place)
        running.type_in(CTRL_D)
        assert running.finish().code == 0
    assert model.last().user == ["I am Ada", "who am I?"]


def test_cmd_runs_the_command_after_yes_and_its_exit_code_is_the_programs(ask: Ask, model: Model) -> None:
    model.say("exit 7")
    assert ask.on_terminal("--cmd", "fail", answers=[("r(un)", "r\n")]).code == 7
    model.say("touch made")
    assert ask.on_terminal("--cmd", "make", answers=[("r(un)", "\n")]).code == 130
    assert list(ask.cwd.iterdir()) == []
