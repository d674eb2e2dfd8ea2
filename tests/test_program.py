"""The program runner behaves as the other tests assume."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.program import Home, Running, run, run_on_terminal


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_programs_can_leave_stdin_unread() -> None:
    assert run(python("print('done')"), stdin=b"x" * 1_000_000).text == "done\n"


def test_programs_that_do_not_end_are_killed() -> None:
    with Running(python("import time; print('here', flush=True); time.sleep(60)")) as running:
        running.wait_for("here")
        with pytest.raises(AssertionError, match="here"):
            running.finish(0.1)
    assert running.process.returncode == -signal.SIGKILL


def test_the_terminal_is_all_three_streams_and_dev_tty(home: Home) -> None:
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


def test_answers_are_typed_in_order() -> None:
    code = "print(input('one? ') + input('two? ') + input('one? '))"
    result = run_on_terminal(python(code), answers=[("one?", "a\n"), ("two?", "b\n"), ("one?", "c\n")])
    assert result.text.endswith("abc\n")


def test_a_text_that_never_appears_fails_the_test() -> None:
    waiting = Running(python("print('hello'); input()"), terminal=True)
    with waiting, pytest.raises(AssertionError, match="hello"):
        waiting.wait_for("goodbye", 0.5)
