"""The runner: what tests rely on when they say what a user would see."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.program import CTRL_C, PROGRAMS, TEST_KEY, Ask, Home, Running, run, run_on_terminal


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_exit_code_and_time_are_told() -> None:
    result = run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"))
    assert (result.stdout, result.stderr, result.code) == (b"out\n", "err\n", 7)
    assert 0 < result.seconds < 20


def test_stdin_is_piped_in_or_empty() -> None:
    echo = python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
    data = bytes(range(256)) * 4000
    assert run(echo, stdin=data).stdout == data
    assert run(echo, stdin=b"").stdout == b""
    assert run(echo).stdout == b""


def test_a_program_may_leave_its_stdin_unread() -> None:
    assert run(python("print('done')"), stdin=b"x" * 1_000_000).text == "done\n"


def test_a_program_that_does_not_end_fails_the_test_and_is_killed() -> None:
    with Running(python("import time; print('here', flush=True); time.sleep(60)")) as running:
        running.wait_for("here")
        with pytest.raises(AssertionError, match="here"):
            running.finish(0.1)
    assert running.process.returncode == -signal.SIGKILL


def test_output_can_be_waited_for_and_a_signal_sent() -> None:
    with Running(python("import time; print('ready', flush=True); time.sleep(60)")) as running:
        running.wait_for("ready")
        running.signal(signal.SIGINT)
        result = running.finish()
    assert result.code == -signal.SIGINT
    assert "KeyboardInterrupt" in result.stderr


def test_each_test_has_a_home_and_an_environment_of_its_own(home: Home) -> None:
    result = run(python("import os; print(dict(os.environ), os.listdir('.'))"), env=home.env, cwd=home.work)
    seen, listed = eval(result.text.replace("} [", "}, ["))
    assert listed == []
    assert set(seen) - {"LC_CTYPE"} == set(home.env)
    assert seen["PATH"].startswith(str(PROGRAMS))
    assert home.config.parent.is_relative_to(home.path)
    assert home.data.parent.is_relative_to(home.path)


def test_ask_is_pointed_at_the_server(ask: Ask) -> None:
    result = ask.shell("echo $OPENROUTER_API_KEY $OPENROUTER_BASE_URL $MORE; pwd", env={"MORE": "more"})
    assert result.text == f"{TEST_KEY} {ask.env['OPENROUTER_BASE_URL']} more\n{ask.cwd}\n"


def test_on_a_terminal_all_three_streams_and_dev_tty_are_it(home: Home) -> None:
    code = """
import os
print([os.isatty(fd) for fd in (0, 1, 2)], os.get_terminal_size(), os.environ['TERM'])
with open('/dev/tty', 'r+b', buffering=0) as terminal:
    terminal.write(b'name? ')
    print('got', terminal.read(100))
"""
    result = run_on_terminal(python(code), env=home.env, answers=[("name? ", "Ann\n")])
    assert result.code == 0
    assert "[True, True, True] os.terminal_size(columns=80, lines=24) xterm-256color\n" in result.text
    assert "got b'Ann\\n'" in result.text


def test_answers_are_typed_in_turn() -> None:
    code = "print(input('one? ') + input('two? ') + input('one? '))"
    result = run_on_terminal(python(code), answers=[("one?", "a\n"), ("two?", "b\n"), ("one?", "c\n")])
    assert result.text.endswith("abc\n")


def test_a_text_that_never_appears_fails_the_test() -> None:
    waiting = Running(python("print('hello'); input()"), terminal=True)
    with waiting, pytest.raises(AssertionError, match="hello"):
        waiting.wait_for("goodbye", 0.5)


def test_part_of_a_pipeline_can_be_on_a_terminal() -> None:
    test = "import os; print([os.isatty(fd) for fd in (0, 1, 2)])"
    result = run_on_terminal(["bash", "-c", f'{sys.executable} -c "{test}" | cat'])
    assert result.text == "[True, False, True]\n"


def test_ctrl_c_on_the_terminal_interrupts() -> None:
    with Running(python("import time; print('ready', flush=True); time.sleep(60)"), terminal=True) as running:
        running.wait_for("ready")
        running.type_in(CTRL_C)
        assert running.finish().code == -signal.SIGINT
