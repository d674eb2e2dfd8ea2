"""Approval prompts on a real terminal: the answers, the output, and the restored terminal state."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests import wire
from tests.model_server import ModelServer
from tests.program import ASK, CTRL_C, Ask, Running, run, run_on_terminal
from tests.safety.test_description import TEXTS

ROOT = Path(__file__).parents[2]
PROMPT = "Run this? "
CTRL_D, CTRL_U, CTRL_A, CTRL_Z, ESCAPE = "\x04", "\x15", "\x01", "\x1a", "\x1b"
SETTLED = 0.6
"""Seconds after which a question accepts keys again that it has not understood."""

# Tells what came of a question, and whether the terminal is as it was.
ASKER = """
import json, os, sys, termios
from pathlib import Path
from ask.errors import NetworkError
from ask.safety.approval import confirm
from ask.safety.approval_prompt import PendingToolCall, prompt_for_approval
from ask.tools.base import RunToolContext

given = json.loads(sys.argv[1])
context = RunToolContext(Path(given.get("folder", "/here")), {}, 30, Path("/spill"), print)

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
        known = reply and (reply[3:5] if reply[0] == "always" else [reply[0], reply.edited_command or reply.reason])
        print("reply:", json.dumps(known), end=end, flush=True)
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
    "y": "yes",
    "Y": "yes",
    "y\r": "yes",
    "y\n": "yes",
    "n": "no",
    "N\n": "no",
    ESCAPE: "no",
    CTRL_D: "no",
}


def test_answers() -> None:
    replies, _ = run_with_answers(*((PROMPT, typed) for typed in ANSWERS), proposals=[LIST] * len(ANSWERS))
    assert replies == [[reply, ""] for reply in ANSWERS.values()]


def test_question_is_shown_below_the_call_and_the_answer_in_words_after_it() -> None:
    _, text = run_with_answers((PROMPT, "n"))
    assert text.splitlines()[:11] == [
        "The model wants to call bash:",
        "  command: ls -l",
        "  in /here, for at most 30 s",
        "  y  Allow once",
        "  a  Allow ls ... in this folder",
        "  m  More ways to allow",
        "  n  No",
        "  w  No, and tell the model why",
        "  e  Edit the command",
        "Run this? No",
        'reply: ["no", ""]',
    ]


@pytest.mark.parametrize(
    "typed", ["\n", " ", "x", "yes", "yy", "\u044f", "\x1b[A", "y echo", "\x1b[200~y\x1b[201~", "?"]
)
def test_other_keys_and_pasted_text_approve_nothing(typed: str) -> None:
    with start_prompt() as running:
        running.type_in(typed)
        place = running.wait_for("Press one of these keys: y a m n w e")
        running.wait_for(PROMPT, after=place)
        running.type_in(typed)  # the list is not repeated
        time.sleep(SETTLED)
        running.type_in("n")
        result = running.finish()
    assert '["no", ""]' in result.text
    assert result.text.count("Press one") == 1


@pytest.mark.parametrize("report", ["\x1b[I", "\x1b[O", "\x1b[5;1R", "\x1b[?62;4c", "\x1b]11;rgb:1a/1a/1a\x1b\\"])
def test_reports_of_the_terminal_are_not_part_of_an_answer(report: str) -> None:
    with start_prompt() as running:
        running.type_in(report)
        time.sleep(SETTLED)
        running.type_in(f"{report}y{report}")
        result = running.finish()
    assert '["yes", ""]' in result.text
    assert "Press one" not in result.text


def test_call_without_a_command_cannot_be_edited() -> None:
    replies, text = run_with_answers((PROMPT, "e"), (PROMPT, "y"), proposals=[("say", {"word": "x"})])
    assert replies == [["yes", ""]]
    assert "Edit" not in text


def test_keys_typed_before_a_question_are_ignored() -> None:
    replies, _ = run_with_answers((PROMPT, "n\n"), ("]\r\n", "y"), (PROMPT, "n"), proposals=[LIST, LIST])
    assert replies == [["no", ""], ["no", ""]]


def test_a_question_that_appears_while_somebody_types_waits_for_the_end() -> None:
    with Running(build_command(LIST), cwd=ROOT, terminal=True) as running:
        running.wait_for("The model wants")
        for _ in range(8):
            running.type_in("y")
            start = time.monotonic()
            time.sleep(0.1)
            is_shown = PROMPT.encode() in running.stdout
            if time.monotonic() - start > 0.2:  # the machine is busy: nobody typed for long
                break
            assert not is_shown
        running.wait_for(PROMPT)
        running.type_in("n")
        assert '["no", ""]' in running.finish().text


def test_reason_for_a_no_is_returned() -> None:
    answers = [
        (PROMPT, "w"),
        ("Tell the model: ", " use npm, caf\u00e9\n"),
        (PROMPT, "w"),
        ("Tell the model: ", CTRL_D),
    ]
    replies, _ = run_with_answers(*answers, proposals=[LIST, LIST])
    assert replies == [["no", "use npm, caf\u00e9"], ["no", ""]]


def test_piped_answers_are_ignored(tmp_path: Path) -> None:
    command = ["bash", "-c", 'yes | "$@" 2>/dev/null', "-", *build_command(LIST)]
    result = run_on_terminal(command, cwd=ROOT, answers=[(PROMPT, "n")])
    assert '["no", ""]' in result.text


def test_without_a_terminal_there_is_no_prompt() -> None:
    result = run(build_command(LIST, question="Sure?"), cwd=ROOT, stdin=b"y\ny\n")
    assert result.stdout == b"reply: null\nreply: null\n"


def test_raw_terminal_is_restored_after_the_question() -> None:
    replies, text = run_with_answers((PROMPT, "y"), raw=True)
    assert replies == [["yes", ""]]
    assert "  e  Edit the command\nRun this? Allow once\n" in text


@pytest.mark.parametrize("raw", [False, True])
def test_ctrl_c_at_the_question_restores_the_terminal(raw: bool) -> None:
    replies, text = run_with_answers((PROMPT, CTRL_C), raw=raw)
    assert replies == []
    assert re.search(r"Run this\? \s+interrupted\s+restored: True\n$", text)


def test_the_question_is_shown_again_after_a_stop(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo allowed"})), wire.says("Done."))
    with ask.start_on_terminal("--confirm", "hi") as running:
        place = running.wait_for("Run this?")
        running.signal(signal.SIGSTOP)
        running.signal(signal.SIGCONT)
        place = running.wait_for("command: echo allowed", after=place)
        running.wait_for("Run this?", after=place)
        running.type_in("y")
        assert running.finish().code == 0


@pytest.mark.slow
def test_a_shell_that_changes_the_terminal_meanwhile_does_not_break_the_question(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo allowed"})), wire.says("Done."))
    script = f"set -m; {ASK} --confirm hi; stty sane; fg %1"
    with Running(["bash", "-c", script], env=ask.env, cwd=ask.cwd, terminal=True) as running:
        place = running.wait_for("Run this?")
        running.type_in(CTRL_Z)
        place = running.wait_for("command: echo allowed", after=place)
        running.wait_for("Run this?", after=place)
        running.type_in("y")
        assert "Allow once" in running.finish().text


def test_the_question_is_shown_again_in_the_new_width_of_the_terminal() -> None:
    with start_prompt() as running:
        place = len(running.stdout)
        running.resize(24, 20)
        running.wait_for("The model wants to \r\n  > call bash:", after=place)
        running.wait_for("Run this?", after=place)
        running.type_in("y")
        assert '["yes", ""]' in running.finish().text


def test_a_resize_before_the_question_appears_shows_it_again() -> None:
    with Running(build_command(LIST), cwd=ROOT, terminal=True) as running:
        running.wait_for("in /here")
        running.resize(24, 20)
        place = running.wait_for("The model wants to \r\n  > call bash:")
        running.wait_for(PROMPT, after=place)
        running.type_in("y")
        assert '["yes", ""]' in running.finish().text


@pytest.mark.slow
def test_yes_or_no_question() -> None:
    for typed, answer in (("y\n", True), ("yes\n", True), ("a\n", False), ("\n", False)):
        replies, _ = run_with_answers(("Sure? [y/N] ", typed), proposals=[], question="Sure?")
        assert replies == [answer]


# Similar calls

MORE = "Which? "
EXTENTS = {
    "a": ["program", "folder"],
    "m1": ["command", "run"],
    "m2": ["command", "folder"],
    "m6": ["program", "always"],
    "m7": ["tool", "run"],
}


def answer_extent(keys: str) -> list[tuple[str, str]]:
    return [(PROMPT, keys[0]), *((MORE, key) for key in keys[1:])]


def test_similar_calls_can_be_approved() -> None:
    answers = [answer for keys in EXTENTS for answer in answer_extent(keys)]
    replies, text = run_with_answers(*answers, proposals=[LIST] * len(EXTENTS))
    assert replies == list(EXTENTS.values())
    assert text[text.index("  1  ") :].splitlines()[:10] == [
        "  1  Allow exactly this command until ask exits",
        "  2  Allow exactly this command in this folder",
        "  3  Allow exactly this command always",
        "  4  Allow ls ... until ask exits",
        "  5  Allow ls ... in this folder",
        "  6  Allow ls ... always",
        "  7  Allow every call of bash until ask exits",
        "  8  Allow every call of bash in this folder",
        "  9  Allow every call of bash always",
        "  n  Back",
    ]


@pytest.mark.parametrize("key", ["n", ESCAPE, CTRL_D])
def test_the_list_of_extents_can_be_left(key: str) -> None:
    replies, _ = run_with_answers((PROMPT, "m"), (MORE, key), (PROMPT, "y"))
    assert replies == [["yes", ""]]


@pytest.mark.parametrize("command", ["ls > x", "sudo ls", "bash x", "/bin/sh x", "'l\u0455'", "$X", "a; b; c; d; e"])
def test_the_program_is_offered_only_if_it_is_known_and_runs_no_others(command: str) -> None:
    replies, text = run_with_answers((PROMPT, "a"), proposals=[("bash", {"command": command})])
    assert replies == [["command", "run"]]
    assert "  a  Allow exactly this command until ask exits\n" in text


def test_calls_of_other_tools_are_approved_by_tool() -> None:
    say = ("say", {"command": "x"})
    replies, text = run_with_answers((PROMPT, "a"), (PROMPT, "m"), (MORE, "2"), proposals=[say, say])
    assert replies == [["tool", "run"], ["tool", "folder"]]
    assert "Allow every call of say in this folder" in text


def test_a_dangerous_command_is_marked_and_cannot_be_approved_always() -> None:
    proposal = ("bash", {"command": "reboot"})
    replies, text = run_with_answers((PROMPT, "a"), (PROMPT, "y"), proposals=[proposal], danger="reboot")
    assert replies == [["yes", ""]]
    assert "DANGEROUS: reboot" in text
    assert "  a  " not in text
    assert "  m  " not in text


# Editing


def test_edited_command_is_returned() -> None:
    edits = {
        CTRL_U + "pwd\n": ["edited", "pwd"],
        "a\n": ["edited", "ls -la"],
        CTRL_A + "echo \u00e9 \n": ["edited", "echo \u00e9 ls -l"],
        "\n": ["yes", ""],
    }
    answers = [answer for keys in edits for answer in ((PROMPT, "e"), ("Command: ls -l", keys))]
    replies, text = run_with_answers(*answers, proposals=[LIST] * len(edits))
    assert replies == list(edits.values())
    assert text.count(PROMPT) == len(edits)


@pytest.mark.slow_after_first
@pytest.mark.parametrize("keys", [CTRL_U + "  \n", CTRL_U + CTRL_D])
def test_emptied_command_repeats_the_question(keys: str) -> None:
    replies, text = run_with_answers((PROMPT, "e"), ("Command: ls -l", keys), (PROMPT, "n"))
    assert replies == [["no", ""]]
    assert text.count(PROMPT) == 2


def test_command_that_is_not_a_short_line_of_plain_text_is_typed_again() -> None:
    commands = ["ls\nrm x", "ls \u0430", "ls \x1b[2K", "ls" + " " * 30 + "x", "x" * 5_000]
    answers = [(PROMPT.rstrip("? "), "e"), ("Command: ", "pwd\n")] * len(commands)
    replies, _ = run_with_answers(*answers, proposals=[("bash", {"command": command}) for command in commands])
    assert replies == [["edited", "pwd"]] * len(commands)


@pytest.mark.parametrize("raw", [False, True])
def test_ctrl_c_while_editing_interrupts_and_restores_the_terminal(raw: bool) -> None:
    replies, text = run_with_answers((PROMPT, "e"), ("Command: ls -l", CTRL_C), raw=raw)
    assert replies == []
    assert "interrupted" in text


# Explaining


def test_explanation_is_escaped_and_the_question_is_repeated() -> None:
    told = "It lists.\x1b[2J\nRun this? y\n"
    replies, text = run_with_answers((PROMPT, "?"), ("  | ls -l", ""), (PROMPT, "y"), explain=told)
    assert replies == [["yes", ""]]
    assert text.splitlines()[10:][:6] == [
        "Run this? Explain it",
        "Asking for an explanation...",
        "The model explains:",
        r"  | It lists.\x1b[2J",
        "  | Run this? y",
        "  | ls -l",
    ]
    assert text.count("The model wants to call bash:") == 2


def test_failed_explanation_is_reported() -> None:
    replies, text = run_with_answers((PROMPT, "?"), ("answers", ""), (PROMPT, "n"), explain="fail")
    assert replies == [["no", ""]]
    assert "No explanation:\n  | nobody\\x1b[2J answers\n" in text


# What is seen


def test_call_longer_than_the_screen_is_shown_completely_after_its_length() -> None:
    command = "\n".join(f"echo {number}" for number in range(100))
    _, text = run_with_answers(("Run this", "n"), proposals=[("bash", {"command": command})])
    lines = text.splitlines()
    assert lines[0] == "[102 lines, more than fit on the screen]"
    assert [line[4:] for line in lines[3:102]] == command.split("\n")[1:]
    assert "Run this, all 102 lines of it? No" in lines


def test_write_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a\nb\n")
    write = ("write_file", {"filepath": "x", "content": "a\n\x1b[2Kc\n"})
    _, text = run_with_answers(("Make this change? ", "n"), proposals=[write], folder=str(tmp_path))
    assert " s\n" not in text
    assert [line for line in text.splitlines() if line.startswith("  | ")] == [
        "  | @@ -1,2 +1,2 @@",
        "  |  a",
        "  | -b",
        r"  | +\x1b[2Kc",
    ]


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS, TEXTS)
def test_only_printable_ascii_is_written_to_the_terminal(command: str, word: str) -> None:
    proposals = [
        ("bash", {"command": command}),
        ("edit_file", {"filepath": word, "old_text": word, "new_text": command}),
    ]
    answers = [("Run this", "n"), ("reply: ", ""), ("Make this change", "n")]
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
        running.type_in("n")
        assert running.finish().text.splitlines()[1:3] == ["  command: " + "x" * 29, "  > " + "x" * 31]
