"""Notifications: which sequence a terminal gets, also through tmux, and when it is sent."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ask.agent.notifications import describe_end, format_notification
from tests import wire
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Running, run

BELL, OSC9, OSC777, NOTHING = "\a", "\x1b]9;ask: done\a", "\x1b]777;notify;ask;done\a", ""
XTERM = {"TERM": "xterm-256color"}
TERMINALS = [
    ({}, NOTHING),
    ({"TERM": "dumb"}, NOTHING),
    (XTERM, BELL),
    ({"TERM": "linux"}, BELL),
    ({"TERM": "linux", "TERM_PROGRAM": "WezTerm"}, BELL),
    ({"TERM": "alacritty", "TERM_PROGRAM": "iTerm.app"}, BELL),
    (XTERM | {"TERM_PROGRAM": "Apple_Terminal"}, BELL),
    (XTERM | {"TERM_PROGRAM": "vscode"}, BELL),
    (XTERM | {"VTE_VERSION": "7600"}, BELL),
    ({"TERM": "rxvt-unicode"}, BELL),
    (XTERM | {"TERM_PROGRAM": "iTerm.app"}, OSC9),
    (XTERM | {"LC_TERMINAL": "iTerm2"}, OSC9),
    (XTERM | {"TERM_PROGRAM": "WezTerm"}, OSC9),
    ({"TERM": "xterm-ghostty"}, OSC9),
    ({"TERM": "xterm-kitty"}, OSC9),
    ({"TERM": "foot"}, OSC777),
    ({"TERM": "foot-extra", "TERM_PROGRAM": "iTerm.app"}, OSC777),
    ({"TERM": "screen-256color", "STY": "1.pts-0"}, BELL),
    (XTERM | {"STY": "1.pts-0", "TERM_PROGRAM": "iTerm.app"}, BELL),
    *((XTERM | {name: "1"}, NOTHING) for name in ("ASCIINEMA_REC", "VIM_TERMINAL", "NVIM", "INSIDE_EMACS")),
]
QUESTION = "Continue for 1 more round?"


@pytest.mark.parametrize(("environment", "sequence"), TERMINALS)
def test_each_terminal_gets_what_it_is_known_to_support(environment: dict[str, str], sequence: str) -> None:
    assert format_notification("done", "auto", environment) == sequence


@pytest.mark.parametrize("environment", [environment for environment, _ in TERMINALS])
@pytest.mark.parametrize(("method", "sequence"), [("osc9", OSC9), ("osc777", OSC777), ("bell", BELL), ("none", "")])
def test_the_setting_overrides_what_is_known(environment: dict[str, str], method: str, sequence: str) -> None:
    assert format_notification("done", method, environment) == sequence


@pytest.mark.parametrize(
    ("seconds", "code", "text"),
    [
        (31.2, 0, "finished after 31 s"),
        (125, 0, "finished after 2 min 5 s"),
        (60, 5, "failed after 1 min 0 s (exit code 5)"),
    ],
)
def test_the_end_is_described(seconds: float, code: int, text: str) -> None:
    assert describe_end(seconds, code) == text


# In tmux


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that runs a command of tmux with a server of this test."""
    settings = tmp_path / "tmux.conf"
    settings.write_text("set-option -g default-command sh\n")  # the user's shell may take long to start
    command = ["tmux", "-S", str(tmp_path / "socket"), "-f", str(settings)]

    def call(*args: str) -> str:
        return run([*command, *args], env={**os.environ, **XTERM}).text

    call("new-session", "-d", "-x", "80", "-y", "24")
    yield call
    call("kill-server")


def format_in_tmux(tmux: Callable[..., str], tmp_path: Path, method: str = "auto", window: str = ":0") -> str:
    """Send a notification from a window of tmux, and return what was sent."""
    output = tmp_path / "sequence"
    output.unlink(missing_ok=True)
    code = (
        "import os, sys; from ask.agent.notifications import format_notification;"
        "text = format_notification('done', sys.argv[1], os.environ); print(text, end='', flush=True);"
        "open(sys.argv[2] + '.new', 'w').write(text); os.rename(sys.argv[2] + '.new', sys.argv[2])"
    )
    tmux("send-keys", "-t", window, shlex.join([sys.executable, "-c", code, method, str(output)]), "Enter")
    deadline = time.monotonic() + 30
    while not output.exists():
        assert time.monotonic() < deadline, tmux("capture-pane", "-p", "-t", window)
        time.sleep(0.05)
    return output.read_text()


@pytest.mark.slow
@pytest.mark.needs("tmux")
def test_tmux_gets_the_bell_unless_it_passes_sequences_on(tmux: Callable[..., str], tmp_path: Path) -> None:
    assert format_in_tmux(tmux, tmp_path) == BELL
    assert format_in_tmux(tmux, tmp_path, "osc9") == BELL
    tmux("set-option", "-g", "allow-passthrough", "on")
    assert format_in_tmux(tmux, tmp_path) == BELL  # no terminal is attached
    assert format_in_tmux(tmux, tmp_path, "osc9") == "\x1bPtmux;\x1b\x1b]9;ask: done\a\x1b\\"
    assert format_in_tmux(tmux, tmp_path, "none") == NOTHING
    tmux("new-window")
    assert format_in_tmux(tmux, tmp_path, "osc9") == BELL  # its window is not shown


@pytest.mark.needs("tmux")
def test_the_terminal_around_tmux_gets_its_sequence(tmux: Callable[..., str], tmp_path: Path) -> None:
    tmux("set-option", "-g", "allow-passthrough", "on")
    command = ["tmux", "-S", str(tmp_path / "socket"), "attach"]
    with Running(command, env={**os.environ, **XTERM}, terminal=True) as client:
        client.wait_for("\x1b[>q")
        client.type_in("\x1bP>|kitty(0.35.2)\x1b\\")
        deadline = time.monotonic() + 30
        while "kitty" not in tmux("display-message", "-p", "#{client_termtype}"):
            assert time.monotonic() < deadline
        sequence = format_in_tmux(tmux, tmp_path)
        assert sequence == "\x1bPtmux;\x1b\x1b]9;ask: done\a\x1b\\"
        client.wait_for(OSC9)


@pytest.mark.parametrize("environment", [{"TMUX": "/nowhere,1,0"}, {"TMUX": "/nowhere", "PATH": "/nowhere"}])
def test_a_tmux_that_does_not_answer_gets_the_bell(environment: dict[str, str]) -> None:
    assert format_notification("done", "osc9", XTERM | environment) == BELL


# In a run


@pytest.mark.slow
def test_a_long_run_ends_with_a_notification_on_a_terminal_only(ask: Ask, server: ModelServer, tmp_path: Path) -> None:
    """Several runs at once: each takes more than 30 seconds."""
    server.reply(*[wire.streams(31.0, *wire.stream("Done."))] * 8)
    cases = {
        "ask hello": True,
        "ask hello > answer": True,
        "echo data | ask hello": True,
        "ask hello 2> log": False,
        "ask -q hello": False,
        "ask --plain hello": False,
        "ASCIINEMA_REC=1 ask hello": False,
    }
    with ExitStack() as stack:
        runs = [
            stack.enter_context(Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True))
            for script in cases
        ]
        interrupted = stack.enter_context(ask.start_on_terminal("hello"))
        time.sleep(30.5)
        interrupted.type_in(CTRL_C)
        shown = [one.finish(60).stdout.count(b"\a") for one in runs]
        assert b"\a" not in interrupted.finish().stdout
    assert dict(zip(cases, shown, strict=True)) == cases


def test_a_short_run_ends_without(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Done."))
    assert "\a" not in ask.on_terminal("hello").text


@pytest.mark.slow
def test_a_question_that_waits_is_announced_once(ask: Ask, server: ModelServer) -> None:
    call = wire.calls(("bash", {"command": "true"}))
    server.reply(call, call, wire.says("Done."), call, wire.says("Done."))
    options = {"TERM_PROGRAM": "iTerm.app"}
    with ask.start_on_terminal("-q", "--confirm", "go", env=options) as running:
        place = running.wait_for("Run this?")
        running.wait_for("\x1b]9;ask: ", seconds=20, after=place)
        running.type_in("y\n")
        running.wait_for("Run this?", after=place)
        running.type_in("n\n")
        assert running.finish().stdout.count(b"\x1b]9;") == 1
    with ask.start_on_terminal("--max-rounds", "1", "go", env=options) as running:
        place = running.wait_for(QUESTION)
        running.wait_for("\x1b]9;ask: ", seconds=20, after=place)
        running.type_in("n\n")
        running.finish()


@pytest.mark.slow
def test_a_question_that_is_answered_is_not_announced(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "sleep 11"})), wire.says("Done."))
    with ask.start_on_terminal("--confirm", "go", env={"TERM_PROGRAM": "iTerm.app"}) as running:
        running.wait_for("Run this?")
        running.type_in("y\n")
        assert b"\x1b]9;" not in running.finish().stdout
