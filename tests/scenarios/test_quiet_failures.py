"""With -q, what a run could not do is still printed, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests import wire
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask


@pytest.mark.parametrize(
    ("options", "call", "words"),
    [
        (("-q",), ("bash", {"command": "echo out; exit 3"}), ["exit 3", "failed", "exit code: 3"]),
        (("-q", "--command-timeout", "0.2"), ("bash", {"command": "sleep 60"}), ["sleep 60", "timed out after 0.2 s"]),
        (("-q",), ("write_file", {"filepath": "/proc/x", "content": ""}), ["/proc/x", "failed"]),
        (("-q",), ("edit_file", {"filepath": "a", "old_text": "x", "new_text": "y"}), ["edit a ", "failed"]),
        (("-q",), ("bash", {"cmd": "ls"}), ["bash", "refused"]),
        (("-q",), ("bash", {"command": "rm -rf /"}), ["rm -rf /", "refused"]),
        (("-q", "--confirm"), ("bash", {"command": "ls"}), ["ls", "refused"]),
    ],
)
def test_a_command_or_write_that_fails_is_named(
    ask: Ask, server: ModelServer, options: tuple[str, ...], call: wire.Call, words: list[str]
) -> None:
    server.reply(wire.calls(call), wire.says("Done."))
    first, *rest = ask(*options, "do it").stderr.splitlines()
    assert first.startswith("ask: ")
    assert all(word in first for word in words)
    assert len(rest) == ("refused" in words and "bash" not in words)  # the final error


@pytest.mark.parametrize(
    "call",
    [
        ("bash", {"command": "echo fine"}),
        ("read_file", {"filepath": "missing"}),
        ("unknown", {}),
    ],
)
def test_nothing_else_is_printed(ask: Ask, server: ModelServer, call: wire.Call) -> None:
    server.reply(wire.calls(call), wire.says("Done."))
    assert ask("-q", "do it").stderr == ""


def test_it_is_named_on_a_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "exit 3"}), content="Let me see"), wire.says("Done."))
    shown = ask.on_terminal("-q", "do it").text
    assert shown.count("exit code: 3") == 1
    assert shown.index("Let me see\n") < shown.index("exit code: 3") < shown.index("Done.")


def test_it_is_printed_once_without_quiet(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "exit 3"})), wire.says("Done."))
    assert ask("do it").stderr.count("· exit 3, ") == 1


def test_the_text_of_a_model_cannot_control_the_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "printf '\x1b]0;title\a'; exit 3"})), wire.says("Done."))
    assert "\x1b" not in ask("-q", "do it").stderr


@pytest.mark.slow
def test_an_interrupted_run_names_the_running_command_only(ask: Ask, server: ModelServer) -> None:
    calls = [("bash", {"command": f"echo {number} > ran; sleep 60"}) for number in range(2)]
    server.reply(wire.calls(*calls))
    with ask.start_on_terminal("-q", "do it") as running:
        while not (ask.cwd / "ran").exists():
            assert running.process.poll() is None
        running.type_in(CTRL_C)
        shown = running.finish().text
    assert "echo 0" in shown
    assert "echo 1" not in shown


def test_json_is_unchanged(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "exit 3"})), wire.says("Done."))
    result = ask("-q", "--json", "do it")
    [call] = json.loads(result.stdout)["tool_calls"]
    assert (call["failed"], call["exit_status"], result.stderr) == (True, 3, "")
    assert "has_side_effects" not in call
