"""Standard output contains only the answer, wherever it goes; everything else is on standard error."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys

import pytest

from ask.console import can_use_hyperlinks
from tests import wire
from tests.file_locks import NEEDS_SECCOMP, WITHOUT_LOCKS
from tests.model_server import ModelServer
from tests.program import ASK, Ask, Running, run_on_terminal
from tests.slow_parameters import mark_others_slow

LARGE = "0123456789abcde\n" * 65_536
EVIL = "a\x1b]52;c;aGk=\x07b \x1b[31mred\x9b0m \x08\x00 c\rd\x7f\ttab"
SHOWN = "a\\x1b]52;c;aGk=\\x07b \\x1b[31mred\\x9b0m \\x08\\x00 cd\\x7f\ttab"
TOOL = wire.calls(("bash", {"command": "echo out"}))


ANSWERS = {
    "yes": "yes\n",
    "yes\n": "yes\n",
    "yes\n\n": "yes\n\n",
    "\n  grüße 🎉\n\n 漢字": "\n  grüße 🎉\n\n 漢字\n",
    EVIL: EVIL + "\n",
    "*bold* `code` <tag> {json} %s \\n": "*bold* `code` <tag> {json} %s \\n\n",
}
"""Answers of a model, and what is printed if standard output is not a terminal."""


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_answer_is_written_unchanged(answer: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(answer), wire.says(answer, whole=True))
    for _ in range(2):
        result = ask("hi")
        assert (result.stdout, result.stderr) == (ANSWERS[answer].encode(), "")


@pytest.mark.slow
def test_a_pipe_and_a_file_get_the_same_bytes(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(EVIL))
    result = ask.shell("ask hi | cat; ask hi > file")
    assert (result.stdout, result.stderr) == (ANSWERS[EVIL].encode(), "")
    assert (ask.cwd / "file").read_bytes() == result.stdout


def on_terminal(ask: Ask, script: str, **more: str) -> str:
    """Return everything that a bash script shows on a terminal."""
    return run_on_terminal(["bash", "-c", script], env={**ask.env, **more}, cwd=ask.cwd).text


@pytest.mark.slow
def test_terminal_output_is_the_answer_with_control_characters_escaped(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(EVIL), wire.says("grüße\n 🎉"))
    assert on_terminal(ask, "ask --plain hi 2>&-; ask --plain hi 2>&-") == f"{SHOWN}\ngrüße\n 🎉\n"


def test_external_text_reaches_the_terminal_only_escaped(ask: Ask, server: ModelServer) -> None:
    command = "printf '\\033]52;c;aGk=\\007\\033[31m'"
    server.reply(
        wire.streams(wire.reasoning(EVIL), *wire.stream(EVIL, [("bash", {"command": command}), (EVIL, EVIL)])),
        wire.fails(400, EVIL),
    )
    result = ask.on_terminal("-v", "--plain", "hi")
    assert result.code == 6
    assert {character for character in result.text if character < " " or "\x7f" <= character < "\xa0"} == {"\n", "\t"}
    assert result.text.count("]52;c;aGk=") > 5


@pytest.mark.slow
def test_a_reader_that_closes_early_is_not_an_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(LARGE, whole=True), wire.streams(*[wire.text(LARGE[:16_000])] * 60))
    for options in ("", "", "--events"):
        result = ask.shell(f'ask {options} hi | head -c 5; echo " ${{PIPESTATUS[*]}}"')
        assert result.text in ("01234 0 0\n", '{"typ 0 0\n')
        assert result.stderr == ""


@pytest.mark.slow
def test_a_reader_of_rows_that_closes_early_is_not_an_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes", whole=True))
    result = ask.shell('seq 50 | ask map "{{line}}" | true; echo "${PIPESTATUS[*]}"')
    assert (result.text, result.stderr) == ("0 0 0\n", "")


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    for command in ("ask hi", "ask --help"):
        result = ask.shell(f"{{ sleep 0.1; {command}; echo $? >&2; }} | true")
        assert result.stderr == "0\n"


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "command",
    [
        "ask hi",
        "ask --help",
        *(
            pytest.param(f"ask {one}", marks=pytest.mark.slow)
            for one in ("--json hi", "providers", "--version", "version", "help map", "init bash")
        ),
    ],
)
def test_a_full_disk_is_one_error_line_and_exit_code_9(command: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes"))
    result = ask.shell(f"{command} > /dev/full")
    assert (result.code, result.stdout) == (9, b"")
    assert "write to standard output (No space left on device)" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_no_request_is_sent_when_standard_output_is_closed(ask: Ask, server: ModelServer) -> None:
    result = ask.shell("ask hi >&-")
    assert (result.code, result.stderr.count("\n")) == (9, 1)
    assert "standard output" in result.stderr
    assert ask.shell("ask hi >&- 2>&-").code == 9
    assert ask.shell("ask providers <&- >&- 2>&-").code == 9
    assert server.requests == []


@pytest.mark.slow
def test_the_answer_is_printed_when_standard_error_is_closed(ask: Ask, server: ModelServer) -> None:
    server.reply(TOOL, wire.says("yes"))
    result = ask.shell("ask hi 2>&-; ask -v hi 2>/dev/full; ask -p nix hi 2>&-; echo $?")
    assert (result.text, result.stderr) == ("yes\nyes\n4\n", "")


def test_files_opened_by_the_run_do_not_reuse_closed_standard_descriptors(ask: Ask, server: ModelServer) -> None:
    server.reply(TOOL, wire.says("yes"))
    assert ask.shell("ask hi <&- 2>&- | cat").text == "yes\n"
    log = ask.shell("cat $XDG_DATA_HOME/ask/audit.jsonl").text
    assert log.count("\n") == 1
    assert log.startswith("{")


def test_a_slow_reader_gets_everything(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(*[wire.text(LARGE[start : start + 9_999]) for start in range(0, len(LARGE), 9_999)]))
    assert ask.shell("ask hi | (sleep 0.3; cat)").text == LARGE


def test_a_nonblocking_pipe_gets_everything(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(LARGE, whole=True))
    code = f"import os; os.set_blocking(1, False); os.set_blocking(2, False); os.execv({ASK!r}, ['ask', 'hi'])"
    assert ask.shell(f'{sys.executable} -c "{code}" | (sleep 0.3; cat)').text == LARGE


@NEEDS_SECCOMP
def test_output_to_a_file_system_without_locks_is_complete(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("one\ntwo\n"), wire.text("three"), wire.finish()))
    command = shlex.join([*WITHOUT_LOCKS, ASK, "--no-save", "hi"])
    result = ask.shell(f"{command} > out; code=$?; cat out; exit $code")
    assert (result.code, result.text, result.stderr) == (0, "one\ntwo\nthree\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_text_is_utf_8_in_every_locale(locale: dict[str, str], ask: Ask, server: ModelServer) -> None:
    server.reply(wire.calls(("bash", {"command": "echo ö"})), wire.says("größe 🎉"), wire.fails(400, "schön 🎉"))
    result = ask("-v", "wie", "groß", stdin="ö🎉".encode(), env=locale)
    assert (result.code, result.text) == (0, "größe 🎉\n")
    assert "· bash: echo ö\n  ö\n" in result.stderr
    assert wire.asked(server.requests[0].json) == "wie groß\n\n<stdin>\nö🎉\n</stdin>"
    assert "schön 🎉" in ask("hi", env=locale).stderr


# Styling


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    ("options", "environment", "styled"),
    [
        ("", {}, True),
        pytest.param("", {"NO_COLOR": ""}, True, marks=pytest.mark.slow),
        pytest.param("", {"NO_COLOR": "1"}, True, marks=pytest.mark.slow),
        pytest.param("", {"TERM": "dumb"}, False, marks=pytest.mark.slow),
        ("--plain", {}, False),
        pytest.param("-v --plain", {}, False, marks=pytest.mark.slow),
    ],
)
def test_styling_depends_on_the_terminal_and_environment(
    options: str, environment: dict[str, str], styled: bool, ask: Ask, server: ModelServer
) -> None:
    server.reply(TOOL, wire.says("yes"))
    shown = on_terminal(ask, f"ask {options} hi", **environment)
    assert ("\x1b" in shown) == styled
    assert "echo out" in shown
    assert shown.endswith("yes\n") or "-v" in options


@pytest.mark.slow
def test_only_terminals_get_styling(ask: Ask, server: ModelServer) -> None:
    server.reply(TOOL, wire.says("yes"))
    assert on_terminal(ask, "ask -v hi 2>file") == "yes\n"
    assert "\x1b" not in (ask.cwd / "file").read_text()
    assert "· bash" in (ask.cwd / "file").read_text()


@pytest.mark.slow
def test_only_stderr_is_styled_if_only_it_is_a_terminal(ask: Ask, server: ModelServer) -> None:
    server.reply(TOOL, wire.says(EVIL))
    assert "\x1b[2m" in on_terminal(ask, "ask hi >file")
    assert (ask.cwd / "file").read_bytes() == f"{EVIL}\n".encode()


# -q


def test_quiet_prints_only_the_answer_and_the_fatal_error(ask: Ask, server: ModelServer) -> None:
    retried = wire.fails(503, headers={"Retry-After": "0"})
    reply = wire.streams(wire.reasoning("hmm"), *wire.stream("so", [("bash", {"command": "echo out"})]))
    server.reply(retried, reply, wire.says("yes"), wire.fails(401, "no"))
    assert on_terminal(ask, "ask -q what is -y") == "so\nyes\n"
    result = ask("-q", "hi")
    assert result.code == 6
    assert result.stderr.startswith("ask: no ")
    assert "401" in result.stderr


def test_answers_are_streamed_to_stdout(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("first "), 60.0))
    with ask.start("hi") as running, Running([ASK, "--events", "hi"], env=ask.env, cwd=ask.cwd) as lines:
        running.wait_for("first ")
        lines.wait_for('{"type": "text", "text": "first "}\n')


# Parallel processes with the same standard output


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "--no-stream", "--json", "--events"])
def test_lines_of_parallel_processes_are_not_interleaved(options: str, ask: Ask, server: ModelServer) -> None:
    words = [part for word in ("one ", "two ", "three") for part in (wire.text(word), 0.05)]
    server.reply(
        wire.says("one two three", whole=True) if "no-stream" in options else wire.streams(*words, wire.finish())
    )
    result = ask.shell(f"seq 8 | xargs -P 8 -I{{}} ask -q {options} --no-save hi{{}} | cat", timeout=120)
    lines = result.text.splitlines()
    if options.startswith("--no") or not options:
        assert lines == ["one two three"] * 8
    else:
        assert [json.loads(line)["type"] for line in lines if options == "--events"].count("result") in (0, 8)
        assert sum("one two three" in json.loads(line).get("text", "") for line in lines) >= 8


def test_without_streaming_the_answer_and_its_newline_are_one_write(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("yes", whole=True))
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # preserves the boundaries of writes
    with ours, its:
        command = [ASK, "--no-stream", "hi"]
        subprocess.run(command, env=ask.env, cwd=ask.cwd, stdout=its.fileno(), check=True, stdin=subprocess.DEVNULL)
        assert ours.recv(100) == b"yes\n"


@pytest.mark.slow
def test_an_answer_waits_until_another_process_completes_its_line(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.streams(wire.text("first "), 60.0), wire.says("second"))
    with ask.start("hi") as running:
        running.wait_for("first ")
        pipe = os.open(f"/proc/{running.process.pid}/fd/1", os.O_WRONLY)
        other = subprocess.Popen([ASK, "hi"], env=ask.env, cwd=ask.cwd, stdout=pipe, stdin=subprocess.DEVNULL)
        os.close(pipe)
        server.wait_for_requests(2, 30)
        running.signal()
        running.wait_for("first \nsecond\n")
        assert other.wait(20) == 0


COLORED = re.compile(r"\x1b\[(?:\d+;)*[349][0-7]")


@pytest.mark.slow
def test_no_color_keeps_the_layout_and_force_color_overrides_it(ask: Ask, server: ModelServer) -> None:
    answer = "# Title\n\nRun `make`.\n"
    for environment, is_colored in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True),
    ):
        server.reply(wire.says(answer))
        shown = on_terminal(ask, "ask hi", **environment)
        assert bool(COLORED.search(shown)) == is_colored
        assert "#" not in shown
        assert "\x1b[1;4m" in shown


def test_force_color_styles_notices_and_the_answer_in_a_pipe(ask: Ask, server: ModelServer) -> None:
    for value, is_styled in (("1", True), ("always", True), ("0", False), ("false", False), ("", False)):
        server.reply(TOOL, wire.says("# Yes\n"))
        result = ask("hi", env={"FORCE_COLOR": value})
        assert result.text == ("\x1b[1;4mYes\x1b[0m\n" if is_styled else "# Yes\n")
        assert ("\x1b[2m" in result.stderr) == is_styled


@pytest.mark.parametrize("command", mark_others_slow(["ask undo", "ask --no-history hi"], ["ask undo"]))
def test_messages_are_wrapped_between_words_on_a_terminal(command: str, ask: Ask) -> None:
    wide, narrow = (on_terminal(ask, f"stty cols {columns}; {command}") for columns in (200, 30))
    assert max(map(len, narrow.splitlines())) <= 30
    assert narrow.split() == wide.split()


@pytest.mark.slow_after_first
@pytest.mark.parametrize("options", mark_others_slow(["-v ", "-v --plain "], ["-v "]))
def test_reasoning_and_saved_conversations_are_wrapped_between_words_on_a_terminal(
    options: str, ask: Ask, server: ModelServer
) -> None:
    thought = "The configuration of the retry policy is what the question is about. " * 2
    pieces = [wire.reasoning(thought[start : start + 7]) for start in range(0, len(thought), 7)]
    server.reply(wire.streams(*pieces, wire.text(f"Yes. {thought}"), wire.finish()))
    shown = on_terminal(ask, f"stty cols 30; ask {options}hi; PAGER=cat ask history show")
    plain_text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert plain_text.count("The configuration of the retry\n") >= 2  # when it arrives, and when it is shown again
    assert plain_text.split().count("configuration") == 8


@pytest.mark.parametrize(
    ("environment", "can_use"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, True),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux-1000/default,1,0"}, True),
        ({"TERM": "xterm"}, False),
        ({"TERM": "xterm", "FORCE_HYPERLINK": "1"}, True),
        ({"TERM": "xterm-256color", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM": "dumb", "FORCE_HYPERLINK": "1"}, False),
        ({}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "vt220"}, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-256color", "COLORTERM": "gnome-terminal"}, False),
    ],
)
def test_hyperlinks_are_used_where_terminals_support_or_ignore_them(environment: dict[str, str], can_use: bool) -> None:
    assert can_use_hyperlinks(environment) == can_use


def link(text: str, target: str) -> str:
    return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


@pytest.mark.slow
def test_links_in_an_answer_are_hyperlinks_and_show_their_target(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("See [docs](https://example.org/a) and <https://example.org/b>.\n")] * 6)
    shown = on_terminal(ask, "ask hi 2>&-")
    assert link("\x1b[4mdocs\x1b[0m", "https://example.org/a") in shown
    assert link("\x1b[2mhttps://example.org/a\x1b[0m", "https://example.org/a") in shown
    assert link("\x1b[4mhttps://example.org/b\x1b[0m", "https://example.org/b") in shown
    assert "\x1b]8" not in on_terminal(ask, "FORCE_HYPERLINK=0 ask hi 2>&-")


@pytest.mark.slow
def test_hyperlinks_are_shown_where_styling_is(ask: Ask, server: ModelServer) -> None:
    server.reply(*[wire.says("See [docs](https://example.org/a).\n")] * 4)
    for script in ("ask --plain hi", "ask hi | cat", "TERM=dumb ask hi"):
        assert "\x1b]8" not in on_terminal(ask, f"{script} 2>&-"), script
    assert "\x1b]8" in on_terminal(ask, "NO_COLOR=1 ask hi 2>&-")


@pytest.mark.slow_after_first
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("file:///etc/passwd", marks=pytest.mark.slow),
        "javascript:alert(1)",
        pytest.param("ssh://example.org", marks=pytest.mark.slow),
        pytest.param("./relative", marks=pytest.mark.slow),
        "https://example.org/" + "a" * 3_000,
    ],
)
def test_other_targets_are_text(target: str, ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says(f"See [docs]({target}).\n"))
    shown = on_terminal(ask, "ask hi 2>&-")
    assert "\x1b]8" not in shown
    assert target[:8] in shown


def test_a_target_cannot_end_its_hyperlink(ask: Ask, server: ModelServer) -> None:
    server.reply(wire.says("[docs](https://example.org/\x1b\\\x1b]8;;https://evil.example\x07)\n"))
    shown = on_terminal(ask, "ask hi 2>&-")
    targets = re.findall(r"\x1b\]8;;([^\x1b]*)\x1b\\", shown)
    assert len(targets) == shown.count("\x1b]") == 4
    assert {target[:20] for target in targets} == {"https://example.org/", ""}


@pytest.mark.slow
def test_written_files_are_hyperlinks(ask: Ask, server: ModelServer) -> None:
    call = ("write_file", {"filepath": "my notes.txt", "content": "x"})
    server.reply(wire.calls(call), wire.says("Done.\n"))
    shown = on_terminal(ask, "ask hi; ask undo --dry-run")
    url = f"file://{os.uname().nodename}{ask.cwd}/my%20notes.txt"
    assert f"write {link('my notes.txt', url)}" in shown
    assert f"--- {link('my notes.txt', url)}" in shown
