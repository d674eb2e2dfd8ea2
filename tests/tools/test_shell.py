from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ask.tools.base import RunToolContext, ToolError, ToolResult
from ask.tools.definitions import BASH
from ask.tools.output_limits import MAX_RESULT_CHARACTERS
from tests.tools.conftest import ROOT


@pytest.fixture
def bash(context: RunToolContext) -> Callable[..., ToolResult]:
    def run(command: str, **more: float) -> ToolResult:
        return BASH.run({"command": command, **more}, context)

    return run


Bash = Callable[..., ToolResult]


def is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


def pids(context: RunToolContext, *names: str) -> list[int]:
    return [int((context.directory / name).read_text()) for name in names]


def test_silent_command_returns_only_its_exit_code(bash: Bash) -> None:
    assert bash("true") == ToolResult("exit code: 0", False, 0)


def test_both_streams_and_the_exit_code_are_returned(bash: Bash) -> None:
    result = bash("echo out; echo err >&2; exit 3")
    assert result == ToolResult("exit code: 3\nstdout:\nout\nstderr:\nerr\n", True, 3)


def test_output_without_a_final_newline_is_separated_from_the_next(bash: Bash) -> None:
    assert bash("printf out; printf err >&2").text == "exit code: 0\nstdout:\nout\nstderr:\nerr"


def test_command_uses_the_run_s_directory_and_environment(context: RunToolContext) -> None:
    context = context._replace(environment={"PATH": os.environ["PATH"], "ONLY": "this"})
    text = BASH.run({"command": "pwd; echo $ONLY; env"}, context).text
    assert text.startswith(f"exit code: 0\nstdout:\n{context.directory}\nthis\n")
    assert "HOME=" not in text


def test_stdin_is_empty(bash: Bash) -> None:
    assert "stdout:\n0\n" in bash("cat | wc -c").text


def test_a_command_has_no_terminal(bash: Bash) -> None:
    assert bash("echo > /dev/tty").failed


@pytest.mark.parametrize("command", ["-c", "--help", "-"])
def test_command_that_looks_like_an_option_is_run(bash: Bash, command: str) -> None:
    assert bash(command).exit_status == 127


def test_death_by_a_signal_is_named(bash: Bash) -> None:
    result = bash("kill -SEGV $$")
    assert result.text.startswith("exit code: 139 (killed by signal 11: Segmentation fault)")
    assert result.exit_status == 139


def test_call_returns_when_the_shell_exits_and_background_processes_survive(
    bash: Bash, context: RunToolContext
) -> None:
    with time_limit(15):
        result = bash("sleep 600 & echo $! > pid; echo done")
    [pid] = pids(context, "pid")
    try:
        assert result.text.startswith("exit code: 0\nstdout:\ndone\n[a background process still uses the output")
        assert is_running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_redirected_background_process_causes_no_note(bash: Bash, context: RunToolContext) -> None:
    result = bash("sleep 600 > log 2>&1 & echo $! > pid")
    os.kill(pids(context, "pid")[0], signal.SIGKILL)
    assert result.text == "exit code: 0"


def test_background_flood_does_not_delay_the_call(bash: Bash, context: RunToolContext) -> None:
    try:
        with time_limit(15):
            assert bash("yes & echo $! > pid; echo done").exit_status == 0
    finally:
        [pid] = pids(context, "pid")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_output_that_the_shell_does_not_wait_for_is_read(bash: Bash) -> None:
    assert bash("echo late > >(sleep 0.03; cat)").text.startswith("exit code: 0\nstdout:\nlate\n")


def test_call_waits_for_a_command_that_closed_its_output(bash: Bash, context: RunToolContext) -> None:
    bash("exec >&- 2>&-; sleep 0.2; touch done")
    assert (context.directory / "done").exists()


@pytest.mark.parametrize(
    "command",
    [
        "sleep 600 & echo $! > pid; wait",
        "setsid bash -c 'echo $$ > pid; exec sleep 600' & wait",
        "(setsid bash -c 'echo $$ > pid; exec sleep 600 < /dev/null > /dev/null 2>&1' &) ; sleep 600",
        "env -i setsid bash -c 'echo $$ > pid; exec sleep 600' & wait",
        "env -i bash -c 'echo $$ > pid; exec sleep 600' & disown; sleep 600",
    ],
    ids=["child", "setsid", "double fork", "setsid without environment", "without environment"],
)
def test_a_timeout_kills_all_processes_of_the_command(bash: Bash, context: RunToolContext, command: str) -> None:
    with time_limit(15):
        result = bash(f"echo begun; {command}", timeout=1.5)
    assert result.text.startswith("timed out after 1.5 s")
    assert result.text.endswith("\nstdout:\nbegun\n")
    assert result.failed
    assert not is_running(*pids(context, "pid"))


@pytest.mark.slow
def test_a_command_that_ignores_sigterm_is_killed_after_two_seconds(bash: Bash, context: RunToolContext) -> None:
    with time_limit(20):
        bash("trap '' TERM; echo $$ > pid; while :; do sleep 1; done", timeout=1.5)
    assert not is_running(*pids(context, "pid"))


def test_no_further_command_starts_after_a_timeout(bash: Bash, context: RunToolContext) -> None:
    bash("bash -c 'sleep 600; touch inner'; touch outer", timeout=0.5)
    assert not list(context.directory.iterdir())


def test_output_of_a_sigterm_handler_is_kept(bash: Bash) -> None:
    assert "goodbye" in bash("trap 'echo goodbye; exit' TERM; sleep 600 & wait", timeout=1.5).text


@pytest.mark.parametrize("timeout", [1.5, 600, 99_999, 10**400, float("inf")])
def test_a_call_may_give_its_command_more_time_up_to_the_maximum(context: RunToolContext, timeout: float) -> None:
    context = context._replace(command_timeout=0.1, max_command_timeout=1.5)
    assert BASH.run({"command": "sleep 0.2"}, context).text.startswith("timed out after 0.1 s; ")
    assert BASH.run({"command": "sleep 0.2", "timeout": timeout}, context).exit_status == 0
    with time_limit(15):
        result = BASH.run({"command": "sleep 600", "timeout": timeout}, context)
    assert result.failed
    assert result.text.startswith("timed out after 1.5 s; ")


def test_a_killed_command_s_result_says_whether_more_time_is_possible(context: RunToolContext) -> None:
    context = context._replace(command_timeout=0.1, max_command_timeout=77)
    assert "77" in BASH.run({"command": "sleep 600"}, context).text
    assert "timeout can be" not in BASH.run({"command": "sleep 600"}, context._replace(max_command_timeout=0.1)).text


def test_a_background_process_outlives_the_timeout_of_a_command_that_has_ended(
    bash: Bash, context: RunToolContext
) -> None:
    bash("sleep 600 > log 2>&1 & echo $! > pid", timeout=1.0)
    time.sleep(1.2)
    [pid] = pids(context, "pid")
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_a_timeout_of_years_is_accepted(context: RunToolContext) -> None:
    assert BASH.run({"command": "true"}, context._replace(command_timeout=1e9)).exit_status == 0


@pytest.mark.parametrize("timeout", [0, -1, float("-inf"), float("nan")])
def test_a_timeout_of_zero_or_less_is_refused(bash: Bash, timeout: float) -> None:
    with pytest.raises(ToolError, match="positive"):
        bash("touch ran", timeout=timeout)


def test_processes_of_an_earlier_call_survive_the_timeout_of_a_later_one(bash: Bash, context: RunToolContext) -> None:
    bash("sleep 600 > log 2>&1 & echo $! > pid")
    bash("sleep 600", timeout=0.2)
    [pid] = pids(context, "pid")
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)


def test_nested_call_is_killed_with_the_outer_one(context: RunToolContext) -> None:
    outer = context._replace(environment={**context.environment, "ASK_CALL": "outer-mark"})
    assert re.search(r"ASK_CALL=outer-mark \w{32}\n", BASH.run({"command": "env"}, outer).text)


INTERRUPTED = """
import os, sys
from pathlib import Path
from ask.tools.base import RunToolContext
from ask.tools.definitions import BASH
folder = Path(sys.argv[1])
context = RunToolContext(folder, os.environ, 60, folder / "spill", lambda text: None)
rest = "seq 1 9999; setsid bash -c 'echo $$ > pid; exec sleep 600' & wait"
try:
    BASH.run({"command": sys.argv[2] + rest}, context)
except KeyboardInterrupt:
    print("interrupted", list((folder / "spill").glob("*")))  # created only once output was read
"""


def start_interruptible(context: RunToolContext, before: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INTERRUPTED, str(context.directory), before]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not ((pid := context.directory / "pid").exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def test_interrupt_kills_all_processes_and_propagates(context: RunToolContext) -> None:
    process = start_interruptible(context, "")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted []\n"
    assert not is_running(*pids(context, "pid"))


def test_a_second_interrupt_kills_at_once(context: RunToolContext) -> None:
    def interrupt_twice() -> float:
        """Seconds until the process has ended."""
        (context.directory / "pid").unlink(missing_ok=True)
        process = start_interruptible(context, "trap '' TERM; ")
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted []\n"
        assert not is_running(*pids(context, "pid"))
        return time.monotonic() - started

    # A single interrupt takes at least 2 seconds. On a busy machine one attempt may be slow for other reasons.
    assert any(interrupt_twice() < 1.8 for _ in range(3))


@pytest.mark.slow
def test_interrupts_that_follow_each_other_quickly_leave_no_process(context: RunToolContext) -> None:
    process = start_interruptible(context, "trap '' TERM; ")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    for _ in range(10):  # one of them arrives while the others' SIGKILL is being prepared
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    process.communicate(timeout=30)
    assert not is_running(*pids(context, "pid"))


def test_error_in_the_output_callback_kills_all_processes(context: RunToolContext) -> None:
    def fail(text: str) -> None:
        raise BrokenPipeError(text)

    with pytest.raises(BrokenPipeError):
        BASH.run({"command": "echo $$ > pid; echo x; sleep 600"}, context._replace(on_output=fail))
    assert not is_running(*pids(context, "pid"))


def test_output_is_reported_as_it_arrives(context: RunToolContext) -> None:
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text)
        (context.directory / text.strip()).touch()

    wait = "until [ -e {} ]; do sleep 0.01; done"
    command = f"echo one; {wait.format('one')}; echo two >&2; {wait.format('two')}"
    assert BASH.run({"command": command}, context._replace(on_output=show)).exit_status == 0
    assert shown == ["one\n", "two\n"]


def test_invalid_utf_8_is_shown_as_escapes(bash: Bash, command_output: list[str]) -> None:
    assert bash(r"printf 'a\xff\xc3'").text == "exit code: 0\nstdout:\na\\xff\\xc3"
    assert "".join(command_output) == r"a\xff\xc3"


def test_character_split_between_writes_survives(bash: Bash, command_output: list[str]) -> None:
    bash(r"printf '\xf0\x9f'; sleep 0.1; printf '\x98\x80'")
    assert command_output == ["😀"]


@pytest.mark.parametrize(("out", "err"), [(20_000, 0), (20_000, 10), (10, 20_000), (20_000, 20_000), (4_000, 4_000)])
def test_long_output_keeps_both_ends_of_both_streams_and_names_the_files(bash: Bash, out: int, err: int) -> None:
    text = bash(f"seq 1 {out}; seq 1 {err} >&2").text
    assert MAX_RESULT_CHARACTERS * 0.9 < len(text) <= MAX_RESULT_CHARACTERS
    whole = {"stdout": out, "stderr": err}
    sections = dict(re.findall(r"^(stdout|stderr):\n(.*?)(?=\nstderr:|\Z)", text, re.DOTALL | re.MULTILINE))
    assert sections.keys() == {label for label, count in whole.items() if count}
    for label, section in sections.items():
        expected = "".join(f"{number}\n" for number in range(1, whole[label] + 1))
        assert section.startswith("1\n2\n3\n")
        assert section.rstrip().endswith(f"\n{whole[label]}")
        spilled = re.search(r"the full output is in (\S+)", section)
        if spilled:
            assert Path(spilled[1]).read_text() == expected
            assert stat.S_IMODE(Path(spilled[1]).stat().st_mode) == 0o600
        else:
            assert section.rstrip() == expected.rstrip()


@pytest.mark.slow
def test_flood_is_stopped_and_truncated(context: RunToolContext) -> None:
    text = BASH.run({"command": "yes", "timeout": 0.5}, context._replace(on_output=lambda text: None)).text
    assert text.startswith("timed out after 0.5 s")
    assert len(text) <= MAX_RESULT_CHARACTERS


FLOODED = """
import os, resource, sys
from pathlib import Path
from ask.tools.base import RunToolContext
from ask.tools.definitions import BASH
context = RunToolContext(Path(sys.argv[1]), os.environ, 60, Path(sys.argv[1]), lambda text: None)
BASH.run({"command": "true"}, context)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
BASH.run({"command": "head -c 150000000 /dev/zero | tr '\\\\0' x"}, context)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_stays_flat_under_a_flood(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FLOODED, str(tmp_path)]
    grown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert int(grown) < 4_000  # kilobytes


WITHOUT_PIDFD = """
import os, sys
if hasattr(os, "pidfd_open"):
    del os.pidfd_open
from pathlib import Path
from ask.tools.base import RunToolContext
from ask.tools.definitions import BASH
context = RunToolContext(Path(sys.argv[1]), os.environ, 60, Path(sys.argv[1]), lambda text: None)
for command in sys.argv[2:]:
    print(BASH.run({"command": command, "timeout": 1}, context).text.splitlines())
"""


@pytest.mark.slow
def test_it_works_without_pidfd(tmp_path: Path) -> None:
    commands = ["echo a", "exec >&- 2>&-; sleep 0.1; exit 4", "timeout 3 sleep 3 & echo b", "sleep 600"]
    command = [sys.executable, "-c", WITHOUT_PIDFD, str(tmp_path), *commands]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.splitlines()[:2] == ["['exit code: 0', 'stdout:', 'a']", "['exit code: 4']"]
    assert "['exit code: 0', 'stdout:', 'b', '[a background process" in output
    assert "timed out after 1 s" in output


@pytest.mark.slow
def test_waiting_for_a_silent_command_uses_no_cpu(bash: Bash) -> None:
    before = time.process_time()
    bash("sleep 1")
    assert time.process_time() - before < 0.1


def test_a_missing_bash_is_reported(context: RunToolContext) -> None:
    with pytest.raises(ToolError, match="bash is not installed"):
        BASH.run({"command": "true"}, context._replace(environment={"PATH": str(context.directory)}))


def test_a_vanished_working_directory_is_reported(context: RunToolContext) -> None:
    context.directory.rmdir()
    with pytest.raises(ToolError, match="working directory no longer exists"):
        BASH.run({"command": "true"}, context)


@pytest.mark.parametrize(("command", "what"), [("x" * 200_000, "too long"), ("a\0b", "NUL"), ("\ud83d", "surrogate")])
def test_command_that_bash_cannot_receive_is_refused(bash: Bash, command: str, what: str) -> None:
    with pytest.raises(ToolError, match=what):
        bash(command)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.binary(min_size=1, max_size=6) | st.sampled_from("é€😀").map(str.encode), max_size=4))
def test_any_bytes_in_any_fragments_are_decoded_alike(
    bash: Bash, command_output: list[str], pieces: list[bytes]
) -> None:
    command_output.clear()
    halves = [half for piece in pieces for half in (piece[:1], piece[1:])]
    bash("; sleep 0.01; ".join("printf '" + "".join(f"\\x{byte:02x}" for byte in half) + "'" for half in halves))
    decoded = b"".join(pieces).decode("utf-8", "backslashreplace")
    assert "".join(command_output) == decoded.replace("\0", "\\x00")
