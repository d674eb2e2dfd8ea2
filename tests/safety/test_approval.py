"""Approval prompts on a real terminal: the answers, the output, and the restored terminal state."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests import wire
from tests.model_server import ModelServer
from tests.program import CTRL_C, Ask, Running, run, run_on_terminal
from tests.safety.test_description import TEXTS

ROOT = Path(__file__).parents[2]
PROMPT = "Run this? "
CTRL_D, CTRL_U, CTRL_A = "\x04", "\x15", "\x01"

# Tells what came of a question, and whether the terminal is as it was.
ASKER = """
import json, os, sys, termios
from pathlib import Path
from ask.errors import NetworkError
from ask.safety.approval import PendingToolCall, prompt_for_approval, confirm
from ask.tools.base import ToolContext

given = json.loads(sys.argv[1])
context = ToolContext(Path(given.get("folder", "/here")), {}, 30, Path("/spill"), print)

def explain(proposal):
    if given["explain"] == "fail":
        raise NetworkError("nobody\\x1b[2J answers")
    return given["explain"] + proposal.arguments["command"]

if given.get("raw"):
    import tty
    tty.setraw(1)
end = "\\r\\n" if given.get("raw") else "\\n"
before = termios.tcgetattr(1) if os.isatty(1) else None
try:
    for proposal in given["proposals"]:
        call = PendingToolCall(*proposal, context, danger=given.get("danger", ""))
        reply = prompt_for_approval(call, explain=explain if "explain" in given else None)
        print("reply:", json.dumps(reply and (reply[3:] if reply[0] == "always" else reply[:2])), end=end, flush=True)
    if "question" in given:
        print("reply:", json.dumps(confirm(given["question"])), end=end)
except KeyboardInterrupt:
    print("interrupted", end=end)
if before:
    print("restored:", termios.tcgetattr(1) == before)
"""
LIST = ("bash", {"command": "ls -l"})


def build_command(*proposals: tuple[str, Any], **given: Any) -> list[str]:
    """Build the command of a program that asks for approval of calls."""
    return [sys.executable, "-c", ASKER, json.dumps({"proposals": proposals, **given})]


def run_with_answers(*answers: tuple[str, str], proposals: Any = (LIST,), **given: Any) -> tuple[list[Any], str]:
    """Answer the prompts. Return the responses and the terminal output, and check that the terminal was restored."""
    result = run_on_terminal(build_command(*proposals, **given), cwd=ROOT, answers=answers)
    assert result.code == 0, result.text
    assert "restored: True" in result.text
    return [json.loads(line[7:]) for line in result.text.splitlines() if line.startswith("reply: ")], result.text


@contextmanager
def start_prompt(**given: Any) -> Iterator[Running]:
    """Start a program that is waiting at the prompt."""
    with Running(build_command(LIST, **given), cwd=ROOT, terminal=True) as running:
        running.wait_for(PROMPT)
        yield running


ANSWERS = {
    "y\n": "yes",
    "Yes\n": "yes",
    "  y \n": "yes",
    "y\r": "yes",
    "n\n": "no",
    "NO\n": "no",
    "\n": "no",
    " \n": "no",
    CTRL_D: "no",
    "yep\x7f\x7f\n": "yes",
}


def test_answers() -> None:
    replies, _ = run_with_answers(*((PROMPT, typed) for typed in ANSWERS), proposals=[LIST] * len(ANSWERS))
    assert replies == [[reply, ""] for reply in ANSWERS.values()]


def test_question_is_shown_below_the_call() -> None:
    _, text = run_with_answers((PROMPT, "n\n"))
    assert text.splitlines()[:4] == [
        "The model wants to call bash:",
        "  command: ls -l",
        "  in /here, for at most 30 s",
        "Run this? y(es), N(o), a(lways), e(dit): n",
    ]


def test_invalid_answers_are_asked_again_and_then_mean_no() -> None:
    replies, text = run_with_answers((PROMPT, "yy\n"), (PROMPT, "\u044f\n"), (PROMPT, "y\n"))
    assert replies == [["yes", ""]]
    replies, text = run_with_answers((PROMPT, "yy\n"), (PROMPT, "?\n"), (PROMPT, "\x1b[A\n"))
    assert replies == [["no", ""]]
    assert text.count(PROMPT) == 3
    assert "Not understood: treated as no." in text


@pytest.mark.parametrize("report", ["\x1b[I", "\x1b[O", "\x1b[5;1R", "\x1b[?62;4c", "\x1b]11;rgb:1a/1a/1a\x1b\\"])
def test_reports_of_the_terminal_are_not_part_of_an_answer(report: str) -> None:
    replies, _ = run_with_answers((PROMPT, f"{report}y{report}\n"))
    assert replies == [["yes", ""]]


def test_call_without_a_command_cannot_be_edited() -> None:
    replies, text = run_with_answers((PROMPT, "e\n"), (PROMPT, "y\n"), proposals=[("say", {"word": "x"})])
    assert replies == [["yes", ""]]
    assert "Run this? y(es), N(o), a(lways): " in text


def test_keys_typed_before_a_question_are_ignored() -> None:
    replies, _ = run_with_answers(
        (PROMPT, "n\ny\ny\n"), (PROMPT, "wrong\ny\n"), (PROMPT, "n\n"), proposals=[LIST, LIST]
    )
    assert replies == [["no", ""], ["no", ""]]


def test_incomplete_line_means_no() -> None:
    with start_prompt() as running:
        running.type_in("y")
        running.type_in(CTRL_D)
        running.type_in(CTRL_D)
        assert '["no", ""]' in running.finish().text


def test_piped_answers_are_ignored(tmp_path: Path) -> None:
    command = ["bash", "-c", 'yes | "$@" 2>/dev/null', "-", *build_command(LIST)]
    result = run_on_terminal(command, cwd=ROOT, answers=[(PROMPT, "\n")])
    assert '["no", ""]' in result.text


def test_without_a_terminal_there_is_no_prompt() -> None:
    result = run(build_command(LIST, question="Sure?"), cwd=ROOT, stdin=b"y\ny\n")
    assert result.stdout == b"reply: null\nreply: null\n"


def test_raw_terminal_is_restored_after_the_question() -> None:
    replies, text = run_with_answers((PROMPT, "y\n"), raw=True)
    assert replies == [["yes", ""]]
    assert "a(lways), e(dit): y\n" in text


@pytest.mark.parametrize("raw", [False, True])
def test_ctrl_c_at_the_question_restores_the_terminal(raw: bool) -> None:
    replies, text = run_with_answers((PROMPT, CTRL_C), raw=raw)
    assert replies == []
    assert re.search(r"\^C\s+interrupted\s+restored: True\n$", text)


def test_the_question_is_shown_again_after_a_stop(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo allowed"})), wire.says("Done."))
    with ask.start_on_terminal("--confirm", "hi") as running:
        place = running.wait_for("Run this?")
        running.signal(signal.SIGSTOP)
        running.signal(signal.SIGCONT)
        running.wait_for("Run this?", after=place)
        running.type_in("y\n")
        assert running.finish().code == 0


def test_yes_or_no_question() -> None:
    for typed, answer in (("y\n", True), ("a\n", False), ("\n", False)):
        replies, _ = run_with_answers(("Sure? [y/N] ", typed), proposals=[], question="Sure?")
        assert replies == [answer]


# Always

EXTENT = "Allow this c(ommand)"
EXTENTS = {
    "\n": ["command", "run"],
    "c\n": ["command", "run"],
    "f\n": ["command", "folder"],
    "p\n": ["program", "run"],
    "PF\n": ["program", "folder"],
    "t a\n": ["tool", "always"],
    "program always\n": ["program", "always"],
}


def test_always_asks_for_its_extent() -> None:
    answers = [answer for typed in EXTENTS for answer in ((PROMPT, "a\n"), (EXTENT, typed))]
    replies, text = run_with_answers(*answers, proposals=[LIST] * len(EXTENTS))
    assert replies == list(EXTENTS.values())
    question = "Allow this c(ommand), p(rogram ls) or t(ool bash), for this r(un), in this f(older) or a(lways)? [cr]:"
    assert question in " ".join(text.replace("\n  > ", "").split())


@pytest.mark.parametrize("typed", [["pt\n", "rf\n", "h\n"], [CTRL_D]])
def test_an_extent_that_is_not_understood_means_no(typed: list[str]) -> None:
    replies, text = run_with_answers((PROMPT, "always\n"), *((EXTENT, one) for one in typed))
    assert replies == [["no", ""]]
    assert text.count(EXTENT) == len(typed)


@pytest.mark.parametrize("command", ["ls > x", "sudo ls", "bash x", "/bin/sh x", "'l\u0455'", "$X", "a; b; c; d; e"])
def test_the_program_is_offered_only_if_it_is_known_and_runs_no_others(command: str) -> None:
    proposal = ("bash", {"command": command})
    replies, text = run_with_answers((PROMPT, "a\n"), (EXTENT, "p\n"), (EXTENT, "\n"), proposals=[proposal])
    assert replies == [["command", "run"]]
    assert "p(rogram" not in text


def test_calls_of_other_tools_are_approved_by_tool() -> None:
    replies, _ = run_with_answers((PROMPT, "a\n"), ("Allow t(ool say), ", "f\n"), proposals=[("say", {"command": "x"})])
    assert replies == [["tool", "folder"]]


def test_a_dangerous_command_is_marked_and_cannot_be_approved_always() -> None:
    proposal = ("bash", {"command": "reboot"})
    replies, text = run_with_answers((PROMPT, "a\n"), (PROMPT, "y\n"), proposals=[proposal], danger="reboot")
    assert replies == [["yes", ""]]
    assert "DANGEROUS: reboot" in text
    assert "a(lways)" not in text


# Editing


def test_edited_command_is_returned() -> None:
    edits = {
        CTRL_U + "pwd\n": ["edited", "pwd"],
        "a\n": ["edited", "ls -la"],
        CTRL_A + "echo \u00e9 \n": ["edited", "echo \u00e9 ls -l"],
        "\n": ["yes", ""],
    }
    answers = [answer for keys in edits for answer in ((PROMPT, "e\n"), ("Command: ls -l", keys))]
    replies, text = run_with_answers(*answers, proposals=[LIST] * len(edits))
    assert replies == list(edits.values())
    assert text.count(PROMPT) == len(edits)


@pytest.mark.parametrize("keys", [CTRL_U + "  \n", CTRL_U + CTRL_D])
def test_emptied_command_repeats_the_question(keys: str) -> None:
    replies, text = run_with_answers((PROMPT, "e\n"), ("Command: ls -l", keys), (PROMPT, "n\n"))
    assert replies == [["no", ""]]
    assert text.count(PROMPT) == 2


def test_command_that_is_not_a_short_line_of_plain_text_is_typed_again() -> None:
    commands = ["ls\nrm x", "ls \u0430", "ls \x1b[2K", "ls" + " " * 30 + "x", "x" * 5_000]
    answers = [(PROMPT.rstrip("? "), "e\n"), ("Command: ", "pwd\n")] * len(commands)
    replies, _ = run_with_answers(*answers, proposals=[("bash", {"command": command}) for command in commands])
    assert replies == [["edited", "pwd"]] * len(commands)


@pytest.mark.parametrize("raw", [False, True])
def test_ctrl_c_while_editing_interrupts_and_restores_the_terminal(raw: bool) -> None:
    replies, text = run_with_answers((PROMPT, "e\n"), ("Command: ls -l", CTRL_C), raw=raw)
    assert replies == []
    assert "interrupted" in text


# Explaining


def test_explanation_is_escaped_and_the_question_is_repeated() -> None:
    told = "It lists.\x1b[2J\nRun this? y\n"
    replies, text = run_with_answers((PROMPT, "?\n"), ("  | ls -l", ""), (PROMPT, "y\n"), explain=told)
    assert replies == [["yes", ""]]
    assert text.splitlines()[3:][:6] == [
        "Run this? y(es), N(o), a(lways), e(dit), ?(explain): ?",
        "Asking for an explanation...",
        "The model explains:",
        r"  | It lists.\x1b[2J",
        "  | Run this? y",
        "  | ls -l",
    ]
    assert text.count("The model wants to call bash:") == 2


def test_failed_explanation_is_reported() -> None:
    replies, text = run_with_answers((PROMPT, "explain\n"), ("answers", ""), (PROMPT, "n\n"), explain="fail")
    assert replies == [["no", ""]]
    assert "No explanation:\n  | nobody\\x1b[2J answers\n" in text


# What is seen


def test_call_longer_than_the_screen_is_shown_completely_after_its_length() -> None:
    command = "\n".join(f"echo {number}" for number in range(100))
    _, text = run_with_answers(("Run this", "n\n"), proposals=[("bash", {"command": command})])
    lines = text.splitlines()
    assert lines[0] == "[102 lines, more than fit on the screen]"
    assert [line[4:] for line in lines[3:102]] == command.split("\n")[1:]
    assert lines[103].startswith("Run this, all 102 lines of it? y(es)")


def test_write_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\nb\n")
    write = ("write_file", {"filepath": "x", "content": "a\n\x1b[2Kc\n"})
    _, text = run_with_answers((PROMPT, "n\n"), proposals=[write], folder=str(tmp_path))
    assert [line for line in text.splitlines() if line.startswith("  | ")] == [
        "  | @@ -1,2 +1,2 @@",
        "  |  a",
        "  | -b",
        r"  | +\x1b[2Kc",
    ]


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, TEXTS)
def test_only_printable_ascii_is_written_to_the_terminal(command: str, word: str) -> None:
    proposals = [
        ("bash", {"command": command}),
        ("edit_file", {"filepath": word, "old_text": word, "new_text": command}),
    ]
    answers = [("Run this", "n\n"), ("reply: ", ""), ("Run this", "n\n")]
    result = run_on_terminal(build_command(*proposals), cwd=ROOT, answers=answers)
    assert re.fullmatch(rb"([ -~]|\r\n)*", result.stdout)
    assert max(map(len, result.text.splitlines())) <= 80


def test_lines_are_wrapped_at_the_width_of_the_terminal(tmp_path: Path) -> None:
    with Running(
        ["bash", "-c", 'stty cols 40; exec "$@"', "-", *build_command(("bash", {"command": "x" * 60}))],
        cwd=ROOT,
        terminal=True,
    ) as running:
        running.wait_for("Run this")
        running.type_in("n\n")
        assert running.finish().text.splitlines()[1:3] == ["  command: " + "x" * 29, "  > " + "x" * 31]
