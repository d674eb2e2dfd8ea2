"""`--cmd`: prints one shell command in a pipe; on a terminal runs, edits or explains it."""

from __future__ import annotations

import json
import os

import pytest

from providers.demo import find_command
from tests import wire
from tests.model_server import DROP, ModelServer
from tests.program import CTRL_C, Ask, Running
from tests.slow_parameters import mark_others_slow

CHOICES = "C(ancel): "
SHELL = {"SHELL": "/bin/bash"}
MODEL = {"ASK_PROVIDER": "openrouter", "ASK_MODEL": wire.MODEL}


@pytest.fixture
def ask(ask: Ask) -> Ask:
    return Ask({**ask.env, **SHELL, **MODEL}, ask.cwd)


def test_only_the_command_is_printed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("Run this:\n\n```sh\n$ ls -la\n```\n\nIt lists all."))
    result = ask("--cmd", "list", "all")
    assert (result.text, result.stderr, result.code) == ("ls -la\n", "", 0)


def test_the_system_prompt_names_the_shell_and_no_tools_are_sent(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("ls"))
    for environment, shell in ((SHELL, "bash"), ({"SHELL": "/usr/bin/fish"}, "fish"), ({"SHELL": ""}, "sh")):
        ask("-s", "Use long options.", "--cmd", "list", env=environment)
        body = server.requests[-1].json
        system = body["messages"][0]["content"]
        assert f"\n\nThe user wants one shell command, for {shell} on " in system
        assert os.uname().sysname in system
        assert system.endswith("\n\nUse long options.")
        assert "tools" not in body


def test_an_answer_without_a_command_is_an_error_that_quotes_it(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("# Which disk is meant?"))
    result = ask("--cmd", "format", "it")
    assert (result.stdout, result.code) == (b"", 10)
    assert result.stderr.count("\n") == 1
    assert "Which disk is meant?" in result.stderr
    result = json.loads(ask("--json", "--cmd", "format", "it").text)
    assert (result["text"], result["exit_code"]) == ("", 10)
    assert "Which disk" in result["error"]


def test_truncated_commands_are_not_printed(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("rm -rf /tmp/x"), DROP))
    result = ask("--cmd", "remove", "/tmp/x/y")
    assert (result.stdout, result.code) == (b"", 10)


@pytest.mark.slow
def test_commands_longer_than_the_screen_are_shown_with_their_length(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("```sh\n" + "\n".join(f"echo {number}" for number in range(40)) + "\n```"))
    text = ask.on_terminal("--cmd", "count", answers=[(CHOICES, "\n")]).text
    assert text.index("[40 lines") < text.index("echo 0") < text.index("All 40 lines")
    server.reply(wire.says("echo 1"))
    assert "lines" not in ask.on_terminal("--cmd", "count", answers=[(CHOICES, "\n")]).text


@pytest.mark.slow
def test_cmd_works_with_pipes_json_and_conversations(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("git commit -m 'Add a page'"), wire.says("```\ngit commit -m 'Add it'\n```"))
    assert ask.shell('echo +page | ask --cmd "commit this" -q').text == "git commit -m 'Add a page'\n"
    assert "<stdin>\n+page\n</stdin>" in server.requests[0].json["messages"][1]["content"]
    assert json.loads(ask("--json", "-c", "--cmd", "shorter").text)["text"] == "git commit -m 'Add it'"
    assert [message["role"] for message in server.requests[1].json["messages"]] == [
        *("system", "user", "assistant", "user")
    ]


def test_the_demo_provider_answers_with_a_command(ask: Ask) -> None:
    assert ask("-p", "demo", "--cmd", "find files over 1 GB").text == "find . -type f -size +1G\n"
    assert ask("-p", "demo", "--cmd", "what is love").code == 10


@pytest.mark.parametrize(
    ("wish", "command"),
    [
        ("find all files larger than 20 MB in src, please", "find src -type f -size +20M"),
        ("run date, then run uname -a", "date && uname -a"),
    ],
)
def test_demo_translates_a_request_into_a_command(wish: str, command: str) -> None:
    assert find_command(wish) == command


# On a terminal


def test_the_users_shell_runs_the_command_and_its_exit_status_is_returned(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("echo $0 $((6 * 7)) $BASH; exit 7"))
    result = ask.on_terminal("--cmd", "count", answers=[(CHOICES, "r\n")])
    assert "/bin/bash 42 /bin/bash" in result.text
    assert result.code == 7


@pytest.mark.slow
def test_the_command_has_the_terminal_and_default_signals(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("test -t 0 && test -t 1 && yes | head -n 1; read -r line; echo got $line ${PIPESTATUS[0]}"))
    script = "echo data | ask --cmd talk"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        running.wait_for(CHOICES)
        running.type_in("r\n")
        place = running.wait_for("\r\ny\r\n")
        running.type_in("marzipan\n")
        running.wait_for("got marzipan 0", after=place)
        result = running.finish()
    assert result.code == 0
    assert "Broken pipe" not in result.text


@pytest.mark.parametrize(
    "answer",
    [
        *("\n", "what?\nhm\nnever\n", CTRL_C),
        *(pytest.param(answer, marks=pytest.mark.slow) for answer in ("c\n", "n\n", "\x04")),
    ],
)
def test_the_command_runs_only_if_the_user_confirms(answer: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("touch ran"))
    with ask.start_on_terminal("--cmd", "make", "it") as running:
        place = 0
        for line in answer.splitlines(keepends=True):
            place = running.wait_for(CHOICES, after=place)
            running.type_in(line)
        result = running.finish()
    assert result.code == 130
    assert "Traceback" not in result.text
    assert not (ask.cwd / "ran").exists()


def test_the_command_can_be_edited_before_it_runs(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("echo one"))
    answers = [(CHOICES, "e\n"), ("Command: echo one", " two\n"), (CHOICES, "r\n")]
    result = ask.on_terminal("--cmd", "say", "it", answers=answers)
    assert result.text.endswith("\none two\n")
    assert result.code == 0


def test_an_empty_edit_keeps_the_command(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("echo one"))
    answers = [(CHOICES, "e\n"), ("Command: echo one", "\x15\n"), (CHOICES, "r\n")]
    assert ask.on_terminal("--cmd", "say", "it", answers=answers).text.endswith("\none\n")


def test_explanations_continue_the_same_conversation(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("echo one"), wire.says("It says one."))
    result = ask.on_terminal("--cmd", "say", "it", answers=[(CHOICES, "x\n"), ("It says one.", ""), (CHOICES, "c\n")])
    assert result.code == 130
    first, second = (request.json["messages"] for request in server.requests)
    assert second[1:2] == first[1:]
    assert "```sh\necho one\n```" in second[-1]["content"]
    assert "The user wants one shell command" not in second[0]["content"]
    assert len(ask("history", "list").text.splitlines()) == 1


def test_a_failed_explanation_is_reported_and_the_menu_is_shown_again(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("echo one"), wire.fails(400, "no more of that"))
    result = ask.on_terminal(
        "--cmd", "say", "it", answers=[(CHOICES, "?\n"), ("no more of that", ""), (CHOICES, "r\n")]
    )
    assert result.text.endswith("\none\n")
    assert result.code == 0


def test_the_command_is_shown_with_invisible_characters_escaped(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("rm \u200b\u0430.txt" + " " * 200 + "; touch ran"))
    result = ask.on_terminal("--cmd", "remove", answers=[(CHOICES, "\n")])
    assert "rm \\u200b\\u0430.txt[200 spaces]; touch ran" in result.text
    assert "shown as escapes" in result.text


def test_input_typed_before_the_menu_is_ignored(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(0.3, wire.text("touch ran"), wire.finish()))
    with ask.start_on_terminal("--cmd", "make", "it") as running:
        server.wait_for_requests(1)
        running.type_in("r\n")
        running.wait_for(CHOICES)
        running.type_in("\n")
        assert running.finish().code == 130
    assert not (ask.cwd / "ran").exists()


def test_a_missing_shell_is_one_line_and_exits_with_3(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("ls"))
    result = ask.on_terminal("--cmd", "list", answers=[(CHOICES, "r\n")], env={"SHELL": "/no/such/shell"})
    assert result.code == 3
    assert "/no/such/shell (No such file or directory)" in result.text
    assert "SHELL" in result.text.partition("/no/such/shell (")[2]


@pytest.mark.parametrize("flags", mark_others_slow(["--json", "--events"], ["--json"]))
def test_json_and_events_do_not_prompt(flags: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("ls"))
    result = ask.on_terminal(flags, "--cmd", "list")
    assert result.code == 0
    assert CHOICES not in result.text


@pytest.mark.parametrize(
    "script",
    mark_others_slow(["setsid -w ask --cmd list", "set -m; ask --cmd list & wait"], ["setsid -w ask --cmd list"]),
)
def test_the_command_is_printed_without_a_controlling_terminal(script: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("ls -l"))
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        result = running.finish()
    assert result.text.startswith("ls -l\n")
    assert CHOICES not in result.text
